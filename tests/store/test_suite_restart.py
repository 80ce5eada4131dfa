"""Waiting runs after a restart: which of them can go on, and how all of those are kept in one write."""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from tests.store.sample import (
    HANDLE,
    LEASE,
    NOW,
    bare,
    job,
    later,
    memory_of,
    place,
    question_of,
    queued,
    reply,
    running,
    waiting,
)
from turnkeeper.core import lifecycle
from turnkeeper.core.errors import Code
from turnkeeper.core.run import (
    Answer,
    Ending,
    EndingWhy,
    Failure,
    Handle,
    Interaction,
    Recovery,
    Resolution,
    Run,
)
from turnkeeper.core.statechart import State, Trigger
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.store.base import Notice, RunFilter, Stale, Store

ENGINES = ["demo", "other"]
ANSWER = Answer("blue", Resolution.USER_REPLY, NOW, "ann")


@dataclass(frozen=True)
class Case:
    """A waiting run that can go on, but for what the case changes."""

    name: str
    run: dict[str, Any]
    question: dict[str, Any] | None

    def make(self) -> tuple[Run, Interaction | None]:
        whole: dict[str, Any] = {"handle": HANDLE, "pending_interaction_id": 1, "questions": 1}
        run = bare(**{"state": State.WAITING_USER} | whole | self.run)
        return run, None if self.question is None else question_of(run, **self.question)


GOOD = [
    Case("resumable", {}, {}),
    Case("another engine", {"job": job(engine="other")}, {}),
    Case("sticky, its owner gone", {"job": job(ProfileKind.STICKY), "lease": LEASE}, {}),
    Case("second question", {"pending_interaction_id": 2}, {"interaction_id": 2}),
]
BROKEN = [
    Case("no pending row", {}, None),
    Case("no pending id", {"pending_interaction_id": None}, {}),
    Case("another row", {"pending_interaction_id": 2}, {}),
    Case("answered row", {}, {"answer": ANSWER}),
    Case("no handle", {"handle": None}, {}),
    Case("not loadable", {"handle": Handle("session-1", loadable=False)}, {}),
    Case("unknown engine", {"job": job(engine="gone")}, {}),
    Case("sticky, no handle", {"job": job(ProfileKind.STICKY), "lease": LEASE, "handle": None}, {}),
]


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
async def test_a_whole_run_is_preserved(store: Store, case: Case) -> None:
    run = await place(store, *case.make())
    before = await memory_of(store, run.id)
    assert await store.broken_waiting(ENGINES) == []
    assert await store.preserve_waiting(later(9)) == 1
    recovery = Recovery(Trigger.PRESERVE_WAITING, later(9))
    # Whoever had a lease is guarded against its owner; of the others nothing is written.
    version = run.version if run.lease is None else run.version + 1
    preserved = replace(run, lease=None, version=version, recovery=recovery)
    assert await memory_of(store, run.id) == replace(before, run=preserved)


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
async def test_a_broken_run_is_found_and_not_preserved(store: Store, case: Case) -> None:
    run = await place(store, *case.make())
    assert await store.broken_waiting(ENGINES) == [run]

    failure = Failure(Code.RECONCILE_FAILED, "the run cannot go on")
    failed = await store.commit(lifecycle.reconcile_failed(run, failure, later(8)))
    assert await store.broken_waiting(ENGINES) == []
    assert await store.preserve_waiting(later(9)) == 0
    assert await store.run(run.id) == failed


async def test_without_engines_every_waiting_run_is_broken(store: Store) -> None:
    run = await waiting(store)
    assert await store.broken_waiting([]) == [run]


async def test_every_way_to_a_run_tells_of_the_restart(store: Store) -> None:
    """Its row does not: the moment of the start is read for all of them."""
    run = await waiting(store)
    for at in (later(9), later(10)):
        await store.preserve_waiting(at)
        told = replace(run, recovery=Recovery(Trigger.PRESERVE_WAITING, at))
        assert await store.run(run.id) == told
        assert await store.runs(RunFilter(), 10) == [told]
        assert await store.runs(RunFilter(states=(State.WAITING_USER, State.QUEUED)), 10) == [told]


async def test_what_began_to_wait_after_the_start_was_not_preserved(store: Store) -> None:
    await store.preserve_waiting(NOW - timedelta(days=1))
    run = await waiting(store)
    found = await store.run(run.id)
    assert found is not None
    assert found.recovery is None


async def test_a_clock_that_was_ahead_hides_no_restart(store: Store) -> None:
    run = await waiting(store)
    assert await store.preserve_waiting(before := NOW - timedelta(days=1)) == 1
    found = await store.run(run.id)
    assert found is not None
    assert found.recovery == Recovery(Trigger.PRESERVE_WAITING, before)


async def test_a_preserved_run_keeps_that_in_its_row_when_it_goes_on(store: Store) -> None:
    run = await waiting(store)
    await store.preserve_waiting(later(9))
    preserved = await store.run(run.id)
    assert preserved is not None
    written = await store.commit(await reply(store, preserved, "blue"))
    await store.preserve_waiting(later(10))
    assert await store.run(run.id) == written
    assert written.recovery == Recovery(Trigger.PRESERVE_WAITING, later(9))


async def test_only_waiting_runs_are_looked_at(store: Store) -> None:
    others = [
        await queued(store),
        await running(store),
        await place(store, bare(State.SUCCEEDED)),
        await place(store, bare(State.WAITING_USER, ending=Ending(EndingWhy.CANCEL, "ann", NOW))),
    ]
    run = await waiting(store)
    others.append(await store.commit(await reply(store, run, "blue")))
    assert await store.broken_waiting(ENGINES) == []
    assert await store.preserve_waiting(later(9)) == 0
    assert [await store.run(other.id) for other in others] == others


async def test_many_runs_are_preserved_in_one_write(store: Store) -> None:
    await asyncio.gather(*(place(store, *case.make()) for case in GOOD * 20))
    heard: list[Notice] = []
    store.listen(heard.append)
    known = store.stats.transactions
    assert await store.preserve_waiting(later(9)) == 20 * len(GOOD)
    assert store.stats.transactions == known + 1
    assert heard == []  # no state has changed, so there is nothing to tell


async def test_the_broken_ones_are_found_among_the_others(store: Store) -> None:
    cases = [*GOOD, *BROKEN] * 20
    runs = await asyncio.gather(*(place(store, *case.make()) for case in cases))
    broken = {run.id for run in await store.broken_waiting(set(ENGINES))}
    assert broken == {run.id for run, case in zip(runs, cases, strict=True) if case in BROKEN}


async def test_a_reply_that_was_not_played_yet_is_free_for_another_owner(store: Store) -> None:
    run = await waiting(store, job(ProfileKind.STICKY))
    replied = await store.commit(await reply(store, run, "blue"))
    before = await memory_of(store, run.id)
    assert replied.lease == LEASE

    assert await store.preserve_waiting(later(9)) == 0
    freed = replace(replied, lease=None, version=replied.version + 1)
    assert await memory_of(store, run.id) == replace(before, run=freed)
    with pytest.raises(Stale):
        await store.commit(lifecycle.start_turn(replied, LEASE, later(10)))
    await store.commit(lifecycle.start_turn(freed, "lease-2", later(10)))


async def test_a_run_that_is_to_end_keeps_its_lease(store: Store) -> None:
    """It is among the owned, and whoever finishes it is guarded by what it has read."""
    told = []
    for state in (State.QUEUED, State.WAITING_USER):
        ending = {"state": state, "lease": LEASE, "ending": Ending(EndingWhy.CANCEL, "ann", NOW)}
        told.append(await place(store, *Case("whole, but to end", ending, {}).make()))
    assert await store.broken_waiting(ENGINES) == []
    assert await store.preserve_waiting(later(9)) == 0
    assert [await store.run(run.id) for run in told] == told


async def test_a_preserved_run_takes_its_reply(store: Store) -> None:
    run = await waiting(store, job(ProfileKind.STICKY))
    assert run.lease == LEASE
    late = await reply(store, run, "decided before the restart")
    await store.preserve_waiting(later(9))
    with pytest.raises(Stale):
        await store.commit(late)
    preserved = await store.run(run.id)
    assert preserved is not None
    written = await store.commit(await reply(store, preserved, "blue"))
    assert written.state is State.QUEUED
    assert await store.queued() == [written]
