"""What waiting for a person means for a run: whether it keeps its slot, and what its deadline does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from turnkeeper.core.statechart import Trigger


class ProfileKind(StrEnum):
    RESUMABLE = "resumable"
    STICKY = "sticky_process"


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    keeps_slot: bool
    at_deadline: Trigger | None
    """None: there is no deadline, the run waits until somebody replies or cancels."""


POLICIES: dict[tuple[ProfileKind, bool], WaitPolicy] = {
    # (profile, strict)
    (ProfileKind.RESUMABLE, True): WaitPolicy(keeps_slot=False, at_deadline=None),
    (ProfileKind.RESUMABLE, False): WaitPolicy(keeps_slot=False, at_deadline=Trigger.AUTO_DECIDE_TIMEOUT),
    (ProfileKind.STICKY, True): WaitPolicy(keeps_slot=True, at_deadline=Trigger.WAIT_TIMEOUT),
    (ProfileKind.STICKY, False): WaitPolicy(keeps_slot=True, at_deadline=Trigger.AUTO_DECIDE_TIMEOUT),
}


def deadline(policy: WaitPolicy, now: datetime, session_timeout_sec: float) -> datetime | None:
    if policy.at_deadline is None:
        return None
    return now + timedelta(seconds=session_timeout_sec)
