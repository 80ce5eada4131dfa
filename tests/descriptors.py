"""A process that has hardly any file descriptor left: this one."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

SPARE = 8
"""More than are used between two looks; the limit lies that much above what is open."""


@contextmanager
def few_descriptors(free: int = 0) -> Iterator[None]:
    """So many can still be opened; all the others are taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))  # noqa: PTH208
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + SPARE, hard))
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                break
        for _ in range(free):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in taken:
            os.close(each)
