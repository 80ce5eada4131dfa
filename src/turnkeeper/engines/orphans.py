"""Whether anything can have outlived its engine, asked of the kernel for the price of one small file.

What a process leaves behind when it dies becomes the child of whoever takes in orphans. That is us, from the first
engine on: as long as we have no child that we did not start, no run has left anything, and nobody need look through all
processes of the machine. Whose an orphan is, and what becomes of it, is told by the census.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36
_DEAD_SEC = 60.0
"""Whoever started a process itself has waited for it by then."""

_own: set[int] = set()
_dead: dict[int, float] = {}
"""Since when children of nobody have been seen dead."""
_takes_in: bool | None = None


def take_in() -> bool:
    """Becomes the parent of what engines leave behind; False where the kernel does not let us."""
    global _takes_in
    if _takes_in is None:
        _takes_in = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    return _takes_in


def started(pid: int) -> None:
    """By us, and waited for by us: until it is reaped its number is nobody else's."""
    _own.add(pid)


def reaped(pid: int) -> None:
    _own.discard(pid)


def may_be_there(now: Callable[[], float] = time.monotonic) -> bool:
    """True also where nobody can tell."""
    if not take_in():
        return True
    try:
        strangers = [pid for pid in _children() if pid not in _own]
    except OSError:
        return True
    for pid in [pid for pid in _dead if pid not in strangers]:
        del _dead[pid]
    dead = [pid for pid in strangers if _is_dead(pid, now())]
    return len(dead) < len(strangers)


def _children() -> Iterator[int]:
    """Orphans come to the first thread; engines may be children of any, and those are known."""
    me = os.getpid()
    fd = os.open(f"/proc/{me}/task/{me}/children", os.O_RDONLY | os.O_CLOEXEC)
    try:
        told = b"".join(iter(lambda: os.read(fd, 4096), b""))
    finally:
        os.close(fd)
    return map(int, told.split())


def _is_dead(pid: int, now: float) -> bool:
    """One that nobody waits for is cleared away: its parent is dead, and we have taken its place."""
    with suppress(ChildProcessError):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        if now - _dead.setdefault(pid, now) > _DEAD_SEC:
            os.waitpid(pid, os.WNOHANG)
            del _dead[pid]
    return True
