"""How much of the disk the folder of a run takes, and how such a folder, or a part of it, is deleted.

What is in there was an agent's: folders that may not be entered, links that lead out, paths longer than any call takes.
No link is followed, and nothing is reached by a path: each step is from an open folder to a name in it.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

HOME, RAW = "home", "raw"
BLOCK = 512
_ENTER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes on the disk."""

    homes: int = 0
    logs: int = 0
    files: int = 0
    """The workspace: uploads and artifacts."""

    @property
    def total(self) -> int:
        return self.homes + self.logs + self.files

    def __add__(self, other: Space) -> Space:
        return Space(self.homes + other.homes, self.logs + other.logs, self.files + other.files)


def measure(folder: Path) -> Space:
    """Of a run; nothing if it is not there. What cannot be looked into counts for nothing. Blocking."""
    if folder.is_symlink():
        return Space()
    counted: Counter[str] = Counter()
    for entry in _entries(folder):
        counted[entry.name if entry.name in (HOME, RAW) else ""] += _size(entry)
    return Space(counted[HOME], counted[RAW], counted[""])


def _size(entry: os.DirEntry[str]) -> int:
    size, waiting = 0, [entry]
    while waiting:
        each = waiting.pop()
        with suppress(OSError):  # gone since it was listed
            size += each.stat(follow_symlinks=False).st_blocks * BLOCK
            if each.is_dir(follow_symlinks=False):
                waiting += _entries(Path(each.path))
    return size


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []  # not there, not for us to look into, or too deep to be named


def clear(root: Path, *below: str) -> None:
    """Deletes what `below` names in `root`, one name for each step down; it need not be there. Blocking.

    As much as can be: if something stays, the first reason is raised.
    """
    *folders, name = below
    with ExitStack() as undo, suppress(FileNotFoundError):
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        undo.callback(os.close, at)
        for folder in folders:
            at = os.open(folder, os.O_RDONLY | _ENTER, dir_fd=at)
            undo.callback(os.close, at)
        if _is_left(at, name):
            # What somebody else deletes meanwhile is no reason to leave the rest.
            problems = [each for each in _emptied(at, name) if not isinstance(each, FileNotFoundError)]
            if problems:
                raise problems[0]
            os.rmdir(name, dir_fd=at)
        os.fsync(at)


def _is_left(at: int, name: str) -> bool:
    """False: it was no folder, and is deleted."""
    try:
        os.unlink(name, dir_fd=at)
    except IsADirectoryError:
        return True
    return False


def _emptied(at: int, name: str) -> Iterator[OSError]:
    """What a folder holds comes up beside it before it goes: nothing is ever deep, however deep it was."""
    top = _entered(at, name)
    fresh, numbers = secrets.token_hex(8), count()
    stays: set[str] = set()
    try:
        while folders := [each for each in _names(top) if each not in stays]:
            for each in folders:
                try:
                    if _is_left(top, each):
                        yield from _brought_up(top, each, (f"{fresh}.{number}" for number in numbers))
                        os.rmdir(each, dir_fd=top)
                except OSError as error:
                    stays.add(each)
                    yield error
    finally:
        os.close(top)


def _brought_up(top: int, name: str, fresh: Iterator[str]) -> Iterator[OSError]:
    folder = _entered(top, name)
    try:
        for each in _names(folder):
            try:
                if _is_left(folder, each):
                    os.close(_entered(folder, each))  # one that we may not write to cannot be moved either
                    os.rename(each, next(fresh), src_dir_fd=folder, dst_dir_fd=top)
            except OSError as error:
                yield error
    finally:
        os.close(folder)


def _names(folder: int) -> list[str]:
    """Of an open folder, which has no path."""
    return os.listdir(folder)


def _entered(at: int, name: str) -> int:
    """Open, and ours to change, whatever its owner forbade."""
    place = os.open(name, os.O_PATH | _ENTER, dir_fd=at)
    try:
        with suppress(OSError):  # a stranger's: what can be done there is seen by trying
            os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 (no path, and never a link)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)
