"""Looking at runs: the list, page by page, and one run that is waited for."""

from __future__ import annotations

import asyncio
import base64
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness import Client, Json, Place, opened
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, Latch, script
from tests.web.patience import eventually, settle
from tests.web.problems import assert_problem
from tests.web.requests import DONE, waiting
from turnkeeper.core.errors import Code, RunNotFound
from turnkeeper.web.events import history
from turnkeeper.web.files import list_artifacts, list_logs
from turnkeeper.web.jobs import MAX_WAIT_SEC

AGENT = Path(__file__).parents[1] / "fakes" / "acp_agent.py"


class TestList:
    @pytest.fixture(scope="class")
    async def crowd(self, tmp_path_factory: pytest.TempPathFactory) -> Any:
        """Seven runs that have ended, three that wait, of two skills and both modes."""
        async with opened(tmp_path_factory.mktemp("list") / "data") as place:
            for _ in range(4):
                await place.client.ended(await place.client.create("answer", "auto_done"))
            for _ in range(3):
                await place.client.ended(await place.client.create("plain", script([{"say": "done"}])))
            for _ in range(3):
                await waiting(place.client)
            yield place.client

    async def pages(self, client: Client, **params: Any) -> list[list[Json]]:
        found: list[list[Json]] = []
        cursor = None
        while cursor is not None or not found:
            params |= {"cursor": cursor} if cursor else {}
            page = (await client.http.get("/v1/jobs", params=params)).json()
            found.append(page["jobs"])
            cursor = page["next_cursor"]
        return found

    @pytest.mark.parametrize("limit", [1, 2, 3, 5, 9, 10, 11, 200])
    async def test_pages_have_no_gap_and_no_double(self, crowd: Client, limit: int) -> None:
        pages = await self.pages(crowd, limit=limit)
        ids = [run["run_id"] for page in pages for run in page]
        assert len(ids) == len(set(ids)) == 10
        assert ids == sorted(ids, reverse=True), "newest first"
        assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
        assert pages[-1]

    @pytest.mark.parametrize(
        ("params", "count"),
        [
            ({"status": "succeeded"}, 7),
            ({"status": "waiting_user"}, 3),
            ({"status": "canceled"}, 0),
            ({"skill_id": "plain"}, 3),
            ({"skill_id": "answer"}, 7),
            ({"skill_id": "nobody"}, 0),
            ({"engine": "demo"}, 10),
            ({"engine": "codex"}, 0),
            ({"execution_mode": "interactive"}, 3),
            ({"execution_mode": "auto", "skill_id": "answer", "status": "succeeded"}, 4),
        ],
    )
    async def test_filters_hold_on_every_page(self, crowd: Client, params: Json, count: int) -> None:
        pages = await self.pages(crowd, limit=2, **params)
        runs = [run for page in pages for run in page]
        assert len({run["run_id"] for run in runs}) == len(runs) == count
        assert all(run[name] == value for run in runs for name, value in params.items())

    async def test_new_runs_do_not_shift_the_pages(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data", slots=1) as place:
            http = place.client.http
            old = [await place.client.create("answer", "auto_done") for _ in range(4)]
            first = (await http.get("/v1/jobs", params={"limit": 2})).json()
            await place.client.create("answer", "auto_done")
            rest = (await http.get("/v1/jobs", params={"cursor": first["next_cursor"]})).json()
            assert [run["run_id"] for run in first["jobs"] + rest["jobs"]] == old[::-1]
            assert rest["next_cursor"] is None
            await settle(place.client)

    async def test_listed_run_is_the_run_itself(self, crowd: Client) -> None:
        listed = (await crowd.http.get("/v1/jobs", params={"status": "waiting_user", "limit": 1})).json()[
            "jobs"
        ]
        run = await crowd.get(listed[0]["run_id"])
        assert listed == [{**run, "pending": await crowd.pending(run["run_id"])}]

    async def test_list_comes_small_and_streams_and_secrets_as_they_are(self, crowd: Client) -> None:
        """Every open inbox asks for the list again and again; the length of a secret answer must not give it away."""
        small = {"Accept-Encoding": "gzip"}
        whole = await crowd.http.get("/v1/jobs", headers={"Accept-Encoding": "identity"})
        async with crowd.http.stream("GET", "/v1/jobs", headers=small) as answer:
            sent = sum([len(part) async for part in answer.aiter_raw()])
        assert answer.headers["content-encoding"] == "gzip"
        assert "accept-encoding" in answer.headers["vary"].lower()
        assert sent < len(whole.content) / 5
        run_id = whole.json()["jobs"][0]["run_id"]
        secrets = await crowd.http.post("/v1/session/codes", headers=small)
        async with crowd.http.stream("GET", f"/v1/jobs/{run_id}/events", headers=small) as events:
            assert "content-encoding" not in {**secrets.headers, **events.headers}

    async def test_several_states_at_once(self, crowd: Client) -> None:
        params: Json = {"status": ["waiting_user", "succeeded"], "limit": 200}
        found = (await crowd.http.get("/v1/jobs", params=params)).json()["jobs"]
        wanted = [run for run in await crowd.runs() if run["status"] in ("waiting_user", "succeeded")]
        assert found == wanted
        assert len({run["status"] for run in found}) == 2

    async def test_search_looks_at_ids_and_open_questions(self, client: Client) -> None:
        asking = script([{"say": "Which 100%_sure colour, \\Grün or blue?"}], [ANSWER])
        run_id = await client.create("answer", asking, **INTERACTIVE)
        other = await client.create("plain", "ask", **INTERACTIVE)
        for each in (run_id, other):
            await client.settled(each)

        async def found(text: str) -> set[str]:
            params = {"q": text, "status": "waiting_user"}
            jobs = (await client.http.get("/v1/jobs", params=params)).json()["jobs"]
            return {run["run_id"] for run in jobs} & {run_id, other}

        assert await found("which 100%_SURE") == {run_id}
        assert await found("100__sure") == set(), (
            "what means something to the database is text like any other"
        )
        assert await found("\\Grün") == await found("\\GRÜN") == {run_id}
        assert await found("\0") == await found("100%\0") == set()
        assert await found("LAI") == {other}
        assert await found(other[:24]) == {other}
        assert await found(other[1:24]) == set()
        await client.reply(run_id, "blue")
        await client.settled(run_id)
        assert await found("100%") == set()
        await client.cancel(other)

    async def test_request_of_a_run_creates_the_same_job_again(self, client: Client) -> None:
        asked = {"session_timeout_sec": 77, "permissions": "allow", "timeouts": {"idle_sec": 11}}
        run_id = await client.create("answer", "auto_done", **asked)
        request = (await client.http.get(f"/v1/jobs/{run_id}/request")).json()
        assert request["session_timeout_sec"] == 77
        assert request["timeouts"]["idle_sec"] == 11
        assert request["parameter"] == {"demo_script": "auto_done"}
        assert request["interactive_profile"] == "auto"
        again = (await client.http.post("/v1/jobs", json=request)).json()["run_id"]
        before, after = (await client.settled(run_id)), (await client.settled(again))
        same = ("skill_id", "engine", "model", "execution_mode", "timeouts", "interactive_profile", "status")
        assert {name: before[name] for name in same} == {name: after[name] for name in same}

    async def test_request_leaves_a_model_to_the_settings_that_only_they_can_name(
        self, tmp_path: Path
    ) -> None:
        agent = {"command": [sys.executable, str(AGENT)], "model": "sonnet[1m]"}
        async with opened(tmp_path / "data", engines={"parrot": agent}) as place:
            client = place.client
            run_id = await client.create(engine="parrot")
            answer = await client.http.get(f"/v1/jobs/{run_id}/request")
            assert answer.status_code == 200, answer.text
            again = (await client.http.post("/v1/jobs", json=answer.json())).json()["run_id"]
            models = [(await client.ended(each))["model"] for each in (run_id, again)]
            assert models == ["sonnet[1m]"] * 2

    @pytest.mark.parametrize(
        "cursor",
        [
            "garbage",
            "!!!",
            "ü",
            "=",
            "A" * 8_000,
            base64.urlsafe_b64encode(b"yesterday 42").decode(),
            base64.urlsafe_b64encode(b"2026-01-01T00:00:00").decode(),
            base64.urlsafe_b64encode(b"2026-01-01T00:00:00 a").decode(),
            base64.urlsafe_b64encode(b"2026-01-01T00:00:00.000000Z a b").decode(),
            base64.urlsafe_b64encode(b"0001-01-01T00:00:00+14:00 a").decode(),
            base64.urlsafe_b64encode(b"9999-12-31T23:59:59-14:00 a").decode(),
            base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        ],
    )
    async def test_cursor_that_was_never_given_out_is_refused(self, crowd: Client, cursor: str) -> None:
        answer = await crowd.http.get("/v1/jobs", params={"cursor": cursor})
        assert_problem(answer, 400, Code.CURSOR_INVALID)

    @pytest.mark.parametrize(
        "params", [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"status": "done"}, {"execution_mode": "x"}]
    )
    async def test_wrong_query_is_refused(self, crowd: Client, params: Json) -> None:
        assert_problem(await crowd.http.get("/v1/jobs", params=params), 400, Code.INVALID_REQUEST)


class TestPreferWait:
    async def test_answers_as_soon_as_the_run_waits_or_has_ended(
        self, place: Place, client: Client, latch: Latch
    ) -> None:
        run_id = await client.create("answer", script([*latch.steps, ASK], [ANSWER]), **INTERACTIVE)
        await latch.reached()
        asked = asyncio.ensure_future(client.http.get(f"/v1/jobs/{run_id}", headers={"Prefer": "wait=30"}))
        await eventually(lambda: len(place.house.feed))
        assert not asked.done()
        latch.open()
        async with asyncio.timeout(20):
            answer = await asked
        assert answer.json()["status"] == "waiting_user"
        assert answer.headers["preference-applied"] == "wait=30"
        await client.reply(run_id, "blue")
        assert (await client.settled(run_id))["status"] == "succeeded"

    async def test_answers_when_the_time_is_over(self, client: Client, latch: Latch) -> None:
        run_id = await client.create("answer", script([*latch.steps, DONE]))
        await latch.reached()
        for seconds in (0, 1):
            started = time.monotonic()
            answer = await client.http.get(f"/v1/jobs/{run_id}", headers={"Prefer": f"wait={seconds}"})
            assert answer.json()["status"] == "running"
            assert time.monotonic() - started >= seconds
        latch.open()
        await client.ended(run_id)

    @pytest.mark.parametrize(
        ("prefer", "applied"),
        [
            ("wait=5", "wait=5"),
            ("respond-async, wait = 7", "wait=7"),
            ("wait=999999", f"wait={MAX_WAIT_SEC}"),
            ("handling=lenient", None),
            (None, None),
        ],
    )
    async def test_says_which_preference_it_followed(
        self, client: Client, prefer: str | None, applied: str | None
    ) -> None:
        run_id = await client.create("answer", "auto_done")
        await client.ended(run_id)
        answer = await client.http.get(f"/v1/jobs/{run_id}", headers={"Prefer": prefer} if prefer else {})
        assert answer.json()["status"] == "succeeded"
        assert answer.headers.get("preference-applied") == applied

    @pytest.mark.parametrize("prefer", ["wait", "wait=", "wait=soon", "wait=-1", "wait=1234567"])
    async def test_time_that_is_none_is_refused(self, client: Client, prefer: str) -> None:
        answer = await client.http.get("/v1/jobs/some-run", headers={"Prefer": prefer})
        assert_problem(answer, 400, Code.INVALID_REQUEST)


class Meanwhile:
    """A part of a house; whenever it was asked for something, this happens before anybody can ask again."""

    def __init__(self, part: Any, happens: Callable[[], Awaitable[object]]) -> None:
        self._part = part
        self._happens = happens

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def ask(*args: Any, **more: Any) -> Any:
            found = await getattr(self._part, name)(*args, **more)
            await self._happens()
            return found

        return ask


@pytest.mark.parametrize("look", [list_logs, list_artifacts, history])
async def test_run_that_is_removed_between_two_reads_is_not_there(
    tmp_path: Path, look: Callable[..., Awaitable[object]]
) -> None:
    """Else it would seem to have left nothing."""
    async with opened(tmp_path / "data") as place:
        run_id = await waiting(place.client)
        every = {"older_than_sec": 0, "status": ["waiting_user"]}

        async def remove() -> None:
            assert (await place.client.http.post("/v1/prune", json=every)).status_code == 200

        jobs, store = Meanwhile(place.house.jobs, remove), Meanwhile(place.house.store, remove)
        house = SimpleNamespace(jobs=jobs, store=store, stage=place.house.stage)
        with pytest.raises(RunNotFound):
            await look(run_id, SimpleNamespace(house=house))
