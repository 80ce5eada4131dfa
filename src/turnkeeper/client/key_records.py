"""Keys, what the caller's own is good for, and the journal."""

from __future__ import annotations

from datetime import datetime

from turnkeeper.client.records import Json, Record


class Key(Record):
    """What is known of a key; the key itself nobody knows but who was told it."""

    id: str
    name: str
    status: str
    scopes: tuple[str, ...]
    created_at: datetime
    created_by: str
    skills: tuple[str, ...] | None = None
    engines: tuple[str, ...] | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    last_used_at: datetime | None = None
    """To the hour."""

    @property
    def is_active(self) -> bool:
        return self.status == "active"


class NewKey(Key, kw_only=True):
    """With the key itself, this once."""

    key: str

    def __repr__(self) -> str:
        return f"NewKey(name={self.name!r})"


class Me(Record):
    """What the key, or token, of this client is good for."""

    by: str
    scopes: tuple[str, ...]
    skills: tuple[str, ...] | None = None
    engines: tuple[str, ...] | None = None
    expires_at: datetime | None = None


class Entry(Record):
    """A change of the service itself, as the journal has it."""

    seq: int
    at: datetime
    by: str
    what: str
    subject: str
    detail: Json
