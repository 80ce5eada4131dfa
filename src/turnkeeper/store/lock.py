"""One owner for a data directory. The kernel holds the lock, so it dies with its process; the file says whose it is."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from turnkeeper.core.errors import DataDirInUse, StorageUnavailable


class DirectoryLock:
    def __init__(self, data_dir: Path) -> None:
        try:
            file = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageUnavailable(
                f"the data directory {data_dir} cannot be used: {error.strerror}"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = _read_owner(file)
            os.close(file)
            raise DataDirInUse(
                f"{data_dir} is in use by {owner}; stop it or choose another --data-dir"
            ) from None
        with suppress(OSError):  # on a full disk nobody can read whose it is, but it is ours all the same
            _write_owner(file)
        self._file: int | None = file

    def release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.ftruncate(file, 0)
            os.close(file)


def _write_owner(file: int) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now}).encode(), 0)


def _read_owner(file: int) -> str:
    with suppress(ValueError, KeyError):
        owner = json.loads(os.pread(file, 4096, 0))
        return f"the server with pid {owner['pid']} on {owner['host']} (since {owner['since']})"
    return "another server"
