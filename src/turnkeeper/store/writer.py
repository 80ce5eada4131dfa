"""The one thread that writes: it takes writes in order, commits them in groups, tells the loop when they are durable.

Many callers, one fsync: whatever queued up while the last transaction was being written goes into the next.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from turnkeeper.core.errors import StorageFull, StorageUnavailable
from turnkeeper.failpoints import Deed, around
from turnkeeper.store.base import Notice, Stats

Op = Callable[[sqlite3.Connection], tuple[Any, Notice | None]]
Outcome = tuple[Any, Notice | None] | Exception

log = logging.getLogger(__name__)

GROUP = 256
"""At most so many writes in one transaction, so that the first of them does not wait for ever."""


_ONE_OF_MANY = (("SAVEPOINT one",), ("ROLLBACK TO one", "RELEASE one"), ("RELEASE one",))


class GroupWriter(threading.Thread):
    def __init__(self, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop, stats: Stats) -> None:
        super().__init__(name="turnkeeper-write", daemon=True)
        self.listeners: list[Callable[[Notice], None]] = []
        self._connection = connection
        self._loop = loop
        self._stats = stats
        self._queue: queue.SimpleQueue[tuple[Op, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._stopped = False

    def submit(self, op: Op) -> asyncio.Future[Any]:
        if self._stopped:
            raise StorageUnavailable("the store is closed; nothing was changed")
        future = self._loop.create_future()
        self._queue.put((op, future))
        return future

    def stop(self) -> None:
        """Called on the loop, like `submit`: what was handed in before is still written. Then join the thread."""
        self._stopped = True
        self._queue.put(None)

    def run(self) -> None:
        open_for_more = True
        while open_for_more:
            group: list[tuple[Op, asyncio.Future[Any]]] = []
            entry = self._queue.get()
            while entry is not None:
                group.append(entry)
                if len(group) == GROUP or self._queue.empty():
                    break
                entry = self._queue.get()
            open_for_more = entry is not None
            if group:
                outcomes = self._write([op for op, _ in group])
                pairs = [(future, outcome) for (_, future), outcome in zip(group, outcomes, strict=True)]
                with suppress(RuntimeError), around(Deed.DELIVER):  # the loop is gone: nobody waits any more
                    self._loop.call_soon_threadsafe(self._deliver, pairs)

    def _write(self, ops: list[Op]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for op in ops:
                outcomes.append(_try(connection, op, is_alone=len(ops) == 1))
            if connection.in_transaction:  # else nothing is left to be written
                with around(Deed.COMMIT):
                    connection.execute("COMMIT")
                self._stats.transactions += 1
        except Exception as error:  # noqa: BLE001 (no memory, say: whoever waits is told, and the thread must live on)
            with suppress(Exception):
                connection.execute("ROLLBACK")
            why = f"the database cannot be written: {error}; nothing was changed"
            # One for each caller: a raised exception collects the traceback of whoever raises it.
            kind = StorageFull if _is_full(error) else StorageUnavailable
            return [kind(why) for _ in ops]
        return outcomes

    def _deliver(self, pairs: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
        for future, outcome in pairs:
            if isinstance(outcome, Exception):
                if not future.done():
                    future.set_exception(outcome)
                continue
            result, notice = outcome
            if notice is not None:
                self._tell(notice)
            if not future.done():
                future.set_result(result)

    def _tell(self, notice: Notice) -> None:
        for listener in self.listeners:
            try:
                listener(notice)
            except Exception:  # the writers behind this one in the group must not wait for ever
                log.exception("a listener failed for run %s", notice.run_id)


def _is_full(error: Exception) -> bool:
    # Only errors of SQLite itself have a number, not those of Python's module around it.
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def _try(connection: sqlite3.Connection, op: Op, *, is_alone: bool) -> Outcome:
    """One write of a group: if it is refused or cannot be encoded, the others stand.

    An error of the database is for the whole group: SQLite may have rolled all of it back.
    """
    # Most groups have one write: it is refused together with its transaction.
    begin, undo, end = ((), ("ROLLBACK",), ()) if is_alone else _ONE_OF_MANY
    for sql in begin:
        connection.execute(sql)
    try:
        outcome = op(connection)
    except sqlite3.Error:
        raise
    except Exception as refusal:  # noqa: BLE001 (it goes to the caller; the thread must live on)
        for sql in undo:
            connection.execute(sql)
        return refusal
    for sql in end:
        connection.execute(sql)
    return outcome
