"""The file system of the data directory: whether it has room for work that is not accepted yet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from turnkeeper.core.errors import StorageLow, StorageUnavailable

MIB = 1024 * 1024
FILES_PER_MIB = 16
"""How many files must be left for each MiB that must: a run with its engine's home has some hundreds."""


@dataclass(frozen=True, slots=True)
class Space:
    """What is left for whoever is not root."""

    free: int
    """Bytes."""
    files: int | None
    """None: this file system does not count them."""


@dataclass(frozen=True, slots=True)
class Disk:
    root: Path
    min_free_mb: int
    """0: new work is never refused."""

    def space(self) -> Space:
        """One call to the kernel; it may wait for a disk that sleeps."""
        try:
            found = os.statvfs(self.root)
        except OSError as error:
            raise StorageUnavailable(f"{self.root} cannot be looked at: {error.strerror}") from error
        return Space(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)

    def shortage(self, space: Space) -> str | None:
        """What there is too little of, in words; None: there is room."""
        if space.free < self.min_free_mb * MIB:
            return f"{space.free / MIB:.0f} MiB are free on the disk of {self.root}"
        if space.files is not None and space.files < self.min_free_mb * FILES_PER_MIB:
            return f"{space.files} files can still be made on the disk of {self.root}"
        return None

    def require_room(self) -> None:
        """Before new work is taken: what was accepted needs the rest to come to its end."""
        short = self.shortage(self.space()) if self.min_free_mb else None
        if short is not None:
            raise StorageLow(
                f"{short}; with less than TURNKEEPER_MIN_FREE_MB={self.min_free_mb} no new work is taken, "
                "and nothing was stored. To make room: turnkeeper prune"
            )
