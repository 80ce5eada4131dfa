"""One run with a slot: its lease, its process if it has one, the signals that reach it, the writes it may do."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from turnkeeper.core.change import Change
from turnkeeper.core.errors import StorageUnavailable, Warn
from turnkeeper.core.run import Interaction, Run, RunWarning
from turnkeeper.core.statechart import State
from turnkeeper.engines.census import Found
from turnkeeper.failpoints import Deed, around
from turnkeeper.runtime.session import Session
from turnkeeper.runtime.turns import Interrupt
from turnkeeper.runtime.waits import first
from turnkeeper.store.base import Stale, Store

log = logging.getLogger(__name__)

RETRY_SEC = 1.0

T = TypeVar("T")
Decide = Callable[[Run], Awaitable[Change | None]]


class Lost(Exception):
    """The run is no longer ours: stop its process and write nothing more."""


class Owner:
    def __init__(self, run_id: str, store: Store) -> None:
        self.run_id = run_id
        self.lease = uuid.uuid4().hex
        self.session: Session | None = None
        self.run: Run | None = None
        """As it was last heard of. Whoever writes by one that is older than the store's is refused, and reads it."""
        self.answered: Interaction | None = None
        """The last answer that was heard of."""
        self.interrupted: asyncio.Future[Interrupt] = asyncio.get_running_loop().create_future()
        self.replied = asyncio.Event()
        self._survivors: list[Found] = []
        self._unreturned: list[RunWarning] = []
        self._store = store

    @property
    def has_process(self) -> bool:
        return self.session is not None and self.session.is_alive

    def interrupt(self, why: Interrupt) -> None:
        if not self.interrupted.done():
            self.interrupted.set_result(why)

    def is_told(self, why: Interrupt) -> bool:
        return self.interrupted.done() and self.interrupted.result() is why

    def hear(self, run: Run, answered: Interaction | None = None) -> None:
        """The run was changed, perhaps by somebody else: told to end, or answered."""
        self.run = run
        self.answered = answered or self.answered
        if run.lease != self.lease:
            return
        if run.ending is not None:
            self.interrupt(Interrupt.ENDING)
        elif run.state is State.QUEUED:
            self.replied.set()

    async def reply_or(self, *others: asyncio.Future[Any]) -> bool:
        """Until a reply, one of these, or an interruption; True if there is a reply to play."""
        replied = asyncio.ensure_future(self.replied.wait())
        try:
            await first(self.interrupted, replied, *others)
        finally:
            replied.cancel()
        return self.replied.is_set() and not self.interrupted.done()

    async def look(self) -> Run | None:
        return self.run or await self.patiently(partial(self._store.run, self.run_id))

    async def write(self, change: Change) -> Run:
        """Or Stale: then the next look is at the store."""
        try:
            return await self.patiently(partial(self._store.commit, change))
        except Stale:
            self.run = None
            raise

    async def commit(self, decide: Decide) -> Run:
        """Looks, decides and writes until the guard holds: who else changed the run is taken into account."""
        while True:
            run = await self.look()
            if run is None or run.lease != self.lease:
                raise Lost
            change = await decide(run)
            if change is None:
                return run
            with suppress(Stale):
                return await self.write(change)

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """A full disk is no verdict on a run: it keeps its slot until the database is back, or the service stops."""
        while True:
            try:
                return await call()
            except StorageUnavailable as error:
                if self.is_told(Interrupt.STOPPING):
                    raise Lost from error
                log.error("run=%s waits for the database: %s", self.run_id, error.message)
                await asyncio.sleep(RETRY_SEC)

    async def let_go(self, *, gently: bool = False) -> None:
        """Nothing of the run is alive after this."""
        session = self.session
        if session is not None:
            with around(Deed.LET_GO):
                self._survivors = await (session.leave() if gently else session.end())
            unreturned = [] if session.has_left() else await asyncio.to_thread(session.move_out)
            for problem in unreturned:
                log.warning("run=%s %s", self.run_id, problem.message)
            self._unreturned += unreturned
            session.close()
            self.session = None

    @property
    def parting(self) -> list[RunWarning]:
        """What went wrong when the last process was let go of."""
        unreaped = (
            RunWarning(Warn.PROCESS_NOT_REAPED, f"process {found.pid} ({found.command}) does not die")
            for found in self._survivors
        )
        return [*unreaped, *self._unreturned]
