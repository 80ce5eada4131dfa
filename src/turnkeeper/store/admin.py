"""The SQL of keys and of the journal: few rows, written seldom, each change together with its entry."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any

import msgspec

from turnkeeper.core.access import Scope
from turnkeeper.core.fcmp import instant
from turnkeeper.core.journal import Entry
from turnkeeper.core.keys import Key
from turnkeeper.store.base import NameTaken
from turnkeeper.store.rows import Row, moment, text

KEYS = "SELECT * FROM keys ORDER BY created_at, id"
JOURNAL = "SELECT * FROM journal WHERE seq < ? ORDER BY seq DESC LIMIT ?"

_names = msgspec.json.Decoder(frozenset[str])
_scopes = msgspec.json.Decoder(frozenset[Scope])
_detail = msgspec.json.Decoder(dict[str, Any])


def add_key(connection: sqlite3.Connection, key: Key, entry: Entry) -> None:
    row = key_row(key)
    # A key is named by its id or its name: no word may mean two of them.
    taken = connection.execute(
        "SELECT 1 FROM keys WHERE id IN (:id, :name) OR name IN (:id, :name)", row
    ).fetchone()
    if taken is not None:
        raise NameTaken(key.name)
    _put(connection, row)
    note(connection, entry)


def keep_token(connection: sqlite3.Connection, key: Key, entry: Entry | None) -> None:
    _put(connection, key_row(key))
    if entry is not None:
        note(connection, entry)


def revoke_key(connection: sqlite3.Connection, key_id: str, entry: Entry) -> Key | None:
    """As it is now. One that is revoked already stays as it was, and nothing is noted again."""
    revoked = connection.execute(
        "UPDATE keys SET revoked_at = ?, revoked_by = ? WHERE id = ? AND revoked_at IS NULL",
        (instant(entry.at), entry.by, key_id),
    )
    if revoked.rowcount:
        note(connection, entry)
    row = connection.execute("SELECT * FROM keys WHERE id = ?", (key_id,)).fetchone()
    return key_of(row) if row else None


def touch_key(connection: sqlite3.Connection, key_id: str, at: datetime) -> None:
    connection.execute("UPDATE keys SET last_used_at = ? WHERE id = ?", (instant(at), key_id))


def note(connection: sqlite3.Connection, entry: Entry) -> None:
    """Inside the transaction of whoever writes: a change and its entry are there together, or neither is."""
    connection.execute(
        "INSERT INTO journal (seq, at, by, what, subject, detail) "
        "SELECT coalesce(max(seq), 0) + 1, ?, ?, ?, ?, ? FROM journal",
        (instant(entry.at), entry.by, str(entry.what), entry.subject, text(entry.detail)),
    )


def key_row(key: Key) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "digest": key.digest,
        "scopes": text(sorted(key.scopes)),
        "skills": _names_text(key.skills),
        "engines": _names_text(key.engines),
        "created_at": instant(key.created_at),
        "created_by": key.created_by,
        "expires_at": moment(key.expires_at),
        "revoked_at": moment(key.revoked_at),
        "revoked_by": key.revoked_by,
        "last_used_at": moment(key.last_used_at),
    }


def key_of(row: Row) -> Key:
    return Key(
        id=row["id"],
        name=row["name"],
        digest=row["digest"],
        scopes=_scopes.decode(row["scopes"]),
        skills=None if row["skills"] is None else _names.decode(row["skills"]),
        engines=None if row["engines"] is None else _names.decode(row["engines"]),
        created_at=datetime.fromisoformat(row["created_at"]),
        created_by=row["created_by"],
        expires_at=_at(row["expires_at"]),
        revoked_at=_at(row["revoked_at"]),
        revoked_by=row["revoked_by"],
        last_used_at=_at(row["last_used_at"]),
    )


def entry_of(row: Row) -> Entry:
    return Entry(
        seq=row["seq"],
        at=datetime.fromisoformat(row["at"]),
        by=row["by"],
        what=row["what"],
        subject=row["subject"],
        detail=_detail.decode(row["detail"]),
    )


def _put(connection: sqlite3.Connection, row: dict[str, Any]) -> None:
    names, values = ", ".join(row), ", ".join(f":{name}" for name in row)
    changes = ", ".join(f"{name} = excluded.{name}" for name in row if name != "id")
    connection.execute(
        f"INSERT INTO keys ({names}) VALUES ({values}) ON CONFLICT (id) DO UPDATE SET {changes}", row
    )


def _names_text(names: frozenset[str] | None) -> str | None:
    return None if names is None else text(sorted(names))


def _at(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)
