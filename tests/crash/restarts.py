"""A service that is killed and started again on the same data, and what must hold whenever it comes back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import IO, cast

from tests import harness
from tests.crash.nursery import nursery
from tests.harness import PATIENCE, QUICK, SKILLS, TOKEN, Json, assert_judged_alike, assert_log
from tests.sound import assert_hidden
from turnkeeper.core.run import Job, Mode, Timeouts
from turnkeeper.engines import census
from turnkeeper.engines.registry import engines
from turnkeeper.runtime.clock import utc_now
from turnkeeper.runtime.intake import Intake, JobRequest, Policy
from turnkeeper.runtime.secrecy import Secrecy
from turnkeeper.runtime.secrets import Secrets
from turnkeeper.runtime.stage import Stage
from turnkeeper.skills.package import Shelf
from turnkeeper.store.base import RunFilter
from turnkeeper.store.sqlite import SqliteStore
from turnkeeper.web.views import run_view

RECORD = "turns.ndjson"
WORKS = [{"record": RECORD}, {"think": "working"}, {"wait_for": "go"}]
"""A turn that says so when it is in the middle, and stays there until the file `go` is in its workspace."""
ASKS = [{"record": RECORD}, {"say": "Which colour?"}]
ANSWERS = [{"record": RECORD}, {"result": {"answer": "{{reply}}"}}]

MOST_RUNS = 20_000
CUT_OFF = "You were cut off in the middle of your last turn"


class Daemon(harness.Daemon):
    """The log of a run may only grow: what was read before a kill is compared with what is there after it."""

    def __init__(self, data_dir: Path, **env: str) -> None:
        super().__init__(data_dir, **env)
        self._seen: dict[str, list[Json]] = {}
        self.told_otherwise: set[str] = set()
        """Runs whose log keeps an old name of what the run now has by its new one."""
        self._old: set[tuple[int, int]] = set()

    def _launch(self, command: list[str], env: dict[str, str], log: IO[str]) -> harness.ServiceProcess:
        return nursery().grow(command, env, log)

    async def restart(self) -> None:
        """Killed and started again: nothing of the old one is alive, and nothing of the past is different."""
        await self.power_cut()
        self.start()
        await self.check_return()

    async def power_cut(self) -> None:
        """Killed; what its runs had said and which processes they had is remembered."""
        await self.remember()
        await self.kill()

    async def check_return(self) -> None:
        left = {(found.pid, found.start_time) for found in self.processes()} & self._old
        assert not left, f"processes of the killed service live on: {left}"
        for run_id, before in self._seen.items():
            assert (await self.log(run_id))[: len(before)] == before

    async def remember(self) -> None:
        jobs = (await self.client.http.get("/v1/jobs", params={"limit": 200})).json()["jobs"]
        self._seen = {job["run_id"]: await self.client.events(job["run_id"]) for job in jobs}
        self._old = {(found.pid, found.start_time) for found in self.processes()}

    async def log(self, run_id: str) -> list[Json]:
        """The events of a run that stands still, numbered on without a gap and in line with the run itself."""
        events = await self.client.events(run_id)
        run = await self.client.get(run_id)
        if run["last_seq"] == len(events):  # else it moved between the two reads
            assert_log(events, run)
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        return events

    @property
    def data_id(self) -> str:
        with closing(sqlite3.connect(self.data_dir / "turnkeeper.db", timeout=PATIENCE)) as connection:
            (data_id,) = connection.execute("SELECT value FROM meta WHERE name = 'data_id'").fetchone()
        return str(data_id)

    def processes(self, run_id: str = "") -> list[census.Found]:
        return census.find(f"{self.data_id}/{run_id}".rstrip("/"))

    def workspace(self, run_id: str) -> Path:
        return self.data_dir / "runs" / run_id / "workspace"

    def turns(self, run_id: str) -> list[Json]:
        """What each process of the run has recorded: its pid, its prompt, its arguments."""
        path = self.workspace(run_id) / RECORD
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def in_the_middle(self, run_id: str, times: int = 1) -> Json:
        """Until a turn of `WORKS` has been at its `wait_for` so many times, and what it said before is durable."""
        await self.hears(run_id, lambda event: event["type"] == "assistant.reasoning", times)
        return await self.client.get(run_id)

    async def hears(self, run_id: str, wanted: Callable[[Json], bool], times: int = 1) -> None:
        """Until so many events of the run are as wanted."""
        stream = cast(AsyncGenerator[Json, None], self.client.follow(run_id))
        async with aclosing(stream) as events:
            async for event in events:
                times -= wanted(event)
                if not times:
                    return
        raise AssertionError(f"the run ended: {await self.client.get(run_id)}")

    def go_on(self, run_id: str) -> None:
        (self.workspace(run_id) / "go").touch()

    @asynccontextmanager
    async def store(self) -> AsyncIterator[SqliteStore]:
        """The memory of a service that is down, to be read, or to be brought to a state that is hard to hit."""
        assert not self.is_running
        self.data_dir.mkdir(parents=True, exist_ok=True)
        store = await SqliteStore.open(self.data_dir)
        try:
            yield store
        finally:
            await store.close()

    async def assert_sound(self) -> None:
        """Of a service that has stopped: no process, whole logs, and a second opinion that agrees."""
        assert not self.processes()
        assert_hidden(self.data_dir, [TOKEN])
        async with self.store() as store:
            stage = Stage(store, Shelf((SKILLS,)), engines({}), self.data_dir / "runs")
            for run in await store.runs(RunFilter(), MOST_RUNS):
                entries = await store.events(run.id, after=0, upto=None, limit=10_000)
                assert len(entries) == run.last_seq
                if run.id not in self.told_otherwise:
                    assert_log([json.loads(entry.body) for entry in entries], run_view(run, None))
                interactions = await store.interactions(run.id)
                for attempt in await store.attempts(run.id):
                    assert_judged_alike(stage, run, attempt, interactions)


@asynccontextmanager
async def started(data_dir: Path, *, at_once: bool = True, **env: str) -> AsyncIterator[Daemon]:
    """After the test a graceful stop must work and leave nothing; a failed test leaves nothing either."""
    daemon = Daemon(data_dir, **env)
    try:
        if at_once:
            daemon.start()
        yield daemon
        if daemon.is_running:
            assert await daemon.stop() == 0
        await daemon.assert_sound()
    finally:
        if daemon.is_running:
            await daemon.kill()
        if (data_dir / "turnkeeper.db").exists():
            await census.end_all(daemon.data_id, step_sec=0.5)


def a_job(script: Json) -> Job:
    """A job as the API would make it, for runs that are put into the store by hand."""
    policy = Policy(max_queued=1, default_engine=None, session_timeout_sec=600, timeouts=Timeouts(**QUICK))
    request = JobRequest(
        skill_id="answer", engine="demo", mode=Mode.INTERACTIVE, parameter={"demo_script": script}
    )
    secrecy = Secrecy()
    secrets = Secrets(Path("/nowhere/secrets.json"), secrecy, utc_now)
    return Intake(Shelf((SKILLS,)), engines({}), policy, secrecy, secrets).accept(request).job


def count(events: list[Json], type_: str) -> int:
    return sum(event["type"] == type_ for event in events)
