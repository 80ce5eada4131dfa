"""The embedded driver: SQLite in WAL mode, one writer thread with group commit, readers beside it."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from turnkeeper import threads
from turnkeeper.core.change import Change
from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.core.fcmp import instant
from turnkeeper.core.journal import Entry
from turnkeeper.core.keys import Key
from turnkeeper.core.run import Run
from turnkeeper.core.statechart import State, Trigger
from turnkeeper.failpoints import Deed, around
from turnkeeper.lock import DirectoryLock
from turnkeeper.store import admin, rows, writes
from turnkeeper.store.base import Batch, Notice, Resting, Stats
from turnkeeper.store.migrate import migrate
from turnkeeper.store.reads import SqliteReads, connect, count_states
from turnkeeper.store.writer import GroupWriter

T = TypeVar("T")

# Two counts by index alone: to look at each run that waits would take a tenth of a second.
_KEPT = (
    "SELECT (SELECT count(*) FROM runs WHERE state = 'waiting_user') - (SELECT count(*) FROM runs "
    "INDEXED BY runs_ending WHERE state = 'waiting_user' AND ending IS NOT NULL)"
)


class SqliteStore(SqliteReads):
    """Opened by `open`, on the event loop that it will serve."""

    def __init__(self, data_dir: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(data_dir)
        self.stats = Stats()
        self._lock = DirectoryLock(data_dir)
        with ExitStack() as undo:
            undo.callback(self._lock.release)
            try:
                self._connection = connect(self._path)
                undo.callback(self._connection.close)
                with around(Deed.MIGRATE):
                    migrate(self._connection)
                self.data_id = _data_id(self._connection, data_dir)
                self._tally = count_states(self._connection)
            except sqlite3.Error as error:
                raise StorageUnavailable(f"the database {self._path} cannot be opened: {error}") from error
            self._writer = GroupWriter(self._connection, loop, self.stats)
            self._writer.listeners.append(self._count)
            threads.start(self._writer)
            undo.pop_all()

    @classmethod
    async def open(cls, data_dir: Path) -> SqliteStore:
        loop = asyncio.get_running_loop()
        return await asyncio.to_thread(cls, data_dir, loop)

    async def close(self) -> None:
        self._writer.stop()
        await asyncio.to_thread(self._writer.join)
        await super().close()
        self._connection.close()
        self._lock.release()

    def listen(self, listener: Callable[[Notice], None]) -> None:
        self._writer.listeners.append(listener)

    def _count(self, notice: Notice) -> None:
        """A listener like any other, so only what is durable is counted."""
        if notice.was is not None:
            self._tally[notice.was] -= 1
        if notice.run is not None:
            self._tally[notice.run.state] += 1
        if notice.is_gone:
            self.stats.removals += 1
        elif notice.run is None:
            self.stats.appends += 1
        else:
            self.stats.changes += 1

    async def counts(self) -> dict[State, int]:
        """Kept, and not counted: the longer the past, the longer that takes. Nobody else writes."""
        return dict(self._tally)

    async def commit(self, change: Change) -> Run:
        def op(connection: sqlite3.Connection) -> tuple[Run, Notice]:
            run, entries = writes.write_change(connection, change)
            was = change.before.state if change.before is not None else None
            return run, Notice(run.id, entries, run, change.enqueue, answered=change.answered, was=was)

        written: Run = await self._writer.submit(op)
        return written

    async def append(self, batch: Batch) -> None:
        def op(connection: sqlite3.Connection) -> tuple[None, Notice]:
            return None, Notice(batch.run_id, writes.write_batch(connection, batch))

        await self._writer.submit(op)

    async def preserve_waiting(self, now: datetime) -> int:
        def op(connection: sqlite3.Connection) -> tuple[int, None]:
            at = instant(now)
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (rows.PRESERVED_AT, at))
            # Its moment is read for all of them (`rows.RUN_COLUMNS`), but for those of a clock that was ahead of ours.
            connection.execute(
                "UPDATE runs SET recovery_trigger = ?, recovery_at = ? "
                "WHERE state = 'waiting_user' AND updated_at > ? AND ending IS NULL",
                (Trigger.PRESERVE_WAITING.value, at, at),
            )
            connection.execute(
                "UPDATE runs SET lease = NULL, version = version + 1 "
                "WHERE state = 'waiting_user' AND lease IS NOT NULL AND ending IS NULL"
            )
            # A resident run whose reply was accepted but not yet played has lost its owner, too.
            connection.execute(
                "UPDATE runs SET lease = NULL, version = version + 1 "
                "WHERE state = 'queued' AND lease IS NOT NULL AND ending IS NULL"
            )
            return connection.execute(_KEPT).fetchone()[0], None

        preserved: int = await self._writer.submit(op)
        return preserved

    async def remove(self, run: Resting) -> None:
        def op(connection: sqlite3.Connection) -> tuple[None, Notice]:
            writes.remove_run(connection, run)
            return None, Notice(run.run_id, (), is_gone=True, was=run.state)

        await self._writer.submit(op)

    async def finish_removal(self, run_id: str) -> None:
        def op(connection: sqlite3.Connection) -> tuple[bool, None]:
            return writes.finish_removal(connection, run_id), None

        while not await self._writer.submit(op):
            pass

    async def add_key(self, key: Key, entry: Entry) -> None:
        await self._write(lambda connection: admin.add_key(connection, key, entry))

    async def revoke_key(self, key_id: str, entry: Entry) -> Key | None:
        return await self._write(lambda connection: admin.revoke_key(connection, key_id, entry))

    async def keep_token(self, key: Key, entry: Entry | None) -> None:
        await self._write(lambda connection: admin.keep_token(connection, key, entry))

    async def touch_key(self, key_id: str, at: datetime) -> None:
        await self._write(lambda connection: admin.touch_key(connection, key_id, at))

    async def note(self, entry: Entry) -> None:
        await self._write(lambda connection: admin.note(connection, entry))

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What is about no run, and nobody listens to."""
        written: T = await self._writer.submit(lambda connection: (work(connection), None))
        return written


def _data_id(connection: sqlite3.Connection, data_dir: Path) -> str:
    """A copied data directory is another one: it must never take the original's processes for its own."""
    status = (data_dir / "lock").stat()
    place = f"{status.st_dev}:{status.st_ino}"
    known = dict(
        connection.execute("SELECT name, value FROM meta WHERE name IN ('data_id', 'place')").fetchall()
    )
    if known.get("place") != place:
        known = {"data_id": uuid.uuid4().hex, "place": place}
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", known.items())
    return str(known["data_id"])
