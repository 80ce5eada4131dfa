"""The port of the memory. `commit` is the only way to change a run; everything else reads, or appends output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from turnkeeper.core.change import Change
from turnkeeper.core.fcmp import Event
from turnkeeper.core.journal import Entry
from turnkeeper.core.keys import Key
from turnkeeper.core.run import Attempt, Born, Handle, Interaction, Mode, Run
from turnkeeper.core.statechart import State

KEY_KEPT = timedelta(hours=24)
"""How long an idempotency key protects its request."""


class Stale(Exception):
    """The guard matched no row: the run has moved since it was read. Read again, or stop."""


class KeyTaken(Exception):
    """The idempotency key of a new run is already in the book."""


class NameTaken(Exception):
    """There is a key of that id or name, or was one."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One event with its number, encoded once, in the bytes that every reader gets."""

    seq: int
    type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Notice:
    """What listeners hear after a write is durable: the run as it is now, and what was added to its log."""

    run_id: str
    entries: tuple[LogEntry, ...]
    run: Run | None = None
    """None for appended output, which changes no run."""
    enqueue: bool = False
    answered: Interaction | None = None
    """What was answered by it, if anything was."""
    is_gone: bool = False
    """The run was removed: nothing will ever be added."""
    was: State | None = None
    """Its state before; None: it is new, or did not change."""


@dataclass(frozen=True, slots=True)
class KeptKey:
    run_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Holding:
    """Runs that hold a slot while they wait for a person: how many there are, and the first of them."""

    count: int
    runs: list[Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """A run that has ended, or waits without a process: who moves after this was read is not removed by it."""

    run_id: str
    state: State
    version: int
    skill_id: str
    last_seq: int
    since: datetime
    """When it ended, or was asked what it waits with."""


@dataclass(slots=True)
class Stats:
    """Counted from the start of the process; shown by `/metrics`."""

    transactions: int = 0
    changes: int = 0
    appends: int = 0
    removals: int = 0


@dataclass(frozen=True, slots=True)
class Within:
    """Runs of these skills, on these engines; None: of all."""

    skills: frozenset[str] | None = None
    engines: frozenset[str] | None = None


EVERYWHERE = Within()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    states: Sequence[State] = ()
    """In one of these; none means any."""
    skill_id: str | None = None
    engine: str | None = None
    mode: Mode | None = None
    text: str | None = None
    """In the open question or the skill's id, or at the beginning of the run's id."""
    before: tuple[datetime, str] | None = None
    """Page on: only runs created before this (moment, id)."""
    within: Within = EVERYWHERE
    """All that is there for whoever asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of what an engine said, under the lease of the worker that heard it."""

    run_id: str
    lease: str
    engine: str
    attempt_number: int
    try_number: int
    events: Sequence[Event] = field(default_factory=tuple)
    handle: Handle | None = None
    born: Born | None = None
    launch: Mapping[str, Any] | None = None


class Reads(Protocol):
    """What is remembered."""

    async def run(self, run_id: str) -> Run | None: ...
    async def runs(self, wanted: RunFilter, limit: int) -> list[Run]: ...
    async def queued(self) -> list[Run]:
        """In the order they are to be served; held ones are left out."""

    async def owned(self) -> list[Run]:
        """Runs with an owner that is gone after a restart: running, or told to end."""

    async def broken_waiting(self, engines: Collection[str]) -> list[Run]:
        """Waiting runs without an open question, a loadable session or a known engine."""

    async def interaction(self, run_id: str, interaction_id: int) -> Interaction | None: ...
    async def asked(
        self, run_id: str, interaction_id: int | None = None
    ) -> tuple[Run, Interaction | None] | None:
        """A run and one of its questions, as they were at the same moment: that of the number, else the pending one."""

    async def open_questions(self, runs: Collection[Run]) -> dict[str, Interaction]:
        """By run: the questions that these runs, as they were read, wait with."""

    async def interactions(self, run_id: str) -> list[Interaction]: ...
    async def answered_before(self, run_id: str, attempt_number: int) -> Interaction | None:
        """The last one: its answer is what that attempt begins with."""

    async def attempts(self, run_id: str) -> list[Attempt]: ...
    async def events(self, run_id: str, *, after: int, upto: int | None, limit: int) -> list[LogEntry]: ...
    async def due(self, now: datetime, limit: int) -> list[str]: ...
    async def next_due(self) -> datetime | None: ...
    async def kept_key(self, key: str, since: datetime) -> KeptKey | None: ...
    async def counts(self) -> dict[State, int]: ...
    async def holding(self, limit: int, within: Within = EVERYWHERE) -> Holding:
        """Waiting runs that still have their lease, those that have waited longest first."""

    async def resting(
        self, states: Collection[State], *, until: datetime, after: Resting | None, limit: int
    ) -> list[Resting]:
        """Since `until` or longer, the longest first, those behind `after`; of ended states and `waiting_user`."""

    async def removals(self) -> list[str]:
        """Runs whose removal was begun and not finished."""

    async def keys(self) -> list[Key]:
        """All that ever were, the oldest first."""

    async def journal(self, *, before: int | None, limit: int) -> list[Entry]:
        """Newest first; only those with a lower number than `before`."""


class Store(Reads, Protocol):
    data_id: str
    """Names this data directory in the environment of every engine process."""
    stats: Stats

    def listen(self, listener: Callable[[Notice], None]) -> None:
        """`listener` runs on the event loop after each durable write, in the order of the writes,
        before the writer's own await returns: no crash of a caller can lose an effect."""

    async def commit(self, change: Change) -> Run:
        """Writes the change, or raises Stale (or KeyTaken) and writes nothing. Returns the run as it is stored:
        a handle that output has brought since stays, unless the change brings one itself."""

    async def append(self, batch: Batch) -> None:
        """Refused with Stale unless the run is running under that lease."""

    async def preserve_waiting(self, now: datetime) -> int:
        """`restart.preserve_waiting` for every waiting run, however many there are: one write, which touches hardly
        any of them. At a start only, when those that are broken have ended, and no lease can have an owner: those of
        waiting and queued runs are cleared."""

    async def remove(self, run: Resting) -> None:
        """Everything about the run, in one write that also notes that its folder has still to go. Refused with Stale
        if it has moved. Of a very long log only the beginning goes at once, and nobody can read the rest."""

    async def finish_removal(self, run_id: str) -> None:
        """The folder is gone: so is the note, and before it whatever was left of the log, in bounded writes."""

    async def add_key(self, key: Key, entry: Entry) -> None:
        """With its entry in the journal; or NameTaken, and nothing is written."""

    async def revoke_key(self, key_id: str, entry: Entry) -> Key | None:
        """By and at what the entry says, which is written with it. One that was revoked before stays as it was.
        Returns the key as it is stored."""

    async def keep_token(self, key: Key, entry: Entry | None) -> None:
        """The row of the service's own token, in place of the one before."""

    async def touch_key(self, key_id: str, at: datetime) -> None:
        """It was used at about this time."""

    async def note(self, entry: Entry) -> None:
        """For a change that is not in the database itself."""

    async def close(self) -> None:
        """What was handed in is still written; what comes later is refused with StorageUnavailable."""
