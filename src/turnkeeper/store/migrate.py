"""Numbered SQL migrations, applied in order, each in its own transaction."""

from __future__ import annotations

import sqlite3
from importlib import resources

from turnkeeper.core.errors import SchemaTooNew


def migrations() -> list[tuple[int, str]]:
    folder = resources.files("turnkeeper.store") / "migrations"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda f: f.name)
    return [(int(entry.name.split("_")[0]), entry.read_text(encoding="utf-8")) for entry in files]


def migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    steps = migrations()
    newest = steps[-1][0]
    if version > newest:
        raise SchemaTooNew(
            f"the database has schema {version}, this Turnkeeper knows {newest}: start the newer version again"
        )
    for number, script in steps:
        if number > version:
            connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version={number};\nCOMMIT;")
