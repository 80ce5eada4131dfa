"""What waiting means: two facts, four rows."""

from __future__ import annotations

import pytest

from tests.core.examples import NOW, RESUMABLE, STICKY, a_job, later
from turnkeeper.core.statechart import Trigger
from turnkeeper.core.waiting import POLICIES, ProfileKind, deadline

ROWS = [
    # profile, strict, slot kept, deadline after 60 s, at the deadline
    (RESUMABLE, True, False, None, None),
    (RESUMABLE, False, False, later(60), Trigger.AUTO_DECIDE_TIMEOUT),
    (STICKY, True, True, later(60), Trigger.WAIT_TIMEOUT),
    (STICKY, False, True, later(60), Trigger.AUTO_DECIDE_TIMEOUT),
]


@pytest.mark.parametrize(("profile", "strict", "keeps_slot", "due_at", "at_deadline"), ROWS)
def test_policy(
    profile: ProfileKind, strict: bool, keeps_slot: bool, due_at: object, at_deadline: Trigger | None
) -> None:
    policy = a_job(profile, strict=strict).wait_policy
    assert policy.keeps_slot is keeps_slot
    assert policy.at_deadline is at_deadline
    assert deadline(policy, NOW, 60) == due_at


def test_there_are_no_other_rows() -> None:
    assert set(POLICIES) == {(profile, strict) for profile, strict, *_ in ROWS}
