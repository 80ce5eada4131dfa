"""The files of a skill, to be laid down for a run. Small ones are read once and kept for as long as nothing about their
folder changes; large ones are copied each time."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SMALL, MOST = 64 * 1024, 1024 * 1024
"""Bytes of a file, and of all files of a skill, that are kept."""
SKILLS = 32
"""How many are kept at once."""
SETTLED_NS = 2_000_000_000
"""A file that was written to just now may be written to again, and nothing would tell: clocks of disks are coarse."""

Stamp = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file, a link or a folder, by its path inside the skill."""

    name: str
    mode: int
    stamp: Stamp
    data: bytes | None = None
    """Of a small file."""


class Images:
    """Of the skills that were used last."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[_Entry, ...]] = {}
        self._lock = threading.Lock()

    def lay_down(self, root: Path, at: Path, patches: dict[str, Callable[[bytes], bytes]]) -> None:
        """All of the skill at a place where nothing is yet; a file that has a patch is laid down as that makes it.

        No hard links: the agent may write to its copy. Links are laid down as links: a skill cannot make us read
        outside its folder. Folders are writable, also where the operator's are not: else they could not be deleted.
        """
        for entry in self._entries(str(root)):
            source, target = os.path.join(root, entry.name), os.path.join(at, entry.name)  # noqa: PTH118
            if stat.S_ISDIR(entry.mode):
                os.mkdir(target, 0o700)  # noqa: PTH102 (plain calls: each run makes all of them)
            elif (patch := patches.get(entry.name)) is not None:
                data = entry.data if entry.data is not None else Path(source).read_bytes()
                write_new(target, patch(data), 0o600)
            elif stat.S_ISLNK(entry.mode):
                os.symlink(os.readlink(source), target)  # noqa: PTH115, PTH211
            elif entry.data is not None:
                write_new(target, entry.data, stat.S_IMODE(entry.mode))
            else:
                shutil.copy2(source, target)

    def _entries(self, root: str) -> tuple[_Entry, ...]:
        known = self._kept.get(root)
        if known is None or any(_stamp(os.path.join(root, each.name)) != each.stamp for each in known):  # noqa: PTH118
            known = _read(root)
            self._keep(root, known)
        return known

    def _keep(self, root: str, entries: tuple[_Entry, ...]) -> None:
        with self._lock:
            self._kept.pop(root, None)
            if all(_is_settled(each) for each in entries):
                self._kept[root] = entries
            if len(self._kept) > SKILLS:
                del self._kept[next(iter(self._kept))]  # read longest ago


def _read(root: str) -> tuple[_Entry, ...]:
    found, room = [], MOST
    for name in _names(root):
        path = os.path.join(root, name)  # noqa: PTH118
        status = os.lstat(path)
        data = None
        if stat.S_ISREG(status.st_mode) and status.st_size <= min(SMALL, room):
            data = Path(path).read_bytes()
            room -= len(data)
        found.append(_Entry(name, status.st_mode, _stamped(status), data))
    return tuple(found)


def _names(root: str, below: str = "") -> Iterator[str]:
    """The folder itself first, and each before what is in it."""
    yield below
    with os.scandir(os.path.join(root, below)) as entries:  # noqa: PTH118
        listed = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_folder in listed:
        path = os.path.join(below, name)  # noqa: PTH118
        if is_folder:
            yield from _names(root, path)
        else:
            yield path


def _stamp(path: str) -> Stamp | None:
    try:
        return _stamped(os.lstat(path))
    except OSError:
        return None


def _stamped(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns


def _is_settled(entry: _Entry) -> bool:
    return time.time_ns() - max(entry.stamp[-2:]) > SETTLED_NS


def write_new(path: str, data: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
    finally:
        os.close(fd)
