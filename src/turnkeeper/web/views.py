"""Records as the API shows them."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from turnkeeper.core.change import failure_view
from turnkeeper.core.fcmp import instant
from turnkeeper.core.run import Attempt, Ending, Interaction, Permissions, Run, RunWarning, Timeouts
from turnkeeper.core.statechart import State
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.base import Engine
from turnkeeper.runtime.dispatch import Place
from turnkeeper.runtime.intake import ASKED_FOR
from turnkeeper.web.schemas import MODEL

_TIMEOUTS = tuple(each.name for each in fields(Timeouts))


def run_view(run: Run, place: Place | None) -> dict[str, Any]:
    job = run.job
    return {
        "request_id": run.id,
        "run_id": run.id,
        "status": run.state.value,
        "skill_id": job.skill_id,
        "skill_version": job.skill_version,
        "engine": job.engine,
        "model": job.model,
        "execution_mode": job.mode.value,
        "interactive_profile": {"kind": job.profile.kind.value, "reason": job.profile.reason},
        "interactive_require_user_reply": job.strict,
        "session_timeout_sec": job.session_timeout_sec,
        "timeouts": {name: getattr(job.timeouts, name) for name in _TIMEOUTS},
        "on_interrupted": job.on_interrupted.value,
        "permissions": job.permissions.value,
        "attempt_number": run.attempt_number,
        "max_attempt": job.max_attempt,
        "pending_interaction_id": run.pending_interaction_id,
        "wait_deadline_at": (run.due_at and run.state is State.WAITING_USER and instant(run.due_at)) or None,
        "waiting_for": _waiting_for(run, place),
        "queue_position": place and place.position,
        "upload_deadline_at": (run.held and run.due_at and instant(run.due_at)) or None,
        "files": run.files,
        "sandbox": run.sandbox and run.sandbox.value,
        "ending": ending_view(run.ending),
        "recovery": run.recovery and {"trigger": run.recovery.trigger.value, "at": instant(run.recovery.at)},
        "warnings": [warning_view(warning) for warning in run.warnings],
        "error": run.error and failure_view(run.error),
        "candidate_result": run.candidate_result,
        "usage": run.usage,
        "last_seq": run.last_seq,
        "created_at": instant(run.created_at),
        "updated_at": instant(run.updated_at),
        "started_at": run.started_at and instant(run.started_at),
        "finished_at": run.finished_at and instant(run.finished_at),
        "created_by": run.created_by,
        "uploaded_by": run.uploaded_by,
    }


def request_view(run: Run) -> dict[str, Any]:
    """The body that would create the same job again."""
    job, view = run.job, run_view(run, None)
    told = ("skill_id", "engine", "execution_mode", "interactive_require_user_reply", "session_timeout_sec")
    is_asked_for = job.profile.reason == ASKED_FOR
    # A model that no job could name is the one of the settings, and comes by itself.
    is_named = job.model is not None and re.fullmatch(MODEL, job.model) is not None
    return {
        **{name: view[name] for name in (*told, "timeouts", "on_interrupted", "permissions")},
        **({"model": job.model} if is_named else {}),
        "interactive_profile": job.profile.kind.value if is_asked_for else "auto",
        "input": {key: value for key, value in job.input.items() if key not in run.files},
        "parameter": job.parameter,
    }


def attempt_view(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt_number,
        "try": attempt.try_number,
        "began_as": attempt.next_turn.value,
        "started_at": instant(attempt.started_at),
        "ended_at": attempt.ended_at and instant(attempt.ended_at),
        "pid": attempt.born and attempt.born.pid,
        "launch": attempt.launch,
        "model": attempt.model,
        "usage": attempt.usage,
        "evidence": attempt.evidence,
        "verdict": attempt.verdict,
    }


def engine_view(engine: Engine) -> dict[str, Any]:
    """Blocking: the engine is looked for."""
    ready = engine.readiness()
    return {
        "name": engine.name,
        "ready": ready.ready,
        "path": ready.path,
        "version": ready.version,
        "login": {"kind": ready.login.kind.value, "source": ready.login.source},
        "reason": ready.reason,
        "fix": ready.fix,
        "warning": ready.warning,
        "profiles": [kind.value for kind in engine.profiles],
        "resident": _resident_view(engine),
        "permissions": [each.value for each in Permissions if engine.asks or each is Permissions.ALLOW],
    }


def _resident_view(engine: Engine) -> dict[str, Any] | None:
    """It may be another program that makes it one."""
    if ProfileKind.STICKY not in engine.profiles:
        return None
    ready = engine.readiness(ProfileKind.STICKY)
    told = ("ready", "path", "version", "reason", "fix", "warning")
    return {name: getattr(ready, name) for name in told}


def manifest_view(run: Run) -> dict[str, Any]:
    """What a bundle says about the run it came from."""
    view = run_view(run, None)
    told = ("run_id", "status", "skill_id", "skill_version", "engine", "model", "execution_mode")
    times = ("created_at", "started_at", "finished_at")
    return {name: view[name] for name in (*told, "warnings", "error", "usage", *times)}


def warning_view(warning: RunWarning) -> dict[str, str]:
    return {"code": warning.code, "message": warning.message}


def ending_view(ending: Ending | None) -> dict[str, str] | None:
    return None if ending is None else {"why": ending.why.value, "by": ending.by, "at": instant(ending.at)}


def history_view(interaction: Interaction) -> dict[str, Any]:
    answer = interaction.answer
    return {
        "interaction_id": interaction.interaction_id,
        "attempt_number": interaction.attempt_number,
        "kind": interaction.question.kind,
        "prompt": interaction.question.prompt,
        "source": interaction.question.source,
        "asked_at": instant(interaction.asked_at),
        "response": answer and answer.response,
        "resolution_mode": answer and answer.resolution_mode.value,
        "resolved_at": answer and instant(answer.at),
        "resolved_by": answer and answer.by,
    }


def _waiting_for(run: Run, place: Place | None) -> str | None:
    if run.held is not None:
        return run.held
    if run.state is State.WAITING_USER:
        return "user"
    return None if place is None else place.waits_for.value
