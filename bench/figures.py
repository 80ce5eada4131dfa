"""A figure and the goal it is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    goal: str
    """Its id, as in `goals.py`."""
    what: str
    unit: str
    measured: float
    limit: float | None = None
    """At the most; None: only told. With a floor it is of the ratio, else of the figure itself."""
    floor: float | None = None
    """What the same costs bare, measured in alternation with it, or what it was before there was more of everything."""
    at_least: bool = False
    """The limit is one from below."""

    @property
    def ratio(self) -> float | None:
        return None if self.floor is None else self.measured / self.floor if self.floor else float("inf")

    @property
    def held(self) -> float:
        """What the limit is about."""
        return self.measured if self.ratio is None else self.ratio

    @property
    def passes(self) -> bool:
        if self.limit is None:
            return True
        return self.held >= self.limit if self.at_least else self.held <= self.limit

    @property
    def share(self) -> float | None:
        """Of what is allowed, how much is used; above 1 it is too much."""
        if self.limit is None:
            return None
        if self.at_least:
            return self.limit / self.held if self.held else float("inf")
        return max(0.0, self.held / self.limit if self.limit else float(self.held > 0) * 2)


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest of them that is as large as `part` of all."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)
