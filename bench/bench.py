"""What every measurement is given: the engine, a place for data, and how long it may take."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from bench.service import Service, service
from bench.wire import Connection, connected

_GET_FLAGS, _SET_FLAGS, _TOPDIR = 0x80086601, 0x40086602, 0x20000
"""`lsattr` and `chattr +T`."""
TINY = Path(__file__).parent / "engine"


@dataclass(frozen=True, slots=True)
class Bench:
    engine: Path
    folder: Path
    is_quick: bool = False
    _numbers: Iterator[int] = field(default_factory=count)

    def rounds(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full

    def fresh(self) -> Path:
        """A folder that nobody has used."""
        made = self.folder / f"{next(self._numbers):03}"
        made.mkdir()
        return made

    @contextmanager
    def service(self, data_dir: Path | None = None, **settings: str) -> Iterator[Service]:
        """With `data_dir`, on what is there already."""
        with service(data_dir or self.fresh(), self.engine, **settings) as started:
            yield started

    @asynccontextmanager
    async def visited(
        self, data_dir: Path | None = None, **settings: str
    ) -> AsyncIterator[tuple[Service, Connection]]:
        """A service, and a client of it."""
        with self.service(data_dir, **settings) as started:
            async with connected(started) as wire:
                yield started, wire


def spread(folder: Path) -> None:
    """Each folder that is made in there gets a place of its own on the disk. ext4 goes through all files that were
    deleted in a place lately before it makes one there, and the bench before this one has deleted thousands."""
    fd = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # another file system
        flags = bytearray(fcntl.ioctl(fd, _GET_FLAGS, bytes(8)))
        fcntl.ioctl(
            fd, _SET_FLAGS, (int.from_bytes(flags, sys.byteorder) | _TOPDIR).to_bytes(8, sys.byteorder)
        )
    os.close(fd)


def made_engine(folder: Path) -> Path:
    """The tiny engine: compiled, or else in Python, and then its starts cost more than all else."""
    compiler, program = shutil.which("cc"), folder / "tiny"
    if compiler is not None:
        subprocess.run([compiler, "-O2", "-o", program, TINY / "tiny.c"], check=True)
        return program
    print("no C compiler here: the engine is in Python, and its floor is high", file=sys.stderr)
    program.write_text(f"#!{sys.executable} -IS\n{(TINY / 'tiny.py').read_text(encoding='utf-8')}")
    program.chmod(0o700)
    return program
