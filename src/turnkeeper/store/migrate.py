"""Numbered SQL migrations, applied in order, each in its own transaction."""

from __future__ import annotations

import sqlite3
from importlib import resources

from turnkeeper.core.errors import SchemaTooNew, StorageUnavailable


def migrations() -> list[tuple[int, str]]:
    folder = resources.files("turnkeeper.store") / "migrations"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda f: f.name)
    return [(int(entry.name.split("_")[0]), entry.read_text(encoding="utf-8")) for entry in files]


def migrate(connection: sqlite3.Connection) -> None:
    version = _version(connection)
    for number, script in migrations():
        if number > version:
            connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version={number};\nCOMMIT;")


def require_newest(connection: sqlite3.Connection) -> None:
    """For who only reads: bringing a database up is the service's own business."""
    if _version(connection) < migrations()[-1][0]:
        raise StorageUnavailable("the database is of an older version: start the service once to bring it up")


def _version(connection: sqlite3.Connection) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    newest = migrations()[-1][0]
    if version > newest:
        raise SchemaTooNew(
            f"the database has schema {version}, this Turnkeeper knows {newest}: start the newer version again"
        )
    return version
