"""Batches of what an engine says: few writes, bounded memory, nothing lost and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.runtime.loops import BACKEND, settle, this_loop
from tests.runtime.memory import MemoryStore
from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.core.fcmp import Event, RawRef, Type
from turnkeeper.core.run import Born, Handle
from turnkeeper.engines.lines import Line
from turnkeeper.runtime.recorder import (
    BATCH_BYTES,
    BATCH_SEC,
    BEHIND,
    PENDING_MAX,
    RAW_EVENT,
    RAW_TOTAL,
    RETRY_SEC,
    Recorder,
)
from turnkeeper.store.base import Batch, Stale

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HANDLE = Handle("session-1", loadable=True)
BORN = Born(4711, 12345)
LAUNCH = {"argv": ["engine", "--go"]}
FULL = StorageUnavailable("the disk is full")


@pytest.fixture(scope="module")
def anyio_backend() -> Any:
    return BACKEND


class Tape:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.lost = 0
        batch = Batch(run_id="run", lease="lease", engine="demo", attempt_number=1, try_number=1)
        self.recorder = Recorder(self.store.port, batch, self._lose)

    def _lose(self) -> None:
        self.lost += 1

    @property
    def batches(self) -> list[list[str]]:
        """The texts of each batch that was written."""
        return [texts(batch.events) for batch in self.store.batches]

    async def batch(self) -> None:
        """Until the batch that is being gathered is written, if the store lets it."""
        await this_loop().skip(BATCH_SEC * 1.1)


@pytest.fixture
async def tape() -> AsyncIterator[Tape]:
    tape = Tape()
    yield tape
    if not tape.recorder.broken.done():
        await tape.recorder.close()
    assert this_loop().timers() == []


def texts(events: Iterable[Event]) -> list[str]:
    return [event.data["text"] for event in events]


def delta(text: str, message_id: str = "1.1", ref: RawRef | None = None) -> Event:
    return Event(Type.MESSAGE_DELTA, {"message_id": message_id, "text": text}, NOW, 1, ref)


def final(text: str) -> Event:
    return Event(Type.MESSAGE_FINAL, {"message_id": "1.1", "text": text}, NOW, 1)


def thought(text: str) -> Event:
    return Event(Type.REASONING, {"text": text}, NOW, 1)


def line(text: str, offset: int = 0) -> Line:
    return Line(text.encode(), offset, len(text) + 1, truncated=False)


async def test_what_comes_together_is_one_batch(tape: Tape) -> None:
    with this_loop().still():
        for number in range(100):
            tape.recorder.add([thought(str(number))])
        assert len(this_loop().timers()) == 1
    assert tape.batches == []
    await tape.batch()
    assert tape.batches == [[str(number) for number in range(100)]]
    tape.recorder.add([thought("later")])
    await tape.batch()
    assert tape.batches[1:] == [["later"]]


async def test_a_full_batch_does_not_wait(tape: Tape) -> None:
    tape.recorder.add([thought("x" * BATCH_BYTES)])
    await settle()
    assert len(tape.batches) == 1


async def test_one_batch_at_a_time(tape: Tape) -> None:
    with tape.store.hold("append"):
        tape.recorder.add([thought("first")])
        await tape.batch()
        for number in range(50):
            tape.recorder.add([thought(str(number))])
            await tape.batch()
        assert tape.store.asked["append"] == 1
    await settle()
    await tape.batch()
    assert tape.batches == [["first"], [str(number) for number in range(50)]]


async def test_neighbouring_deltas_of_a_message_are_joined(tape: Tape) -> None:
    refs = [RawRef(1, "stdout", offset, 10) for offset in (0, 10, 20, 30)]
    tape.recorder.add([delta("a", ref=refs[0]), delta("b", ref=refs[1]), delta("c", "1.2", ref=refs[2])])
    tape.recorder.add([final("c"), delta("d", "1.2", ref=refs[3])])
    await tape.batch()
    assert tape.batches == [["ab", "c", "c", "d"]]
    assert tape.store.batches[0].events[0].raw_ref == RawRef(1, "stdout", 0, 20)


async def test_unparsed_lines_are_joined_up_to_a_limit(tape: Tape) -> None:
    for number in range(3):
        assert tape.recorder.add_raw("stdout", line("noise", number * 6), NOW)
    assert tape.recorder.add_raw("stderr", line("oh"), NOW)
    await tape.batch()
    assert tape.batches == [["noise\nnoise\nnoise", "oh"]]
    stdout, stderr = tape.store.batches[0].events
    assert (stdout.type, stdout.raw_ref) == (Type.RAW_STDOUT, RawRef(1, "stdout", 0, 18))
    assert stderr.type is Type.RAW_STDERR

    for number in range(10):
        tape.recorder.add_raw("stdout", line("x" * 20_000, number), NOW)
    await settle()
    await tape.batch()
    assert all(len(text) <= RAW_EVENT for batch in tape.batches for text in batch)


@pytest.mark.failure("B14")
async def test_unparsed_output_beyond_a_limit_is_only_in_the_raw_log(tape: Tape) -> None:
    kept = sum(tape.recorder.add_raw("stderr", line("x" * 999), NOW) for _ in range(5000))
    assert kept == pytest.approx(RAW_TOTAL / 1000, abs=1)
    rest = await tape.recorder.close()
    assert (
        sum(map(len, texts(rest))) + sum(len(text) for batch in tape.batches for text in batch) <= RAW_TOTAL
    )


@pytest.mark.failure("V05", "B15")
async def test_memory_is_bounded_while_the_database_hangs(tape: Tape) -> None:
    """Deltas beyond the limit are left out; the whole message, which ends them, is not."""
    with tape.store.hold("append"):
        tape.recorder.add([thought("first")])
        await tape.batch()
        for _ in range(4):
            for _ in range(10_000):
                tape.recorder.add([delta("x" * 1000)])
        tape.recorder.add([final("the whole message")])
        closing = asyncio.ensure_future(tape.recorder.close())
        await settle()
    rest = await closing
    assert sum(map(len, texts(rest))) <= PENDING_MAX + RAW_EVENT
    assert rest[-1] == final("the whole message")


async def test_who_prints_is_behind_until_enough_is_written(tape: Tape) -> None:
    with tape.store.hold("append"):
        tape.recorder.add([thought("x" * BEHIND)])
        assert tape.recorder.is_behind
        await settle()
        assert not tape.recorder.is_behind, "what is being written is not waiting any more"
        tape.recorder.add([thought("x" * BEHIND)])
        assert tape.recorder.is_behind
    await settle()
    assert not tape.recorder.is_behind


async def test_handle_and_pid_go_with_the_first_batch(tape: Tape) -> None:
    tape.recorder.bear(BORN, LAUNCH)
    assert this_loop().timers() == []  # the pid alone is not worth a commit
    tape.recorder.know(HANDLE)
    tape.recorder.add([thought("hello")])
    await tape.batch()
    tape.recorder.add([thought("again")])
    await tape.batch()
    first, second = tape.store.batches
    assert (first.handle, first.born, first.launch) == (HANDLE, BORN, LAUNCH)
    assert (second.handle, second.born, second.launch) == (None, None, None)


async def test_a_handle_alone_is_saved(tape: Tape) -> None:
    """An engine may think for an hour after it has named its session."""
    tape.recorder.know(HANDLE)
    await tape.batch()
    assert [batch.handle for batch in tape.store.batches] == [HANDLE]


@pytest.mark.failure("M10", "V01")
@pytest.mark.parametrize("then", [[], [thought("and more")]], ids=["silence", "more output"])
async def test_a_handle_that_comes_during_a_write_is_not_lost(tape: Tape, then: list[Event]) -> None:
    """A banner first, the session a moment later: without it a crash could not resume the turn."""
    with tape.store.hold("append"):
        tape.recorder.add_raw("stderr", line("a banner"), NOW)
        await tape.batch()
        tape.recorder.know(HANDLE)
        tape.recorder.add(then)
    await settle()
    await tape.batch()
    assert HANDLE in [batch.handle for batch in tape.store.batches]


@pytest.mark.failure("V07", "S11")
async def test_a_lost_lease_is_told_once_and_nothing_more_is_written(tape: Tape) -> None:
    tape.store.refuse("append", Stale("run"))
    tape.recorder.add([thought("first")])
    await tape.batch()
    assert tape.lost == 1
    tape.recorder.add([thought("x" * BATCH_BYTES)])
    await this_loop().skip(10)
    assert (tape.lost, tape.store.asked["append"], tape.batches) == (1, 1, [])


@pytest.mark.failure("B18")
async def test_a_batch_that_cannot_be_written_at_all_is_told(tape: Tape) -> None:
    fault = ValueError("half a surrogate pair")
    tape.store.refuse("append", fault)
    tape.recorder.add([thought("first")])
    await tape.batch()
    assert tape.recorder.broken.result() is fault
    assert (tape.lost, tape.batches) == (0, [])
    with pytest.raises(ValueError, match="surrogate"):
        await tape.recorder.close()


@pytest.mark.failure("V03")
async def test_a_refused_batch_is_written_later_in_order(tape: Tape) -> None:
    tape.store.refuse("append", FULL, FULL)
    tape.recorder.bear(BORN, LAUNCH)
    tape.recorder.know(HANDLE)
    tape.recorder.add([thought("first")])
    await tape.batch()
    tape.recorder.add([thought("second")])
    await this_loop().skip(RETRY_SEC + 0.1)
    assert (tape.store.asked["append"], tape.batches) == (2, [])
    tape.recorder.add([thought("third")])
    await this_loop().skip(RETRY_SEC + 0.1)
    assert tape.batches == [["first", "second", "third"]]
    first = tape.store.batches[0]
    assert (first.handle, first.born, first.launch) == (HANDLE, BORN, LAUNCH)


@pytest.mark.failure("V03")
async def test_a_database_that_refuses_is_not_asked_for_every_line(tape: Tape) -> None:
    """A full disk and an engine in full flow: one attempt for each pause, however much has gathered."""
    tape.store.refuse("append", *[FULL] * 1000)
    for _ in range(100):
        tape.recorder.add([thought("x" * 10_000)])
        await tape.batch()  # all of them together take less than one pause
    assert tape.store.asked["append"] <= 2


async def test_what_a_close_finds_goes_into_the_last_change(tape: Tape) -> None:
    with tape.store.hold("append"):
        tape.recorder.add([thought("written")])
        await tape.batch()
        tape.recorder.add([thought("left")])
        closing = asyncio.ensure_future(tape.recorder.close())
        await settle()
        assert not closing.done()  # a batch under way has its numbers before the change that ends the turn
    assert texts(await closing) == ["left"]
    tape.recorder.add([thought("too late for a batch")])
    await tape.batch()
    assert tape.batches == [["written"]]


@pytest.mark.failure("V03")
async def test_a_close_takes_along_what_was_refused(tape: Tape) -> None:
    tape.store.refuse("append", FULL)
    tape.recorder.add([thought("refused")])
    await tape.batch()
    tape.recorder.add([thought("newer")])
    assert texts(await tape.recorder.close()) == ["refused", "newer"]
    await this_loop().skip(RETRY_SEC * 2)
    assert tape.store.asked["append"] == 1


# A pause


async def test_what_is_said_in_a_pause_is_written_after_it(tape: Tape) -> None:
    tape.recorder.add([thought("before")])
    assert texts(await tape.recorder.pause()) == ["before"]  # for the change that says so
    tape.recorder.add([thought("meanwhile")])
    await tape.batch()
    assert tape.batches == []
    tape.recorder.go_on()
    await tape.batch()
    assert tape.batches == [["meanwhile"]]


async def test_a_pause_that_does_not_come_about_changes_nothing(tape: Tape) -> None:
    tape.recorder.add([thought("before")])
    unsaid = await tape.recorder.pause()
    tape.recorder.add([thought("meanwhile")])
    tape.recorder.go_on(unsaid)
    await tape.batch()
    assert tape.batches == [["before", "meanwhile"]]


@pytest.mark.failure("V03")
@pytest.mark.parametrize("moment", ["before", "meanwhile"])
async def test_a_batch_that_was_refused_does_not_outlive_a_pause(tape: Tape, moment: str) -> None:
    """The change that says so has taken it, and what comes later is written as ever."""
    tape.store.refuse("append", FULL)
    tape.recorder.add([thought("x" * BATCH_BYTES)])
    if moment == "before":
        await settle()
    assert texts(await tape.recorder.pause()) == ["x" * BATCH_BYTES]
    assert tape.store.asked["append"] == 1
    tape.recorder.go_on()
    tape.recorder.add([thought("later")])
    await tape.batch()
    assert tape.batches == [["later"]]


@pytest.mark.failure("B15")
async def test_memory_is_bounded_in_a_pause(tape: Tape) -> None:
    """An agent may go on talking for as long as a person thinks. Even whole messages come to an end."""
    await tape.recorder.pause()
    many, few = PENDING_MAX // 1000, 2 * PENDING_MAX // 60_000
    for number in range(2 * many):
        tape.recorder.add([delta("x" * 1000, str(number))])
    for _ in range(2 * few):
        tape.recorder.add([final("x" * 60_000)])
    kept = await tape.recorder.close()
    assert sum(map(len, texts(kept))) <= 2 * PENDING_MAX + RAW_EVENT
    assert kept[-1] == final("x" * 60_000)
