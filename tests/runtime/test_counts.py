"""What a run costs, counted and not timed: commits, processes, files, tasks, timers, wake-ups."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.crash.restarts import Daemon, started
from tests.harness import Client, Json, Place, opened
from tests.runtime.loops import BACKEND, this_loop, until
from turnkeeper.core.run import Mode
from turnkeeper.core.statechart import State
from turnkeeper.runtime.intake import JobRequest

INTERACTIVE: Json = {"execution_mode": "interactive"}
WINDOW_SEC = 2
IDLE_SOCKETS = 3
"""The one that listens, and the pair by which other threads wake the loop."""


@pytest.fixture(scope="module")
def anyio_backend() -> Any:
    return BACKEND


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "data", slots=4) as place:
        yield place


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with started(tmp_path / "data", TURNKEEPER_SLOTS="4") as daemon:
        yield daemon


async def test_a_run_of_two_turns(place: Place, tmp_path: Path) -> None:
    record = {"record": str(tmp_path / "pids")}
    turns = [[record, {"say": "Which colour?"}], [record, {"result": {"answer": "{{reply}}"}}]]
    before = place.house.store.stats.changes, place.house.store.stats.transactions
    with spawns() as spawned:
        run_id = await place.client.create(script={"turns": turns}, **INTERACTIVE)
        await place.client.settled(run_id)
        await place.client.reply(run_id, "blue")
        assert (await place.client.ended(run_id))["status"] == "succeeded"
    changes, transactions = place.house.store.stats.changes, place.house.store.stats.transactions
    assert changes - before[0] == 6  # created, started, asked, replied, started, succeeded
    assert transactions - before[1] <= 8 + place.house.store.stats.appends

    pids = [json.loads(line)["pid"] for line in (tmp_path / "pids").read_text().splitlines()]
    born = [attempt.born and attempt.born.pid for attempt in await place.house.store.attempts(run_id)]
    assert len(spawned) == len(set(pids)) == 2
    assert pids == born

    databases = {path.name for path in place.settings.data_dir.rglob("*.db*")}
    assert databases - {"turnkeeper.db-wal", "turnkeeper.db-shm"} == {"turnkeeper.db"}


async def test_a_resident_run_of_two_turns_is_one_process(place: Place) -> None:
    with spawns() as spawned:
        run_id = await place.client.create(script="ask", interactive_profile="sticky_process", **INTERACTIVE)
        await place.client.settled(run_id)
        await place.client.reply(run_id, "blue")
        assert (await place.client.ended(run_id))["status"] == "succeeded"
    assert len(spawned) == 1
    first, second = [attempt.born for attempt in await place.house.store.attempts(run_id)]
    assert first == second


async def test_waiting_costs_nothing(place: Place) -> None:
    """No process, no task, no timer, no open file; asked through the house itself, so no connection counts."""
    await ask(place)  # threads and caches that the first turn makes
    loop, before = this_loop(), held()
    for _ in range(10):
        run_id = await ask(place)
        assert not place.processes(run_id)
    assert held() == before
    assert loop.timers() == []
    assert place.house.dispatcher.busy == 0


async def test_all_deadlines_share_one_timer(place: Place) -> None:
    for seconds in (300, 40, 900):
        await ask(place, strict=False, session_timeout_sec=seconds)
    (timer,) = this_loop().timers()
    assert 0 < timer.when() - this_loop().time() <= 40


@pytest.mark.failure("H15")
async def test_two_hundred_waiting_runs_leave_the_service_asleep(daemon: Daemon) -> None:
    await asyncio.gather(*(create_and_wait(daemon, number) for number in range(200)))
    counts = (
        await daemon.client.http.get("/v1/jobs", params={"status": "waiting_user", "limit": 200})
    ).json()
    assert len(counts["jobs"]) == 200
    assert not daemon.processes()
    ticks, switches = await quiet(daemon)
    assert ticks <= 1
    assert switches <= 2


async def test_a_silent_turn_leaves_the_service_asleep(daemon: Daemon) -> None:
    """Nobody looks every few milliseconds whether the engine has said something, or is still there."""
    run_id = await daemon.client.create(script={"turns": [[{"think": "working"}, {"hang": True}]]})
    await daemon.in_the_middle(run_id)
    ticks, switches = await quiet(daemon)
    assert ticks <= 1
    assert switches <= 2
    await daemon.client.cancel(run_id)
    await daemon.client.ended(run_id)


async def create_and_wait(daemon: Daemon, number: int) -> None:
    """Some with a deadline, far away."""
    deadline: Json = (
        {"interactive_require_user_reply": False, "session_timeout_sec": 3600} if number % 2 else {}
    )
    run_id = await daemon.client.create(script="ask", **INTERACTIVE, **deadline)
    assert (await daemon.client.settled(run_id))["status"] == "waiting_user"


async def quiet(daemon: Daemon) -> tuple[int, int]:
    """Clock ticks of the service, and wake-ups of its main thread, in a window in which nobody asks for anything."""
    await daemon.client.http.aclose()
    await until(lambda: sockets(daemon.pid) == IDLE_SOCKETS)
    before = used(daemon.pid)
    await asyncio.sleep(WINDOW_SEC)
    after = used(daemon.pid)
    daemon.client = Client(daemon.client.url)
    return after[0] - before[0], after[1] - before[1]


def sockets(pid: int) -> int:
    names = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed while we were looking
            names.append(str(link.readlink()))
    return sum(name.startswith("socket:") for name in names)


def used(pid: int) -> tuple[int, int]:
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/task/{pid}/status").read_text()
    switches = [line for line in status.splitlines() if line.startswith("voluntary_ctxt_switches")]
    return int(stat[11]) + int(stat[12]), int(switches[0].split()[1])


async def ask(place: Place, **options: Any) -> str:
    """A run that waits, made without a connection; its owner has let go of it."""
    parameter = {"demo_script": "ask"}
    request = JobRequest(
        skill_id="answer", engine="demo", parameter=parameter, mode=Mode.INTERACTIVE, **options
    )
    run = await place.house.jobs.create(request)
    run = await place.house.jobs.settled(run.id, 30)
    assert run.state is State.WAITING_USER
    await until(lambda: place.house.dispatcher.busy == 0)
    return run.id


def held() -> tuple[int, int]:
    """Tasks and open files; a second reader of the database is opened whenever two ask at once, and stays."""
    opened = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]  # noqa: PTH115
    return len(asyncio.all_tasks()), len([path for path in opened if "turnkeeper.db" not in path])


_spawned: list[list[Any]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _spawned and event in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
        _spawned[-1].append(arguments)


sys.addaudithook(_note)  # for good: there is no way to take it back, so it counts only when asked to


@contextmanager
def spawns() -> Iterator[list[Any]]:
    """Every process that this one starts meanwhile."""
    _spawned.append([])
    try:
        yield _spawned[-1]
    finally:
        _spawned.pop()
