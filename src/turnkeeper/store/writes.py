"""The SQL of SQLite's writes: a change with its guard, a batch of output with its lease, and the end of a record."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import replace

from turnkeeper.core.change import Change
from turnkeeper.core.fcmp import Event, instant
from turnkeeper.core.run import Run
from turnkeeper.store import rows
from turnkeeper.store.base import KEY_KEPT, Batch, KeyTaken, LogEntry, Resting, Stale

PIECE = 5000
"""Events that one write deletes at the most, so that no other write waits long for it."""


def _insert(table: str, columns: Collection[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' for _ in columns)})"


def _update(columns: Collection[str]) -> str:
    settings = ", ".join(f"{name} = ?" for name in columns)
    return (
        f"UPDATE runs SET {settings}, last_seq = last_seq + ? "
        "WHERE id = ? AND version = ? AND lease IS ? RETURNING last_seq, handle_id, handle_loadable"
    )


# Each text is made once: what SQLite has compiled is found again by it.
_NEW_RUN = _insert("runs", rows.RUN)
_MOVE = _update(rows.MOVING)
_MOVE_WITH_HANDLE = _update((*rows.MOVING, *rows.HANDLE))
_INTERACTION = (
    f"{_insert('interactions', rows.INTERACTION)} ON CONFLICT DO UPDATE SET answer = excluded.answer"
)
_ATTEMPT = (
    f"{_insert('attempts', rows.ATTEMPT)} ON CONFLICT DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in ("ended_at", "model", "usage", "evidence", "verdict"))
    # These only if there is something new.
    + "".join(f", {name} = coalesce(excluded.{name}, {name})" for name in ("pid", "pid_start", "launch"))
)
_TOGETHER = (512, 64, 8, 1)
"""Events that one statement writes. Before and after each, Python's lock changes hands: while the loop is at work, a
statement for each event would wait for it as often, and what an engine prints would pile up."""
_EVENTS = {count: f"INSERT INTO events VALUES {', '.join(['(?, ?, ?, ?)'] * count)}" for count in _TOGETHER}


def write_change(connection: sqlite3.Connection, change: Change) -> tuple[Run, tuple[LogEntry, ...]]:
    after = _create(connection, change) if change.before is None else _move(connection, change, change.before)
    first = after.last_seq - len(change.events) + 1
    entries = _write_events(connection, change.events, run_id=after.id, first=first, engine=after.job.engine)
    if change.interaction is not None:
        connection.execute(_INTERACTION, rows.interaction_values(change.interaction))
    if change.attempt is not None:
        connection.execute(_ATTEMPT, rows.attempt_values(change.attempt))
    return after, entries


def _create(connection: sqlite3.Connection, change: Change) -> Run:
    if change.idempotency is not None:
        _keep_key(connection, change)
    run = replace(change.after, last_seq=len(change.events))
    try:
        connection.execute(_NEW_RUN, rows.run_values(run))
    except sqlite3.IntegrityError:
        raise Stale(run.id) from None
    return run


def _move(connection: sqlite3.Connection, change: Change, before: Run) -> Run:
    """The guarded row; returns the run as it now is, with what output has added since the change was decided."""
    after, values = change.after, rows.moving_values(change.after)
    if after.handle == before.handle:
        sql = _MOVE  # output may have saved a newer one; a change that brings none leaves it alone
    else:
        sql, values = _MOVE_WITH_HANDLE, (*values, *rows.handle_values(after.handle))
    guard = (after.id, before.version, before.lease)
    updated = connection.execute(sql, (*values, len(change.events), *guard)).fetchone()
    if updated is None:
        raise Stale(after.id)
    last_seq, handle_id, handle_loadable = updated
    return replace(after, last_seq=last_seq, handle=rows.handle_of(handle_id, handle_loadable))


def _keep_key(connection: sqlite3.Connection, change: Change) -> None:
    assert change.idempotency is not None
    now = change.after.created_at
    connection.execute("DELETE FROM idempotency WHERE created_at < ?", (instant(now - KEY_KEPT),))
    kept = connection.execute(
        "INSERT INTO idempotency VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (change.idempotency.name, change.idempotency.digest, change.after.id, instant(now)),
    )
    if kept.rowcount == 0:
        raise KeyTaken(change.idempotency.name)


def write_batch(connection: sqlite3.Connection, batch: Batch) -> tuple[LogEntry, ...]:
    handle = batch.handle
    updated = connection.execute(
        "UPDATE runs SET last_seq = last_seq + ?, handle_id = coalesce(?, handle_id), "
        "handle_loadable = coalesce(?, handle_loadable) "
        "WHERE id = ? AND state = 'running' AND lease = ? RETURNING last_seq",
        (
            len(batch.events),
            handle and handle.session_id,
            handle and int(handle.loadable),
            batch.run_id,
            batch.lease,
        ),
    ).fetchone()
    if updated is None:
        raise Stale(batch.run_id)
    if batch.born is not None:
        connection.execute(
            "UPDATE attempts SET pid = ?, pid_start = ?, launch = ? "
            "WHERE run_id = ? AND attempt_number = ? AND try_number = ?",
            (
                batch.born.pid,
                batch.born.start_time,
                rows.maybe(batch.launch),
                batch.run_id,
                batch.attempt_number,
                batch.try_number,
            ),
        )
    first = updated[0] - len(batch.events) + 1
    return _write_events(connection, batch.events, run_id=batch.run_id, first=first, engine=batch.engine)


def remove_run(connection: sqlite3.Connection, run: Resting) -> None:
    """The state is part of the guard: whatever the caller believes, a run in line or with a process stays."""
    removed = connection.execute(
        "DELETE FROM runs WHERE id = ? AND version = ? AND lease IS NULL AND (state = 'waiting_user' "
        "AND ending IS NULL OR state IN ('succeeded', 'failed', 'canceled'))",
        (run.run_id, run.version),
    )
    if removed.rowcount == 0:
        raise Stale(run.run_id)
    connection.execute("INSERT INTO removals VALUES (?)", (run.run_id,))
    for table in ("attempts", "interactions", "idempotency"):
        connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run.run_id,))
    connection.execute("DELETE FROM events WHERE run_id = ? AND seq <= ?", (run.run_id, PIECE))


def finish_removal(connection: sqlite3.Connection, run_id: str) -> bool:
    """A piece of what was left of the log; True when that was all, and the note is gone too."""
    deleted = connection.execute(
        "DELETE FROM events WHERE run_id = ? AND seq IN "
        "(SELECT seq FROM events WHERE run_id = ? ORDER BY seq LIMIT ?)",
        (run_id, run_id, PIECE),
    )
    if deleted.rowcount == PIECE:
        return False
    connection.execute("DELETE FROM removals WHERE run_id = ?", (run_id,))
    return True


def _write_events(
    connection: sqlite3.Connection, events: Collection[Event], *, run_id: str, first: int, engine: str
) -> tuple[LogEntry, ...]:
    entries = tuple(
        rows.log_entry(event, run_id=run_id, seq=seq, engine=engine)
        for seq, event in enumerate(events, first)
    )
    at = 0
    while at < len(entries):
        count = next(count for count in _TOGETHER if count <= len(entries) - at)
        some = entries[at : at + count]
        values = [value for entry in some for value in (run_id, entry.seq, entry.type, entry.body.decode())]
        connection.execute(_EVENTS[count], values)
        at += count
    return entries
