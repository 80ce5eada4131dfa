"""The time limits of a turn: no sign of life at its start or in its middle, and its whole length.

A byte is a sign of life, and so is work: an engine that prints nothing until it is done, or waits for a long
compilation, is not stuck. One that only waits for an answer is, however often it tries again.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from typing import Protocol

from turnkeeper.core.run import Timeouts
from turnkeeper.engines.census import Pulse

log = logging.getLogger(__name__)

LOOKS = 4
"""How often a silent engine is looked at before its limit is reached."""
BUSY = 0.05
"""Of one processor, on average between two looks: CLIs that only wait for a model use up to half of that."""
BRIEFLY_BUSY, BURST_SEC = 0.25, 0.5
"""Between looks that are close together they may use more: a garbage collection takes its moment."""


class Limit(enum.StrEnum):
    FIRST_BYTE = "first_byte"
    IDLE = "idle"
    TURN = "turn"


class Living(Protocol):
    """What the watch looks at: when a byte came last, by the loop's clock, and what the processes have done."""

    @property
    def last_byte_at(self) -> float | None: ...

    async def pulse(self) -> Pulse: ...


class Watch:
    """The time limits of one turn: `over` tells the first one that is reached.

    One timer. A byte does not touch it: when it fires too early, it is set again for the rest. The processes are
    looked at only in a silence. The loop's clock is monotonic and stands still while the machine sleeps.
    """

    def __init__(self, process: Living, limits: Timeouts, *, started_at: float | None = None) -> None:
        """`started_at`: when the turn began, if that is not now; bytes before it belong to another turn."""
        self._process = process
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time() if started_at is None else started_at
        self._worked_at = self._started_at
        self._seen: tuple[float, Pulse] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._look_task: asyncio.Task[None] | None = None
        self.over: asyncio.Future[Limit] = self._loop.create_future()
        self._check()

    @property
    def alive(self) -> tuple[str, ...]:
        """The commands of the processes that were there at the last look."""
        return self._seen[1].commands if self._seen else ()

    def _check(self) -> None:
        now, last = self._loop.time(), self._last_sign()
        allowed, limit = self._silence()
        turn_ends = self._started_at + self._limits.turn_sec
        if now >= turn_ends:
            self._end(Limit.TURN)
        elif now - last < allowed / LOOKS:
            self._again_at(min(last + allowed / LOOKS, turn_ends))
        else:
            self._look_task = asyncio.ensure_future(self._look(limit, allowed))

    async def _look(self, limit: Limit, allowed: float) -> None:
        before, now = self._seen, self._loop.time()
        if before is not None and before[0] <= self._last_sign():
            before = None  # it spoke since: what it did until then says nothing about this silence
        try:
            pulse = await self._process.pulse()
            self._seen = (now, pulse)
        except OSError as error:  # no descriptor left, say: that is no sign of death
            log.warning("the processes of an engine cannot be looked at: %s", error)
            before = self._seen = None
        if before and self._seen and has_worked(before, self._seen):
            self._worked_at = now
        silent_until = self._last_sign() + allowed
        if before and now >= silent_until:
            self._end(limit)
        else:
            next_look = now + allowed / LOOKS
            due = min(next_look, silent_until) if silent_until > now else next_look
            self._again_at(min(due, self._started_at + self._limits.turn_sec))

    def _last_sign(self) -> float:
        return max(self._worked_at, self._process.last_byte_at or 0)

    def _silence(self) -> tuple[float, Limit]:
        heard_at = self._process.last_byte_at
        if heard_at is None or heard_at < self._started_at:
            return self._limits.first_byte_sec, Limit.FIRST_BYTE
        return self._limits.idle_sec, Limit.IDLE

    def _again_at(self, when: float) -> None:
        if not self.over.done():
            self._timer = self._loop.call_at(when, self._check)

    def _end(self, limit: Limit) -> None:
        if not self.over.done():
            self.over.set_result(limit)

    def close(self) -> None:
        """The turn is over by itself: no limit fires any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._look_task is not None:
            self._look_task.cancel()
        self.over.cancel()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def has_worked(before: tuple[float, Pulse], after: tuple[float, Pulse]) -> bool:
    """A process that came or went counts: something was done, however short it was."""
    elapsed, used = after[0] - before[0], after[1].cpu_sec - before[1].cpu_sec
    needed = max(BUSY * elapsed, min(BURST_SEC, BRIEFLY_BUSY * elapsed))
    return after[1].members != before[1].members or used >= needed
