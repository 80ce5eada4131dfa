"""What the service tells of itself: how it does, what was removed, how to sign in."""

from __future__ import annotations

from datetime import datetime

from turnkeeper.client.records import Record


class Slots(Record):
    total: int
    busy: int
    free: int
    waiting: int = 0
    sticky_total: int = 0
    sticky: int = 0


class Queue(Record):
    length: int
    sticky: int = 0


class Held(Record):
    """A run that holds a slot while it waits for a person."""

    run_id: str
    skill_id: str
    engine: str
    since: datetime
    pending_interaction_id: int | None = None
    wait_deadline_at: datetime | None = None


class Storage(Record):
    """The disk of the service's data."""

    free_bytes: int
    min_free_bytes: int
    low: bool
    """No new work is taken."""
    free_files: int | None = None


class Sandbox(Record):
    """What turns are played in."""

    mode: str
    """As it is set: `auto`, `off`, `required`."""
    effective: str
    """As it is: `bubblewrap` or `off`."""
    reason: str | None = None
    """Why there is none."""


class Status(Record):
    version: str
    status: str
    started_at: datetime
    slots: Slots
    queue: Queue
    runs: dict[str, int]
    held: tuple[Held, ...] = ()
    held_count: int = 0
    storage: Storage | None = None
    sandbox: Sandbox | None = None


class Space(Record):
    """Bytes on the disk."""

    total: int
    homes: int = 0
    logs: int = 0
    files: int = 0
    """Workspaces: uploads and artifacts."""


class PrunedRun(Record):
    run_id: str
    status: str
    skill_id: str
    since: datetime
    """When it ended, or was asked what it waited with."""
    bytes: int = 0


class Pruned(Record):
    """What was removed, or with `dry_run` would be."""

    dry_run: bool
    only: str
    count: int
    bytes: Space
    undeleted: int = 0
    """Of so many a file or more could not be deleted."""
    remaining_bytes: int | None = None
    """What all runs still take; only if they were asked to fit."""
    runs: tuple[PrunedRun, ...] = ()
    """The oldest of them; 1000 at most."""


class Secret(Record):
    """All that is ever told of one: its value comes in, and never goes out."""

    name: str
    set_at: datetime
    set_by: str
    grants: tuple[str, ...] = ()
    """The ids of the skills that may have it."""


class SignIn(Record):
    """Opens the page for who has it, once and for ten minutes."""

    code: str
    url: str
    expires_at: datetime
    public: bool = False
    """The service was told its own address; else it is the one that we came by."""

    def __repr__(self) -> str:
        return f"SignIn(expires_at={self.expires_at!r})"


class AnswerLink(Record):
    """Lets whoever has it answer one question, once."""

    url: str
    expires_at: datetime
    interaction_id: int
    public: bool = False

    def __repr__(self) -> str:
        return f"AnswerLink(interaction_id={self.interaction_id!r}, expires_at={self.expires_at!r})"
