"""What may go: by age, by size, both; and what never does."""

from datetime import UTC, datetime, timedelta

import pytest

from turnkeeper.core.errors import InvalidRequest
from turnkeeper.core.retention import Limits, Part
from turnkeeper.core.statechart import State

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)


def test_something_must_be_said() -> None:
    with pytest.raises(InvalidRequest, match="by age, by size"):
        Limits()


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
def test_what_lives_is_never_removed(state: State) -> None:
    with pytest.raises(InvalidRequest, match="succeeded"):
        Limits(older_than=DAY, states=(State.FAILED, state))


def test_what_waits_is_removed_whole_and_only_if_named() -> None:
    assert State.WAITING_USER not in Limits(older_than=DAY).states
    assert Limits(older_than=DAY, states=(State.WAITING_USER,)).states == (State.WAITING_USER,)
    for part in (Part.HOMES, Part.LOGS):
        with pytest.raises(InvalidRequest, match="only be removed whole"):
            Limits(older_than=DAY, part=part, states=(State.WAITING_USER,))


def test_no_state_is_not_every_state() -> None:
    with pytest.raises(InvalidRequest):
        Limits(older_than=DAY, states=())


def test_by_age() -> None:
    limits = Limits(older_than=DAY)
    assert limits.until(NOW) == NOW - DAY
    assert limits.is_too_old(NOW - DAY, NOW)
    assert not limits.is_too_old(NOW - DAY + timedelta(microseconds=1), NOW)
    assert not limits.is_too_much(10**18)


def test_by_size_everything_is_looked_at() -> None:
    limits = Limits(keep_bytes=10)
    assert limits.until(NOW) == NOW
    assert (limits.is_too_much(10), limits.is_too_much(11)) == (False, True)
    assert not limits.is_too_old(NOW - 1000 * DAY, NOW)
    assert Limits(keep_bytes=10, older_than=DAY).until(NOW) == NOW


def test_an_age_beyond_the_calendar_is_nobodys() -> None:
    limits = Limits(older_than=timedelta.max)
    assert not limits.is_too_old(NOW - 1000 * DAY, NOW)
    assert limits.until(NOW) < NOW - 1000 * DAY
