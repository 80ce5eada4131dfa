"""After a start: what the last service left behind is ended or taken up again. It only commits; the worker acts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from turnkeeper.core import lifecycle
from turnkeeper.core.change import Change
from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure, Run
from turnkeeper.core.statechart import State
from turnkeeper.engines import census
from turnkeeper.engines.lending import still_lent
from turnkeeper.failpoints import Deed, around
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.dispatch import Dispatcher, Ticket
from turnkeeper.runtime.stage import Stage
from turnkeeper.store.base import Store

log = logging.getLogger(__name__)


class Recovery:
    def __init__(
        self, store: Store, stage: Stage, dispatcher: Dispatcher, engines: Collection[str], clock: Clock
    ):
        self._store = store
        self._stage = stage
        self._dispatcher = dispatcher
        self._engines = engines
        self._clock = clock

    async def recover(self, step_sec: float) -> None:
        await self._end_leftovers(step_sec)
        await asyncio.to_thread(self._take_logins_back)
        for run in await self._store.owned():
            change = await self._settle(run)
            log.info("run=%s recovered from %s: %s", run.id, run.state.value, change.trigger)
            with around(Deed.RECOVER_RUN):
                await self._store.commit(change)
        for run in await self._store.broken_waiting(self._engines):
            log.warning("run=%s cannot go on waiting", run.id)
            with around(Deed.RECOVER_RUN):
                await self._store.commit(await self._give_up(run))
        with around(Deed.KEEP_WAITING):
            kept = await self._store.preserve_waiting(self._clock())
        queued = await self._store.queued()
        for run in queued:
            self._dispatcher.offer(Ticket.of(run))
        log.info("recovered: %d waiting, %d queued", kept, len(queued))

    async def _end_leftovers(self, step_sec: float) -> None:
        """Before anything is resumed: at most one process tree for a run, at any moment."""
        left = await asyncio.to_thread(census.find, self._store.data_id)
        if not left:
            return
        log.warning("ending %d process(es) of an earlier start", len(left))
        with around(Deed.END_LEFTOVERS):
            survivors = await census.end_all(self._store.data_id, step_sec=step_sec)
        for found in survivors:
            log.error("process %d (%s) of %s does not die", found.pid, found.command, found.mark)

    def _take_logins_back(self) -> None:
        """What is still lent has no process any more."""
        for lent in still_lent(self._stage.lent):
            with around(Deed.TAKE_LOGIN_BACK):
                problems = lent.take_back()
            for problem in problems:
                log.warning("%s: %s", lent.home, problem)

    async def _settle(self, run: Run) -> Change:
        now = self._clock()
        if run.is_paused:
            return await self._lose(run)
        if run.state is not State.RUNNING:
            return lifecycle.finish_ending(run, now)
        # The raw log is made right before the process is: no file, no process.
        raw = self._stage.folder(run.id).raw(run.attempt_number, run.try_number, "stdout")
        *_, attempt = await self._store.attempts(run.id)
        started = raw.exists() or attempt.born is not None
        return lifecycle.interrupt_turn(run, now, process_started=started, attempt=attempt)

    async def _give_up(self, run: Run) -> Change:
        if run.is_paused:
            return await self._lose(run)
        return lifecycle.reconcile_failed(run, self._why_broken(run), self._clock())

    async def _lose(self, run: Run) -> Change:
        """It paused in the middle of a turn, which ended with its process."""
        *_, attempt = await self._store.attempts(run.id)
        return lifecycle.lose_process(run, self._clock(), attempt=attempt)

    def _why_broken(self, run: Run) -> Failure:
        if run.job.engine not in self._engines:
            return Failure(Code.RECONCILE_FAILED, f"the engine {run.job.engine!r} is not known here any more")
        if run.handle is None:
            return Failure(Code.RECONCILE_FAILED, "the engine never named a session that could be resumed")
        if not run.handle.loadable:
            return Failure(
                Code.INTERACTION_PROCESS_LOST,
                "the resident process ended with the service; its session cannot be loaded",
            )
        return Failure(Code.RECONCILE_FAILED, "the open question of the waiting run is missing")
