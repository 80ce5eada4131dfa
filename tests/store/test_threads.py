"""Threads that are there from the start, or are said not to be."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.store.sqlite import SqliteStore
from turnkeeper.store.threads import started


def test_all_of_them_are_there() -> None:
    with started(3, "here") as threads:
        assert sum(thread.name.startswith("here") for thread in threading.enumerate()) == 3
        assert threads.submit(int, "7").result() == 7


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
        started(4, "short")
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
