"""Calls that fail when they are told to: of files, of SQLite, of the start of a process.

The standard library is what is wrapped, below our own modules, and only for what happens inside one data directory:
the n-th call there fails as a kernel or a database would let it fail, and all others go through.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

READING = (errno.EIO, errno.EMFILE)
WRITING = (errno.ENOSPC, errno.EIO, errno.EDQUOT)
MAKING = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS)
SPAWNING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENOENT)
SQLITE = ("disk I/O error", "database or disk is full", "database is locked", "unable to open database file")
PATHS = {
    "mkdir": MAKING,
    "rename": MAKING,
    "replace": MAKING,
    "unlink": MAKING,
    "remove": MAKING,
    "rmdir": MAKING,
    "listdir": READING,
    "scandir": READING,
}
"""Functions of `os` whose first argument is a path, and how they fail."""
DESCRIPTORS = {"fsync": (errno.EIO, errno.ENOSPC), "pread": (errno.EIO,)}
"""And those whose first argument is an open file."""


class Trip:
    """Counts the calls below a folder; the one with the number `at` fails, once."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._lock = threading.Lock()
        self._at: int | None = None
        self.always: int | None = None
        self.seen = 0
        self.tripped: str | None = None
        """The call that failed, in words."""

    def arm(self, at: int) -> None:
        with self._lock:
            self._at, self.seen, self.tripped = at, 0, None

    def fail_from_now_on(self, number: int) -> None:
        """Every call, with this error."""
        self.arm(at=0)
        self.always = number

    def disarm(self) -> None:
        with self._lock:
            self._at = None

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """The test's own look into the folder is not counted."""
        with self._lock:
            at, self._at = self._at, None
        try:
            yield
        finally:
            with self._lock:
                self._at = at

    def fails(self, call: str, path: str) -> int | None:
        """The number of this call, if it is the one."""
        if not f"{path}/".startswith(f"{self.root}/"):
            return None
        with self._lock:
            if self._at is None:
                return None
            self.seen += 1
            if self.seen != self._at and self.always is None:
                return None
            self.tripped = f"call {self.seen}: {call} {path.removeprefix(self.root)}"
            return self.seen


class Failing:
    """The wrapped calls of this process, and who waits for which of them to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._trips: list[Trip] = []

    @contextmanager
    def trip(self, root: Path) -> Iterator[Trip]:
        trip = Trip(root)
        self._trips.append(trip)
        try:
            yield trip
        finally:
            self._trips.remove(trip)

    def _check(self, call: str, path: str, numbers: tuple[int, ...]) -> None:
        for trip in self._trips:
            if (count := trip.fails(call, path)) is not None:
                number = trip.always or numbers[count % len(numbers)]
                raise OSError(number, os.strerror(number), path)

    # Files

    def of_files(self) -> None:
        for name, numbers in PATHS.items():
            self._patch.setattr(os, name, partial(self._by_path, getattr(os, name), name, numbers))
        for name, numbers in DESCRIPTORS.items():
            self._patch.setattr(os, name, partial(self._by_descriptor, getattr(os, name), name, numbers))
        self._patch.setattr(os, "write", partial(self._write, os.write))
        self._patch.setattr(os, "open", partial(self._open, os.open))
        for module in (io, builtins):
            self._patch.setattr(module, "open", partial(self._open_file, io.open))

    def _by_path(
        self,
        real: Callable[..., Any],
        call: str,
        numbers: tuple[int, ...],
        path: Any = ".",
        *args: Any,
        **more: Any,
    ) -> Any:
        self._check(call, _path(path, more.get("dir_fd", more.get("src_dir_fd"))), numbers)
        return real(path, *args, **more)

    def _by_descriptor(
        self, real: Callable[..., Any], call: str, numbers: tuple[int, ...], file: int, *args: Any
    ) -> Any:
        self._check(call, _path(file), numbers)
        return real(file, *args)

    def _write(self, real: Callable[..., int], file: int, data: bytes) -> int:
        """As much as still fits is written before a disk is full."""
        try:
            self._check("write", _path(file), WRITING)
        except OSError:
            real(file, data[: len(data) // 2])
            raise
        return real(file, data)

    def _open(
        self, real: Callable[..., int], path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        is_made = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        self._check("open", _path(path, dir_fd), MAKING if is_made else READING)
        return real(path, flags, mode, dir_fd=dir_fd)

    def _open_file(
        self, real: Callable[..., Any], file: Any, mode: str = "r", *args: Any, **more: Any
    ) -> Any:
        is_made, path = not set("wax+").isdisjoint(mode), _path(file)
        if not isinstance(file, int):
            self._check("open", path, MAKING if is_made else READING)
        opened = real(file, mode, *args, **more)
        return _Writing(opened, partial(self._check, "write", path, WRITING)) if is_made else opened

    # SQLite

    def of_sqlite(self) -> None:
        failing, real = self, sqlite3.connect

        class Connection(sqlite3.Connection):
            where = ""

            def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
                failing._fail_sqlite(sql, self.where)
                return super().execute(sql, *args)

            def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
                failing._fail_sqlite(sql, self.where)
                return super().executemany(sql, *args)

            def executescript(self, sql: str) -> sqlite3.Cursor:
                failing._fail_sqlite(sql, self.where)
                return super().executescript(sql)

        def connect(path: Any, **more: Any) -> sqlite3.Connection:
            failing._fail_sqlite("connect", str(path))
            connection = real(path, factory=Connection, **more)
            assert isinstance(connection, Connection)
            connection.where = str(path)
            return connection

        self._patch.setattr(sqlite3, "connect", connect)

    def _fail_sqlite(self, sql: str, path: str) -> None:
        """Before the call, never after it: SQLite does not report an error for what it has committed."""
        for trip in self._trips:
            if (number := trip.fails(" ".join(sql.split())[:60], path)) is not None:
                raise sqlite3.OperationalError(SQLITE[number % len(SQLITE)])

    # Processes

    def of_spawns(self) -> None:
        real = subprocess.Popen

        def popen(argv: Any, *args: Any, **more: Any) -> Any:
            self._check("spawn", str(more.get("cwd") or ""), SPAWNING)
            return real(argv, *args, **more)

        self._patch.setattr(subprocess, "Popen", popen)


class _Writing:
    """An open file whose writes are counted; what is written by C alone goes unseen."""

    def __init__(self, file: Any, check: Callable[[], None]) -> None:
        self._file = file
        self._check = check

    def write(self, data: Any) -> Any:
        try:
            self._check()
        except OSError:
            self._file.write(data[: len(data) // 2])
            raise
        return self._file.write(data)

    def __enter__(self) -> _Writing:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _path(given: Any, folder: int | None = None) -> str:
    """Of a name, of a name in an open folder, or of an open file."""
    if isinstance(given, int):
        return str(Path(f"/proc/self/fd/{given}").readlink())
    return os.fsdecode(given) if folder is None else f"{_path(folder)}/{os.fsdecode(given)}"
