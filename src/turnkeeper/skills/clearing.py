"""How much of the disk the folder of a run takes, and how such a folder, or a part of it, is deleted.

What is in there was an agent's: folders that may not be entered, links that lead out, paths longer than any call takes.
No link is followed, and nothing is reached by a path: each step is from an open folder to a name in it.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

HOME, RAW = "home", "raw"
BLOCK = 512
"""Bytes, as `stat` counts them on any disk."""
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


@dataclass(frozen=True, slots=True)
class _Folder:
    """One that is being weighed, or one above it."""

    name: str
    place: tuple[int, int]
    """Device and inode, which stay its own wherever it is moved to."""
    size: int
    """Of what is in it, without what is in folders there."""
    folders: list[str]
    """Those that are still to be weighed."""


def measure(folder: Path) -> Space:
    """Of a run; nothing if it is not there. What cannot be looked into counts for nothing. Blocking."""
    counted: Counter[str] = Counter()
    with suppress(OSError), _opened(folder.parent, folder.name) as at:
        for name in _names(at):
            with suppress(FileNotFoundError):  # since it was listed
                own = os.stat(name, dir_fd=at, follow_symlinks=False).st_blocks * BLOCK
                counted[name if name in (HOME, RAW) else ""] += own + _weighed(at, name)
    return Space(counted[HOME], counted[RAW], counted[""])


def weigh(root: Path, *below: str, without: Sequence[str] = ()) -> int:
    """Bytes of what is in the folder that `below` names in `root`, one name for each step down. `without` names one in
    there, in the same way, and what is in that does not count. Blocking."""
    *folders, name = below
    with suppress(OSError), _opened(root, *folders) as at:
        return _weighed(at, name, without)
    return 0


def _weighed(at: int, name: str, without: Sequence[str] = ()) -> int:
    size = 0
    with suppress(OSError):  # no folder, or not for us to look into
        for each in _sizes(_looked_through(at, name), without):
            size += each
    return size


def _sizes(here: int, without: Sequence[str]) -> Iterator[int]:
    """Of the folder that is open, which this closes, and of each below it. One is open at a time, so that none is too
    deep. Down it goes by names, up by `..`: of one that an agent has moved meanwhile that is a stranger's, and the end.
    """
    try:
        way = [_looked_into(here, "")]
        yield way[0].size
        while True:
            if way[-1].folders:
                name = way[-1].folders.pop()
                if len(way) == len(without) and [*(each.name for each in way[1:]), name] == [*without]:
                    continue
                try:
                    below = _looked_through(here, name)
                except OSError:  # gone, a stranger's, or a link by now
                    continue
                os.close(here)
                here = below
                way.append(_looked_into(here, name))
                yield way[-1].size
            elif len(way) > 1:
                way.pop()
                here = _stepped(here, "..")
                if _place(here) != way[-1].place:
                    return
            else:
                return
    finally:
        os.close(here)


def _looked_into(folder: int, name: str) -> _Folder:
    size, folders = 0, []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # gone since it was listed
                size += entry.stat(follow_symlinks=False).st_blocks * BLOCK
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
    return _Folder(name, _place(folder), size, folders)


def _place(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


@contextmanager
def _opened(root: Path, *folders: str) -> Iterator[int]:
    """The last of them. Which folder `root` is, is ours to say; from there on no link is followed."""
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            at = _stepped(at, folder)
        yield at
    finally:
        os.close(at)


def _stepped(at: int, name: str) -> int:
    """The next folder is open instead of the last; if it cannot be entered, the last stays so."""
    following = os.open(name, os.O_RDONLY | _ENTER, dir_fd=at)
    os.close(at)
    return following


def clear(root: Path, *below: str) -> None:
    """Deletes what `below` names in `root`, one name for each step down; it need not be there. Blocking.

    As much as can be: if something stays, the first reason is raised.
    """
    *folders, name = below
    with suppress(FileNotFoundError), _opened(root, *folders) as at:
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


def _looked_through(at: int, name: str) -> int:
    """Open, and all that is in it can be seen: a folder that its owner has closed would hide what it takes."""
    with suppress(PermissionError):
        folder = os.open(name, os.O_RDONLY | _ENTER, dir_fd=at)
        if os.access(".", os.X_OK, dir_fd=folder):
            return folder
        os.close(folder)
    return _entered(at, name)


def _entered(at: int, name: str) -> int:
    """Open, and ours to change, whatever its owner forbade."""
    place = os.open(name, os.O_PATH | _ENTER, dir_fd=at)
    try:
        with suppress(OSError):  # a stranger's: what can be done there is seen by trying
            os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 (no path, and never a link)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)
