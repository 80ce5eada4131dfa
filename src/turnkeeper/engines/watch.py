"""The time limits of a turn: no sign of life at its start or in its middle, and its whole length.

A turn has started with the first word that belongs to it: a banner, or a question to nobody, is none.

A byte is a sign of life, and so is work: an engine that prints nothing until it is done, or waits for a long
compilation, is not stuck. One that only waits for an answer is, however often it tries again.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable
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


LOOK_SEC = 10
"""How long a look may take: reading about a process that hangs in the kernel may hang, too."""


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

    One timer for the silence. A byte does not touch it: when it fires too early, it is set again for the rest. The
    processes are looked at only in a silence. The loop's clock is monotonic and stands still while the machine sleeps.
    """

    def __init__(
        self,
        process: Living,
        limits: Timeouts,
        *,
        started_at: float | None = None,
        paused_sec: float = 0,
        has_begun: Callable[[], bool] = lambda: True,
        on_silence: Callable[[], None] = lambda: None,
    ) -> None:
        """`started_at`: when the turn began, if that is not now; bytes before it belong to another turn.

        `paused_sec`: for how long it has waited for a person since; nothing was expected of it meanwhile.
        `has_begun`: whether anything of what was printed belongs to the turn. `on_silence`: called at every look.
        """
        self._process = process
        self._has_begun = has_begun
        self._on_silence = on_silence
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._worked_at = self._loop.time()
        self._started_at = self._worked_at if started_at is None else started_at
        self._seen: tuple[float, Pulse] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self.over: asyncio.Future[Limit] = self._loop.create_future()
        # By itself: whatever becomes of the looks, no turn takes longer.
        end_at = self._started_at + paused_sec + limits.turn_sec
        self._end_of_turn = self._loop.call_at(end_at, self._end, Limit.TURN)
        self._check()

    @property
    def alive(self) -> tuple[str, ...]:
        """The commands of the processes that were there at the last look."""
        return self._seen[1].commands if self._seen else ()

    def _check(self) -> None:
        silent_since, (allowed, limit) = self._last_sign(), self._silence()
        first_look = silent_since + allowed / LOOKS
        if self._loop.time() < first_look:
            self._again_at(first_look)
        else:
            self._looking = asyncio.ensure_future(self._look(limit, allowed))

    async def _look(self, limit: Limit, allowed: float) -> None:
        self._tell_silence()
        before, now = self._seen, self._loop.time()
        if before is not None and before[0] <= self._last_sign():
            before = None  # it spoke since: what it did until then says nothing about this silence
        try:
            self._seen = (now, await asyncio.wait_for(self._process.pulse(), LOOK_SEC))
        except Exception as error:  # noqa: BLE001 (no descriptor, no thread, a hanging kernel: no sign of death)
            log.warning("the processes of an engine cannot be looked at: %r", error)
            before = self._seen = None
        if before and self._seen and has_worked(before, self._seen):
            self._worked_at = now
        silent_until = self._last_sign() + allowed
        if before and now >= silent_until:
            self._end(limit)
        else:
            next_look = now + allowed / LOOKS
            self._again_at(min(next_look, silent_until) if silent_until > now else next_look)

    def _tell_silence(self) -> None:
        """Whatever becomes of that, the looks go on: they are what ends a turn that hangs."""
        try:
            self._on_silence()
        except Exception:
            log.exception("what an engine printed before it fell silent cannot be looked at")

    def _last_sign(self) -> float:
        return max(self._worked_at, self._process.last_byte_at or 0)

    def _silence(self) -> tuple[float, Limit]:
        heard_at = self._process.last_byte_at
        if heard_at is None or heard_at < self._started_at or not self._has_begun():
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
        if self._looking is not None:
            self._looking.cancel()
        self._end_of_turn.cancel()
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
