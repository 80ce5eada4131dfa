"""What engines leave behind comes to us, and is seen without a look at all processes of the machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness import PATIENCE
from turnkeeper.engines import orphans

pytestmark = pytest.mark.failure("X04", "X05")

LEAVE = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session={}, stdout=2).pid, flush=True)"


def apart(look: Callable[[], None]) -> None:
    """In a process of its own: other tests have children, too."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(look).result(PATIENCE)


@contextmanager
def engine() -> Iterator[subprocess.Popen[bytes]]:
    """One that we started ourselves, and that is still there."""
    orphans.take_in()
    with subprocess.Popen(["sleep", "60"]) as started:
        orphans.started(started.pid)
        yield started
        started.kill()


def left_behind(*, has_own_session: bool) -> int:
    words = [sys.executable, "-c", LEAVE.format(has_own_session)]
    return int(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def kill(pid: int) -> None:
    """And leave it to be waited for."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def started_by_us() -> None:
    with engine() as own:
        assert not orphans.may_be_there()
        kill(own.pid)
        assert not orphans.may_be_there(), "dead, and not waited for yet"


def left_to_us() -> None:
    with engine():
        for has_own_session in (True, False):
            pid = left_behind(has_own_session=has_own_session)
            assert orphans.may_be_there()
            kill(pid)
            assert not orphans.may_be_there(), "the dead have done no harm"


def dead_for_long() -> None:
    with engine():
        pid, now = left_behind(has_own_session=True), time.monotonic()
        kill(pid)
        assert not orphans.may_be_there(lambda: now)
        assert not orphans.may_be_there(lambda: now + 59)
        assert Path(f"/proc/{pid}").exists(), "whoever started it may still come for it"
        assert not orphans.may_be_there(lambda: now + 61)
        assert not Path(f"/proc/{pid}").exists()


def test_who_was_started_by_us_is_no_orphan() -> None:
    apart(started_by_us)


def test_who_outlives_its_parent_comes_to_us() -> None:
    apart(left_to_us)


def test_the_dead_are_cleared_away_when_nobody_can_be_waiting_for_them() -> None:
    apart(dead_for_long)
