"""A file system of its own, so small that a test can fill it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BLOCK = 4096


class SmallDisk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._ballast = root / "ballast"

    @property
    def free(self) -> int:
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    @property
    def files_left(self) -> int:
        return os.statvfs(self.root).f_favail

    def fill(self, leave: int = 0) -> None:
        """Until no more than `leave` bytes are free."""
        with self._ballast.open("ab", buffering=0) as file:
            while self.free > leave:
                file.write(bytes(min(self.free - leave, 256 * BLOCK)))

    def use_up_files(self, leave: int) -> None:
        for number in range(self.files_left - leave):
            (self.root / f"ballast.{number}").touch()

    def clear(self) -> None:
        """There is room again."""
        for path in self.root.glob("ballast*"):
            path.unlink()

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.root)], check=True, capture_output=True)


@contextmanager
def small_disk(root: Path, options: str) -> Iterator[SmallDisk]:
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "turnkeeper-test", str(root)]
    try:
        subprocess.run(mount, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = (
            error.stderr.strip().split("\n")[0] if isinstance(error, subprocess.CalledProcessError) else error
        )
        pytest.skip(f"no small disk can be mounted here ({why}): try unshare -Urm make test-faults")
    try:
        yield SmallDisk(root)
    finally:
        # Lazily: what a failed test has left open must not leave the mount behind.
        subprocess.run(["umount", "--lazy", str(root)], check=True)
