"""What engines leave behind comes to us, and is seen without a look at all processes of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import PATIENCE
from turnkeeper.engines import orphans

pytestmark = pytest.mark.failure("X04", "X05")

LEAVE = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session={}, stdout=2).pid, flush=True)"


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    """One that we started ourselves, and that is still there."""
    orphans.take_in()
    started = subprocess.Popen(["sleep", "60"])
    orphans.started(started.pid)
    yield started
    started.kill()
    started.wait()
    orphans.reaped(started.pid)


def left_behind(*, in_a_session_of_its_own: bool) -> int:
    words = [sys.executable, "-c", LEAVE.format(in_a_session_of_its_own)]
    return int(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def test_who_was_started_by_us_is_no_orphan(engine: subprocess.Popen[bytes]) -> None:
    assert not orphans.may_be_there()
    engine.kill()
    os.waitid(os.P_PID, engine.pid, os.WEXITED | os.WNOWAIT)
    assert not orphans.may_be_there(), "dead, and not waited for yet"


@pytest.mark.parametrize("has_own_session", [True, False])
def test_who_outlives_its_parent_comes_to_us(engine: subprocess.Popen[bytes], has_own_session: bool) -> None:
    pid = left_behind(in_a_session_of_its_own=has_own_session)
    assert orphans.may_be_there()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not orphans.may_be_there(), "the dead have done no harm"


def test_the_dead_are_cleared_away_when_nobody_can_be_waiting_for_them(
    engine: subprocess.Popen[bytes],
) -> None:
    pid, now = left_behind(in_a_session_of_its_own=True), time.monotonic()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not orphans.may_be_there(lambda: now)
    assert not orphans.may_be_there(lambda: now + 59)
    assert Path(f"/proc/{pid}").exists(), "whoever started it may still come for it"
    assert not orphans.may_be_there(lambda: now + 61)
    until = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until
