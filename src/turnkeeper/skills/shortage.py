"""Errors that tell of the machine, and nothing of the file that was asked for."""

from __future__ import annotations

import errno

from turnkeeper.core.errors import StorageUnavailable

OF_THE_SERVICE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
OF_THE_DISK = OF_THE_SERVICE | {errno.EIO}


def raise_shortage(error: OSError, what: str, numbers: frozenset[int] = OF_THE_DISK) -> None:
    """A file that cannot be looked at is not a file that is missing: who asks is told to ask again."""
    if error.errno in numbers:
        raise StorageUnavailable(f"{what} cannot be read: {error.strerror}") from error
