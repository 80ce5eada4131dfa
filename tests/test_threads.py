"""Threads that are there from the start, or are said not to be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.store.sqlite import SqliteStore
from turnkeeper.threads import Hands


@pytest.fixture
def hands() -> Iterator[Hands]:
    made = Hands(3, "here")
    yield made
    made.close()


async def test_all_of_them_are_there(hands: Hands) -> None:
    assert sum(thread.name.startswith("here") for thread in threading.enumerate()) == 3
    assert await hands.do(int, "7") == 7


async def test_what_goes_wrong_is_raised_where_it_is_waited_for(hands: Hands) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await hands.do(int, "seven")
    assert await hands.do(int, "7") == 7


async def test_who_gives_up_waiting_does_not_stop_the_work(hands: Hands) -> None:
    begun, may_end, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(30)
        done.set()

    waiting = hands.do(work)
    assert await hands.do(begun.wait, 30)
    waiting.cancel()
    may_end.set()
    assert await hands.do(done.wait, 30)
    assert waiting.cancelled()


def test_work_of_a_loop_that_is_closed_is_done_to_its_end(hands: Hands) -> None:
    may_end, done = threading.Event(), threading.Event()

    def work() -> None:
        may_end.wait(30)
        done.set()

    async def begin() -> None:
        hands.do(work)

    asyncio.run(begin())
    may_end.set()
    hands.close()
    assert done.is_set()


@pytest.mark.failure("S04", "V09")
def test_a_machine_that_gives_no_more_is_told_of_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, begun = threading.Thread.start, 0

    def begin_two(thread: threading.Thread) -> None:
        nonlocal begun
        begun += 1
        if begun > 2:
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", begin_two)
    with pytest.raises(StorageUnavailable, match="no threads"):
        Hands(4, "short")
    for thread in threading.enumerate():
        if thread.name.startswith("short"):
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.failure("S04", "V09")
async def test_a_store_without_its_writer_is_none_and_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Thread.start

    def begin_others(thread: threading.Thread) -> None:
        if thread.name == "turnkeeper-write":
            raise RuntimeError("can't start new thread")
        begin(thread)

    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", begin_others)
        with pytest.raises(StorageUnavailable, match="no threads"):
            SqliteStore(tmp_path, asyncio.get_running_loop())
    store = await SqliteStore.open(tmp_path)
    await store.close()
