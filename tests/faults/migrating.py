"""Brings copies of a database up, and is killed before each statement in turn. Prints how far each copy had come.

By fork, from a process without threads: `python -m tests.faults.migrating DATABASE`, which makes DATABASE.1 and so on.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from itertools import count
from pathlib import Path

from turnkeeper.store.migrate import migrate


def main(database: Path) -> None:
    for number in count(1):
        copy = database.with_name(f"{database.name}.{number}")
        shutil.copy(database, copy)
        child = os.fork()
        if child == 0:
            _bring_up(copy, number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(copy, "killed" if os.WIFSIGNALED(status) else "done", flush=True)  # noqa: T201
        if not os.WIFSIGNALED(status):
            return


def _bring_up(database: Path, last: int) -> None:
    """As the service does, but for the statement at which it dies."""
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    seen = 0

    def die(_statement: str) -> None:
        nonlocal seen
        seen += 1
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)

    connection.set_trace_callback(die)
    migrate(connection)
    connection.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
