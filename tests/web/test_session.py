"""Signing in from a browser: codes that are good once, a cookie that only our own page can use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.harness import TOKEN, Client, Clock, Place, opened
from tests.spec.scripts import INTERACTIVE
from tests.web.problems import assert_problem
from turnkeeper.core.errors import Code, CodeInvalid
from turnkeeper.web.door import CODE_LASTS, COOKIE_LASTS, MOST_CODES, PAGE_KEY, Door


@pytest.fixture
async def browser(place: Place) -> AsyncIterator[httpx.AsyncClient]:
    """It keeps cookies and says where its page is from, as browsers do."""
    url = place.service.url
    async with httpx.AsyncClient(base_url=url, headers={"Origin": url}, trust_env=False) as http:
        yield http


async def signed_in(browser: httpx.AsyncClient, place: Place) -> httpx.AsyncClient:
    code = place.service.sign_in().partition("#code=")[2]
    answer = await browser.post("/v1/session", json={"code": code})
    assert answer.status_code == 200
    browser.headers[PAGE_KEY] = answer.json()["page_key"]
    return browser


async def test_code_is_traded_for_a_cookie_once(place: Place, browser: httpx.AsyncClient) -> None:
    code = place.service.sign_in().partition("#code=")[2]
    assert (await browser.get("/v1/jobs")).status_code == 401
    answer = await browser.post("/v1/session", json={"code": code})
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert TOKEN not in answer.text + cookie
    browser.headers[PAGE_KEY] = answer.json()["page_key"]
    assert (await browser.get("/v1/jobs")).status_code == 200
    second = await browser.post("/v1/session", json={"code": code})
    assert "turnkeeper open" in assert_problem(second, 401, Code.CODE_INVALID)["detail"]


async def test_new_address_for_another_browser(
    client: Client, place: Place, browser: httpx.AsyncClient
) -> None:
    made = (await client.http.post("/v1/session/codes")).json()
    assert made["url"] == f"{place.service.url}/#code={made['code']}"
    assert (await browser.post("/v1/session", json={"code": made["code"]})).status_code == 200


async def test_code_is_used_up_by_nothing_but_its_own_call(
    client: Client, browser: httpx.AsyncClient
) -> None:
    """A preview of a chat program fetches every address that it sees."""
    code = (await client.http.post("/v1/session/codes")).json()["code"]
    for address in (f"/?code={code}", f"/v1/session?code={code}"):
        await browser.get(address)
    assert (await browser.post("/v1/session", json={"code": code})).status_code == 200


async def test_token_signs_in_too(browser: httpx.AsyncClient) -> None:
    wrong = await browser.post("/v1/session", json={"token": "another-token-entirely"})
    assert_problem(wrong, 401, Code.UNAUTHORIZED)
    answer = await browser.post("/v1/session", json={"token": TOKEN})
    assert answer.status_code == 200
    assert (await browser.get("/v1/jobs", headers={PAGE_KEY: answer.json()["page_key"]})).status_code == 200


@pytest.mark.parametrize(
    "body", [{}, {"code": "a", "token": "b"}, {"code": ""}, {"code": 1}, {"key": "a"}, []]
)
async def test_one_of_the_two_is_asked_for(browser: httpx.AsyncClient, body: object) -> None:
    answer = await browser.post("/v1/session", json=body)
    assert answer.status_code == 400


async def test_signing_out(place: Place, browser: httpx.AsyncClient) -> None:
    await signed_in(browser, place)
    assert (await browser.delete("/v1/session")).json() == {"signed_out": True}
    assert (await browser.get("/v1/jobs")).status_code == 401


async def test_what_the_page_does_is_recorded_as_its(place: Place, browser: httpx.AsyncClient) -> None:
    await signed_in(browser, place)
    run_id = await place.client.create("answer", "ask", **INTERACTIVE)
    await place.client.settled(run_id)
    reply = {"interaction_id": 1, "response": "blue"}
    assert (await browser.post(f"/v1/jobs/{run_id}/interaction/reply", json=reply)).status_code == 200
    assert [each["resolved_by"] for each in await place.client.history(run_id)] == ["page"]
    other = await place.client.post_reply(run_id, 1, "green")
    assert assert_problem(other, 409, Code.INTERACTION_ANSWERED)["answered_by"] == "page"


class TestOtherPages:
    """The browser adds the cookie to what they send; the port of a site is nothing to it."""

    async def test_change_needs_an_origin(self, place: Place, browser: httpx.AsyncClient) -> None:
        await signed_in(browser, place)
        del browser.headers["Origin"]
        answer = await browser.post("/v1/jobs", json={"skill_id": "answer", "engine": "demo"})
        assert_problem(answer, 403, Code.ORIGIN_NOT_ALLOWED)
        assert (await browser.get("/v1/jobs")).status_code == 200

    @pytest.mark.parametrize("site", ["same-site", "cross-site"])
    async def test_nothing_is_told_to_another_site(
        self, place: Place, browser: httpx.AsyncClient, site: str
    ) -> None:
        await signed_in(browser, place)
        answer = await browser.get("/v1/jobs", headers={"Sec-Fetch-Site": site})
        assert_problem(answer, 403, Code.ORIGIN_NOT_ALLOWED)

    async def test_cookie_alone_opens_nothing_but_files_whose_run_is_known(
        self, place: Place, browser: httpx.AsyncClient
    ) -> None:
        """Whoever listens on another port of this host is sent it by the browser."""
        await signed_in(browser, place)
        run_id = await place.client.create("plain", "done")
        await place.client.settled(run_id)
        for key in (None, "", "x", browser.headers[PAGE_KEY][:-1]):
            browser.headers.pop(PAGE_KEY, None)
            more = {} if key is None else {PAGE_KEY: key}
            for path in ("/v1/jobs", f"/v1/jobs/{run_id}", f"/v1/jobs/{run_id}/artifacts", "/v1/status"):
                assert_problem(await browser.get(path, headers=more), 401, Code.UNAUTHORIZED)
            assert_problem(await browser.post("/v1/session/codes", headers=more), 401, Code.UNAUTHORIZED)
            for path in ("bundle", "logs/1/1/stdout"):
                assert (await browser.get(f"/v1/jobs/{run_id}/{path}", headers=more)).status_code == 200
            assert (await browser.post(f"/v1/jobs/{run_id}/bundle", headers=more)).status_code == 401

    async def test_key_of_another_session(self, place: Place, browser: httpx.AsyncClient) -> None:
        await signed_in(browser, place)
        key = browser.headers[PAGE_KEY]
        await signed_in(browser, place)
        answer = await browser.get("/v1/jobs", headers={PAGE_KEY: key})
        assert_problem(answer, 401, Code.UNAUTHORIZED)

    async def test_foreign_origin(self, place: Place, browser: httpx.AsyncClient) -> None:
        await signed_in(browser, place)
        answer = await browser.get("/v1/jobs", headers={"Origin": "http://127.0.0.1:1"})
        assert_problem(answer, 403, Code.ORIGIN_NOT_ALLOWED)


def known(door: Door, cookies: str, page_key: str) -> str | None:
    caller = door.knows("GET", "/v1/jobs", {"cookie": cookies, PAGE_KEY: page_key})
    return None if caller is None else caller.by


class TestDoor:
    def test_code_ends(self) -> None:
        clock = Clock()
        door = Door(TOKEN, "data", clock)
        code = door.new_code(is_asked_for=True).code
        clock.advance(CODE_LASTS.total_seconds())
        with pytest.raises(CodeInvalid):
            door.trade(code=code, token=None)

    def test_somebody_is_expected_until_they_came_or_the_code_ends(self) -> None:
        clock = Clock()
        door = Door(TOKEN, "data", clock)
        door.new_code(is_asked_for=False)
        assert not door.expects_somebody
        door.trade(code=door.new_code(is_asked_for=True).code, token=None)
        assert not door.expects_somebody
        door.new_code(is_asked_for=True)
        assert door.expects_somebody
        clock.advance(CODE_LASTS.total_seconds())
        assert not door.expects_somebody

    def test_codes_do_not_pile_up(self) -> None:
        door = Door(TOKEN, "data", Clock())
        first = door.new_code(is_asked_for=True).code
        codes = [door.new_code(is_asked_for=True).code for _ in range(MOST_CODES)]
        with pytest.raises(CodeInvalid):
            door.trade(code=first, token=None)
        door.trade(code=codes[0], token=None)

    def test_cookie_outlives_a_restart_and_ends_in_time(self) -> None:
        clock = Clock()
        door = Door(TOKEN, "data", clock)
        session = door.trade(code=door.new_code(is_asked_for=True).code, token=None)
        again = Door(TOKEN, "data", clock)
        cookie = f"other=1; {door.cookie_name}={session.cookie}"
        assert known(again, cookie, session.page_key) == "page"
        assert timedelta(0) < session.expires_at - clock() <= COOKIE_LASTS
        clock.advance(COOKIE_LASTS.total_seconds())
        assert known(again, cookie, session.page_key) is None

    @pytest.mark.parametrize(
        "other",
        [
            'prefs={"theme": "dark", "tabs": [1, 2]}',
            "path=/tmp",
            "items[0]=x",
            "a flag without a value",
            'open="quote',
            "",
            "ü=ö",
        ],
    )
    def test_cookies_of_other_ports_may_be_of_any_form(self, other: str) -> None:
        door = Door(TOKEN, "data", Clock())
        session = door.trade(code=None, token=TOKEN)
        ours = f"{door.cookie_name}={session.cookie}"
        for cookies in (f"{other}; {ours}", f"{ours}; {other}", f"{door.cookie_name}=old; {other};{ours}"):
            assert known(door, cookies, session.page_key) == "page", cookies

    def test_cookie_of_another_token_or_made_up(self) -> None:
        clock = Clock()
        door = Door(TOKEN, "data", clock)
        other = Door("another-token-entirely", "data", clock).trade(code=None, token="another-token-entirely")
        later = f"9{other.cookie[1:]}"
        for each in (other.cookie, later, "", ".", "9999999999..", "x", "é", f"{door.cookie_name}"):
            assert known(door, f"{door.cookie_name}={each}", other.page_key) is None


async def test_two_services_of_one_host_keep_their_own_cookies(tmp_path: Path) -> None:
    async with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        assert one.service.door.cookie_name != two.service.door.cookie_name
