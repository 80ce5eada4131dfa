"""One owner for a data directory. The kernel holds the lock, so it dies with its process; the file says whose it is."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from turnkeeper.core.errors import DataDirInUse, StorageUnavailable
from turnkeeper.failpoints import Deed, around

LOCK = "lock"
TRIES, PAUSE_SEC = 5, 0.02
"""Who only asks whose a directory is holds its lock for an instant, and must not keep a server from starting."""


@dataclass(frozen=True, slots=True)
class Owner:
    pid: int | None = None
    """None: it could not write down who it is."""
    host: str = ""
    since: str = ""

    def __str__(self) -> str:
        if self.pid is None:
            return "another server"
        return f"the server with pid {self.pid} on {self.host} (since {self.since})"


class DirectoryLock:
    def __init__(self, data_dir: Path) -> None:
        try:
            file = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageUnavailable(
                f"the data directory {data_dir} cannot be used: {error.strerror}"
            ) from error
        with around(Deed.LOCK):
            is_ours = _take(file)
        if not is_ours:
            owner = _read_owner(file)
            os.close(file)
            raise DataDirInUse(f"{data_dir} is in use by {owner}; stop it or choose another --data-dir")
        with suppress(OSError):  # on a full disk nobody can read whose it is, but it is ours all the same
            _write_owner(file)
        self._file: int | None = file

    def release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.ftruncate(file, 0)
            os.close(file)


def owner_of(data_dir: Path) -> Owner | None:
    """None: nobody serves from it, whatever a killed server has left in the file."""
    try:
        file = os.open(data_dir / LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # never used, or not for us to look into
    try:
        return _read_owner(file) if not _lock(file, fcntl.LOCK_SH) else None
    finally:
        os.close(file)


def _take(file: int) -> bool:
    for tries_left in reversed(range(TRIES)):
        if _lock(file, fcntl.LOCK_EX):
            return True
        if tries_left:
            time.sleep(PAUSE_SEC)
    return False


def _lock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _write_owner(file: int) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now}).encode(), 0)


def _read_owner(file: int) -> Owner:
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):  # whatever stands there
        owner = json.loads(os.pread(file, 4096, 0))
        return Owner(owner["pid"], owner["host"], owner["since"])
    return Owner()
