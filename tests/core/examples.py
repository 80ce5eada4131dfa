"""Plain values that the tests of the rules share: a job, a run in each live state, and how to read a change."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from turnkeeper.core import lifecycle
from turnkeeper.core.change import Change, TurnReport
from turnkeeper.core.contract import Contract
from turnkeeper.core.errors import Code
from turnkeeper.core.fcmp import Event, Type
from turnkeeper.core.gate import Verdict, Wait
from turnkeeper.core.run import (
    Attempt,
    Failure,
    Handle,
    Interaction,
    Job,
    Mode,
    Profile,
    Question,
    Run,
    RunWarning,
)
from turnkeeper.core.waiting import ProfileKind

CONTRACT = Contract(name="greet", is_plain=True)

NOW = datetime(2030, 5, 17, 12, 0, tzinfo=UTC)

RESUMABLE = ProfileKind.RESUMABLE
STICKY = ProfileKind.STICKY

LOADABLE = Handle("session-1", loadable=True)
TIED = Handle("session-1", loadable=False)
"""A session that lives and dies with its process."""

SAID = Event(Type.MESSAGE_FINAL, {"message_id": "1.1", "text": "Which colour?"}, NOW, 1)
NOTE = RunWarning("ODD", "something odd")
TIMEOUT = Failure(Code.TURN_TIMEOUT, "too long")


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def a_job(kind: ProfileKind = RESUMABLE, *, strict: bool = True, **other: Any) -> Job:
    settled: dict[str, Any] = {"mode": Mode.INTERACTIVE, "session_timeout_sec": 60.0} | other
    profile = Profile(kind, "chosen by the test")
    return Job(
        skill_id="greet",
        skill_version="1",
        contract=CONTRACT,
        engine="demo",
        strict=strict,
        profile=profile,
        **settled,
    )


def a_report(**other: Any) -> TurnReport:
    plain: dict[str, Any] = {
        "usage": {},
        "question": Question(prompt="Which colour?"),
        "evidence": {},
        "verdict": {},
    }
    return TurnReport(**plain | other)


def queued(job: Job | None = None) -> Run:
    return lifecycle.create("run-1", job or a_job(), NOW).after


def running(job: Job | None = None, **other: Any) -> Run:
    return replace(lifecycle.start_turn(queued(job), "lease-1", NOW).after, **other)


def asked(job: Job | None = None, **report: Any) -> tuple[Run, Interaction]:
    """A run that waits for a person, and its open question."""
    run = running(job)
    change = lifecycle.finish_turn(run, attempt_of(run), Wait(), a_report(**report), NOW)
    assert change.interaction is not None
    return change.after, change.interaction


def attempt_of(run: Run) -> Attempt:
    return Attempt(
        run_id=run.id,
        attempt_number=run.attempt_number,
        try_number=run.try_number,
        started_at=NOW,
        next_turn=run.next_turn,
    )


def finish(run: Run, verdict: Verdict, /, **report: Any) -> Change:
    """The running turn ends after five seconds."""
    return lifecycle.finish_turn(run, attempt_of(run), verdict, a_report(**report), later(5))


def some(change: Change | None) -> Change:
    assert change is not None
    return change


def story(change: Change) -> list[str]:
    """The events of a change, a line each."""
    return [
        f"{event.data['from']} -> {event.data['to']}: {event.data['trigger']}"
        if event.type is Type.STATE_CHANGED
        else event.type.value
        for event in change.events
    ]


def moved(change: Change) -> dict[str, Any]:
    """The fields that a change of five seconds later moved; version and time move always and are checked here."""
    assert change.before is not None
    assert change.after.version == change.before.version + 1
    assert change.after.updated_at == later(5)
    return {
        field.name: getattr(change.after, field.name)
        for field in fields(Run)
        if field.name not in ("version", "updated_at")
        and getattr(change.after, field.name) != getattr(change.before, field.name)
    }
