"""Whether the kernel ended a process because memory ran out.

It does not tell of which process it was, but it counts, for each cgroup: the smaller the group, the less can another's
end be taken for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

_COUNTER = "oom_kill "
_DEAD = ("Z", "X")
_LONGEST = 64 * 1024
"""Bytes of a counter: /proc/vmstat has about four thousand."""


@dataclass(frozen=True, slots=True)
class Kills:
    """How many there have been, by one counter."""

    counter: Path
    count: int
    listing: str = field(default="", compare=False)
    """The groups of the process by which it was found."""

    @property
    def are_more(self) -> bool:
        """By now."""
        now = _count(self.counter)
        return now is not None and now > self.count


def oom_kills(pid: int | str = "self", known: Kills | None = None, *, root: Path = Path("/")) -> Kills | None:
    """In the cgroup of a process, or on the whole machine if that is not told; None where the kernel does not count.

    `known` is what there is to go by so far: it stays, unless the process is found in another group.
    """
    process = root / "proc" / str(pid)
    listing = _read(process / "cgroup")
    if known is not None and listing and listing == known.listing:
        return known
    for counter in _counters(root, _living(process, listing)):
        if known is not None and counter == known.counter:
            return known
        if (count := _count(counter)) is not None:
            return Kills(counter, count, listing)
    if known is not None:
        return known
    everywhere = root / "proc/vmstat"
    count = _count(everywhere)
    return None if count is None else Kills(everywhere, count)


class Own:
    """Our own group, where most engines are. Its counter stays open: it is read at the start of every turn."""

    def __init__(self) -> None:
        self._kills: Kills | None = None
        self._fd = -1

    def kills(self) -> Kills | None:
        try:
            if self._kills is not None:
                now = _counted(os.pread(self._fd, _LONGEST, 0).decode())
                return None if now is None else replace(self._kills, count=now)
            self._kills = oom_kills()
            if self._kills is not None:
                self._fd = os.open(self._kills.counter, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the group is gone, or there is no descriptor left: the next turn asks anew
            self.close()
            return oom_kills()
        return self._kills

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._kills, self._fd = None, -1


def _counters(root: Path, groups: list[str]) -> Iterator[Path]:
    """Of its cgroup, where they may be."""
    mount = root / "sys/fs/cgroup"
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if "memory" in controllers.split(","):  # version 1
            place, name = mount / "memory", "memory.oom_control"
        elif not controllers:  # version 2
            place, name = mount, "memory.events"
        else:
            continue
        yield place / path.lstrip("/") / name
        yield place / name  # some containers are told the path outside, and see their own group only


def _living(process: Path, listing: str) -> list[str]:
    """None of one that is dead: version 1 says of those that they are in no group but the first."""
    status = _read(process / "status").split("\n")
    state = next((line.split()[1] for line in status if line.startswith("State:")), "X")
    return [] if state in _DEAD else [line for line in listing.strip().split("\n") if line]


def _count(counter: Path) -> int | None:
    return _counted(_read(counter))


def _counted(text: str) -> int | None:
    found = (line.removeprefix(_COUNTER) for line in text.split("\n") if line.startswith(_COUNTER))
    return next((int(count) for count in found), None)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
