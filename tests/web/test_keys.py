"""Keys over HTTP: made once, shown once, limited, expired and revoked; and what a limited one sees."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest

from tests.harness import TOKEN, Client, Place, opened
from tests.spec.scripts import INTERACTIVE, STICKY
from tests.web.keyholders import holder, holding, made, revoked
from tests.web.patience import settle
from tests.web.problems import assert_problem
from tests.web.requests import JOB, TALK, post, waiting
from tests.web.sse import connected
from turnkeeper.core.errors import Code, SettingsInvalid
from turnkeeper.core.keys import digest_of
from turnkeeper.web.door import MOST_CODES, PAGE_KEY
from turnkeeper.wiring import running


class TestMaking:
    async def test_it_is_shown_once_and_kept_as_a_hash(self, place: Place) -> None:
        body = {"name": "ci.main", "scopes": ["run", "read"], "skills": ["answer"], "engines": ["demo"]}
        answer = await place.client.http.post("/v1/keys", json=body)
        key = answer.json()
        place.secrets.append(key["key"])
        assert answer.headers["cache-control"] == "no-store"
        assert re.fullmatch(rf"tk_{key['id']}_[A-Za-z0-9]{{43}}", key["key"])
        assert {name: key[name] for name in body} == body | {"scopes": ["read", "run"]}
        assert (key["status"], key["created_by"], key["expires_at"]) == ("active", "token", None)
        listed = (await place.client.http.get("/v1/keys")).json()["keys"]
        assert {name: value for name, value in key.items() if name != "key"} in listed
        with closing(sqlite3.connect(place.settings.data_dir / "turnkeeper.db")) as database:
            (digest,) = database.execute("SELECT digest FROM keys WHERE id = ?", (key["id"],)).fetchone()
        assert digest == digest_of(key["key"])

    async def test_no_two_keys_ever_have_one_name(self, place: Place) -> None:
        key = await made(place, "read")
        for name in (key["name"], key["id"], "token", "admin"):
            for _ in range(2):
                answer = await place.client.http.post("/v1/keys", json={"name": name, "scopes": ["read"]})
                assert_problem(answer, 409, Code.KEY_NAME_TAKEN)
            await revoked(place, key)

    async def test_of_many_that_want_one_name_one_gets_it(self, place: Place) -> None:
        body = {"name": "wanted", "scopes": ["read"]}
        answers = await asyncio.gather(*(place.client.http.post("/v1/keys", json=body) for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"name": ""},
            {"name": "a b"},
            {"name": "-a"},
            {"name": "a\n"},
            {"name": "ä"},
            {"name": "x" * 65},
            {"scopes": []},
            {"scopes": ["write"]},
            {"scopes": "read"},
            {"skills": []},
            {"engines": [""]},
            {"expires_at": "2200-01-01"},
            {"expires_at": "2200-01-01T00:00:00"},
            {"expires_at": 7000000000},
            {"expires_at": "7000000000"},
            {"expires_in_sec": 0},
            {"expires_in_sec": "9"},
            {"expires_in_sec": 9, "expires_at": "2200-01-01T00:00:00Z"},
            {"scopes": ["admin"], "skills": ["answer"]},
            {"scopes": ["read", "admin"], "engines": ["demo"]},
        ],
    )
    async def test_what_is_wrong_makes_none(self, client: Client, wrong: dict[str, object]) -> None:
        async def ids() -> list[
            str
        ]:  # the rest may change: that a key was used is written down a moment later
            return [key["id"] for key in (await client.http.get("/v1/keys")).json()["keys"]]

        before = await ids()
        answer = await client.http.post("/v1/keys", json={"name": "wrong", "scopes": ["read"]} | wrong)
        assert_problem(answer, 400, Code.INVALID_REQUEST)
        assert await ids() == before

    @pytest.mark.parametrize(
        "past", ["2020-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"]
    )
    async def test_an_end_that_is_past_or_beyond_the_calendar(self, client: Client, past: str) -> None:
        body = {"name": "short", "scopes": ["read"], "expires_at": past}
        assert_problem(await client.http.post("/v1/keys", json=body), 400, Code.EXPIRY_REFUSED)

    async def test_an_engine_that_nobody_knows(self, client: Client) -> None:
        body = {"name": "typo", "scopes": ["read"], "engines": ["codec"]}
        problem = assert_problem(await client.http.post("/v1/keys", json=body), 404, Code.ENGINE_NOT_FOUND)
        assert "'codec'" in problem["detail"]


class TestEnd:
    async def test_a_revoked_key_opens_nothing(self, place: Place) -> None:
        key = await made(place, "read")
        async with holding(place, key["key"]) as client:
            assert (await client.http.get("/v1/jobs")).status_code == 200
            answer = (await revoked(place, key)).json()
            assert (answer["status"], answer["revoked_by"]) == ("revoked", "token")
            problem = assert_problem(await client.http.get("/v1/jobs"), 401, Code.KEY_REVOKED)
            assert key["name"] in problem["detail"]
            # By its name as well, and once more changes nothing.
            again = (await place.client.http.delete(f"/v1/keys/{key['name']}")).json()
            assert again["revoked_at"] == answer["revoked_at"]

    async def test_whoever_only_knows_the_id_is_told_nothing(self, place: Place) -> None:
        key = await made(place, "read")
        await revoked(place, key)
        for wrong in (
            f"tk_{key['id']}_{'x' * 43}",
            f"tk_aaaaaaaa_{'x' * 43}",
            key["id"],
            f"{key['key']}x",
            "tk_",
        ):
            async with holding(place, wrong) as stranger:
                assert_problem(await stranger.http.get("/v1/jobs"), 401, Code.UNAUTHORIZED)

    async def test_an_expired_key(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            key = await made(place, "read", expires_in_sec=60)
            async with holding(place, key["key"]) as client:
                assert (await client.http.get("/v1/me")).json()["expires_at"] == key["expires_at"]
                place.clock.advance(61)
                problem = assert_problem(await client.http.get("/v1/me"), 401, Code.KEY_EXPIRED)
                assert key["expires_at"] in problem["detail"]
                assert (await client.http.get("/healthz")).status_code == 200
            (_, listed) = (await place.client.http.get("/v1/keys")).json()["keys"]
            assert listed["status"] == "expired"

    async def test_the_token_cannot_be_revoked_and_says_how_it_is_replaced(self, client: Client) -> None:
        for name in ("admin", "token"):
            problem = assert_problem(
                await client.http.delete(f"/v1/keys/{name}"), 409, Code.KEY_NOT_REVOCABLE
            )
            assert "TURNKEEPER_TOKEN" in problem["detail"]
        assert_problem(await client.http.delete("/v1/keys/nobody"), 404, Code.KEY_NOT_FOUND)

    async def test_a_stream_ends_with_its_key(self, place: Place) -> None:
        run_id = await waiting(place.client)
        key = await made(place, "read")
        async with holding(place, key["key"]) as client, connected(client, run_id) as frames:
            await anext(frames)
            await revoked(place, key)
            await place.client.reply(run_id, "a secret word")
            await place.client.ended(run_id)
            assert "a secret word" not in "".join([str(frame) async for frame in frames])

    async def test_a_new_token_is_noted_and_takes_the_place_of_the_old(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            assert (await place.client.http.get("/v1/journal")).json()["entries"] == []
        async with opened(tmp_path / "data", token="another-token-entirely") as place:
            place.client.http.headers["Authorization"] = "Bearer another-token-entirely"
            (key,) = (await place.client.http.get("/v1/keys")).json()["keys"]
            assert (key["id"], key["name"], key["scopes"]) == ("admin", "token", ["admin"])
            (entry,) = (await place.client.http.get("/v1/journal")).json()["entries"]
            assert (entry["what"], entry["by"]) == ("token.replaced", "turnkeeper")
            async with holding(place, TOKEN) as old:
                assert_problem(await old.http.get("/v1/me"), 401, Code.UNAUTHORIZED)

    async def test_a_key_is_no_token_for_a_service(self, tmp_path: Path) -> None:
        """A client's TURNKEEPER_TOKEN would be good for everything in a service that is started beside it."""
        async with opened(tmp_path / "data") as place:
            key = (await made(place, "read"))["key"]
            settings = place.settings.model_copy(update={"data_dir": tmp_path / "other", "token": key})
        with pytest.raises(SettingsInvalid, match="holds a key"):
            async with running(settings):
                pass


class TestMe:
    async def test_of_the_token_and_of_a_key(self, place: Place) -> None:
        everything = {"skills": None, "engines": None, "expires_at": None}
        me = (await place.client.http.get("/v1/me")).json()
        assert me == {"by": "token", "scopes": ["admin"], **everything}
        key = await made(place, "answer", "read", skills=["plain", "answer"])
        async with holding(place, key["key"]) as client:
            assert (await client.http.get("/v1/me")).json() == everything | {
                "by": f"key:{key['name']}",
                "scopes": ["read", "answer"],
                "skills": ["answer", "plain"],
            }


class TestUse:
    async def test_it_is_written_down_once_an_hour(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:

            async def last_used(name: str) -> str | None:
                keys = (await place.client.http.get("/v1/keys")).json()["keys"]
                (found,) = [key["last_used_at"] for key in keys if key["name"] == name]
                return found and str(found)

            key = await made(place, "read")
            assert await last_used(key["name"]) is None
            async with holding(place, key["key"]) as client:
                await client.http.get("/v1/jobs")
                await place.house.keys.stop()  # what is being written is
                first = await last_used(key["name"])
                assert first is not None
                place.clock.advance(3500)
                await client.http.get("/v1/jobs")
                await place.house.keys.stop()
                assert await last_used(key["name"]) == first
                place.clock.advance(200)
                await client.http.get("/v1/jobs")
                await place.house.keys.stop()
                assert (await last_used(key["name"]) or "") > first
            assert await last_used("token") is None


class TestLimits:
    async def test_lists_leave_out_what_is_not_there_for_it(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            ours, theirs = await waiting(place.client, skill="plain"), await waiting(place.client)
            sticky = await place.client.create("answer", TALK, **STICKY)
            await place.client.settled(sticky)
            async with holder(place, "read", skills=["plain"], engines=["demo", "codex"]) as client:
                assert [run["run_id"] for run in await client.runs()] == [ours]
                for params in ({"q": theirs[:12]}, {"skill_id": "answer"}, {"engine": "gemini"}):
                    assert (await client.http.get("/v1/jobs", params=params)).json()["jobs"] == []
                skills = (await client.http.get("/v1/skills")).json()["skills"]
                assert [skill["id"] for skill in skills] == ["plain"]
                assert set(skills[0]["engines"]) == {"demo", "codex"}
                engines = (await client.http.get("/v1/engines")).json()["engines"]
                assert {engine["name"] for engine in engines} == {"demo", "codex"}
                status = (await client.http.get("/v1/status")).json()
                assert (status["held"], status["held_count"]) == ([], 0)
                for path in ("", "/schemas", "/lint"):
                    answer = await client.http.get(f"/v1/skills/answer{path}")
                    assert_problem(answer, 404, Code.SKILL_NOT_FOUND)
                    assert (await client.http.get(f"/v1/skills/plain{path}")).status_code == 200
                problem = assert_problem(
                    await client.http.get("/v1/engines/gemini"), 404, Code.ENGINE_NOT_FOUND
                )
                assert "qwen" not in problem["detail"]
            assert (await place.client.http.get("/v1/status")).json()["held_count"] == 1
            await settle(place.client)

    async def test_no_run_of_another_skill_or_engine_is_made(self, place: Place) -> None:
        async with holder(place, "run", skills=["plain"], engines=["codex", "demo"]) as client:
            before = len(await place.client.runs())
            for body, allowed in (
                (JOB, ["plain"]),
                (JOB | {"skill_id": "no such skill"}, ["plain"]),
                (JOB | {"skill_id": "plain", "engine": "gemini"}, ["codex", "demo"]),
                (JOB | {"skill_id": "plain", "engine": "no such engine"}, ["codex", "demo"]),
            ):
                problem = assert_problem(await post(client, body), 403, Code.NOT_ALLOWED_FOR_KEY)
                assert problem["allowed"] == allowed
            assert len(await place.client.runs()) == before
            assert (await post(client, JOB | {"skill_id": "plain"})).status_code == 200

    async def test_a_job_that_names_no_engine_gets_one_that_is_allowed(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data", default_engine="demo") as place:
            body = {"skill_id": "answer"}
            async with holder(place, "run", engines=["demo", "codex"]) as client:
                run_id = (await post(client, body)).json()["run_id"]
                assert (await client.get(run_id))["engine"] == "demo"
            async with holder(place, "run", engines=["codex"]) as client:
                problem = assert_problem(await post(client, body), 409, Code.ENGINE_NOT_READY)
                assert "codex" in problem["detail"]
            async with holder(place, "run", engines=["codex", "gemini"]) as client:
                assert_problem(await post(client, body), 409, Code.ENGINE_NOT_READY)
            await settle(place.client)

    async def test_an_idempotency_key_leads_to_no_run_of_others(self, tmp_path: Path) -> None:
        """The same words made it, on an engine that this key does not know; each key has a book of its own."""
        async with opened(tmp_path / "data", default_engine="demo") as place:
            body, headers = {"skill_id": "answer"}, {"Idempotency-Key": "shared"}
            run_id = (await post(place.client, body, **headers)).json()["run_id"]
            async with holder(place, "run", engines=["codex"]) as client:
                answer = await post(client, body, **headers)
                assert_problem(answer, 409, Code.ENGINE_NOT_READY)
                assert run_id not in answer.text
            async with holder(place, "run", engines=["demo"]) as client:
                own = (await post(client, body, **headers)).json()["run_id"]
                assert own != run_id
                assert (await post(client, body, **headers)).json()["run_id"] == own
                answer = await post(client, {"skill_id": "plain"}, **headers)
                assert_problem(answer, 409, Code.IDEMPOTENCY_KEY_REUSED)
            await settle(place.client)


class TestSessions:
    """Of a browser that was signed in with a key."""

    @asynccontextmanager
    async def signed_in(self, place: Place, proof: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
        url = place.service.url
        async with httpx.AsyncClient(base_url=url, headers={"Origin": url}, trust_env=False) as browser:
            answer = await browser.post("/v1/session", json=proof)
            assert answer.status_code == 200, answer.text
            browser.headers[PAGE_KEY] = answer.json()["page_key"]
            yield browser

    async def test_it_may_do_what_the_key_may(self, place: Place) -> None:
        key = await made(place, "read", "answer")
        async with self.signed_in(place, {"token": key["key"]}) as browser:
            me = (await browser.get("/v1/me")).json()
            assert (me["by"], me["scopes"]) == (f"page:{key['name']}", ["read", "answer"])
            assert (await browser.get("/v1/jobs")).status_code == 200
            assert_problem(await browser.post("/v1/jobs", json=JOB), 403, Code.SCOPE_MISSING)
            assert_problem(
                await browser.get("/v1/jobs", headers={"Sec-Fetch-Site": "cross-site"}),
                403,
                Code.ORIGIN_NOT_ALLOWED,
            )

    async def test_it_ends_with_the_key_at_once(self, place: Place) -> None:
        key = await made(place, "read")
        async with self.signed_in(place, {"token": key["key"]}) as browser:
            assert (await browser.get("/v1/jobs")).status_code == 200
            await revoked(place, key)
            assert_problem(await browser.get("/v1/jobs"), 401, Code.KEY_REVOKED)
            # Whoever is shown out may come back by another way.
            assert (await browser.post("/v1/session", json={"token": TOKEN})).status_code == 200

    async def test_it_ends_when_the_key_does(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            key = await made(place, "read", expires_in_sec=60)
            async with self.signed_in(place, {"token": key["key"]}) as browser:
                again = await browser.post("/v1/session", json={"token": key["key"]})
                assert again.json()["expires_at"] == key["expires_at"]
                browser.headers[PAGE_KEY] = again.json()["page_key"]
                assert (await browser.get("/v1/jobs")).status_code == 200
                place.clock.advance(61)
                assert_problem(
                    await browser.post("/v1/session", json={"token": key["key"]}), 401, Code.KEY_EXPIRED
                )

    async def test_it_outlives_a_restart(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            key = await made(place, "read")
            session = place.service.door.trade(code=None, token=key["key"])
            headers = {
                "cookie": f"{place.service.door.cookie_name}={session.cookie}",
                PAGE_KEY: session.page_key,
            }
        async with opened(tmp_path / "data") as place:
            caller = place.service.door.knows("GET", "/v1/jobs", headers)
            assert caller is not None
            assert (caller.by, caller.key_id) == (f"page:{key['name']}", key["id"])

    async def test_a_code_signs_in_with_the_rights_of_who_asked_for_it(self, place: Place) -> None:
        key = await made(place, "answer")
        async with holding(place, key["key"]) as client:
            codes = [(await client.http.post("/v1/session/codes")).json()["code"] for _ in range(2)]
        async with self.signed_in(place, {"code": codes[0]}) as browser:
            assert (await browser.get("/v1/me")).json()["scopes"] == ["answer"]
            more = (await browser.post("/v1/session/codes")).json()["code"]
        async with self.signed_in(place, {"code": more}) as browser:
            assert (await browser.get("/v1/me")).json()["by"] == f"page:{key['name']}"
        await revoked(place, key)
        answer = await place.client.http.post("/v1/session", json={"code": codes[1]})
        assert_problem(answer, 401, Code.KEY_REVOKED)

    async def test_a_cookie_cannot_be_given_another_key(self, place: Place) -> None:
        weak, strong = await made(place, "answer"), await made(place, "admin")
        door = place.service.door
        session = door.trade(code=None, token=weak["key"])
        for cookie in (
            session.cookie.replace(weak["id"], strong["id"]),
            session.cookie.replace(f".{weak['id']}", ""),
        ):
            headers = {"cookie": f"{door.cookie_name}={cookie}", PAGE_KEY: session.page_key}
            assert door.knows("GET", "/v1/jobs", headers) is None


async def test_a_key_for_answers_sees_the_inbox_and_answers(place: Place) -> None:
    run_id = await place.client.create("answer", TALK, **INTERACTIVE)
    await place.client.settled(run_id)
    async with holder(place, "answer") as client:
        assert run_id in [run["run_id"] for run in await client.runs()]
        await client.reply(run_id, "blue")
        assert_problem(await client.http.post(f"/v1/jobs/{run_id}/cancel"), 403, Code.SCOPE_MISSING)
    assert (await place.client.ended(run_id))["status"] == "succeeded"


async def test_a_refusal_comes_before_the_body_is_read(place: Place) -> None:
    """Whoever may not send it is not told what is wrong with it."""
    async with holder(place, "read") as client:
        for body in (b"", b"{", b'{"skill_id": 7}'):
            answer = await client.http.post(
                "/v1/jobs", content=body, headers={"Content-Type": "application/json"}
            )
            assert_problem(answer, 403, Code.SCOPE_MISSING)


class TestMeanwhile:
    """A body may come slowly; what counts is who is welcome when it is whole."""

    @pytest.mark.parametrize("ends", ["revoked", "expired"])
    async def test_a_body_that_is_whole_after_the_key_has_ended_does_nothing(
        self, place: Place, ends: str
    ) -> None:
        key = await made(place, "admin", **({"expires_in_sec": 60} if ends == "expired" else {}))
        url = httpx.URL(place.service.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        body = json.dumps({"name": f"after-{ends}", "scopes": ["admin"]}).encode()
        head = (
            f"POST /v1/keys HTTP/1.1\r\nHost: {url.host}:{url.port}\r\nAuthorization: Bearer {key['key']}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body[:5])
        await writer.drain()
        # The door has let it in by the time that somebody else is answered twice.
        for _ in range(2):
            assert (await place.client.http.get("/v1/me")).status_code == 200
        if ends == "revoked":
            assert (await revoked(place, key)).status_code == 200
        else:
            place.clock.advance(61)
        writer.write(body[5:])
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()
        names = {each["name"] for each in (await place.client.http.get("/v1/keys")).json()["keys"]}
        assert f"after-{ends}" not in names

    async def test_codes_of_one_key_do_not_void_those_of_others(self, place: Place) -> None:
        code = (await place.client.http.post("/v1/session/codes")).json()["code"]
        async with holder(place, "read") as many:
            for _ in range(MOST_CODES + 1):
                assert (await many.http.post("/v1/session/codes")).status_code == 200
        async with httpx.AsyncClient(base_url=place.service.url, trust_env=False) as browser:
            assert (await browser.post("/v1/session", json={"code": code})).status_code == 200

    async def test_each_key_has_idempotency_keys_of_its_own(self, place: Place) -> None:
        async def order(client: Client) -> str:
            return str((await post(client, JOB, **{"Idempotency-Key": "order-42"})).json()["run_id"])

        first = await order(place.client)
        async with holder(place, "run") as one, holder(place, "run") as other:
            made_by_one = await order(one)
            assert await order(one) == made_by_one
            made_by_other = await order(other)
        assert len({first, made_by_one, made_by_other}) == 3
