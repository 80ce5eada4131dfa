"""Deadlines of runs without a turn: one indexed column, one timer for the earliest. No run has a timer of its own."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from turnkeeper.core import questions
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.failpoints import Deed, around
from turnkeeper.runtime.clock import Clock
from turnkeeper.store.base import Stale, Store

log = logging.getLogger(__name__)

PAGE = 100
LONGEST_SLEEP = timedelta(seconds=60)
"""The timer counts monotonic seconds, deadlines are instants: after a clock step or a suspend we look again soon."""
RETRY = timedelta(seconds=1)
JUMP, WAKE_GRACE = timedelta(seconds=10), timedelta(seconds=60)
"""A clock that far ahead of our seconds was set, or the machine slept. Who wakes it may want to answer first."""


class Deadlines:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._next: datetime | None = None
        self._set_at: tuple[datetime, float] | None = None
        """When the timer was set, by the clock on the wall and by ours."""
        self._grace_until = 0.0
        """By our clock: the one on the wall may be set back before that is over."""
        self._sweep: asyncio.Task[None] | None = None
        self._is_closed = False

    def arm(self, due_at: datetime) -> None:
        """Called after each commit that set a deadline."""
        if not self._is_closed and (self._next is None or due_at < self._next):
            self._set(due_at)

    async def start(self) -> None:
        """Also applies, once, what passed while the service was down."""
        await self.sweep(self._clock())
        await self._arm_next(not_before=self._clock())

    async def stop(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._sweep is not None:
            await asyncio.wait([self._sweep])

    async def sweep(self, now: datetime) -> int:
        """Applies every deadline that has passed at `now`; returns how many."""
        applied = 0
        while due := await self._store.due(now, PAGE):
            done = [await self._try(run_id, now) for run_id in due]
            applied += sum(done)
            if not all(done):
                break
        return applied

    async def _try(self, run_id: str, now: datetime) -> bool:
        try:
            return await self._apply(run_id, now)
        except Exception:
            log.exception("run=%s: its deadline could not be applied; the others are", run_id)
            return False

    async def _apply(self, run_id: str, now: datetime) -> bool:
        while True:
            run = await self._store.run(run_id)
            if run is None:
                return False
            pending_id = run.pending_interaction_id
            pending = await self._store.interaction(run_id, pending_id) if pending_id is not None else None
            change = questions.apply_deadline(run, pending, now)
            if change is None:
                return False
            try:
                with around(Deed.MEET_DEADLINE):
                    await self._store.commit(change)
            except Stale:
                continue  # a reply or a cancel came first; look again
            log.info("run=%s deadline applied: %s", run_id, change.trigger or "ending")
            return True

    def _set(self, due_at: datetime) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = due_at
        loop, now = asyncio.get_running_loop(), self._clock()
        self._set_at = now, loop.time()
        wait = min(due_at - now, LONGEST_SLEEP).total_seconds()
        # A look applies everything that is due: one for a new deadline must not cut the grace of the others short.
        self._timer = loop.call_later(max(0, wait, self._grace_until - loop.time()), self._fire)

    def _has_jumped(self) -> bool:
        if self._set_at is None:
            return False
        then, counted_from = self._set_at
        counted = timedelta(seconds=asyncio.get_running_loop().time() - counted_from)
        return self._clock() - then - counted > JUMP

    def _fire(self) -> None:
        has_jumped = self._has_jumped()
        self._timer = self._next = None
        if has_jumped:
            self._grace_until = asyncio.get_running_loop().time() + WAKE_GRACE.total_seconds()
            self.arm(self._clock())
        elif self._sweep is None or self._sweep.done():
            self._sweep = asyncio.create_task(self._round())
        else:
            self.arm(self._clock() + RETRY)  # the round under way may have looked before this one was there

    async def _round(self) -> None:
        try:
            applied = await self.sweep(self._clock())
            await self._arm_next(not_before=self._clock() + (timedelta(0) if applied else RETRY))
        except TurnkeeperError:
            log.exception("deadlines could not be looked up; trying again")
            self.arm(self._clock() + RETRY)

    async def _arm_next(self, not_before: datetime) -> None:
        due_at = await self._store.next_due()
        if due_at is not None:
            self.arm(max(due_at, not_before))
