"""Removal by itself: by rules of the settings, after a crash, beside what moves meanwhile, and up to a stop."""

from __future__ import annotations

import asyncio
import copy
import logging
import sqlite3
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tests.harness import PATIENCE, Place, opened
from tests.web.patience import eventually
from turnkeeper.core.errors import RunNotFound, ShuttingDown, StorageUnavailable
from turnkeeper.core.retention import Limits
from turnkeeper.core.run import Interaction, Run
from turnkeeper.core.statechart import State
from turnkeeper.runtime.retention import Retention
from turnkeeper.store.base import Resting, Store

DAY = 24 * 3600
NOW = Limits(older_than=timedelta(0))
WAITING = Limits(older_than=timedelta(0), states=(State.WAITING_USER,))


async def ended(place: Place) -> str:
    run_id = await place.client.create(script="done")
    await place.client.ended(run_id)
    return run_id


async def left(place: Place) -> list[str]:
    return [run["run_id"] for run in await place.client.runs()]


def folders(place: Place) -> set[str]:
    return {path.name for path in (place.settings.data_dir / "runs").iterdir()}


def rounds(place: Place) -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "retention"]


async def resting(place: Place, run_id: str) -> Resting:
    now = place.clock()
    found = await place.house.store.resting(list(NOW.states), until=now, after=None, limit=100)
    return next(each for each in found if each.run_id == run_id)


async def test_nothing_is_removed_and_nothing_ticks_unless_it_is_set(place: Place) -> None:
    run_id = await ended(place)
    place.clock.advance(1000 * DAY)
    await place.house.retention.apply_rules(place.clock())
    assert await left(place) == [run_id]
    assert rounds(place) == []


async def test_rules_are_applied_at_the_start_and_later(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as place:
        first = await ended(place)
    rules = {"runs_days": 1, "homes_days": 0.5, "logs_days": 0.5}
    async with opened(tmp_path / "data", retention=rules) as place:
        assert rounds(place) == ["retention"]
        second = await ended(place)
        waits = await place.client.create(script="ask", execution_mode="interactive")
        await place.client.settled(waits)
        place.clock.advance(0.6 * DAY)
        await place.house.retention.apply_rules(place.clock())
        assert set(await left(place)) == {first, second, waits}
        for run_id in (first, second):
            inside = {each.name for each in (place.settings.data_dir / "runs" / run_id).iterdir()}
            assert inside == {"workspace"}
        place.clock.advance(DAY)
        await place.house.retention.apply_rules(place.clock())
        assert await left(place) == [waits]
        assert folders(place) == {waits}


async def test_a_rule_about_size(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as place:
        for _ in range(2):
            await ended(place)
    async with opened(tmp_path / "data", retention={"max_gb": 0.000001}) as place:
        await place.house.retention.apply_rules(place.clock())
        assert await left(place) == []


async def test_a_clock_that_has_jumped_is_not_believed_at_once(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Set wrongly for a moment, it would make everything old."""
    caplog.set_level(logging.INFO, "turnkeeper.runtime.retention")
    await ended(place)
    rules = [Limits(older_than=timedelta(days=30))]
    retention = Retention(
        place.house.store, place.settings.data_dir / "runs", rules, place.clock, every_sec=0.01
    )
    await retention.start()
    await asyncio.sleep(0)  # its first round has begun, in a year when nothing was old
    place.clock.advance(365 * DAY)
    await eventually(lambda: not folders(place))
    await retention.stop()
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the clock has jumped ahead",
        "removed runs of 1 runs",
    ]


async def test_a_start_ends_what_a_crash_left(tmp_path: Path) -> None:
    """The record is gone and the folder is not: as after a kill between the two."""
    async with opened(tmp_path / "data") as place:
        gone, kept = await ended(place), await ended(place)
        await place.house.store.remove(await resting(place, gone))
        assert folders(place) == {gone, kept}
    async with opened(tmp_path / "data") as place:
        deadline = time.monotonic() + PATIENCE
        while await place.house.store.removals():
            assert time.monotonic() < deadline, "nobody ends it"
            await asyncio.sleep(0.005)
        assert folders(place) == {kept}
        assert await left(place) == [kept]


async def test_the_next_removal_ends_it_too(place: Place) -> None:
    gone = await ended(place)
    await place.house.store.remove(await resting(place, gone))
    await place.house.retention.remove(Limits(keep_bytes=10**12), dry_run=True)
    assert folders(place) == {gone}, "a dry run changes nothing"
    await place.house.retention.remove(Limits(keep_bytes=10**12))
    assert folders(place) == set()
    assert await place.house.store.removals() == []


class Busy:
    """A store in which somebody answers between the look and the removal."""

    def __init__(self, place: Place, run_id: str) -> None:
        self._place, self._run_id = place, run_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place.house.store, name)

    async def resting(self, *given: Any, **named: Any) -> list[Resting]:
        found = await self._place.house.store.resting(*given, **named)
        if found:
            await self._place.client.reply(self._run_id, "blue")
        return found


async def test_a_run_that_moves_meanwhile_is_left_alone(place: Place) -> None:
    runs = []
    for _ in range(2):
        runs.append(await place.client.create(script="ask", execution_mode="interactive"))
        await place.client.settled(runs[-1])
    store = cast(Store, Busy(place, runs[0]))
    runs_dir = place.settings.data_dir / "runs"
    removed = await Retention(store, runs_dir, (), place.clock).remove(WAITING)
    assert [each.run.run_id for each in removed.first] == runs[1:]
    assert (await place.client.ended(runs[0]))["status"] == "succeeded"
    assert folders(place) == {runs[0]}


async def test_a_reply_and_a_removal_race(place: Place) -> None:
    """One of the two wins, as a whole."""
    runs = [await place.client.create(script="ask", execution_mode="interactive") for _ in range(6)]
    for run_id in runs:
        await place.client.settled(run_id)
    replies = [place.client.post_reply(run_id, 1, "blue") for run_id in runs]
    removal = asyncio.create_task(place.house.retention.remove(WAITING))
    answers = await asyncio.gather(*replies)
    removed = await removal
    gone = {each.run.run_id for each in removed.first}
    for run_id, answer in zip(runs, answers, strict=True):
        assert answer.status_code == (404 if run_id in gone else 200)
        if run_id not in gone:
            assert (await place.client.ended(run_id))["status"] == "succeeded"
    assert folders(place) == set(runs) - gone


class Vanishing:
    """A store in which the run is removed between the look at it and the write."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place.house.store, name)

    async def asked(self, run_id: str, interaction_id: int) -> tuple[Run, Interaction | None] | None:
        found = await self._place.house.store.asked(run_id, interaction_id)
        await self._place.house.retention.remove(WAITING)
        return found


async def test_a_reply_to_a_run_that_is_removed_while_it_is_looked_at(place: Place) -> None:
    """It must not be told that the run asks something else."""
    run_id = await place.client.create(script="ask", execution_mode="interactive")
    await place.client.settled(run_id)
    jobs = copy.copy(place.house.jobs)
    jobs._store = cast(Store, Vanishing(place))
    with pytest.raises(RunNotFound):
        await jobs.reply(run_id, 1, "blue", by="somebody")


class Broken:
    """A store that cannot be written, and not for lack of room."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place.house.store, name)

    async def remove(self, run: Resting) -> None:
        raise StorageUnavailable("the database cannot be written: disk I/O error; nothing was changed")


async def test_a_run_that_cannot_be_forgotten_keeps_its_files(place: Place) -> None:
    run_id = await ended(place)
    runs_dir = place.settings.data_dir / "runs"
    before = sorted(runs_dir.rglob("*"))
    with pytest.raises(StorageUnavailable):
        await Retention(cast(Store, Broken(place)), runs_dir, (), place.clock).remove(NOW)
    assert sorted(runs_dir.rglob("*")) == before
    assert await left(place) == [run_id]


async def test_a_stop_comes_in_between(place: Place) -> None:
    run_id = await ended(place)
    place.house.retention.begin_stop()
    with pytest.raises(ShuttingDown):
        await place.house.retention.remove(NOW)
    assert await left(place) == [run_id]


async def test_a_folder_that_is_gone_already(place: Place) -> None:
    """By hand, or because the run never had one."""
    canceled = await place.client.create("filed", input={"title": "Bees"})
    await place.client.cancel(canceled)
    removed = await place.house.retention.remove(NOW)
    assert (removed.count, removed.space.total, removed.undeleted) == (1, 0, 0)
    assert await left(place) == []


async def test_a_folder_that_stays_costs_no_other_run(place: Place) -> None:
    """It belongs to a run that was removed, and somebody else's files in it could not be deleted."""
    run_id = await ended(place)
    runs = place.settings.data_dir / "runs"
    gone = "0" * 32
    (runs / gone).mkdir()
    (runs / gone / "theirs").write_bytes(b"x" * 2_000_000)
    with closing(sqlite3.connect(place.settings.data_dir / "turnkeeper.db", timeout=PATIENCE)) as database:
        database.execute("INSERT INTO removals VALUES (?)", (gone,))
        database.commit()
    within = Limits(keep_bytes=1_000_000)
    assert (await place.house.retention.remove(within, dry_run=True)).count == 0
    await place.house.retention.remove(within)
    assert await left(place) == [run_id]
    assert folders(place) == {run_id}
