"""Removal: all of a run in one write or nothing of it, never one that lives, and a note until the folder is gone."""

import asyncio
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.store.conftest import Opener
from tests.store.sample import (
    LEASE,
    Memory,
    bare,
    delta,
    job,
    later,
    memory_of,
    output,
    place,
    question_of,
    queued,
    reply,
    running,
    turn_end,
    waiting,
)
from turnkeeper.core import gate, lifecycle
from turnkeeper.core.run import Ending, EndingWhy, Idempotency, Run
from turnkeeper.core.statechart import TERMINAL, State
from turnkeeper.store.base import KEY_KEPT, Notice, Resting, Stale, Store

NOTHING = Memory(None, [], [], [])
ALL = (*sorted(TERMINAL), State.WAITING_USER)
FAR = later(1_000_000)


def resting(run: Run, since: datetime | None = None) -> Resting:
    return Resting(
        run_id=run.id,
        state=run.state,
        version=run.version,
        skill_id=run.job.skill_id,
        last_seq=run.last_seq,
        since=since or run.updated_at,
    )


async def ended(store: Store) -> Run:
    run = await running(store)
    return await store.commit(await turn_end(store, run, gate.Succeed("OUTPUT_VALID")))


async def ended_at(store: Store, seconds: float, state: State = State.SUCCEEDED) -> Run:
    at = later(seconds)
    return await place(store, bare(state, updated_at=at, finished_at=at))


async def test_nothing_is_left_but_a_note(store: Store) -> None:
    run = await store.commit(await reply(store, await waiting(store), "blue"))
    run = await store.commit(lifecycle.start_turn(run, LEASE, later(4)))
    run = await store.commit(await turn_end(store, run, gate.Succeed("OUTPUT_VALID")))
    other = await memory_of(store, (await ended(store)).id)
    await store.remove(resting(run))
    assert await memory_of(store, run.id) == NOTHING
    assert await store.removals() == [run.id]
    assert other.run is not None
    assert await memory_of(store, other.run.id) == other
    await store.finish_removal(run.id)
    assert await store.removals() == []


async def test_its_idempotency_key_is_free_again(store: Store) -> None:
    key = Idempotency("order-1", "digest")
    created = await store.commit(lifecycle.create("run-keyed", job(), later(0), idempotency=key))
    cancel = lifecycle.cancel(created, later(1), by="ann")
    assert cancel is not None
    run = await store.commit(cancel)
    assert await store.kept_key("order-1", later(0) - KEY_KEPT) is not None
    await store.remove(resting(run))
    assert await store.kept_key("order-1", later(0) - KEY_KEPT) is None


async def test_listeners_hear_that_it_is_gone(store: Store) -> None:
    heard: list[Notice] = []
    run = await ended(store)
    store.listen(heard.append)
    await store.remove(resting(run))
    assert heard == [Notice(run.id, (), is_gone=True, was=run.state)]
    assert store.stats.removals == 1


async def test_a_run_that_waits_without_a_process_can_go(store: Store) -> None:
    run = await waiting(store)
    await store.remove(resting(run))
    assert await memory_of(store, run.id) == NOTHING


ENDING = Ending(EndingWhy.CANCEL, "ann", later(1))
LIVE = {
    "queued": bare(State.QUEUED),
    "running": bare(State.RUNNING, lease=LEASE),
    "waiting with its process": bare(State.WAITING_USER, lease=LEASE),
    "told to end": bare(State.WAITING_USER, ending=ENDING),
    "queued and told to end": bare(State.QUEUED, ending=ENDING),
}


@pytest.mark.parametrize("live", LIVE.values(), ids=LIVE.keys())
async def test_what_lives_stays_whatever_the_caller_believes(store: Store, live: Run) -> None:
    run = await place(store, live)
    with pytest.raises(Stale):
        await store.remove(replace(resting(run), state=State.SUCCEEDED))
    assert await store.run(run.id) == run
    assert await store.removals() == []
    assert await store.resting(ALL, until=FAR, after=None, limit=10) == []


async def test_a_run_that_has_moved_since_stays(store: Store) -> None:
    run = await waiting(store)
    answered = await store.commit(await reply(store, run, "blue"))
    before = await memory_of(store, run.id)
    with pytest.raises(Stale):
        await store.remove(resting(run))
    with pytest.raises(Stale):
        await store.remove(resting(answered))
    assert await memory_of(store, run.id) == before


async def test_a_reply_and_a_removal_at_the_same_moment(store: Store) -> None:
    for _ in range(20):
        run = await waiting(store)
        change = await reply(store, run, "blue")
        outcomes = await asyncio.gather(
            store.remove(resting(run)), store.commit(change), return_exceptions=True
        )
        assert sum(isinstance(outcome, Stale) for outcome in outcomes) == 1
        found = await store.run(run.id)
        assert (found is None) == (outcomes[0] is None)


async def test_twice_is_once(store: Store) -> None:
    run = await ended(store)
    await store.remove(resting(run))
    with pytest.raises(Stale):
        await store.remove(resting(run))


async def test_a_long_log_goes_in_pieces_and_cannot_be_read_meanwhile(store: Store) -> None:
    run = await running(store)
    await store.append(output(run, events=[delta("word")] * 12_000))
    run = await store.commit(await turn_end(store, run, gate.Succeed("OUTPUT_VALID")))
    await store.remove(resting(run))
    assert await memory_of(store, run.id) == NOTHING
    assert await store.events(run.id, after=11_000, upto=None, limit=10) == []
    writes = store.stats.transactions
    await store.finish_removal(run.id)
    assert store.stats.transactions - writes >= 2
    assert await store.removals() == []


async def test_the_note_survives_a_restart(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    run = await ended(store)
    await store.remove(resting(run))
    await store.close()
    again = await open_store(tmp_path)
    try:
        assert await again.removals() == [run.id]
        assert await again.run(run.id) is None
    finally:
        await again.close()


# who is at rest


async def test_the_oldest_come_first_whatever_their_state(store: Store) -> None:
    third = await ended_at(store, 30, State.FAILED)
    first = await ended_at(store, 10, State.CANCELED)
    second = await ended_at(store, 20)
    await queued(store)
    await running(store)
    found = await store.resting(ALL, until=FAR, after=None, limit=10)
    assert found == [resting(first), resting(second), resting(third)]


async def test_only_these_states_and_only_so_long(store: Store) -> None:
    failed = await ended_at(store, 10, State.FAILED)
    await ended_at(store, 10)
    await ended_at(store, 10.000001, State.FAILED)
    assert await store.resting([State.FAILED], until=later(10), after=None, limit=10) == [resting(failed)]


async def test_page_by_page_each_once(store: Store) -> None:
    placed = [await ended_at(store, number // 3, ALL[number % 3]) for number in range(20)]
    pages, last = [], None
    while page := await store.resting(ALL, until=FAR, after=last, limit=3):
        pages += page
        last = page[-1]
    expected = sorted(map(resting, placed), key=lambda each: (each.since, each.run_id))
    assert pages == expected


async def test_a_wait_is_as_old_as_its_question(store: Store) -> None:
    """The row may be younger: the process was lost meanwhile, and the session can be loaded."""
    run = bare(State.WAITING_USER, pending_interaction_id=1, questions=1, updated_at=later(500))
    run = await place(store, run, question_of(run, asked_at=later(7)))
    found = await store.resting([State.WAITING_USER], until=later(7), after=None, limit=10)
    assert found == [resting(run, since=later(7))]
    assert await store.resting([State.WAITING_USER], until=later(6), after=None, limit=10) == []
