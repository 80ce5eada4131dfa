"""Answer links: good for one question of one run, by whoever has them, until it is answered or they end."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import DOOR, TOKEN, Client, Json, Place, opened
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, script
from tests.web import keyholders
from tests.web.problems import assert_problem
from tests.web.requests import TALK
from turnkeeper.core.access import Asked
from turnkeeper.core.errors import Code
from turnkeeper.web.links import LASTS, LONGEST, PREFIX, Link, Links, caller

TWICE = script([ASK], [{"say": "And the border?"}], [ANSWER])
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LINK = Link(
    asked=Asked(run_id="01a1", interaction_id=3),
    expires_at=NOW,
    label="Anna Ö.",
    key_id=None,
)


class TestSeal:
    def test_what_is_sealed_can_be_read_by_who_has_the_token(self) -> None:
        secret = Links(b"token").seal(LINK)
        assert Links(b"token").read(secret) == LINK
        assert Links(b"another").read(secret) is None

    def test_every_changed_sign_voids_it(self) -> None:
        links, secret = Links(b"token"), Links(b"token").seal(LINK)
        for at in range(len(secret)):
            changed = secret[:at] + ("B" if secret[at] == "A" else "A") + secret[at + 1 :]
            found = links.read(changed)
            # The last sign of each half has bits that mean nothing.
            assert found in (None, LINK), at
            if at not in (secret.index(".") - 1, len(secret) - 1):
                assert found is None, at

    @given(st.text() | st.from_regex(r"tkl_[A-Za-z0-9_=-]*\.[A-Za-z0-9_=-]*"))
    def test_nothing_else_is_one(self, text: str) -> None:
        assert Links(b"token").read(text) is None
        assert Links(b"token").of(f"Bearer {text}") is None

    def test_cookie_and_link_are_signed_by_different_keys(self) -> None:
        session = DOOR.trade(code=None, token=TOKEN)
        assert DOOR.links.read(f"{PREFIX}{session.cookie}") is None

    def test_link_of_a_key_that_may_not_come_in_is_void(self) -> None:
        good = {"abcd2345"}
        links = Links(b"token", is_key_good=lambda key_id: key_id in good)
        link = Link(asked=LINK.asked, expires_at=NOW, label=None, key_id="abcd2345")
        secret = links.seal(link)
        assert links.read(secret) == link
        good.clear()
        assert links.read(secret) is None
        assert links.read(links.seal(LINK)) == LINK, "the token itself is no key that could be revoked"

    def test_who_brings_it_may_do_nothing_else(self) -> None:
        found = caller(LINK)
        assert (found.by, found.scopes, found.asked) == ("link:Anna Ö.", frozenset(), LINK.asked)


class Holder:
    """Somebody who was given a link, and nothing else."""

    def __init__(self, http: httpx.AsyncClient, secret: str) -> None:
        self.http = http
        self.secret = secret
        http.headers["Authorization"] = f"Bearer {secret}"

    async def look(self) -> httpx.Response:
        return await self.http.get("/v1/answer")

    async def answer(self, response: Any, **more: Any) -> httpx.Response:
        return await self.http.post("/v1/answer", json={"response": response, **more})


async def asking(client: Client, steps: Any = TALK, **more: Any) -> str:
    run_id = await client.create("answer", steps, **(INTERACTIVE | more))
    assert (await client.settled(run_id))["status"] == "waiting_user"
    return run_id


async def made(client: Client, run_id: str, **body: Any) -> Json:
    answer = await client.http.post(f"/v1/jobs/{run_id}/interaction/links", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return dict(answer.json())


@asynccontextmanager
async def given_to(place: Place, link: Json) -> AsyncIterator[Holder]:
    secret = link["url"].partition("/#answer=")[2]
    assert secret.startswith(PREFIX)
    place.secrets.append(secret)
    async with httpx.AsyncClient(base_url=place.service.url, trust_env=False) as http:
        yield Holder(http, secret)


class TestMaking:
    async def test_made_for_the_open_question(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        link = await made(client, run_id)
        assert set(link) == {"url", "expires_at", "interaction_id", "public"}
        assert link["url"].startswith(f"{place.service.url}/#answer=tkl_")
        assert (link["interaction_id"], link["public"]) == (1, False)
        lasts = datetime.fromisoformat(link["expires_at"]) - place.clock()
        assert LASTS - timedelta(minutes=1) < lasts <= LASTS
        assert await made(client, run_id, interaction_id=1, expires_in_sec=LONGEST.total_seconds())

    @pytest.mark.parametrize(
        "body",
        [
            {"expires_in_sec": LONGEST.total_seconds() + 1},
            {"expires_in_sec": 0},
            {"expires_in_sec": "60"},
            {"for": ""},
            {"for": "x" * 65},
            {"for": " anna"},
            {"for": "  "},
            {"for": "two\nlines"},
            {"for": "\u202egnp.exe"},
            {"for": 5},
            {"interaction_id": 0},
            {"for_": "anna"},
            {"run_id": "other"},
        ],
    )
    async def test_other_wishes_are_refused(self, client: Client, body: Json) -> None:
        run_id = await asking(client)
        answer = await client.http.post(f"/v1/jobs/{run_id}/interaction/links", json=body)
        assert answer.status_code == 400, answer.text

    async def test_only_for_an_open_question(self, client: Client) -> None:
        run_id = await asking(client, TWICE)
        path = f"/v1/jobs/{run_id}/interaction/links"
        assert_problem(await client.http.post(path, json={"interaction_id": 2}), 409, Code.INTERACTION_STALE)
        await client.reply(run_id, "blue")
        await client.settled(run_id)
        assert_problem(
            await client.http.post(path, json={"interaction_id": 1}), 409, Code.INTERACTION_ANSWERED
        )
        assert (await made(client, run_id))["interaction_id"] == 2
        await client.cancel(run_id)
        assert_problem(await client.http.post(path, json={}), 409, Code.RUN_NOT_WAITING)
        nobody = await client.http.post("/v1/jobs/nobody/interaction/links", json={})
        assert_problem(nobody, 404, Code.RUN_NOT_FOUND)


class TestUsing:
    async def test_question_and_answer(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        async with given_to(place, link := await made(client, run_id, **{"for": "Anna"})) as anna:
            asked = (await anna.look()).json()
            assert asked == {
                "skill_id": "answer",
                "pending": await client.pending(run_id),
                "expires_at": link["expires_at"],
            }
            receipt = await anna.answer("blue")
            assert receipt.status_code == 200
            assert receipt.json() | {"accepted_at": ""} == {
                "request_id": run_id,
                "status": "queued",
                "accepted": True,
                "interaction_id": 1,
                "resolution_mode": "user_reply",
                "accepted_at": "",
            }
        await client.settled(run_id)
        (entry,) = await client.history(run_id)
        assert (entry["response"], entry["resolved_by"]) == ("blue", "link:Anna")

    async def test_without_a_name_it_is_a_link(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        async with given_to(place, await made(client, run_id)) as somebody:
            assert (await somebody.answer({"text": "blue"})).status_code == 200
        assert (await client.history(run_id))[0]["resolved_by"] == "link"

    async def test_looking_uses_nothing_up(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        async with given_to(place, await made(client, run_id)) as somebody:
            for _ in range(5):
                assert (await somebody.look()).status_code == 200
            # What a preview of a messenger does: it asks for the address, and cannot ask for what is behind `#`.
            for path in ("/", "/?utm=1"):
                assert (await somebody.http.get(path, headers={"Authorization": ""})).status_code == 200
            assert (await client.get(run_id))["status"] == "waiting_user"
            assert (await somebody.answer("blue")).status_code == 200

    async def test_double_click_gets_the_same_receipt(self, place: Place, client: Client) -> None:
        run_id = await asking(client, TWICE)
        async with given_to(place, await made(client, run_id)) as somebody:
            first = await somebody.answer("blue")
            await client.settled(run_id)
            again = await somebody.answer("blue")
            assert again.status_code == 200
            assert again.json()["accepted_at"] == first.json()["accepted_at"]
            assert_problem(await somebody.answer("green"), 410, Code.LINK_DEAD)
        history = await client.history(run_id)
        assert [entry["response"] for entry in history] == ["blue", None], (
            "the next question is not this link's"
        )

    async def test_one_key_is_one_answer(self, place: Place, client: Client) -> None:
        run_id = await asking(client, TWICE)
        async with given_to(place, await made(client, run_id)) as somebody:
            first = await somebody.answer("blue", idempotency_key="k")
            again = await somebody.answer("Blue!", idempotency_key="k")
            assert (first.status_code, again.status_code) == (200, 200)
        assert [entry["response"] for entry in await client.history(run_id)][:1] == ["blue"]

    @pytest.mark.parametrize(
        "body", [{}, {"response": None}, {"response": "x", "interaction_id": 1}, [], "x"]
    )
    async def test_malformed_answer_changes_nothing(self, place: Place, client: Client, body: Any) -> None:
        run_id = await asking(client)
        async with given_to(place, await made(client, run_id)) as somebody:
            assert (await somebody.http.post("/v1/answer", json=body)).status_code == 400
            assert (await somebody.look()).status_code == 200


class TestEnds:
    async def test_answered_by_somebody_else(self, place: Place, client: Client) -> None:
        run_id = await asking(client, TWICE)
        async with given_to(place, await made(client, run_id)) as somebody:
            accepted = (await client.reply(run_id, "crimson"))["accepted_at"]
            for answer in (await somebody.look(), await somebody.answer("blue")):
                told = assert_problem(answer, 410, Code.LINK_DEAD)
                assert told["detail"] == f"this question was answered at {accepted}"
                assert (told["reason"], told["at"]) == ("user_reply", accepted)
                assert "crimson" not in answer.text
                assert "token" not in answer.text.replace("urn:turnkeeper", ""), "who answered is not told"

    async def test_canceled(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        async with given_to(place, await made(client, run_id)) as somebody:
            await client.cancel(run_id)
            for answer in (await somebody.look(), await somebody.answer("blue")):
                told = assert_problem(answer, 410, Code.LINK_DEAD)
                assert told["reason"] == "over"
                assert "canceled" in told["detail"]

    async def test_decided_without_an_answer(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            run_id = await asking(
                place.client, TWICE, interactive_require_user_reply=False, session_timeout_sec=60
            )
            async with given_to(place, await made(place.client, run_id)) as somebody:
                await place.pass_time(61)
                told = assert_problem(await somebody.look(), 410, Code.LINK_DEAD)
                assert told["reason"] == "auto_decide_timeout"
                assert "nobody answered" in told["detail"]
                assert_problem(await somebody.answer("blue"), 410, Code.LINK_DEAD)

    async def test_run_is_removed(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            run_id = await asking(place.client)
            async with given_to(place, await made(place.client, run_id)) as somebody:
                await place.client.cancel(run_id)
                await place.client.ended(run_id)
                pruned = await place.client.http.post("/v1/prune", json={"keep_bytes": 0})
                assert pruned.json()["count"] == 1, pruned.text
                for answer in (await somebody.look(), await somebody.answer("blue")):
                    assert assert_problem(answer, 410, Code.LINK_DEAD)["reason"] == "gone"

    async def test_expired(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            run_id = await asking(place.client)
            link = await made(place.client, run_id, expires_in_sec=3600)
            async with given_to(place, link) as somebody:
                place.clock.advance(3590)
                assert (await somebody.look()).status_code == 200
                place.clock.advance(20)
                for answer in (await somebody.look(), await somebody.answer("blue")):
                    told = assert_problem(answer, 410, Code.LINK_EXPIRED)
                    assert link["expires_at"] in told["detail"]
            assert (await place.client.get(run_id))["status"] == "waiting_user"

    async def test_it_outlives_a_restart_and_not_another_token(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            run_id = await asking(place.client)
            link = await made(place.client, run_id)
        async with opened(tmp_path / "data") as place, given_to(place, link) as somebody:
            assert (await somebody.look()).status_code == 200
        async with opened(tmp_path / "data", token="another-token-for-tests") as place:
            await place.client.http.aclose()
            place.client = Client(place.service.url, "another-token-for-tests")
            async with given_to(place, link) as somebody:
                assert_problem(await somebody.look(), 401, Code.UNAUTHORIZED)


class TestNothingElse:
    async def test_link_opens_no_other_route(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        described = (await client.http.get("/v1/openapi.json")).json()
        async with given_to(place, await made(client, run_id)) as somebody:
            tried = 0
            for path, operations in described["paths"].items():
                address = path.replace("{run_id}", run_id).replace("{", "").replace("}", "")
                for method in operations:
                    if path in ("/healthz", "/readyz", "/v1/session", "/v1/answer"):
                        continue
                    answer = await somebody.http.request(method, address, json={})
                    assert_problem(answer, 403, Code.LINK_NOT_FOR_THIS)
                    tried += 1
            assert tried > 20
            assert_problem(await somebody.http.get("/v1/openapi.json"), 403, Code.LINK_NOT_FOR_THIS)
            assert_problem(await somebody.http.get("/nowhere"), 403, Code.LINK_NOT_FOR_THIS)
            traded = await somebody.http.post("/v1/session", json={"token": somebody.secret})
            assert_problem(traded, 401, Code.UNAUTHORIZED)
        assert (await client.get(run_id))["status"] == "waiting_user"

    async def test_who_has_a_key_replies_to_the_run(self, client: Client) -> None:
        assert_problem(await client.http.get("/v1/answer"), 403, Code.LINK_NOT_FOR_THIS)
        answer = await client.http.post("/v1/answer", json={"response": "x"})
        assert_problem(answer, 403, Code.LINK_NOT_FOR_THIS)

    async def test_forged_link_is_a_stranger(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        link = await made(client, run_id)
        async with given_to(place, link) as somebody:
            inside, _, proof = somebody.secret.removeprefix(PREFIX).partition(".")
            told = json.loads(base64.urlsafe_b64decode(inside + "=="))
            told[1] = 2
            other = (
                base64.urlsafe_b64encode(json.dumps(told, separators=(",", ":")).encode())
                .decode()
                .rstrip("=")
            )
            for forged in (f"{PREFIX}{other}.{proof}", f"{PREFIX}{inside}.", f"{PREFIX}{inside}", PREFIX):
                somebody.http.headers["Authorization"] = f"Bearer {forged}"
                assert_problem(await somebody.look(), 401, Code.UNAUTHORIZED)
                assert_problem(await somebody.answer("x"), 401, Code.UNAUTHORIZED)

    async def test_page_of_another_site_cannot_use_it(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        async with given_to(place, await made(client, run_id)) as somebody:
            somebody.http.headers["Origin"] = "https://evil.example"
            assert_problem(await somebody.answer("x"), 403, Code.ORIGIN_NOT_ALLOWED)
        assert (await client.get(run_id))["status"] == "waiting_user"

    async def test_log_never_holds_it(
        self, place: Place, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The end of this module looks for it in every file of the data directory as well."""
        caplog.set_level(logging.DEBUG)
        run_id = await asking(client)
        async with given_to(place, await made(client, run_id)) as somebody:
            await somebody.look()
            await somebody.http.get(f"/v1/jobs?x={somebody.secret}")
            await somebody.http.post(
                "/v1/answer", content=b"not json", headers={"Content-Type": "application/json"}
            )
            await somebody.answer("blue")
            await somebody.answer("green")
            ours = [
                record.getMessage()
                for record in caplog.records
                if not record.name.startswith(("httpx", "httpcore"))
            ]
            assert not [line for line in ours if somebody.secret in line or PREFIX in line]


class TestOfAKey:
    async def test_it_is_good_for_no_longer_than_the_key(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        key = await keyholders.made(place, "answer", expires_in_sec=3600)
        async with keyholders.holding(place, key["key"]) as maker:
            link = await made(maker, run_id)
        ends = datetime.fromisoformat(key["expires_at"])
        assert datetime.fromisoformat(link["expires_at"]) == ends.replace(microsecond=0)

    async def test_a_guess_of_what_somebody_else_answered_tells_nothing(
        self, place: Place, client: Client
    ) -> None:
        run_id = await asking(client)
        async with given_to(place, await made(client, run_id, **{"for": "Eve"})) as somebody:
            await client.reply(run_id, "blue")
            for words in ("blue", "green"):
                told = assert_problem(await somebody.answer(words), 410, Code.LINK_DEAD)
                assert told["reason"] == "user_reply"

    async def test_it_ends_with_the_key_that_made_it(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        key = await keyholders.made(place, "answer")
        async with keyholders.holding(place, key["key"]) as maker:
            link = await made(maker, run_id)
        async with given_to(place, link) as somebody:
            assert (await somebody.look()).status_code == 200
            assert (await keyholders.revoked(place, key)).status_code == 200
            assert_problem(await somebody.look(), 401, Code.UNAUTHORIZED)
            assert_problem(await somebody.answer("blue"), 401, Code.UNAUTHORIZED)
        assert (await client.get(run_id))["status"] == "waiting_user"

    async def test_the_journal_tells_who_made_it_and_not_what_it_is(
        self, place: Place, client: Client
    ) -> None:
        run_id = await asking(client)
        async with keyholders.holder(place, "answer") as maker:
            link = await made(maker, run_id, **{"for": "Anna"})
            by = (await maker.http.get("/v1/me")).json()["by"]
        entry = (await client.http.get("/v1/journal")).json()["entries"][0]
        assert (entry["what"], entry["subject"], entry["by"]) == ("link.created", run_id, by)
        assert entry["detail"] == {"interaction_id": 1, "for": "Anna", "expires_at": link["expires_at"]}

    async def test_to_make_one_takes_the_right_to_answer(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        async with keyholders.holder(place, "read", "run") as maker:
            answer = await maker.http.post(f"/v1/jobs/{run_id}/interaction/links", json={})
            assert_problem(answer, 403, Code.SCOPE_MISSING)

    async def test_the_answer_is_recorded_as_given_by_the_link(self, place: Place, client: Client) -> None:
        run_id = await asking(client)
        key = await keyholders.made(place, "answer")
        async with keyholders.holding(place, key["key"]) as maker:
            link = await made(maker, run_id)
        async with given_to(place, link) as somebody:
            assert (await somebody.answer("blue")).status_code == 200
        history = await client.history(run_id)
        assert history[0]["resolved_by"] == "link"


async def test_public_address(tmp_path: Path) -> None:
    public = "https://turnkeeper.example.com"
    async with opened(tmp_path / "data", behind_proxy=True, public_url=public) as place:
        run_id = await asking(place.client)
        link = await made(place.client, run_id)
        assert link["url"].startswith(f"{public}/#answer=tkl_")
        assert link["public"] is True
