"""The log of a run: numbered from 1 without a gap, never changed, closed by its terminal event."""

import asyncio
import json

import pytest

from tests.store.sample import delta, job, later, log_of, memory_of, output, reply, running, turn_end
from turnkeeper.core import gate, lifecycle
from turnkeeper.core.fcmp import PROTOCOL, TERMINAL, Type, envelope
from turnkeeper.core.run import Handle
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.store.base import LogEntry, Stale, Store


async def test_events_are_numbered_without_a_gap_and_never_change(store: Store) -> None:
    run = await running(store)
    early = await log_of(store, run.id)
    await store.append(output(run, "a", "b", "c"))
    run = await store.commit(await turn_end(store, run, gate.Wait(), delta("d")))
    run = await store.commit(await reply(store, run, "blue"))
    run = await store.commit(lifecycle.start_turn(run, "lease-2", later(4)))
    await store.append(output(run, "e"))
    await store.append(output(run, "f", "g"))
    run = await store.commit(await turn_end(store, run, gate.Succeed("OUTPUT_VALID")))

    log = await log_of(store, run.id)
    assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
    assert run.last_seq == len(log)
    assert log[: len(early)] == early
    assert [entry.seq for entry in log if entry.type in TERMINAL] == [len(log)]
    assert await log_of(store, run.id) == log


async def test_events_are_stored_as_envelopes(store: Store) -> None:
    run = await running(store)
    end = await turn_end(store, run, gate.Wait(), delta("ü\n\0"))
    await store.commit(end)
    last = (await log_of(store, run.id))[-len(end.events) :]
    for entry, event in zip(last, end.events, strict=True):
        body = json.loads(entry.body)
        assert body == envelope(event, run_id=run.id, seq=entry.seq, engine=run.job.engine)
        assert body["protocol_version"] == PROTOCOL
        assert body["type"] == entry.type == event.type
        assert body["ts"].endswith("Z")
        assert body["meta"] == {"attempt": 1}


@pytest.mark.parametrize("end", ["succeeded", "failed", "canceled"])
async def test_nothing_is_written_after_the_terminal_event(store: Store, end: str) -> None:
    run = await running(store, job(ProfileKind.STICKY))
    cancel = lifecycle.cancel(run, later(1.5), by="ann")
    failure = lifecycle.interrupt_turn(run, later(1.5), process_started=True)
    success = await turn_end(store, run, gate.Succeed("OUTPUT_VALID"), delta("done"))
    assert cancel is not None
    if end == "canceled":
        ending = await store.commit(cancel)
        await store.commit(lifecycle.finish_ending(ending, later(2)))
    else:
        await store.commit(success if end == "succeeded" else failure)

    before = await memory_of(store, run.id)
    assert before.run is not None
    assert before.run.state == end
    assert before.log[-1].type in TERMINAL
    for change in (cancel, failure, success):
        with pytest.raises(Stale):
            await store.commit(change)
    with pytest.raises(Stale):
        await store.append(output(run, "one more thing", handle=Handle("x", loadable=True)))
    assert await memory_of(store, run.id) == before


async def test_events_can_be_read_in_pages(store: Store) -> None:
    run = await running(store)
    await store.append(output(run, *"abcdefgh"))
    log = await log_of(store, run.id)

    async def page(after: int, upto: int | None, limit: int) -> list[LogEntry]:
        return await store.events(run.id, after=after, upto=upto, limit=limit)

    assert await page(0, None, 4) == log[:4]
    assert await page(4, None, 4) == log[4:8]
    assert await page(8, None, 4) == log[8:]
    assert await page(len(log), None, 4) == []
    assert await page(2, 5, 100) == log[2:5]
    assert await page(2, 5, 2) == log[2:4]
    assert await page(5, 5, 100) == []
    assert await page(0, 10**6, 100) == log


async def test_each_run_has_its_own_numbers(store: Store) -> None:
    runs = [await running(store) for _ in range(3)]
    await asyncio.gather(*(store.append(output(run, str(n))) for n in range(10) for run in runs))
    for run in runs:
        log = await log_of(store, run.id)
        assert [entry.seq for entry in log] == list(range(1, 13))
        said = [json.loads(entry.body)["data"]["text"] for entry in log if entry.type == Type.MESSAGE_DELTA]
        assert said == [str(n) for n in range(10)]
