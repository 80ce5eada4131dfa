"""The maker of Changes, with `questions.py`: (run, trigger, data, now) in, everything to be written together out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from turnkeeper.core import gate, questions
from turnkeeper.core.change import (
    AT_REST,
    Change,
    TurnReport,
    added,
    all_warnings,
    closing_words,
    fail,
    intend,
    step,
)
from turnkeeper.core.errors import MEANING, Code, UploadNotExpected, Warn
from turnkeeper.core.fcmp import Event, Type, warning
from turnkeeper.core.run import (
    Attempt,
    Ending,
    EndingWhy,
    Failure,
    Idempotency,
    Job,
    NextTurn,
    OnInterrupted,
    Recovery,
    Run,
    RunWarning,
    SandboxKind,
)
from turnkeeper.core.statechart import State, Trigger

MAX_INTERRUPTIONS = 2
NOTHING_SAID = TurnReport()


def create(
    run_id: str,
    job: Job,
    now: datetime,
    *,
    held: str | None = None,
    due_at: datetime | None = None,
    warnings: Sequence[RunWarning] = (),
    idempotency: Idempotency | None = None,
    by: str | None = None,
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
        created_by=by,
    )
    data = {
        "skill_id": job.skill_id,
        "engine": job.engine,
        "execution_mode": job.mode.value,
        "state": run.state.value,
        "created_by": by,
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


def complete_input(run: Run, files: Mapping[str, Any], now: datetime, *, by: str | None = None) -> Change:
    """The upload is there, and on disk already."""
    if run.held is None:
        raise UploadNotExpected(
            f"the run is {run.state.value} and takes no upload; "
            "only a job with file inputs does, once, before its first turn",
            state=run.state.value,
        )
    return step(
        run,
        Trigger.INPUT_COMPLETED,
        now,
        held=None,
        due_at=None,
        files=files,
        uploaded_by=by,
        enqueue=True,
    )


def start_turn(run: Run, lease: str, now: datetime, sandbox: SandboxKind | None = None) -> Change:
    """Committed before the spawn, so that every failure to start is a `turn.failed`."""
    same = run.next_turn.is_new_try
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
        sandbox=sandbox,
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


def go_on(run: Run, now: datetime) -> Change:
    """A turn that paused for a permission: the same try, in the process that asked."""
    assert run.is_paused
    assert run.lease is not None
    return step(run, Trigger.TURN_STARTED, now, next_turn=NextTurn.CONTINUE)


def finish_turn(
    run: Run, attempt: Attempt, verdict: gate.Verdict, report: TurnReport, now: datetime
) -> Change:
    change: Change
    match verdict:
        case gate.Wait():
            change = questions.ask(run, report, now)
        case gate.Succeed():
            change = _succeed(run, verdict, report, now)
        case gate.Fail(failure):
            change = fail(
                run,
                Trigger.TURN_FAILED,
                failure,
                now,
                cause=closing_words(run, report, now),
                warnings=all_warnings(run, report),
                candidate_result=report.result,
                usage=added(run.usage, report.usage),
                handle=report.handle or run.handle,
            )
        case gate.Cancel():
            change = finish_ending(
                run,
                now,
                output=closing_words(run, report, now),
                usage=added(run.usage, report.usage),
                warnings=all_warnings(run, report),
            )
    ended = _played(attempt, run, report, now)
    return replace(change, attempt=replace(ended, evidence=report.evidence, verdict=report.verdict))


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
        return questions.wait_timeout(run, now, output=output, **fields)
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


def lose_process(
    run: Run,
    now: datetime,
    *,
    attempt: Attempt | None = None,
    report: TurnReport = NOTHING_SAID,
    fault: Failure | None = None,
    is_meant: bool = False,
) -> Change:
    """The resident process of a run that waits is gone. A session that can be loaded keeps the question open.

    `attempt`: the turn that paused for a permission, and died with the process that asked for it. `fault`: why we
    ended it, if that was no fault of its own. `is_meant`: the service stops, and there is nothing to warn of.
    """
    if run.ending is None and not is_meant and _waits_on(run):
        message = (
            "the resident process ended while the run waited; the next reply opens its session in a new one"
        )
        lost = RunWarning(Warn.RESIDENT_PROCESS_LOST, message)
        report = replace(report, warnings=(*report.warnings, lost))
    change = _lose_process(run, now, report, fault)
    return change if attempt is None else replace(change, attempt=_cut_off(attempt, run, report, now))


def _lose_process(run: Run, now: datetime, report: TurnReport, fault: Failure | None) -> Change:
    said: dict[str, Any] = {
        "usage": added(run.usage, report.usage),
        "warnings": all_warnings(run, report),
    }
    told = closing_words(run, report, now)
    if run.ending is not None:
        return finish_ending(run, now, output=told, **said)
    if _waits_on(run):
        recovery = Recovery(Trigger.PRESERVE_WAITING, now)
        return step(run, Trigger.PRESERVE_WAITING, now, cause=told, lease=None, recovery=recovery, **said)
    what = "before it heard about its permission" if run.is_paused else "while the run waited for a reply"
    failure = fault or Failure(Code.INTERACTION_PROCESS_LOST, f"the resident engine process ended {what}")
    if run.state is State.WAITING_USER and fault is None:
        return fail(run, Trigger.PROCESS_LOST, failure, now, cause=told, **said)
    # The reply was accepted in the same moment, and there is nobody left to hear it; or the fault is ours.
    return reconcile_failed(run, failure, now, output=told, **said)


def _waits_on(run: Run) -> bool:
    return run.handle is not None and run.handle.loadable and not run.is_paused


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
    return change if attempt is None else replace(change, attempt=_cut_off(attempt, run, report, now))


def _cut_off(attempt: Attempt, run: Run, report: TurnReport, now: datetime) -> Attempt:
    return replace(_played(attempt, run, report, now), verdict={"verdict": "interrupted"})


def _played(attempt: Attempt, run: Run, report: TurnReport, now: datetime) -> Attempt:
    return replace(attempt, ended_at=now, model=report.model or run.job.model, usage=report.usage)


def _interrupt(run: Run, now: datetime, *, process_started: bool, counts: bool, report: TurnReport) -> Change:
    said = {"usage": added(run.usage, report.usage), "warnings": all_warnings(run, report)}
    if run.ending is not None:
        return finish_ending(run, now, output=closing_words(run, report, now), **said)
    handle = report.handle or run.handle
    interruptions = run.interruptions + (1 if counts else 0)
    resumable = handle is not None and handle.loadable
    allowed = run.job.on_interrupted is OnInterrupted.RESUME and interruptions <= MAX_INTERRUPTIONS
    if not allowed or (process_started and not resumable):
        failure = Failure(Code.RUN_INTERRUPTED, _why_not_resumed(run, interruptions))
        return reconcile_failed(run, failure, now, output=closing_words(run, report, now), **said)
    # An earlier try of this attempt may have reached the engine; then its session goes on, it does not start anew.
    goes_on = process_started or run.next_turn is NextTurn.CONTINUE
    if not goes_on:
        message = f"turn {run.attempt_number} was cut off before its process started; it starts anew"
        report = replace(report, warnings=(*report.warnings, RunWarning(Warn.TURN_RESTARTED, message)))
    return step(
        run,
        Trigger.RESUME_TURN,
        now,
        cause=closing_words(run, report, now),
        lease=None,
        handle=handle,
        interruptions=interruptions,
        warnings=all_warnings(run, report),
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


def give_up(run: Run, failure: Failure, now: datetime, attempts: Sequence[Attempt]) -> Change:
    """After a fault of ours: the turn that it cut off is over, too."""
    change = reconcile_failed(run, failure, now)
    is_open = bool(attempts) and attempts[-1].ended_at is None
    return replace(change, attempt=_cut_off(attempts[-1], run, NOTHING_SAID, now)) if is_open else change


def _succeed(run: Run, verdict: gate.Succeed, report: TurnReport, now: datetime) -> Change:
    if verdict.warning is not None:
        told = RunWarning(verdict.warning, MEANING[verdict.warning])
        report = replace(report, warnings=(*report.warnings, told))
    warnings = all_warnings(run, report)
    data = {
        "state": State.SUCCEEDED.value,
        "reason_code": verdict.reason_code,
        "warnings": [w.code for w in warnings],
    }
    return step(
        run,
        Trigger.TURN_SUCCEEDED,
        now,
        cause=closing_words(run, report, now),
        effect=[Event(Type.COMPLETED, data, now, run.attempt_number)],
        warnings=warnings,
        result=report.result,
        usage=added(run.usage, report.usage),
        handle=report.handle or run.handle,
        finished_at=now,
        **AT_REST,
    )


def _why_not_resumed(run: Run, interruptions: int) -> str:
    if run.job.on_interrupted is OnInterrupted.FAIL:
        return "the service stopped in the middle of the turn, and the job asked to fail then"
    if interruptions > MAX_INTERRUPTIONS:
        return f"turn {run.attempt_number} was cut off {interruptions} times"
    return "the service stopped in the middle of the turn before the engine had named its session"
