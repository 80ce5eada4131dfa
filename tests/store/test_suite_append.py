"""`append`: output of an engine, only under the lease of a running turn."""

import json
from dataclasses import replace

import pytest

from tests.store.sample import (
    FULL_RUN,
    HANDLE,
    LEASE,
    bare,
    job,
    later,
    log_of,
    memory_of,
    output,
    place,
    queued,
    running,
    turn_end,
    waiting,
)
from turnkeeper.core import gate, lifecycle
from turnkeeper.core.fcmp import Type
from turnkeeper.core.run import Born, Handle, Run
from turnkeeper.core.statechart import State
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.store.base import Stale, Store


async def test_output_moves_the_log_and_nothing_else(store: Store) -> None:
    run = await running(store)
    await store.append(output(run, "a", "b"))
    assert await store.run(run.id) == replace(run, last_seq=run.last_seq + 2)
    assert [entry.type for entry in await log_of(store, run.id)][-2:] == [Type.MESSAGE_DELTA] * 2


async def test_much_output_is_stored_in_its_order(store: Store) -> None:
    """However many events there are in a batch, and whatever is written together."""
    run = await running(store)
    texts = [f"{number}" for number in range(600)]
    for count in (600, 513, 64, 7, 1):
        await store.append(output(run, *texts[:count]))
    stored = await store.events(run.id, after=run.last_seq, upto=None, limit=2000)
    assert [entry.seq for entry in stored] == list(range(run.last_seq + 1, run.last_seq + 1186))
    said = [json.loads(entry.body)["data"]["text"] for entry in stored]
    assert said == [text for count in (600, 513, 64, 7, 1) for text in texts[:count]]


async def test_a_change_decided_before_output_is_still_good(store: Store) -> None:
    run = await running(store)
    end = await turn_end(store, run, gate.Wait())
    await store.append(output(run, "a", "b"))
    written = await store.commit(end)
    assert written.last_seq == run.last_seq + 2 + len(end.events)
    assert [entry.seq for entry in await log_of(store, run.id)] == list(range(1, written.last_seq + 1))


async def test_output_saves_handle_and_process(store: Store) -> None:
    run = await running(store)
    await store.append(output(run, born=Born(4711, 2**60)))
    await store.append(output(run, "a", handle=HANDLE))
    await store.append(output(run, "b"))
    kept = await store.run(run.id)
    assert kept == replace(run, handle=HANDLE, last_seq=run.last_seq + 2)
    assert (await store.attempts(run.id))[0].born == Born(4711, 2**60)


async def test_the_end_of_a_turn_keeps_its_process(store: Store) -> None:
    run = await running(store)
    end = await turn_end(store, run, gate.Wait())
    await store.append(output(run, born=Born(4711, 99)))
    await store.commit(end)
    (attempt,) = await store.attempts(run.id)
    assert attempt == replace(end.attempt or attempt, born=Born(4711, 99))
    assert attempt.ended_at == later(2)


async def test_a_process_belongs_to_its_own_try(store: Store) -> None:
    run = await running(store)
    run = await store.commit(lifecycle.interrupt_turn(run, later(2), process_started=False))
    run = await store.commit(lifecycle.start_turn(run, LEASE, later(3)))
    await store.append(output(run, born=Born(4711, 99)))
    assert [attempt.born for attempt in await store.attempts(run.id)] == [None, Born(4711, 99)]


async def test_a_new_handle_replaces_the_old(store: Store) -> None:
    run = await running(store)
    for handle in (HANDLE, Handle("session-2", loadable=False)):
        await store.append(output(run, handle=handle))
        kept = await store.run(run.id)
        assert kept is not None
        assert kept.handle == handle


async def test_output_of_a_run_that_is_to_end_is_still_taken(store: Store) -> None:
    run = await running(store)
    cancel = lifecycle.cancel(run, later(2), by="ann")
    assert cancel is not None
    run = await store.commit(cancel)
    await store.append(output(run, "last words"))
    assert (await log_of(store, run.id))[-1].type == Type.MESSAGE_DELTA


async def sticky_waiting(store: Store) -> Run:
    run = await waiting(store, job(ProfileKind.STICKY))
    assert run.lease == LEASE
    return run


async def done(store: Store) -> Run:
    run = await running(store)
    return await store.commit(await turn_end(store, run, gate.Succeed("OUTPUT_VALID")))


async def ended_under_lease(store: Store) -> Run:
    return await place(store, replace(FULL_RUN, lease=LEASE))


@pytest.mark.failure("V07")
@pytest.mark.parametrize("case", [queued, waiting, sticky_waiting, done, ended_under_lease])
async def test_output_is_refused_unless_running(store: Store, case: object) -> None:
    assert callable(case)
    run = await case(store)
    before = await memory_of(store, run.id)
    with pytest.raises(Stale):
        await store.append(
            output(run, "too late", lease=LEASE, handle=Handle("x", loadable=True), born=Born(1, 1))
        )
    assert await memory_of(store, run.id) == before


@pytest.mark.failure("V07")
async def test_output_is_refused_under_another_lease(store: Store) -> None:
    run = await running(store)
    before = await memory_of(store, run.id)
    with pytest.raises(Stale):
        await store.append(output(run, "mine!", lease="lease-2", handle=HANDLE, born=Born(1, 1)))
    assert await memory_of(store, run.id) == before


async def test_output_is_refused_when_nobody_holds_the_run(store: Store) -> None:
    run = await place(store, bare(State.RUNNING, lease=None))
    with pytest.raises(Stale):
        await store.append(output(run, "mine!"))


async def test_output_of_an_unknown_run_is_refused(store: Store) -> None:
    with pytest.raises(Stale):
        await store.append(output(bare(State.RUNNING), "who?"))
