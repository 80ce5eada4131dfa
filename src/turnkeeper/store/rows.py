"""Records to rows and back, the same for every driver. Moments are fixed-width UTC text, nested records JSON."""

from __future__ import annotations

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


def run_row(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "state": run.state.value,
        "version": run.version,
        "lease": run.lease,
        "last_seq": run.last_seq,
        "skill_id": run.job.skill_id,
        "engine": run.job.engine,
        "mode": run.job.mode.value,
        "job": text(run.job),
        "attempt_number": run.attempt_number,
        "try_number": run.try_number,
        "interruptions": run.interruptions,
        "next_turn": run.next_turn.value,
        "handle_id": run.handle and run.handle.session_id,
        "handle_loadable": run.handle and int(run.handle.loadable),
        "held": run.held,
        "files": text(run.files) if run.files else None,
        "ending": maybe(run.ending),
        "questions": run.questions,
        "pending_interaction_id": run.pending_interaction_id,
        "due_at": moment(run.due_at),
        "recovery_trigger": run.recovery and run.recovery.trigger.value,
        "recovery_at": run.recovery and instant(run.recovery.at),
        "warnings": text(run.warnings) if run.warnings else None,
        "error": maybe(run.error),
        "result": maybe(run.result),
        "candidate_result": maybe(run.candidate_result),
        "usage": text(run.usage) if run.usage else None,
        "sandbox": run.sandbox and run.sandbox.value,
        "created_at": instant(run.created_at),
        "updated_at": instant(run.updated_at),
        "started_at": moment(run.started_at),
        "finished_at": moment(run.finished_at),
        "created_by": run.created_by,
        "uploaded_by": run.uploaded_by,
    }


def run_of(row: Row) -> Run:
    return Run(
        id=row["id"],
        job=_job.decode(row["job"]),
        state=State(row["state"]),
        version=row["version"],
        lease=row["lease"],
        last_seq=row["last_seq"],
        attempt_number=row["attempt_number"],
        try_number=row["try_number"],
        interruptions=row["interruptions"],
        next_turn=NextTurn(row["next_turn"]),
        handle=handle_of(row),
        held=row["held"],
        files=_object.decode(row["files"]) if row["files"] else {},
        ending=_read(_ending, row["ending"]),
        questions=row["questions"],
        pending_interaction_id=row["pending_interaction_id"],
        due_at=_at(row["due_at"]),
        recovery=_recovery(row),
        warnings=_warnings.decode(row["warnings"]) if row["warnings"] else (),
        error=_read(_failure, row["error"]),
        result=_read(_object, row["result"]),
        candidate_result=_read(_object, row["candidate_result"]),
        usage=_object.decode(row["usage"]) if row["usage"] else {},
        sandbox=SandboxKind(row["sandbox"]) if row["sandbox"] else None,
        created_at=datetime.fromisoformat(row["created_at"]),
        updated_at=datetime.fromisoformat(row["updated_at"]),
        started_at=_at(row["started_at"]),
        finished_at=_at(row["finished_at"]),
        created_by=row["created_by"],
        uploaded_by=row["uploaded_by"],
    )


def handle_of(row: Row) -> Handle | None:
    return None if row["handle_id"] is None else Handle(row["handle_id"], bool(row["handle_loadable"]))


def interaction_row(interaction: Interaction) -> dict[str, Any]:
    return {
        "run_id": interaction.run_id,
        "interaction_id": interaction.interaction_id,
        "attempt_number": interaction.attempt_number,
        "question": text(interaction.question),
        "asked_at": instant(interaction.asked_at),
        "expires_at": moment(interaction.expires_at),
        "answer": maybe(interaction.answer),
    }


def interaction_of(row: Row) -> Interaction:
    return Interaction(
        run_id=row["run_id"],
        interaction_id=row["interaction_id"],
        attempt_number=row["attempt_number"],
        question=_question.decode(row["question"]),
        asked_at=datetime.fromisoformat(row["asked_at"]),
        expires_at=_at(row["expires_at"]),
        answer=_read(_answer, row["answer"]),
    )


def attempt_row(attempt: Attempt) -> dict[str, Any]:
    return {
        "run_id": attempt.run_id,
        "attempt_number": attempt.attempt_number,
        "try_number": attempt.try_number,
        "next_turn": attempt.next_turn.value,
        "started_at": instant(attempt.started_at),
        "ended_at": moment(attempt.ended_at),
        "pid": attempt.born and attempt.born.pid,
        "pid_start": attempt.born and attempt.born.start_time,
        "launch": maybe(attempt.launch),
        "model": attempt.model,
        "usage": text(attempt.usage) if attempt.usage else None,
        "evidence": maybe(attempt.evidence),
        "verdict": maybe(attempt.verdict),
    }


def attempt_of(row: Row) -> Attempt:
    return Attempt(
        run_id=row["run_id"],
        attempt_number=row["attempt_number"],
        try_number=row["try_number"],
        next_turn=NextTurn(row["next_turn"]),
        started_at=datetime.fromisoformat(row["started_at"]),
        ended_at=_at(row["ended_at"]),
        born=Born(row["pid"], row["pid_start"]) if row["pid"] else None,
        launch=_read(_object, row["launch"]),
        model=row["model"],
        usage=_object.decode(row["usage"]) if row["usage"] else {},
        evidence=_read(_object, row["evidence"]),
        verdict=_read(_object, row["verdict"]),
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


def _recovery(row: Row) -> Recovery | None:
    if row["recovery_trigger"] is None:
        return None
    return Recovery(Trigger(row["recovery_trigger"]), datetime.fromisoformat(row["recovery_at"]))
