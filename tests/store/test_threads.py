"""Threads that are there from the start, or are said not to be."""

from __future__ import annotations

import threading

import pytest

from turnkeeper.core.errors import StorageUnavailable
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
