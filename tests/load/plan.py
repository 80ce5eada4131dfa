"""What is asked of a load, and the book of everything that its clients were told: at the end the two must agree."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.harm import Harm, Violation
from tests.harness import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    seconds: float
    waiting: int
    """Runs that wait for a person, all the time."""
    in_flight: int
    """Runs that are on their way to an end, all the time; as many slots there are."""
    listeners: int
    rivals: int
    """Replies that race for each question."""
    service_kills: int
    engine_kills_per_sec: float = 1.0
    seed: int

    def __str__(self) -> str:
        names = ("seconds", "waiting", "in_flight", "listeners", "rivals", "service_kills", "seed")
        return " ".join(f"--{name.replace('_', '-')} {getattr(self, name)}" for name in names)


@dataclass(frozen=True, slots=True)
class Winner:
    text: str
    by: str
    accepted_at: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What a listener has seen of a run, by its number and the digest of all the bytes up to there."""

    run_id: str
    upto: int
    digest: bytes
    is_whole: bool


@dataclass(slots=True)
class Book:
    """Everything that a client was told. What stands here must be in the store."""

    chance: random.Random
    accepted: dict[str, str] = field(default_factory=dict)
    """The run of each key; those that were put into the store beforehand have their own id as key."""
    waiting: list[str] = field(default_factory=list)
    """Runs whose question nobody has taken up yet."""
    flying: list[str] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    """By run: its terminal state."""
    winners: dict[tuple[str, int], Winner] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)
    struck: set[str] = field(default_factory=set)
    """Runs whose engine was killed."""
    told: Counter[str] = field(default_factory=Counter)
    took: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each call, by its kind; those that had to be sent again are not among them."""
    starts: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)
    fds: list[int] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    lasted: float = 0.0
    harms: Counter[Harm] = field(default_factory=Counter)

    def take_waiting(self) -> str | None:
        """One of them, at random, for whoever wants to answer it: nobody else gets it."""
        if not self.waiting:
            return None
        at = self.chance.randrange(len(self.waiting))
        self.waiting[at], self.waiting[-1] = self.waiting[-1], self.waiting[at]
        return self.waiting.pop()

    def end(self, run: Json) -> None:
        known = self.ended.setdefault(run["run_id"], run["status"])
        if known != run["status"]:
            raise Violation(Harm.WRONG, f"a run that was {known} is {run['status']}: {run}")
