"""What a turn uses of the machine, where no limit of the kernel's holds all its processes together.

Looked at about once a second, and only below the engine's own process: what the rest of the machine does costs nothing
here. Who is over a limit is told of; to end it is the owner's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from turnkeeper.engines.sandbox import MB, Limits

log = logging.getLogger(__name__)

LOOK_SEC, WEIGH_SEC = 1.0, 5.0
"""Between two looks at the processes, and at the disk."""
SHARE = 20
"""A look that takes long is followed by a pause that is so many times as long."""
MEMORY = (b"RssAnon:", b"RssShmem:")
"""What a process has taken for itself. Programs and libraries are in memory once, but would count for each user."""
MEMORY_FILE = "/memfd:"
BLOCK = 512
"""Bytes, as `stat` counts them on any disk."""


@dataclass(frozen=True, slots=True)
class Load:
    tasks: int
    """Threads of all processes."""
    memory: int
    unnamed: int = 0
    """Bytes of files on the disk that are open and in no folder any more."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit, and what was seen of it."""

    words: str
    setting: str


class Metered(Protocol):
    @property
    def keeper_pid(self) -> int | None:
        """The first process inside; None: it is not there yet, or there are no walls."""


class Meter:
    """While a process lives: `over` tells the first limit that is passed."""

    def __init__(
        self,
        process: Metered,
        limits: Limits | None,
        weigh: Callable[[], int],
        *,
        look_sec: float = LOOK_SEC,
        weigh_sec: float = WEIGH_SEC,
    ) -> None:
        self._process = process
        self._limits = limits
        self._weigh = weigh
        self._look_sec, self._weigh_sec = look_sec, weigh_sec
        self.over: asyncio.Future[Excess] = asyncio.get_running_loop().create_future()
        looks = ((self._look_sec, self._load), (self._weigh_sec, self._disk))
        self._tasks = [asyncio.ensure_future(self._watch(*look)) for look in looks if limits is not None]

    async def _watch(self, pause: float, look: Callable[[], Excess | None]) -> None:
        loop = asyncio.get_running_loop()
        while not self.over.done():
            began, found = loop.time(), None
            try:
                found = await asyncio.to_thread(look)
            except Exception as error:  # noqa: BLE001 (no descriptor, no thread: the next look may have one)
                log.warning("what an engine uses cannot be looked at: %r", error)
            if found is not None and not self.over.done():
                self.over.set_result(found)
            await asyncio.sleep(max(pause, SHARE * (loop.time() - began)))

    def _load(self) -> Excess | None:
        assert self._limits is not None
        pid = self._process.keeper_pid
        if pid is None:
            return None
        seen, most = load(pid), self._limits
        if seen.tasks > most.processes:
            return Excess(_over(seen.tasks, most.processes, "processes and threads"), "sandbox.max_processes")
        if seen.memory > most.memory:
            words = _over(seen.memory // MB, most.memory // MB, "MB of memory")
            return Excess(words, "sandbox.max_memory_mb")
        return None

    def _disk(self) -> Excess | None:
        assert self._limits is not None
        pid, most = self._process.keeper_pid, self._limits.disk
        size = self._weigh() + (load(pid).unnamed if pid is not None else 0)
        if size <= most:
            return None
        return Excess(
            _over(size // MB, most // MB, "MB of disk, in its workspace and its home"), "sandbox.max_disk_mb"
        )

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.over.cancel()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _over(seen: int, most: int, what: str) -> str:
    return f"{seen} {what}, and {most} are allowed"


def load(pid: int) -> Load:
    """Of a process and all below it. Blocking."""
    tasks, memory, unvisited = 0, 0, [pid]
    held: dict[tuple[int, int], _Held] = {}
    while unvisited:
        process = f"/proc/{unvisited.pop()}"
        held |= _held(process)
        with contextlib.suppress(OSError):  # gone meanwhile
            threads = os.listdir(f"{process}/task")  # noqa: PTH208 (names)
            tasks += len(threads)
            memory += _memory(process)
            for thread in threads:
                with contextlib.suppress(OSError):
                    unvisited += map(int, _read(f"{process}/task/{thread}/children").split())
    memory += sum(each.size for each in held.values() if each.is_memory)
    return Load(tasks, memory, sum(each.size for each in held.values() if not each.is_memory))


@dataclass(frozen=True, slots=True)
class _Held:
    """A file without a name, which is there for as long as somebody has it open."""

    size: int
    is_memory: bool


def _held(process: str) -> dict[tuple[int, int], _Held]:
    """By device and inode: whoever has one open has it from another, and it is there once. What is mapped too counts
    twice as memory, which is better than not at all. None of a process that does not let itself be looked at."""
    found: dict[tuple[int, int], _Held] = {}
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"{process}/fd"):  # noqa: PTH208 (names)
            with contextlib.suppress(OSError):  # closed meanwhile
                path = f"{process}/fd/{fd}"
                status = os.stat(path)  # noqa: PTH116 (no path of a file)
                if status.st_nlink == 0 and stat.S_ISREG(status.st_mode):
                    is_memory = os.readlink(path).startswith(MEMORY_FILE)  # noqa: PTH115
                    found[status.st_dev, status.st_ino] = _Held(status.st_blocks * BLOCK, is_memory)
    return found


def _memory(process: str) -> int:
    lines = (line.split() for line in _read(f"{process}/status").splitlines() if line.startswith(MEMORY))
    return sum(int(words[1]) * 1024 for words in lines)


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while more := os.read(fd, 64 * 1024):
            data += more
        return data
    finally:
        os.close(fd)
