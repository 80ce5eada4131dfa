"""All parts of a running service in one place: what happens after a commit, the order of start and stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnkeeper.core.retention import Limits
from turnkeeper.engines.base import Engine, LoginKind
from turnkeeper.engines.sandbox import NONE, Sandbox
from turnkeeper.failpoints import Deed, around
from turnkeeper.runtime.alarm import Alarm
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.deadlines import Deadlines
from turnkeeper.runtime.disk import Disk
from turnkeeper.runtime.dispatch import Capacity, Dispatcher, Ticket
from turnkeeper.runtime.feed import Feed
from turnkeeper.runtime.intake import Intake, Policy
from turnkeeper.runtime.jobs import Jobs
from turnkeeper.runtime.journal import Journal
from turnkeeper.runtime.keys import Keys
from turnkeeper.runtime.recovery import Recovery
from turnkeeper.runtime.retention import Retention
from turnkeeper.runtime.secrecy import Secrecy
from turnkeeper.runtime.secrets import FILE as SECRETS
from turnkeeper.runtime.secrets import Secrets
from turnkeeper.runtime.stage import Stage
from turnkeeper.runtime.uploads import Uploads
from turnkeeper.runtime.worker import Worker
from turnkeeper.skills.install import Library
from turnkeeper.skills.package import Shelf
from turnkeeper.store.base import Notice, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What only wiring can choose."""

    store: Store
    engines: Mapping[str, Engine]
    shelf: Shelf
    library: Library
    runs_dir: Path
    disk: Disk
    capacity: Capacity
    policy: Policy
    clock: Clock
    alarm: Alarm | None = None
    """Of the event loop, if somebody watches it."""
    retention: Sequence[Limits] = ()
    """What is removed by itself."""
    sandbox: Sandbox = NONE
    """What turns are played in."""
    secrecy: Secrecy = field(default_factory=Secrecy)
    secrets: Secrets | None = None
    """None: those that lie beside the runs."""


class House:
    def __init__(self, parts: Parts) -> None:
        self.store = parts.store
        self.engines = parts.engines
        self.shelf = parts.shelf
        self.library = parts.library
        self.capacity = parts.capacity
        self.disk = parts.disk
        self.default_engine = parts.policy.default_engine
        self.clock = parts.clock
        self.alarm = parts.alarm
        self.journal = Journal(parts.store, parts.clock)
        self.keys = Keys(parts.store, self.journal, parts.clock)
        self.secrecy = parts.secrecy
        self.secrets = parts.secrets or Secrets(parts.runs_dir.parent / SECRETS, parts.secrecy, parts.clock)
        self.feed = Feed()
        self.sandbox = parts.sandbox
        self.stage = Stage(
            parts.store,
            parts.shelf,
            parts.engines,
            parts.runs_dir,
            sandbox=parts.sandbox,
            secrecy=self.secrecy,
            secrets=self.secrets,
        )
        self.worker = Worker(parts.store, self.stage, parts.clock, self._release)
        self.dispatcher = Dispatcher(parts.capacity, self.worker.start, self._is_alone)
        self.deadlines = Deadlines(parts.store, parts.clock)
        self.jobs = Jobs(
            store=parts.store,
            intake=Intake(parts.shelf, parts.engines, parts.policy, self.secrecy, self.secrets),
            dispatcher=self.dispatcher,
            feed=self.feed,
            disk=parts.disk,
            max_queued=parts.policy.max_queued,
            clock=parts.clock,
            secrecy=self.secrecy,
            in_hand=self.worker.known,
        )
        self.uploads = Uploads(self.jobs, self.stage, parts.disk, parts.clock)
        self.retention = Retention(parts.store, parts.runs_dir, parts.retention, parts.clock)
        self.since = parts.clock()
        self._step_sec = parts.policy.timeouts.step_sec
        self.is_ready = False
        parts.store.listen(self._after_commit)

    async def start(self) -> None:
        await self.keys.start()
        recovery = Recovery(self.store, self.stage, self.dispatcher, self.engines.keys(), self.clock)
        await recovery.recover(self._step_sec)
        await self.deadlines.start()
        await self.retention.start()
        self.dispatcher.open()
        self.is_ready = True

    def begin_stop(self) -> None:
        """No new work, and open streams end, so that their connections can close."""
        self.is_ready = False
        self.jobs.is_closing = True
        self.dispatcher.close()
        self.retention.begin_stop()
        self.feed.close()

    async def is_idle(self) -> bool:
        """Nothing to play, nobody in line, no deadline to keep: all that is left are questions that can wait."""
        if self.retention.is_busy or await self.store.next_due() is not None:
            return False
        # Looked at last: what was due while the store was read is in line by now.
        return not (self.dispatcher.busy or self.dispatcher.waiting)

    async def stop(self) -> None:
        self.begin_stop()
        await self.deadlines.stop()
        await self.retention.stop()
        await self.worker.stop()
        await self.keys.stop()
        await self.store.close()

    def _is_alone(self, name: str) -> bool:
        """Two turns that renew one login at the same moment would lose it."""
        engine = self.engines.get(name)
        return engine is not None and engine.login().kind is LoginKind.FILE

    def _release(self, ticket: Ticket) -> None:
        self.dispatcher.release(ticket)

    def _after_commit(self, notice: Notice) -> None:
        """Runs on the loop once the write is durable, whoever made it: commit first, act after."""
        with around(Deed.PUBLISH):
            self.feed.publish(notice)
        run = notice.run
        if run is None:
            return
        if notice.enqueue:
            self.dispatcher.offer(Ticket.of(run))
        self.worker.hear(notice)  # after the offer: who has just got a slot need not read the run again
        if run.state.is_terminal:
            self.dispatcher.withdraw(run.id)
        if run.due_at is not None:
            self.deadlines.arm(run.due_at)
