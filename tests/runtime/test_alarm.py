"""The alarm of the event loop: it sleeps while the loop does, and whatever happens in between is noticed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import PATIENCE
from turnkeeper.runtime.alarm import Alarm

AFTER_SEC = 0.05


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    alarm = Alarm(AFTER_SEC)
    alarm.start()
    yield alarm
    alarm.stop()


def eventually_off_duty(alarm: Alarm) -> None:
    deadline = time.monotonic() + PATIENCE
    while not alarm.is_off_duty:
        assert time.monotonic() < deadline, "it watches a loop that rests"
        time.sleep(0.005)


def wake_ups(alarm: Alarm) -> int:
    status = Path(f"/proc/self/task/{alarm.watcher_id}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("voluntary_ctxt_switches")]
    return int(line.split()[1])


def test_nobody_is_woken_while_the_loop_rests(alarm: Alarm) -> None:
    alarm.woke()
    alarm.rests()
    eventually_off_duty(alarm)
    time.sleep(AFTER_SEC)  # until it has really gone to sleep
    before = wake_ups(alarm)
    time.sleep(10 * AFTER_SEC)
    assert wake_ups(alarm) == before


def test_a_loop_that_turns_is_looked_at_now_and_then(alarm: Alarm) -> None:
    """A thousand turns are a few looks: the loop does not call at each of them."""
    before, until = wake_ups(alarm), time.monotonic() + 10 * AFTER_SEC
    turns = 0
    while time.monotonic() < until:
        alarm.woke()
        alarm.rests()
        turns += 1
    assert turns > 1000
    assert wake_ups(alarm) - before < turns / 10


def test_every_hang_is_told_of_twice(alarm: Alarm, caplog: pytest.LogCaptureFixture) -> None:
    """While it lasts, with the place, and when it is over, with its length."""
    caplog.set_level(logging.ERROR, logger="turnkeeper.runtime.alarm")
    for count in (1, 2):
        alarm.woke()
        deadline = time.monotonic() + PATIENCE
        while len(caplog.records) < 2 * count - 1:  # this is the hang
            assert time.monotonic() < deadline, "nobody has noticed"
            time.sleep(AFTER_SEC)
        alarm.rests()
        told, over = caplog.records[-2:]
        assert "It is here:" in told.message
        assert "test_every_hang_is_told_of_twice" in told.message
        assert over.message.endswith("it goes on")
        assert alarm.hangs.count == count
        eventually_off_duty(alarm)
    assert alarm.hangs.longest_sec >= AFTER_SEC
    assert len(caplog.records) == 4
