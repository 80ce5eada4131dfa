"""A service that knows where it has to die: what a test orders, and what the armed process does about it."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnkeeper import failpoints
from turnkeeper.failpoints import Deed, Point, When


@dataclass(frozen=True, slots=True)
class Kill:
    """At the n-th time that a start of the service comes by the point."""

    point: Point
    hit: int = 1

    def __str__(self) -> str:
        when, deed = self.point
        return f"{when} {deed} #{self.hit}"


@dataclass(frozen=True, slots=True)
class Order:
    """For one start: where the points are written down, and where it ends, if it does."""

    trace: Path
    kill: Kill | None = None

    def told(self) -> dict[str, Any]:
        return {"trace": str(self.trace), "kill": self.kill and [*self.kill.point, self.kill.hit]}

    @classmethod
    def heard(cls, told: dict[str, Any]) -> Order:
        kill = None
        if told["kill"] is not None:
            when, deed, hit = told["kill"]
            kill = Kill((When(when), Deed(deed)), hit)
        return cls(Path(told["trace"]), kill)


def arm(order: Order) -> None:
    """Of this process, before it serves."""
    trace = os.open(order.trace, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
    hits: Counter[Point] = Counter()
    one_at_a_time = threading.Lock()

    def reached(point: Point) -> None:
        with one_at_a_time:
            hits[point] += 1
            os.write(trace, "\t".join(point).encode() + b"\n")
            if order.kill == Kill(point, hits[point]):
                os.kill(os.getpid(), signal.SIGKILL)

    failpoints.watch(reached)


def traced(path: Path) -> list[Kill]:
    """Every moment that a start came by, as an order to die there."""
    hits: Counter[Point] = Counter()
    found = []
    for row in path.read_text().splitlines():
        when, deed = row.split("\t")
        point = When(when), Deed(deed)
        hits[point] += 1
        found.append(Kill(point, hits[point]))
    return found
