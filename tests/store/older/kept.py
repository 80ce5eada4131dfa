"""Data directories as older versions of Turnkeeper left them; `make.py` says how they were made."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from tests.harness import SKILLS
from turnkeeper.core.fcmp import instant
from turnkeeper.runtime.clock import utc_now
from turnkeeper.store.migrate import migrations

HERE = Path(__file__).parent
VERSIONS = range(1, migrations()[-1][0])
"""A new migration needs a data directory of the version before it."""


def put(version: int, data: Path) -> dict[str, str]:
    """The directory as it was; which run is which. Only deadlines are other ones: they are still to come."""
    kept = HERE / str(version)
    names = {"DATA": str(data), "PYTHON": sys.executable, "SKILLS": str(SKILLS)}

    def here(text: str) -> str:
        for name, path in names.items():
            text = text.replace(name, path)
        return text

    data.mkdir(parents=True)
    with closing(sqlite3.connect(data / "turnkeeper.db", isolation_level=None)) as connection:
        connection.executescript(here((kept / "turnkeeper.sql").read_text()))
        due = instant(utc_now() + timedelta(hours=1))
        connection.execute("UPDATE runs SET due_at = ? WHERE due_at IS NOT NULL", (due,))
        connection.execute("UPDATE interactions SET expires_at = ? WHERE expires_at IS NOT NULL", (due,))
        connection.execute("PRAGMA journal_mode = WAL")
    for name, text in json.loads((kept / "files.json").read_text()).items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(here(text))
    found: dict[str, str] = json.loads((kept / "runs.json").read_text())
    return found
