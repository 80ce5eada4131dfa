"""Whether the kernel ended a process because memory ran out.

It does not tell of which process it was, but it counts, for each cgroup: the smaller the group, the less can another's
end be taken for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COUNTER = "oom_kill "
_DEAD = ("Z", "X")


@dataclass(frozen=True, slots=True)
class Kills:
    """How many there have been, by one counter."""

    counter: Path
    count: int

    @property
    def are_more(self) -> bool:
        """By now."""
        now = _count(self.counter)
        return now is not None and now > self.count


def oom_kills(pid: int | str = "self", known: Kills | None = None, *, root: Path = Path("/")) -> Kills | None:
    """In the cgroup of a process, or on the whole machine if that is not told; None where the kernel does not count.

    `known` is what there is to go by so far: it stays, unless the process is found in another group.
    """
    for counter in _counters(root, pid):
        if known is not None and counter == known.counter:
            return known
        if (count := _count(counter)) is not None:
            return Kills(counter, count)
    if known is not None:
        return known
    everywhere = root / "proc/vmstat"
    count = _count(everywhere)
    return None if count is None else Kills(everywhere, count)


def _counters(root: Path, pid: int | str) -> Iterator[Path]:
    """Of its cgroup, where they may be."""
    mount = root / "sys/fs/cgroup"
    for group in _groups(root / "proc" / str(pid)):
        _, controllers, path = group.split(":", 2)
        if "memory" in controllers.split(","):  # version 1
            place, name = mount / "memory", "memory.oom_control"
        elif not controllers:  # version 2
            place, name = mount, "memory.events"
        else:
            continue
        yield place / path.lstrip("/") / name
        yield place / name  # some containers are told the path outside, and see their own group only


def _groups(process: Path) -> list[str]:
    """None of one that is dead: version 1 says of those that they are in no group but the first."""
    groups = _lines(process / "cgroup")
    state = next((line.split()[1] for line in _lines(process / "status") if line.startswith("State:")), "X")
    return [] if state in _DEAD else groups


def _count(counter: Path) -> int | None:
    found = (line.removeprefix(_COUNTER) for line in _lines(counter) if line.startswith(_COUNTER))
    return next((int(count) for count in found), None)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").strip().split("\n")
    except OSError:
        return []
