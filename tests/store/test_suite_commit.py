"""`commit`: all of a change or nothing, guarded by version and lease, one key for one request."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.store.sample import (
    LEASE,
    bare,
    creation,
    delta,
    job,
    later,
    log_of,
    memory_of,
    output,
    place,
    queued,
    reply,
    running,
    turn_end,
    waiting,
)
from turnkeeper.core import gate, lifecycle
from turnkeeper.core.change import Change, TurnReport
from turnkeeper.core.fcmp import Event, Type
from turnkeeper.core.run import Handle, Idempotency, Run
from turnkeeper.core.statechart import State
from turnkeeper.store.base import KEY_KEPT, KeptKey, KeyTaken, Stale, Store


async def commit_all(store: Store, *changes: Change) -> tuple[list[Run], list[BaseException]]:
    outcomes = await asyncio.gather(*(store.commit(change) for change in changes), return_exceptions=True)
    won = [outcome for outcome in outcomes if isinstance(outcome, Run)]
    lost = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    return won, lost


# guards


async def test_a_change_from_an_old_version_is_refused_whole(store: Store) -> None:
    run = await running(store)
    late = await turn_end(store, run, gate.Wait(), delta("too late"))
    cancel = lifecycle.cancel(run, later(1.5), by="ann")
    assert cancel is not None
    await store.commit(cancel)

    before = await memory_of(store, run.id)
    with pytest.raises(Stale):
        await store.commit(late)  # an interaction, the end of the attempt and five events are in it
    assert await memory_of(store, run.id) == before


@pytest.mark.failure("V07")
@pytest.mark.parametrize("held", ["somebody else", None])
async def test_a_change_under_another_lease_is_refused_whole(store: Store, held: str | None) -> None:
    run = await running(store)
    end = await turn_end(store, run, gate.Wait(), delta("not mine"))
    before = await memory_of(store, run.id)
    with pytest.raises(Stale):
        await store.commit(replace(end, before=replace(run, lease=held)))
    assert await memory_of(store, run.id) == before


async def test_a_lease_that_nobody_holds_is_not_taken_for_held(store: Store) -> None:
    run = await queued(store)
    start = lifecycle.start_turn(replace(run, lease=LEASE), LEASE, later(1))
    with pytest.raises(Stale):
        await store.commit(start)


async def test_a_change_of_an_unknown_run_is_refused(store: Store) -> None:
    with pytest.raises(Stale):
        await store.commit(lifecycle.start_turn(bare(), LEASE, later(1)))


async def test_an_id_is_given_once(store: Store) -> None:
    run = await running(store)
    before = await memory_of(store, run.id)
    with pytest.raises(Stale):
        await store.commit(lifecycle.create(run.id, job(skill_id="other"), later(9)))
    assert await memory_of(store, run.id) == before


async def test_of_two_replies_one_is_written(store: Store) -> None:
    run = await waiting(store)
    changes = {text: await reply(store, run, text) for text in ("blue", "green")}
    known = len(await log_of(store, run.id))

    won, lost = await commit_all(store, *changes.values())

    assert [type(refusal) for refusal in lost] == [Stale]
    assert won == [await store.run(run.id)]
    answered = await store.answered_before(run.id, 2)
    assert answered is not None
    assert answered.answer is not None
    winner = changes[answered.answer.response]
    assert len(await log_of(store, run.id)) == known + len(winner.events)


async def test_of_twenty_starts_one_is_written(store: Store) -> None:
    run = await queued(store)
    won, lost = await commit_all(
        store, *(lifecycle.start_turn(run, f"lease-{n}", later(n)) for n in range(20))
    )
    assert len(won) == 1
    assert [type(refusal) for refusal in lost] == [Stale] * 19
    assert await store.run(run.id) == won[0]
    (attempt,) = await store.attempts(run.id)
    assert attempt.started_at == won[0].started_at
    assert [entry.type for entry in await log_of(store, run.id)] == [
        Type.CONVERSATION_STARTED,
        Type.STATE_CHANGED,
    ]


async def test_fifty_commits_share_transactions(store: Store) -> None:
    runs = await asyncio.gather(*(queued(store) for _ in range(50)))
    known = replace(store.stats)
    won, lost = await commit_all(store, *(lifecycle.start_turn(run, LEASE, later(1)) for run in runs))
    assert not lost
    assert [run.id for run in won] == [run.id for run in runs]
    assert await store.counts() == dict.fromkeys(State, 0) | {State.RUNNING: 50}
    assert store.stats.changes - known.changes == 50
    assert store.stats.transactions - known.transactions < 50


async def test_commit_returns_what_is_stored(store: Store) -> None:
    run = await running(store)
    cancel = lifecycle.cancel(run, later(1.5), by="ann")
    assert cancel is not None
    await store.append(output(run, "a", "b", handle=Handle("session-2", loadable=True)))
    written = await store.commit(cancel)
    assert written.handle == Handle("session-2", loadable=True)
    assert written == await store.run(run.id)


async def test_a_change_does_not_take_back_a_handle_that_came_with_output(store: Store) -> None:
    """Some engines name a new session in each turn: the change was decided when the old name was known."""
    old, new = Handle("session-1", loadable=True), Handle("session-2", loadable=False)
    run = await place(store, bare(State.RUNNING, lease=LEASE, handle=old))
    cancel = lifecycle.cancel(run, later(1.5), by="ann")
    assert cancel is not None
    await store.append(output(run, handle=new))
    assert (await store.commit(cancel)).handle == new
    kept = await store.run(run.id)
    assert kept is not None
    assert kept.handle == new


async def test_a_change_can_bring_a_handle(store: Store) -> None:
    run = await place(store, bare(State.RUNNING, lease=LEASE, handle=Handle("session-1", loadable=True)))
    new = Handle("session-2", loadable=True)
    stop = lifecycle.interrupt_turn(run, later(1), process_started=True, report=TurnReport(handle=new))
    assert (await store.commit(stop)).handle == new
    assert (await store.queued())[0].handle == new


# what goes with a change


async def test_interactions_and_attempts_are_listed_in_order(store: Store) -> None:
    run = await waiting(store)
    assert await store.answered_before(run.id, 2) is None
    for number, text in enumerate(("blue", "green"), start=2):
        run = await store.commit(await reply(store, run, text, later(10 * number)))
        run = await store.commit(lifecycle.start_turn(run, LEASE, later(10 * number + 1)))
        run = await store.commit(await turn_end(store, run, gate.Wait()))

    asked = await store.interactions(run.id)
    assert [(q.interaction_id, q.attempt_number, q.answer and q.answer.response) for q in asked] == [
        (1, 1, "blue"),
        (2, 2, "green"),
        (3, 3, None),
    ]
    assert [await store.answered_before(run.id, number) for number in (1, 2, 3)] == [None, *asked[:2]]
    assert await store.interaction(run.id, 3) == asked[2]
    assert await store.interaction(run.id, 4) is None
    for which, question in ((None, asked[2]), (1, asked[0]), (4, None)):
        assert await store.asked(run.id, which) == (await store.run(run.id), question)
    tries = await store.attempts(run.id)
    assert [(a.attempt_number, a.try_number, a.next_turn) for a in tries] == [
        (1, 1, "start"),
        (2, 1, "reply"),
        (3, 1, "reply"),
    ]
    assert all(a.ended_at and a.evidence and a.verdict for a in tries)


async def test_each_try_of_a_turn_is_kept(store: Store) -> None:
    run = await running(store)
    run = await store.commit(lifecycle.interrupt_turn(run, later(2), process_started=False))
    await store.commit(lifecycle.start_turn(run, LEASE, later(3)))
    tries = await store.attempts(run.id)
    assert [(a.attempt_number, a.try_number, a.next_turn) for a in tries] == [
        (1, 1, "start"),
        (1, 2, "restart"),
    ]


# idempotency keys


async def test_a_key_is_taken_once(store: Store) -> None:
    first = creation(idempotency=Idempotency("key", "digest-1"))
    await store.commit(first)
    second = creation(idempotency=Idempotency("key", "digest-2"))
    with pytest.raises(KeyTaken):
        await store.commit(second)
    assert await store.run(second.after.id) is None
    assert await log_of(store, second.after.id) == []
    assert await store.kept_key("key", first.after.created_at) == KeptKey(first.after.id, "digest-1")
    assert await store.kept_key("other", first.after.created_at) is None


async def test_of_twenty_requests_with_one_key_one_is_written(store: Store) -> None:
    won, lost = await commit_all(
        store, *(creation(idempotency=Idempotency("key", f"digest-{n}")) for n in range(20))
    )
    assert len(won) == 1
    assert [type(refusal) for refusal in lost] == [KeyTaken] * 19
    assert sum((await store.counts()).values()) == 1
    kept = await store.kept_key("key", won[0].created_at)
    assert kept is not None
    assert kept.run_id == won[0].id


async def test_a_key_is_free_again_after_a_day(store: Store) -> None:
    first = creation(idempotency=Idempotency("key", "digest-1"))
    await store.commit(first)
    born = first.after.created_at

    def again(age: timedelta) -> Change:
        return lifecycle.create(
            f"run-after-{age}", job(), born + age, idempotency=Idempotency("key", "digest-2")
        )

    last_moment, too_old = again(KEY_KEPT), again(KEY_KEPT + timedelta(microseconds=1))
    assert await store.kept_key("key", last_moment.after.created_at - KEY_KEPT) is not None
    with pytest.raises(KeyTaken):
        await store.commit(last_moment)
    assert await store.kept_key("key", too_old.after.created_at - KEY_KEPT) is None
    await store.commit(too_old)
    assert await store.kept_key("key", born) == KeptKey(too_old.after.id, "digest-2")


async def test_a_refused_run_leaves_its_key_free(store: Store) -> None:
    run = await queued(store)
    with pytest.raises(Stale):
        await store.commit(lifecycle.create(run.id, job(), later(9), idempotency=Idempotency("key", "d")))
    assert await store.kept_key("key", run.created_at) is None


# what cannot be stored


@pytest.mark.failure("V01")
async def test_a_change_that_cannot_be_encoded_hurts_nobody_else(store: Store) -> None:
    """Half of an emoji is text to Python and to no database."""
    spoiled = [creation(), lifecycle.create("run-\ud83d", job(), later(1)), creation()]
    torn = Event(Type.MESSAGE_DELTA, {"text": "\ud83d"}, later(1), 1)
    spoiled.append(replace(creation(), events=(torn,)))
    async with asyncio.timeout(10):
        won, lost = await commit_all(store, *spoiled)
        assert [run.id for run in won] == [spoiled[0].after.id, spoiled[2].after.id]
        assert [type(fault) for fault in lost] == [UnicodeEncodeError] * 2
        assert await store.run(spoiled[3].after.id) is None
        await queued(store)
    assert (await store.counts())[State.QUEUED] == 3
