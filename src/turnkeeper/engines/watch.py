"""The time limits of a turn: silence at its start, silence in its middle, its whole length."""

from __future__ import annotations

import asyncio
import enum
from typing import Protocol

from turnkeeper.core.run import Timeouts


class Limit(enum.StrEnum):
    FIRST_BYTE = "first_byte"
    IDLE = "idle"
    TURN = "turn"


class Audible(Protocol):
    """What the watch looks at: when a byte came last, by the loop's clock."""

    @property
    def last_byte_at(self) -> float | None: ...


class Watch:
    """The time limits of one turn: `over` tells the first one that is reached.

    One timer, set for the earliest limit. A byte does not touch it: when it fires too early, it is set again
    for the rest. The loop's clock is monotonic and stands still while the machine sleeps.
    """

    def __init__(self, process: Audible, limits: Timeouts, *, started_at: float | None = None) -> None:
        """`started_at`: when the turn began, if that is not now; bytes before it belong to another turn."""
        self._process = process
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time() if started_at is None else started_at
        self._timer: asyncio.TimerHandle | None = None
        self.over: asyncio.Future[Limit] = self._loop.create_future()
        self._look()

    def _look(self) -> None:
        due, limit = min(self._quiet(), (self._started_at + self._limits.turn_sec, Limit.TURN))
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._look)
        elif not self.over.done():
            self.over.set_result(limit)

    def _quiet(self) -> tuple[float, Limit]:
        heard_at = self._process.last_byte_at
        if heard_at is None or heard_at < self._started_at:
            return self._started_at + self._limits.first_byte_sec, Limit.FIRST_BYTE
        return heard_at + self._limits.idle_sec, Limit.IDLE

    def close(self) -> None:
        """The turn is over by itself: no limit fires any more."""
        if self._timer is not None:
            self._timer.cancel()
        self.over.cancel()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
