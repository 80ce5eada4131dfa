"""The only maker of Changes: (run, trigger, data, now) in, everything that must be written together out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from turnkeeper.core import asking, gate, waiting
from turnkeeper.core.change import AT_REST, Change, TurnReport, fail, intend, step
from turnkeeper.core.errors import (
    MEANING,
    Code,
    InteractionAnswered,
    InteractionStale,
    RunEnding,
    RunNotWaiting,
    UploadNotExpected,
    Warn,
)
from turnkeeper.core.fcmp import Event, Type, instant, warning
from turnkeeper.core.run import (
    Answer,
    Attempt,
    Ending,
    EndingWhy,
    Failure,
    Idempotency,
    Interaction,
    Job,
    NextTurn,
    OnInterrupted,
    Recovery,
    Resolution,
    Run,
    RunWarning,
)
from turnkeeper.core.statechart import State, Trigger

MAX_INTERRUPTIONS = 2
NOTHING_SAID = TurnReport()
PREVIEW = 200


def create(
    run_id: str,
    job: Job,
    now: datetime,
    *,
    held: str | None = None,
    due_at: datetime | None = None,
    warnings: Sequence[RunWarning] = (),
    idempotency: Idempotency | None = None,
) -> Change:
    run = Run(
        id=run_id,
        job=job,
        state=State.QUEUED,
        version=1,
        created_at=now,
        updated_at=now,
        held=held,
        due_at=due_at,
        warnings=tuple(warnings),
    )
    data = {
        "skill_id": job.skill_id,
        "engine": job.engine,
        "execution_mode": job.mode.value,
        "state": run.state.value,
    }
    events = [Event(Type.CONVERSATION_STARTED, data, now, 0)]
    events += [warning(w.code, w.message, now=now, attempt=0) for w in warnings]
    return Change(
        before=None,
        after=run,
        trigger=None,
        events=tuple(events),
        enqueue=held is None,
        idempotency=idempotency,
    )


def complete_input(run: Run, files: Mapping[str, Any], now: datetime) -> Change:
    """The upload is there, and on disk already."""
    if run.held is None:
        raise UploadNotExpected(
            f"the run is {run.state.value} and takes no upload; "
            "only a job with file inputs does, once, before its first turn",
            state=run.state.value,
        )
    return step(run, Trigger.INPUT_COMPLETED, now, held=None, due_at=None, files=files, enqueue=True)


def start_turn(run: Run, lease: str, now: datetime) -> Change:
    """Committed before the spawn, so that every failure to start is a `turn.failed`."""
    same = run.next_turn.is_same_attempt
    attempt_number = run.attempt_number if same else run.attempt_number + 1
    try_number = run.try_number + 1 if same else 1
    change = step(
        run,
        Trigger.TURN_STARTED,
        now,
        lease=lease,
        attempt_number=attempt_number,
        try_number=try_number,
        interruptions=run.interruptions if same else 0,
        started_at=run.started_at or now,
    )
    attempt = Attempt(
        run_id=run.id,
        attempt_number=attempt_number,
        try_number=try_number,
        started_at=now,
        next_turn=run.next_turn,
    )
    return replace(change, attempt=attempt)


def finish_turn(
    run: Run, attempt: Attempt, verdict: gate.Verdict, report: TurnReport, now: datetime
) -> Change:
    change: Change
    match verdict:
        case gate.Wait():
            change = _ask(run, report, now)
        case gate.Succeed():
            change = _succeed(run, verdict, report, now)
        case gate.Fail(failure):
            change = fail(
                run,
                Trigger.TURN_FAILED,
                failure,
                now,
                cause=_closing_words(run, report, now),
                warnings=_all_warnings(run, report),
                candidate_result=report.result,
                usage=_add(run.usage, report.usage),
                handle=report.handle or run.handle,
            )
        case gate.Cancel():
            change = finish_ending(
                run,
                now,
                output=_closing_words(run, report, now),
                usage=_add(run.usage, report.usage),
                warnings=_all_warnings(run, report),
            )
    ended = _played(attempt, run, report, now)
    return replace(change, attempt=replace(ended, evidence=report.evidence, verdict=report.verdict))


def accept_reply(
    run: Run,
    interaction: Interaction | None,
    text: str,
    now: datetime,
    *,
    by: str,
    idempotency_key: str | None = None,
) -> Change:
    """Refuses what the table refuses, and says what is open instead."""
    pending = require_open(run, interaction)
    return _resolve(run, pending, Answer(text, Resolution.USER_REPLY, now, by, idempotency_key), now)


def require_open(run: Run, interaction: Interaction | None) -> Interaction:
    facts: dict[str, Any] = {"state": run.state.value, "pending_interaction_id": run.pending_interaction_id}
    if interaction is not None and interaction.answer is not None:
        raise InteractionAnswered(
            f"question {interaction.interaction_id} was already answered "
            f"({interaction.answer.resolution_mode.value}); another answer was accepted first",
            **facts,
            answered_interaction_id=interaction.interaction_id,
            resolution_mode=interaction.answer.resolution_mode.value,
            answered_by=interaction.answer.by,
            accepted_at=instant(interaction.answer.at),
        )
    if run.ending is not None and not run.state.is_terminal:
        raise RunEnding("the run is being ended and takes no more replies", **facts)
    if run.state is not State.WAITING_USER:
        raise RunNotWaiting(f"the run is {run.state.value}; it takes a reply only in waiting_user", **facts)
    if interaction is None or interaction.interaction_id != run.pending_interaction_id:
        raise InteractionStale(
            f"the open question is {run.pending_interaction_id}; reply to that one", **facts
        )
    return interaction


def apply_deadline(run: Run, pending: Interaction | None, now: datetime) -> Change | None:
    """What the clock does to a run without a turn; None when it has nothing to do (any more)."""
    if run.ending is not None or run.due_at is None or run.due_at > now:
        return None
    if run.held is not None:
        failure = Failure(Code.UPLOAD_MISSING, "the files that the job needs were not uploaded in time")
        return fail(run, Trigger.INPUT_EXPIRED, failure, now)
    if run.state is not State.WAITING_USER or pending is None:
        return None
    if run.job.wait_policy.at_deadline is Trigger.AUTO_DECIDE_TIMEOUT:
        answer = Answer(_auto_reply(run, pending), Resolution.AUTO_DECIDE, now, "turnkeeper")
        return _resolve(run, pending, answer, now)
    if run.lease is not None:
        return intend(run, Ending(EndingWhy.WAIT_TIMEOUT, "turnkeeper", now), now)
    return _wait_timeout(run, now)


def cancel(run: Run, now: datetime, *, by: str) -> Change | None:
    """With a live process the intent is written first and its owner ends the run; without, both are one step."""
    if run.state.is_terminal or run.ending is not None:
        return None
    ending = Ending(EndingWhy.CANCEL, by, now)
    if run.lease is not None:
        return intend(run, ending, now)
    return _cancel(run, ending, now)


def finish_ending(run: Run, now: datetime, *, output: Sequence[Event] = (), **fields: Any) -> Change:
    """The terminal step of a run that was told to end, once nothing of it is alive."""
    assert run.ending is not None
    if run.ending.why is EndingWhy.WAIT_TIMEOUT:
        return _wait_timeout(run, now, output=output, **fields)
    return _cancel(run, run.ending, now, output=output, **fields)


def _cancel(
    run: Run, ending: Ending, now: datetime, *, output: Sequence[Event] = (), **fields: Any
) -> Change:
    reason = {"reason": ending.why.value, "by": ending.by}
    return step(
        run,
        Trigger.RUN_CANCELED,
        now,
        cause=output,
        effect=[Event(Type.CANCELED, reason, now, run.attempt_number)],
        ending=ending,
        finished_at=now,
        **AT_REST,
        **fields,
    )


def lose_process(run: Run, now: datetime, *, warnings: Sequence[RunWarning] = ()) -> Change:
    """The resident process of a waiting run is gone. A session that can be loaded keeps the question open."""
    told = [warning(w.code, w.message, now=now, attempt=run.attempt_number) for w in warnings]
    kept = (*run.warnings, *warnings)
    if run.ending is not None:
        return finish_ending(run, now, output=told, warnings=kept)
    if run.handle is not None and run.handle.loadable:
        recovery = Recovery(Trigger.PRESERVE_WAITING, now)
        return step(
            run, Trigger.PRESERVE_WAITING, now, cause=told, lease=None, recovery=recovery, warnings=kept
        )
    failure = Failure(
        Code.INTERACTION_PROCESS_LOST,
        "the resident engine process ended while the run was waiting for a reply",
    )
    return fail(run, Trigger.PROCESS_LOST, failure, now, cause=told, warnings=kept)


def interrupt_turn(
    run: Run,
    now: datetime,
    *,
    process_started: bool,
    counts: bool = True,
    attempt: Attempt | None = None,
    report: TurnReport = NOTHING_SAID,
) -> Change:
    """The service stopped under a running turn. `counts` is False when it stopped on purpose."""
    change = _interrupt(run, now, process_started=process_started, counts=counts, report=report)
    if attempt is None:
        return change
    cut_off = replace(_played(attempt, run, report, now), verdict={"verdict": "interrupted"})
    return replace(change, attempt=cut_off)


def _played(attempt: Attempt, run: Run, report: TurnReport, now: datetime) -> Attempt:
    return replace(attempt, ended_at=now, model=report.model or run.job.model, usage=report.usage)


def _interrupt(run: Run, now: datetime, *, process_started: bool, counts: bool, report: TurnReport) -> Change:
    said = {"usage": _add(run.usage, report.usage), "warnings": _all_warnings(run, report)}
    if run.ending is not None:
        return finish_ending(run, now, output=_closing_words(run, report, now), **said)
    handle = report.handle or run.handle
    interruptions = run.interruptions + (1 if counts else 0)
    resumable = handle is not None and handle.loadable
    allowed = run.job.on_interrupted is OnInterrupted.RESUME and interruptions <= MAX_INTERRUPTIONS
    if not allowed or (process_started and not resumable):
        failure = Failure(Code.RUN_INTERRUPTED, _why_not_resumed(run, interruptions))
        return reconcile_failed(run, failure, now, output=_closing_words(run, report, now), **said)
    # An earlier try of this attempt may have reached the engine; then its session goes on, it does not start anew.
    goes_on = process_started or run.next_turn is NextTurn.CONTINUE
    if not goes_on:
        message = f"turn {run.attempt_number} was cut off before its process started; it starts anew"
        report = replace(report, warnings=(*report.warnings, RunWarning(Warn.TURN_RESTARTED, message)))
    return step(
        run,
        Trigger.RESUME_TURN,
        now,
        cause=_closing_words(run, report, now),
        lease=None,
        handle=handle,
        interruptions=interruptions,
        warnings=_all_warnings(run, report),
        usage=said["usage"],
        next_turn=NextTurn.CONTINUE if goes_on else NextTurn.RESTART,
        recovery=Recovery(Trigger.RESUME_TURN, now),
        enqueue=True,
    )


def reconcile_failed(
    run: Run, failure: Failure, now: datetime, *, output: Sequence[Event] = (), **fields: Any
) -> Change:
    """A run that was told to end is ended as it was told, whatever else went wrong."""
    if run.ending is not None:
        return finish_ending(run, now, output=output, **fields)
    recovery = Recovery(Trigger.RECONCILE_FAILED, now)
    return fail(run, Trigger.RECONCILE_FAILED, failure, now, cause=output, recovery=recovery, **fields)


def _succeed(run: Run, verdict: gate.Succeed, report: TurnReport, now: datetime) -> Change:
    if verdict.warning is not None:
        told = RunWarning(verdict.warning, MEANING[verdict.warning])
        report = replace(report, warnings=(*report.warnings, told))
    warnings = _all_warnings(run, report)
    data = {
        "state": State.SUCCEEDED.value,
        "reason_code": verdict.reason_code,
        "warnings": [w.code for w in warnings],
    }
    return step(
        run,
        Trigger.TURN_SUCCEEDED,
        now,
        cause=_closing_words(run, report, now),
        effect=[Event(Type.COMPLETED, data, now, run.attempt_number)],
        warnings=warnings,
        result=report.result,
        usage=_add(run.usage, report.usage),
        handle=report.handle or run.handle,
        finished_at=now,
        **AT_REST,
    )


def _ask(run: Run, report: TurnReport, now: datetime) -> Change:
    assert report.question is not None
    policy = run.job.wait_policy
    due_at = waiting.deadline(policy, now, run.job.session_timeout_sec)
    interaction = Interaction(
        run_id=run.id,
        interaction_id=run.questions + 1,
        attempt_number=run.attempt_number,
        question=report.question,
        asked_at=now,
        expires_at=due_at,
    )
    change = step(
        run,
        Trigger.TURN_NEEDS_INPUT,
        now,
        cause=_closing_words(run, report, now),
        effect=[Event(Type.INPUT_REQUIRED, asking.pending_view(interaction), now, run.attempt_number)],
        lease=run.lease if policy.keeps_slot else None,
        due_at=due_at,
        pending_interaction_id=interaction.interaction_id,
        questions=interaction.interaction_id,
        handle=report.handle or run.handle,
        warnings=_all_warnings(run, report),
        usage=_add(run.usage, report.usage),
    )
    return replace(change, interaction=interaction)


def _resolve(run: Run, pending: Interaction, answer: Answer, now: datetime) -> Change:
    """A sticky run with a live process is woken by its owner's lease; any other waits for a slot."""
    data: dict[str, Any] = {
        "interaction_id": pending.interaction_id,
        "resolution_mode": answer.resolution_mode.value,
        "accepted_at": instant(now),
    }
    if answer.resolution_mode is Resolution.USER_REPLY:
        trigger, type_ = Trigger.REPLY_ACCEPTED, Type.REPLY_ACCEPTED
        data["response_preview"] = answer.response[:PREVIEW]
    else:
        trigger, type_ = Trigger.AUTO_DECIDE_TIMEOUT, Type.AUTO_DECIDE_TIMEOUT
        data |= {
            "policy": pending.question.default_decision_policy,
            "timeout_sec": run.job.session_timeout_sec,
        }
    change = step(
        run,
        trigger,
        now,
        cause=[Event(type_, data, now, run.attempt_number)],
        enqueue=run.lease is None,
        next_turn=NextTurn.REPLY,
        due_at=None,
        pending_interaction_id=None,
    )
    return replace(change, interaction=replace(pending, answer=answer))


def _wait_timeout(run: Run, now: datetime, *, output: Sequence[Event] = (), **fields: Any) -> Change:
    failure = Failure(
        Code.INTERACTION_WAIT_TIMEOUT,
        f"nobody replied within {run.job.session_timeout_sec:.12g} s; the run was ended",
    )
    return fail(run, Trigger.WAIT_TIMEOUT, failure, now, cause=output, **fields)


def _closing_words(run: Run, report: TurnReport, now: datetime) -> list[Event]:
    """The last of the output, usage and warnings: all of it before the change of state that follows."""
    events = list(report.output)
    if report.usage:
        events.append(Event(Type.USAGE, dict(report.usage), now, run.attempt_number))
    events += [warning(w.code, w.message, now=now, attempt=run.attempt_number) for w in report.warnings]
    return events


def _all_warnings(run: Run, report: TurnReport) -> tuple[RunWarning, ...]:
    return (*run.warnings, *report.noted, *report.warnings)


def _auto_reply(run: Run, pending: Interaction) -> str:
    return (
        f"Nobody answered within {run.job.session_timeout_sec:.12g} seconds. Do not ask again about this; decide "
        f"yourself by the policy `{pending.question.default_decision_policy}` and go on with the task."
    )


def _why_not_resumed(run: Run, interruptions: int) -> str:
    if run.job.on_interrupted is OnInterrupted.FAIL:
        return "the service stopped in the middle of the turn, and the job asked to fail then"
    if interruptions > MAX_INTERRUPTIONS:
        return f"turn {run.attempt_number} was cut off {interruptions} times"
    return "the service stopped in the middle of the turn before the engine had named its session"


def _add(total: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {
        key: total.get(key, 0) + more.get(key, 0) for key in (*total, *(k for k in more if k not in total))
    }
