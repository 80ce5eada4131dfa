"""Records to rows and back, the same for every driver. Moments are fixed-width UTC text, nested records JSON."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from turnkeeper.core.fcmp import Event, envelope, instant
from turnkeeper.core.run import (
    Answer,
    Attempt,
    Born,
    Ending,
    Failure,
    Handle,
    Interaction,
    Job,
    NextTurn,
    Question,
    Recovery,
    Run,
    RunWarning,
    SandboxKind,
)
from turnkeeper.core.statechart import State, Trigger
from turnkeeper.store.base import LogEntry, Resting

T = TypeVar("T")


class Row(Protocol):
    def __getitem__(self, name: str, /) -> Any: ...


_encoder = msgspec.json.Encoder()
_job = msgspec.json.Decoder(Job)
_warnings = msgspec.json.Decoder(tuple[RunWarning, ...])
_ending = msgspec.json.Decoder(Ending)
_failure = msgspec.json.Decoder(Failure)
_object = msgspec.json.Decoder(dict[str, Any])
_question = msgspec.json.Decoder(Question)
_answer = msgspec.json.Decoder(Answer)


FIXED = ("id", "skill_id", "engine", "mode", "job", "created_at", "created_by")
"""Columns of a run that its creation writes, and nothing after it."""
HANDLE = ("handle_id", "handle_loadable")
MOVING = (
    "state",
    "version",
    "lease",
    "attempt_number",
    "try_number",
    "interruptions",
    "next_turn",
    "held",
    "files",
    "ending",
    "questions",
    "pending_interaction_id",
    "due_at",
    "recovery_trigger",
    "recovery_at",
    "warnings",
    "error",
    "result",
    "candidate_result",
    "usage",
    "sandbox",
    "updated_at",
    "started_at",
    "finished_at",
    "uploaded_by",
)
"""Columns that every change writes."""
RUN = (*FIXED, *HANDLE, *MOVING, "last_seq")
"""All of them, in the order of `run_of`."""
PRESERVED_AT = "preserved_at"
"""In `meta`: when a start has last found runs waiting, and left them so."""
# Nothing is written into the runs that wait when the service starts: a hundred thousand of them would take seconds.
_PRESERVED = (
    "(state = 'waiting_user' AND ending IS NULL "
    f"AND updated_at <= (SELECT value FROM meta WHERE name = '{PRESERVED_AT}'))"
)
_AS_READ = {
    "recovery_trigger": f"iif({_PRESERVED}, '{Trigger.PRESERVE_WAITING}', recovery_trigger)",
    "recovery_at": f"iif({_PRESERVED}, (SELECT value FROM meta WHERE name = '{PRESERVED_AT}'), recovery_at)",
}
RUN_COLUMNS = ", ".join(f"{_AS_READ[name]} AS {name}" if name in _AS_READ else name for name in RUN)


def fixed_values(run: Run) -> tuple[object, ...]:
    job = run.job
    return (
        run.id,
        job.skill_id,
        job.engine,
        job.mode.value,
        text(job),
        instant(run.created_at),
        run.created_by,
    )


def handle_values(handle: Handle | None) -> tuple[str | None, int | None]:
    return (None, None) if handle is None else (handle.session_id, int(handle.loadable))


def moving_values(run: Run) -> tuple[object, ...]:
    recovery = run.recovery
    return (
        run.state.value,
        run.version,
        run.lease,
        run.attempt_number,
        run.try_number,
        run.interruptions,
        run.next_turn.value,
        run.held,
        text(run.files) if run.files else None,
        maybe(run.ending),
        run.questions,
        run.pending_interaction_id,
        moment(run.due_at),
        recovery and recovery.trigger.value,
        recovery and instant(recovery.at),
        text(run.warnings) if run.warnings else None,
        maybe(run.error),
        maybe(run.result),
        maybe(run.candidate_result),
        text(run.usage) if run.usage else None,
        run.sandbox and run.sandbox.value,
        instant(run.updated_at),
        moment(run.started_at),
        moment(run.finished_at),
        run.uploaded_by,
    )


def run_values(run: Run) -> tuple[object, ...]:
    return (*fixed_values(run), *handle_values(run.handle), *moving_values(run), run.last_seq)


def run_of(row: Iterable[Any]) -> Run:
    """By position: to look a column up by its name costs a walk over all of them."""
    (
        run_id,
        _skill_id,
        _engine,
        _mode,
        job,
        created_at,
        created_by,
        handle_id,
        handle_loadable,
        state,
        version,
        lease,
        attempt_number,
        try_number,
        interruptions,
        next_turn,
        held,
        files,
        ending,
        questions,
        pending_interaction_id,
        due_at,
        recovery_trigger,
        recovery_at,
        warnings,
        error,
        result,
        candidate_result,
        usage,
        sandbox,
        updated_at,
        started_at,
        finished_at,
        uploaded_by,
        last_seq,
    ) = row
    return Run(
        id=run_id,
        job=_job.decode(job),
        state=State(state),
        version=version,
        lease=lease,
        last_seq=last_seq,
        attempt_number=attempt_number,
        try_number=try_number,
        interruptions=interruptions,
        next_turn=NextTurn(next_turn),
        handle=handle_of(handle_id, handle_loadable),
        held=held,
        files=_object.decode(files) if files else {},
        ending=_read(_ending, ending),
        questions=questions,
        pending_interaction_id=pending_interaction_id,
        due_at=_at(due_at),
        recovery=recovery_of(recovery_trigger, recovery_at),
        warnings=_warnings.decode(warnings) if warnings else (),
        error=_read(_failure, error),
        result=_read(_object, result),
        candidate_result=_read(_object, candidate_result),
        usage=_object.decode(usage) if usage else {},
        sandbox=SandboxKind(sandbox) if sandbox else None,
        created_at=datetime.fromisoformat(created_at),
        updated_at=datetime.fromisoformat(updated_at),
        started_at=_at(started_at),
        finished_at=_at(finished_at),
        created_by=created_by,
        uploaded_by=uploaded_by,
    )


def recovery_of(trigger: str | None, at: str) -> Recovery | None:
    return None if trigger is None else Recovery(Trigger(trigger), datetime.fromisoformat(at))


def handle_of(session_id: str | None, loadable: int | None) -> Handle | None:
    return None if session_id is None else Handle(session_id, bool(loadable))


INTERACTION = (
    "run_id",
    "interaction_id",
    "attempt_number",
    "question",
    "asked_at",
    "expires_at",
    "answer",
)
INTERACTION_COLUMNS = ", ".join(INTERACTION)


def interaction_values(interaction: Interaction) -> tuple[object, ...]:
    return (
        interaction.run_id,
        interaction.interaction_id,
        interaction.attempt_number,
        text(interaction.question),
        instant(interaction.asked_at),
        moment(interaction.expires_at),
        maybe(interaction.answer),
    )


def interaction_of(row: Iterable[Any]) -> Interaction:
    run_id, interaction_id, attempt_number, question, asked_at, expires_at, answer = row
    return Interaction(
        run_id=run_id,
        interaction_id=interaction_id,
        attempt_number=attempt_number,
        question=_question.decode(question),
        asked_at=datetime.fromisoformat(asked_at),
        expires_at=_at(expires_at),
        answer=_read(_answer, answer),
    )


ATTEMPT = (
    "run_id",
    "attempt_number",
    "try_number",
    "next_turn",
    "started_at",
    "ended_at",
    "pid",
    "pid_start",
    "launch",
    "model",
    "usage",
    "evidence",
    "verdict",
)
ATTEMPT_COLUMNS = ", ".join(ATTEMPT)


def attempt_values(attempt: Attempt) -> tuple[object, ...]:
    born = attempt.born
    return (
        attempt.run_id,
        attempt.attempt_number,
        attempt.try_number,
        attempt.next_turn.value,
        instant(attempt.started_at),
        moment(attempt.ended_at),
        born and born.pid,
        born and born.start_time,
        maybe(attempt.launch),
        attempt.model,
        text(attempt.usage) if attempt.usage else None,
        maybe(attempt.evidence),
        maybe(attempt.verdict),
    )


def attempt_of(row: Iterable[Any]) -> Attempt:
    (
        run_id,
        attempt_number,
        try_number,
        next_turn,
        started_at,
        ended_at,
        pid,
        pid_start,
        launch,
        model,
        usage,
        evidence,
        verdict,
    ) = row
    return Attempt(
        run_id=run_id,
        attempt_number=attempt_number,
        try_number=try_number,
        next_turn=NextTurn(next_turn),
        started_at=datetime.fromisoformat(started_at),
        ended_at=_at(ended_at),
        born=Born(pid, pid_start) if pid else None,
        launch=_read(_object, launch),
        model=model,
        usage=_object.decode(usage) if usage else {},
        evidence=_read(_object, evidence),
        verdict=_read(_object, verdict),
    )


def resting_of(row: Row) -> Resting:
    return Resting(
        run_id=row["id"],
        state=State(row["state"]),
        version=row["version"],
        skill_id=row["skill_id"],
        last_seq=row["last_seq"],
        since=datetime.fromisoformat(row["since"]),
    )


def log_entry(event: Event, *, run_id: str, seq: int, engine: str) -> LogEntry:
    body = _encoder.encode(envelope(event, run_id=run_id, seq=seq, engine=engine))
    return LogEntry(seq, event.type.value, body)


def text(value: object) -> str:
    return _encoder.encode(value).decode()


def moment(value: datetime | None) -> str | None:
    return None if value is None else instant(value)


def maybe(value: object) -> str | None:
    return None if value is None else text(value)


def _read(decoder: msgspec.json.Decoder[T], value: str | None) -> T | None:
    return None if value is None else decoder.decode(value)


def _at(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)
