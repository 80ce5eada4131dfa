"""A removal that is killed: every run is whole or gone, what lives is untouched, and the next start ends the rest."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.crash.restarts import Daemon, a_job, started
from tests.faults.small_disk import small_disk
from tests.harness import PATIENCE
from tests.web.patience import eventually
from turnkeeper.core import lifecycle
from turnkeeper.core.fcmp import Event, Type
from turnkeeper.runtime.clock import utc_now
from turnkeeper.runtime.jobs import new_run_id
from turnkeeper.store.sqlite import SqliteStore

RUNS, FILES, EVENTS = 240, 12, 40
LIFE = 3
"""Events of a run that is created and canceled."""
ASKS = {"turns": [[{"say": "Which colour?"}], [{"result": {"answer": "{{reply}}"}}]]}
JOB = a_job(ASKS)
TABLES = {
    "runs": "id",
    "events": "run_id",
    "attempts": "run_id",
    "interactions": "run_id",
    "removals": "run_id",
}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with started(tmp_path / "data", at_once=False) as daemon:
        yield daemon


async def an_ended_run(store: SqliteStore, folder: Path, *, events: int = EVENTS) -> str:
    """Canceled in its first turn, with something said and something left, as if it had been played."""
    now = utc_now() - timedelta(days=3)
    run = await store.commit(lifecycle.create(new_run_id(now), JOB, now))
    cancel = lifecycle.cancel(run, now, by="ann")
    assert cancel is not None
    said = [Event(Type.MESSAGE_DELTA, {"message_id": "1.1", "text": "word"}, now, 1)] * events
    run = await store.commit(replace(cancel, events=(*said, *cancel.events)))
    for number in range(FILES):
        path = folder / run.id / ("home", "raw", "workspace/deep/er")[number % 3] / f"file-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 5000)
    return run.id


async def filled(daemon: Daemon, count: int) -> list[str]:
    async with daemon.store() as store:
        return await asyncio.gather(*(an_ended_run(store, daemon.data_dir / "runs") for _ in range(count)))


def rows(daemon: Daemon) -> dict[str, dict[str, int]]:
    """How many rows each table has of each run."""
    with closing(sqlite3.connect(daemon.data_dir / "turnkeeper.db", timeout=PATIENCE)) as connection:
        return {
            table: dict(
                connection.execute(f"SELECT {column}, count(*) FROM {table} GROUP BY {column}").fetchall()
            )
            for table, column in TABLES.items()
        }


def folders(daemon: Daemon) -> set[str]:
    return {path.name for path in (daemon.data_dir / "runs").iterdir()}


async def prune(daemon: Daemon) -> httpx.Response:
    return await daemon.client.http.post("/v1/prune", json={"older_than_sec": 24 * 3600})


def assert_whole_or_noted(daemon: Daemon, alive: str) -> None:
    """Of a run that is not in the record any more nothing is told, and a note says that some of it is left."""
    torn = rows(daemon)
    known, noted = set(torn["runs"]), set(torn["removals"])
    assert not known & noted
    assert folders(daemon) <= known | noted, "a folder that nobody would ever delete"
    assert set(torn["events"]) <= known | noted
    assert set(torn["interactions"]) | set(torn["attempts"]) <= known
    for run_id in known - {alive}:
        assert torn["events"][run_id] == EVENTS + LIFE
        assert len(list((daemon.data_dir / "runs" / run_id).rglob("file-*"))) == FILES


@pytest.mark.failure("V01")
async def test_a_kill_at_any_moment_leaves_whole_runs_or_none(daemon: Daemon) -> None:
    await filled(daemon, RUNS)
    daemon.start()
    alive = await daemon.client.create(script=ASKS, execution_mode="interactive")
    await daemon.client.settled(alive)
    kills = 0
    while len(folders(daemon)) > RUNS // 4:
        there, at = len(folders(daemon)), 1 + 13 * (kills % 4)
        removal = asyncio.create_task(prune(daemon))
        await eventually(lambda there=there, at=at: there - len(folders(daemon)) >= at)  # type: ignore[misc]
        await daemon.kill()
        kills += 1
        with suppress(httpx.HTTPError):
            await removal
        assert_whole_or_noted(daemon, alive)
        daemon.start()
        await eventually(lambda: not rows(daemon)["removals"])
        left = rows(daemon)
        assert folders(daemon) == set(left["runs"]) == set(left["events"])
    assert kills
    answer = await prune(daemon)
    assert answer.status_code == 200, answer.text
    assert folders(daemon) == set(rows(daemon)["runs"]) == {alive}
    await daemon.client.reply(alive, "blue")
    assert (await daemon.client.ended(alive))["status"] == "succeeded"


async def test_everybody_else_is_served_meanwhile(daemon: Daemon) -> None:
    """Also while a log goes that takes many writes."""
    await filled(daemon, RUNS)
    async with daemon.store() as store:
        await an_ended_run(store, daemon.data_dir / "runs", events=60_000)
    daemon.start()
    removal = asyncio.create_task(prune(daemon))
    played = 0
    while not removal.done():
        run_id = await daemon.client.create(script="done")
        assert (await daemon.client.get(run_id))["run_id"] == run_id
        played += not removal.done()
    answer = await removal
    assert answer.json()["count"] == RUNS + 1
    assert played >= 2
    for run in await daemon.client.runs():
        assert (await daemon.client.ended(run["run_id"]))["status"] == "succeeded"
    assert set(rows(daemon)["events"]) == set(rows(daemon)["runs"]) == folders(daemon)


@pytest.mark.failure("V03")
async def test_it_makes_room_where_there_is_none(tmp_path: Path) -> None:
    """Forgetting a run is a write too, and there is no room for one: its files have to go first."""
    with small_disk(tmp_path / "disk", "size=16m") as disk:
        async with started(disk.root / "data", at_once=False, TURNKEEPER_MIN_FREE_MB="0") as daemon:
            await filled(daemon, 40)
            daemon.start()
            waits = await daemon.client.create(script=ASKS, execution_mode="interactive")
            await daemon.client.settled(waits)
            disk.fill()
            assert (await daemon.client.post_job(script="done")).status_code == 503
            answer = await prune(daemon)
            assert (answer.status_code, answer.json().get("count")) == (200, 40), answer.text
            assert folders(daemon) == set(rows(daemon)["runs"]) == {waits}
            await daemon.client.reply(waits, "blue")
            assert (await daemon.client.ended(waits))["status"] == "succeeded"
