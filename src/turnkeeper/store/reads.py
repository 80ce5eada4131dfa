"""Every read of SQLite, on threads beside the event loop. It needs no lock and never writes: also beside a service."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Collection
from contextlib import ExitStack, closing, nullcontext
from datetime import datetime
from pathlib import Path

from turnkeeper import threads
from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.core.fcmp import instant
from turnkeeper.core.journal import Entry
from turnkeeper.core.keys import Key
from turnkeeper.core.run import Attempt, Interaction, NextTurn, Run
from turnkeeper.core.statechart import State
from turnkeeper.store import admin, rows
from turnkeeper.store.base import EVERYWHERE, Holding, KeptKey, LogEntry, Resting, RunFilter, Within
from turnkeeper.store.migrate import require_newest

DATABASE = "turnkeeper.db"
READERS = 2
NEWEST_FIRST = "created_at DESC, id DESC"
# Not by LIKE: it knows the case of ASCII alone, stops at a zero, and takes seconds for some texts.
TEXT_CLAUSE = (
    "(instr(folded(skill_id), ?) OR instr(id, ?) = 1 OR EXISTS (SELECT 1 FROM interactions i "
    "WHERE i.run_id = runs.id AND i.interaction_id = runs.pending_interaction_id "
    "AND instr(folded(json_extract(i.question, '$.prompt')), ?)))"
)

_RUNS = f"SELECT {rows.RUN_COLUMNS} FROM runs"
_RUN = f"{_RUNS} WHERE id = ?"
_COUNTS = "SELECT state, count(*) AS n FROM runs GROUP BY state"
_INTERACTIONS = f"SELECT {rows.INTERACTION_COLUMNS} FROM interactions"
_INTERACTION = f"{_INTERACTIONS} WHERE run_id = ? AND interaction_id = ?"
_ASKED = (
    f"SELECT r.*, {', '.join(f'i.{name}' for name in rows.INTERACTION)} FROM ({_RUN}) r LEFT JOIN interactions i "
    "ON i.run_id = r.id AND i.interaction_id = coalesce(?, r.pending_interaction_id)"
)
# By name: without statistics SQLite takes the index of all that wait, and looks at each of them.
_HELD = (
    f"SELECT {rows.RUN_COLUMNS}, count(*) OVER () AS n FROM runs INDEXED BY runs_holding "
    "WHERE state = 'waiting_user' AND lease IS NOT NULL"
)
OWNED = (
    f"{_RUNS} WHERE state = 'running' "
    f"OR (state = 'queued' AND (ending IS NOT NULL OR next_turn = '{NextTurn.PERMISSION}')) "
    f"UNION ALL {_RUNS} INDEXED BY runs_ending WHERE state = 'waiting_user' AND ending IS NOT NULL"
)
_LONGEST = " ORDER BY updated_at, id LIMIT ?"
HOLDING = f"{_HELD}{_LONGEST}"
ENDED = (
    "SELECT id, state, version, skill_id, last_seq, updated_at AS since FROM runs "
    "WHERE state = ? AND updated_at <= ? AND (updated_at, id) > (?, ?) ORDER BY updated_at, id LIMIT ?"
)
# The row of a run that waits may have changed since: its process was lost. The question has not.
WAITING_AT_REST = (
    "SELECT r.id, r.state, r.version, r.skill_id, r.last_seq, i.asked_at AS since FROM runs r "
    "JOIN interactions i ON i.run_id = r.id AND i.interaction_id = r.pending_interaction_id "
    "WHERE r.state = ? AND r.lease IS NULL AND r.ending IS NULL AND i.asked_at <= ? "
    "AND (i.asked_at, r.id) > (?, ?) ORDER BY i.asked_at, r.id LIMIT ?"
)


class SqliteReads:
    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / DATABASE
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._readers = threads.Hands(READERS, "turnkeeper-read")
        self._searching = asyncio.Lock()

    @classmethod
    def of_stopped_or_running(cls, data_dir: Path) -> SqliteReads:
        """For who only wants to look. The database must be there, and of this version."""
        path = data_dir / DATABASE
        if not path.is_file():
            raise StorageUnavailable(f"there is no database in {data_dir}; name the service's --data-dir")
        try:
            with closing(connect(path)) as connection:
                require_newest(connection)
        except sqlite3.Error as error:
            raise StorageUnavailable(f"the database {path} cannot be read: {error}") from error
        return cls(data_dir)

    async def close(self) -> None:
        await asyncio.to_thread(self._readers.close)
        for connection in self._opened:
            connection.close()

    async def run(self, run_id: str) -> Run | None:
        row = await self._one(_RUN, run_id)
        return rows.run_of(row) if row else None

    async def runs(self, wanted: RunFilter, limit: int) -> list[Run]:
        # A part for each state, each in the order of an index: a long past costs a page and not a sort.
        parts = [_page(wanted, state, limit) for state in wanted.states or (None,)]
        union = " UNION ALL ".join(f"SELECT * FROM ({sql})" for sql, _ in parts)
        values = [value for _, each in parts for value in each]
        # A search may look at everything: one at a time, so that a reader is left for who knows what they want.
        async with self._searching if wanted.text else nullcontext():
            found = await self._all(f"{union} ORDER BY {NEWEST_FIRST} LIMIT ?", *values, limit)
        return [rows.run_of(row) for row in found]

    async def queued(self) -> list[Run]:
        found = await self._all(
            f"{_RUNS} WHERE state = 'queued' AND held IS NULL AND ending IS NULL ORDER BY updated_at, id"
        )
        return [rows.run_of(row) for row in found]

    async def owned(self) -> list[Run]:
        return [rows.run_of(row) for row in await self._all(OWNED)]

    async def broken_waiting(self, engines: Collection[str]) -> list[Run]:
        found = await self._all(
            f"{_RUNS} WHERE state = 'waiting_user' AND ending IS NULL AND NOT {can_go_on(engines)}",
            *engines,
        )
        return [rows.run_of(row) for row in found]

    async def interaction(self, run_id: str, interaction_id: int) -> Interaction | None:
        row = await self._one(_INTERACTION, run_id, interaction_id)
        return rows.interaction_of(row) if row else None

    async def asked(
        self, run_id: str, interaction_id: int | None = None
    ) -> tuple[Run, Interaction | None] | None:
        row = await self._one(_ASKED, run_id, interaction_id)
        if row is None:
            return None
        run, asked = row[: len(rows.RUN)], row[len(rows.RUN) :]
        return rows.run_of(run), None if asked[0] is None else rows.interaction_of(asked)

    async def open_questions(self, runs: Collection[Run]) -> dict[str, Interaction]:
        asked = [(run.id, run.pending_interaction_id) for run in runs if run.pending_interaction_id]
        values = (value for pair in asked for value in pair)
        found = await self._all(questions(len(asked)), *values) if asked else []
        return {row["run_id"]: rows.interaction_of(row) for row in found}

    async def interactions(self, run_id: str) -> list[Interaction]:
        found = await self._all(f"{_INTERACTIONS} WHERE run_id = ? ORDER BY interaction_id", run_id)
        return [rows.interaction_of(row) for row in found]

    async def answered_before(self, run_id: str, attempt_number: int) -> Interaction | None:
        row = await self._one(
            f"{_INTERACTIONS} WHERE run_id = ? AND attempt_number < ? AND answer IS NOT NULL "
            "ORDER BY interaction_id DESC LIMIT 1",
            run_id,
            attempt_number,
        )
        return rows.interaction_of(row) if row else None

    async def attempts(self, run_id: str) -> list[Attempt]:
        found = await self._all(
            f"SELECT {rows.ATTEMPT_COLUMNS} FROM attempts WHERE run_id = ? ORDER BY attempt_number, try_number",
            run_id,
        )
        return [rows.attempt_of(row) for row in found]

    async def events(self, run_id: str, *, after: int, upto: int | None, limit: int) -> list[LogEntry]:
        # A log whose run is gone goes in pieces: what is left of it would look like a log with a gap.
        found = await self._all(
            "SELECT seq, type, body FROM events WHERE run_id = ? AND seq > ? AND seq <= ? "
            "AND EXISTS (SELECT 1 FROM runs WHERE id = ?) ORDER BY seq LIMIT ?",
            run_id,
            after,
            2**62 if upto is None else upto,
            run_id,
            limit,
        )
        return [LogEntry(seq, kind, body.encode()) for seq, kind, body in found]

    async def due(self, now: datetime, limit: int) -> list[str]:
        found = await self._all(
            "SELECT id FROM runs WHERE due_at <= ? ORDER BY due_at LIMIT ?", instant(now), limit
        )
        return [row["id"] for row in found]

    async def next_due(self) -> datetime | None:
        row = await self._one("SELECT min(due_at) AS due_at FROM runs WHERE due_at IS NOT NULL")
        return datetime.fromisoformat(row["due_at"]) if row and row["due_at"] else None

    async def kept_key(self, key: str, since: datetime) -> KeptKey | None:
        row = await self._one(
            "SELECT run_id, digest FROM idempotency WHERE key = ? AND created_at >= ?", key, instant(since)
        )
        return KeptKey(row["run_id"], row["digest"]) if row else None

    async def counts(self) -> dict[State, int]:
        return _counts(await self._all(_COUNTS))

    async def holding(self, limit: int, within: Within = EVERYWHERE) -> Holding:
        clauses = _within(within)
        sql = "".join((_HELD, *(f" AND {clause}" for clause in clauses), _LONGEST))
        found = await self._all(sql, *(value for values in clauses.values() for value in values), limit)
        return Holding(found[0][-1] if found else 0, [rows.run_of(row[:-1]) for row in found])

    async def resting(
        self, states: Collection[State], *, until: datetime, after: Resting | None, limit: int
    ) -> list[Resting]:
        past = (instant(after.since), after.run_id) if after else ("", "")
        union = " UNION ALL ".join(
            f"SELECT * FROM ({WAITING_AT_REST if state is State.WAITING_USER else ENDED})" for state in states
        )
        values = [value for state in states for value in (state.value, instant(until), *past, limit)]
        found = await self._all(f"{union} ORDER BY since, id LIMIT ?", *values, limit)
        return [rows.resting_of(row) for row in found]

    async def removals(self) -> list[str]:
        return [row["run_id"] for row in await self._all("SELECT run_id FROM removals ORDER BY run_id")]

    async def keys(self) -> list[Key]:
        return [admin.key_of(row) for row in await self._all(admin.KEYS)]

    async def journal(self, *, before: int | None, limit: int) -> list[Entry]:
        found = await self._all(admin.JOURNAL, 2**62 if before is None else before, limit)
        return [admin.entry_of(row) for row in found]

    async def _one(self, sql: str, *values: object) -> sqlite3.Row | None:
        found = await self._all(sql, *values)
        return found[0] if found else None

    async def _all(self, sql: str, *values: object) -> list[sqlite3.Row]:
        """On a reader thread: a slow disk must not stop the event loop."""
        return await self._readers.do(self._read, sql, values)

    def _read(self, sql: str, values: tuple[object, ...]) -> list[sqlite3.Row]:
        try:
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = connect(self._path)
                connection.execute("PRAGMA query_only = ON")
                connection.create_function("folded", 1, str.casefold, deterministic=True)
                self._opened.append(connection)
            found: list[sqlite3.Row] = connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StorageUnavailable(f"the database cannot be read: {error}") from error
        return found


def count_states(connection: sqlite3.Connection) -> dict[State, int]:
    return _counts(connection.execute(_COUNTS).fetchall())


def _counts(found: Collection[sqlite3.Row]) -> dict[State, int]:
    return dict.fromkeys(State, 0) | {State(row["state"]): row["n"] for row in found}


def _page(wanted: RunFilter, state: State | None, limit: int) -> tuple[str, list[object]]:
    clauses: dict[str, tuple[object, ...]] = {}
    equal = {"state": state, "skill_id": wanted.skill_id, "engine": wanted.engine, "mode": wanted.mode}
    clauses |= {f"{name} = ?": (str(value),) for name, value in equal.items() if value is not None}
    clauses |= _within(wanted.within)
    if wanted.text:
        clauses[TEXT_CLAUSE] = (wanted.text.casefold(),) * 3
    if wanted.before:
        clauses["(created_at, id) < (?, ?)"] = (instant(wanted.before[0]), wanted.before[1])
    where = f"WHERE {' AND '.join(clauses)} " if clauses else ""
    sql = f"{_RUNS} {where}ORDER BY {NEWEST_FIRST} LIMIT ?"
    return sql, [*(value for values in clauses.values() for value in values), limit]


def _within(within: Within) -> dict[str, tuple[object, ...]]:
    limits = {"skill_id": within.skills, "engine": within.engines}
    return {
        f"{name} IN ({', '.join('?' for _ in allowed)})": tuple(sorted(allowed))
        for name, allowed in limits.items()
        if allowed is not None
    }


def connect(path: Path) -> sqlite3.Connection:
    with ExitStack() as undo:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        undo.callback(connection.close)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        undo.pop_all()
        return connection


def questions(count: int) -> str:
    """In this order: of `IN (VALUES …)` SQLite makes a look at every question that there ever was."""
    pairs = ", ".join(["(?, ?)"] * count)
    return (
        f"WITH asked (run, number) AS (VALUES {pairs}) SELECT {rows.INTERACTION_COLUMNS} FROM asked "
        "CROSS JOIN interactions ON run_id = run AND interaction_id = number"
    )


def can_go_on(engines: Collection[str]) -> str:
    known = ", ".join("?" for _ in engines)
    return (
        f"(coalesce(handle_loadable, 0) = 1 AND next_turn <> '{NextTurn.PERMISSION}' AND engine IN ({known}) "
        "AND EXISTS (SELECT 1 FROM interactions i WHERE i.run_id = runs.id "
        "AND i.interaction_id = runs.pending_interaction_id AND i.answer IS NULL))"
    )
