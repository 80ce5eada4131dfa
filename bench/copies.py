"""A long past in a moment: the rows of one real run again and again, under other ids, while no service uses them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

DATABASE = "turnkeeper.db"
TABLES = {"runs": "id", "attempts": "run_id", "interactions": "run_id", "events": "run_id"}
"""With the column that names the run."""
_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) "


def copy(data_dir: Path, run_id: str, count: int, first: int = 0) -> None:
    """The copies have no folders. Their ids are older than any real one, so they stand last in lists."""
    with closing(sqlite3.connect(data_dir / DATABASE, isolation_level=None)) as database:
        _hurry(database)
        for table, key in TABLES.items():
            names = _columns(database, table)
            values = ("printf('%032x', n.i + :first)" if name == key else name for name in names)
            database.execute(
                f"{_NUMBERS} INSERT INTO {table} ({', '.join(names)}) "
                f"SELECT {', '.join(values)} FROM n, {table} WHERE {key} = :run",
                {"count": count, "run": run_id, "first": first},
            )
        database.execute("COMMIT")


def lengthen(data_dir: Path, run_id: str, count: int) -> int:
    """The run's log, by `count` more of its third event: what the agent has said. How long it is then."""
    with closing(sqlite3.connect(data_dir / DATABASE, isolation_level=None)) as database:
        _hurry(database)
        given = {"count": count, "run": run_id}
        database.execute(
            f"{_NUMBERS} INSERT INTO events SELECT run_id, n.i + (SELECT last_seq FROM runs WHERE id = :run), "
            "type, body FROM n, events WHERE run_id = :run AND seq = 3",
            given,
        )
        database.execute("UPDATE runs SET last_seq = last_seq + :count WHERE id = :run", given)
        (length,) = database.execute("SELECT last_seq FROM runs WHERE id = :run", given).fetchone()
        database.execute("COMMIT")
    return int(length)


def _hurry(database: sqlite3.Connection) -> None:
    """Nothing here has to survive a power cut."""
    for pragma in ("synchronous = OFF", "journal_mode = OFF"):
        database.execute(f"PRAGMA {pragma}")
    database.execute("BEGIN")


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
