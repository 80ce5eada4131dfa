"""A Change is one step of one run with everything that must be written together; here are its building blocks.

`lifecycle.py` and `questions.py` compose them; nobody else does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from turnkeeper.core.fcmp import Event, Type, instant, warning
from turnkeeper.core.run import (
    Attempt,
    Ending,
    Failure,
    Handle,
    Idempotency,
    Interaction,
    Question,
    Run,
    RunWarning,
)
from turnkeeper.core.statechart import Trigger, next_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step of one run. The store writes all of it in one transaction, or nothing."""

    before: Run | None
    after: Run
    trigger: Trigger | None
    """None for the two steps that change no state: a run's creation, and the intent to end it."""
    events: tuple[Event, ...] = ()
    interaction: Interaction | None = None
    attempt: Attempt | None = None
    enqueue: bool = False
    """A turn of this run is now to be dispatched."""
    idempotency: Idempotency | None = None

    @property
    def answered(self) -> Interaction | None:
        asked = self.interaction
        return asked if asked is not None and asked.answer is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReport:
    """What a finished turn brings along, beside its verdict."""

    output: Sequence[Event] = ()
    """Events of the engine that were not appended yet."""
    handle: Handle | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    model: str | None = None
    noted: Sequence[RunWarning] = ()
    """Warnings that stand in the log already."""
    warnings: Sequence[RunWarning] = ()
    question: Question | None = None
    """What is asked, if the verdict is to wait."""
    result: Mapping[str, Any] | None = None
    evidence: Mapping[str, Any] | None = None
    verdict: Mapping[str, Any] | None = None


AT_REST: dict[str, Any] = {"lease": None, "due_at": None, "pending_interaction_id": None, "held": None}


def step(
    run: Run,
    trigger: Trigger,
    now: datetime,
    *,
    cause: Sequence[Event] = (),
    effect: Sequence[Event] = (),
    enqueue: bool = False,
    **fields: Any,
) -> Change:
    """Cause, then the change of state, then what follows from it: the order of every log."""
    state = next_state(run.state, trigger)
    after = replace(run, state=state, version=run.version + 1, updated_at=now, **fields)
    changed = [_state_changed(run, after, trigger, now)] if state is not run.state else []
    events = (*cause, *changed, *effect)
    return Change(before=run, after=after, trigger=trigger, events=events, enqueue=enqueue)


def _state_changed(before: Run, after: Run, trigger: Trigger, now: datetime) -> Event:
    data: dict[str, Any] = {
        "from": before.state.value,
        "to": after.state.value,
        "trigger": trigger.value,
        "updated_at": instant(now),
    }
    if after.pending_interaction_id is not None:
        data["pending_interaction_id"] = after.pending_interaction_id
    return Event(Type.STATE_CHANGED, data, now, after.attempt_number)


def intend(run: Run, ending: Ending, now: datetime) -> Change:
    """`due_at` goes with it: a deadline that has been decided must not fire again."""
    after = replace(run, ending=ending, due_at=None, version=run.version + 1, updated_at=now)
    return Change(before=run, after=after, trigger=None)


def failure_view(failure: Failure) -> dict[str, Any]:
    """As the log and the API show it."""
    return {
        "code": failure.code.value,
        "message": failure.message,
        "retry_after": failure.retry_after,
        "evidence": failure.evidence,
    }


def fail(
    run: Run, trigger: Trigger, failure: Failure, now: datetime, *, cause: Sequence[Event] = (), **fields: Any
) -> Change:
    error = {"error": failure_view(failure)}
    return step(
        run,
        trigger,
        now,
        cause=cause,
        effect=[Event(Type.FAILED, error, now, run.attempt_number)],
        error=failure,
        finished_at=now,
        **AT_REST,
        **fields,
    )


def closing_words(run: Run, report: TurnReport, now: datetime) -> list[Event]:
    """The last of the output, usage and warnings: all of it before the change of state that follows."""
    events = list(report.output)
    if report.usage:
        events.append(Event(Type.USAGE, dict(report.usage), now, run.attempt_number))
    events += [warning(w.code, w.message, now=now, attempt=run.attempt_number) for w in report.warnings]
    return events


def all_warnings(run: Run, report: TurnReport) -> tuple[RunWarning, ...]:
    return (*run.warnings, *report.noted, *report.warnings)


def added(total: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {
        key: total.get(key, 0) + more.get(key, 0) for key in (*total, *(k for k in more if k not in total))
    }
