"""What may be removed of runs that nobody works on any more: by age, by size, by state. Nothing is removed here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from turnkeeper.core.errors import InvalidRequest
from turnkeeper.core.statechart import TERMINAL, State

REMOVABLE = TERMINAL | {State.WAITING_USER}
"""A run in line or with a turn is never removed; one that waits, if somebody says so."""


class Part(StrEnum):
    """What of a run goes."""

    RUNS = "runs"
    """All of it."""
    HOMES = "homes"
    """The engine's private home, with the session; record, logs and files stay."""
    LOGS = "logs"
    """What the engine printed; its verdicts cannot be checked any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Afterwards nothing is older, and all of it fits. At least one of the two is given."""

    older_than: timedelta | None = None
    keep_bytes: int | None = None
    part: Part = Part.RUNS
    states: Collection[State] = TERMINAL

    def __post_init__(self) -> None:
        if self.older_than is None and self.keep_bytes is None:
            raise InvalidRequest("say what may go: by age, by size, or both")
        if not self.states or not REMOVABLE.issuperset(self.states):
            known = ", ".join(state.value for state in State if state in REMOVABLE)
            raise InvalidRequest(f"runs can be removed in these states: {known}")
        if State.WAITING_USER in self.states and self.part is not Part.RUNS:
            raise InvalidRequest("a run that waits needs its home and its logs; it can only be removed whole")

    def until(self, now: datetime) -> datetime:
        """Runs that came to rest later stay, whatever else is so."""
        if self.keep_bytes is not None or self.older_than is None:
            return now
        return _before(now, self.older_than)

    def is_too_old(self, since: datetime, now: datetime) -> bool:
        return self.older_than is not None and since <= _before(now, self.older_than)

    def is_too_much(self, kept: int) -> bool:
        return self.keep_bytes is not None and kept > self.keep_bytes


def _before(now: datetime, age: timedelta) -> datetime:
    try:
        return now - age
    except OverflowError:  # older than the calendar
        return datetime.min.replace(tzinfo=now.tzinfo)
