"""How much work an input may be: the processor's time is counted, so a busy machine is no finding."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

MOST_SECONDS = 10
"""For 64 KB at the most. What grows with the square of its input takes minutes there."""


class TooMuchWork(AssertionError):
    pass


@contextmanager
def bounded() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooMuchWork(f"more than {MOST_SECONDS} s of work for one input")
