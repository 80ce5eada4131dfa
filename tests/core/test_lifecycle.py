"""A run from its creation to the end of a turn: which fields move, what is written along, what is told and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.core.examples import (
    LOADABLE,
    NOTE,
    NOW,
    RESUMABLE,
    SAID,
    STICKY,
    TIMEOUT,
    a_job,
    asked,
    attempt_of,
    finish,
    later,
    moved,
    queued,
    running,
    some,
    story,
)
from turnkeeper.core import lifecycle, questions
from turnkeeper.core.errors import Code, IllegalTransition, RunNotWaiting, UploadNotExpected, Warn
from turnkeeper.core.fcmp import Type
from turnkeeper.core.gate import Cancel, Fail, Succeed, Verdict, Wait
from turnkeeper.core.run import Ending, EndingWhy, Idempotency, NextTurn, Question, Run, RunWarning
from turnkeeper.core.statechart import State, Trigger
from turnkeeper.core.waiting import ProfileKind


def test_create() -> None:
    key = Idempotency("key-1", "digest")
    change = lifecycle.create("run-1", a_job(), NOW, warnings=[NOTE], idempotency=key)
    assert (change.before, change.trigger, change.enqueue, change.idempotency) == (None, None, True, key)
    assert change.after == Run(
        id="run-1",
        job=a_job(),
        state=State.QUEUED,
        version=1,
        created_at=NOW,
        updated_at=NOW,
        warnings=(NOTE,),
    )
    assert story(change) == ["conversation.started", "diagnostic.warning"]


def test_held_run_is_dispatched_when_its_input_is_complete() -> None:
    held = lifecycle.create("run-1", a_job(), NOW, held="upload", due_at=later(60))
    assert (held.enqueue, held.after.held, held.after.due_at) == (False, "upload", later(60))

    files = {"paper": "uploads/paper.txt"}
    complete = lifecycle.complete_input(held.after, files, later(5))
    assert moved(complete) == {"held": None, "due_at": None, "files": files}
    assert complete.after.input == {**held.after.job.input, **files}
    assert (complete.trigger, complete.enqueue, complete.events) == (Trigger.INPUT_COMPLETED, True, ())


@pytest.mark.parametrize("run", [queued(), running(), asked()[0]], ids=lambda run: run.state.value)
def test_an_upload_is_taken_once_and_only_where_one_is_waited_for(run: Run) -> None:
    with pytest.raises(UploadNotExpected, match=f"the run is {run.state}"):
        lifecycle.complete_input(run, {}, NOW)


def test_held_run_fails_when_nothing_is_uploaded() -> None:
    held = lifecycle.create("run-1", a_job(), NOW, held="upload", due_at=later(5)).after
    assert questions.apply_deadline(held, None, later(4)) is None
    change = some(questions.apply_deadline(held, None, later(5)))
    assert story(change) == ["queued -> failed: input.expired", "conversation.failed"]
    assert change.after.error is not None
    assert change.after.error.code is Code.UPLOAD_MISSING


def test_start_turn() -> None:
    change = lifecycle.start_turn(queued(), "lease-1", later(5))
    assert moved(change) == {
        "state": State.RUNNING,
        "lease": "lease-1",
        "attempt_number": 1,
        "try_number": 1,
        "started_at": later(5),
    }
    assert story(change) == ["queued -> running: turn.started"]
    assert change.events[0].data == {
        "from": "queued",
        "to": "running",
        "trigger": "turn.started",
        "updated_at": "2030-05-17T12:00:05.000000Z",
    }
    assert change.attempt is not None
    assert (change.attempt.attempt_number, change.attempt.try_number) == (1, 1)
    assert (change.attempt.started_at, change.attempt.ended_at) == (later(5), None)
    assert change.attempt.next_turn is NextTurn.START


@pytest.mark.parametrize(
    ("verdict", "then"),
    [
        (Wait(), ["running -> waiting_user: turn.needs_input", "user.input.required"]),
        (Succeed("DONE_MARKER"), ["running -> succeeded: turn.succeeded", "conversation.completed"]),
        (Fail(TIMEOUT), ["running -> failed: turn.failed", "conversation.failed"]),
        (Cancel(), ["running -> canceled: run.canceled", "conversation.canceled"]),
    ],
)
def test_words_come_before_what_follows_from_them(verdict: Verdict, then: list[str]) -> None:
    run = running(warnings=(RunWarning("OLD", "from before"),), usage={"input_tokens": 1, "output_tokens": 1})
    if verdict == Cancel():
        run = replace(run, ending=Ending(EndingWhy.CANCEL, "ann", NOW))
    change = finish(
        run,
        verdict,
        output=[SAID],
        usage={"input_tokens": 3},
        model="painter-2",
        noted=[RunWarning("SEEN", "in the log already")],
        warnings=[NOTE],
        evidence={"exit": 0},
        verdict={"is": "kept"},
    )
    assert change.before == run
    assert story(change) == ["assistant.message.final", "usage.reported", "diagnostic.warning", *then]
    assert change.after.usage == {"input_tokens": 4, "output_tokens": 1}
    assert [warning.code for warning in change.after.warnings] == ["OLD", "SEEN", "ODD"]
    assert change.attempt == replace(
        attempt_of(run),
        ended_at=later(5),
        model="painter-2",
        usage={"input_tokens": 3},
        evidence={"exit": 0},
        verdict={"is": "kept"},
    )


def test_silent_turn_tells_nothing() -> None:
    assert story(finish(running(), Fail(TIMEOUT))) == [
        "running -> failed: turn.failed",
        "conversation.failed",
    ]


def test_success() -> None:
    change = finish(running(), Succeed("DONE_MARKER"), result={"a": 1}, handle=LOADABLE)
    assert moved(change) == {
        "state": State.SUCCEEDED,
        "lease": None,
        "result": {"a": 1},
        "handle": LOADABLE,
        "finished_at": later(5),
    }
    completed = {"state": "succeeded", "reason_code": "DONE_MARKER", "warnings": []}
    assert change.events[-1].data == completed


@pytest.mark.failure("C09")
def test_verdicts_warning_is_kept_and_told() -> None:
    verdict = Succeed("OUTPUT_VALID", Warn.INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER)
    change = finish(running(), verdict, warnings=[NOTE])
    codes = ["ODD", "INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER"]
    assert [warning.code for warning in change.after.warnings] == codes
    assert [event.data["code"] for event in change.events if event.type is Type.WARNING] == codes
    assert change.events[-1].data["warnings"] == codes


@pytest.mark.failure("C17")
def test_failure_keeps_a_valid_output_as_candidate() -> None:
    change = finish(running(), Fail(TIMEOUT), result={"a": 1}, handle=LOADABLE)
    assert moved(change) == {
        "state": State.FAILED,
        "lease": None,
        "error": TIMEOUT,
        "candidate_result": {"a": 1},
        "handle": LOADABLE,
        "finished_at": later(5),
    }
    error = {"code": "TURN_TIMEOUT", "message": "too long", "retry_after": None, "evidence": None}
    assert change.events[-1].data == {"error": error}


@pytest.mark.parametrize(
    ("kind", "strict", "lease", "due_at"),
    [
        (RESUMABLE, True, None, None),
        (RESUMABLE, False, None, later(65)),
        (STICKY, True, "lease-1", later(65)),
        (STICKY, False, "lease-1", later(65)),
    ],
)
def test_question(kind: ProfileKind, strict: bool, lease: str | None, due_at: object) -> None:
    run = running(a_job(kind, strict=strict))
    change = finish(run, Wait(), question=Question(prompt="Red?", kind="confirm"), handle=LOADABLE)
    after = change.after
    assert (after.state, after.lease, after.due_at) == (State.WAITING_USER, lease, due_at)
    assert (after.pending_interaction_id, after.questions, after.handle) == (1, 1, LOADABLE)
    assert not change.enqueue

    assert change.interaction is not None
    assert (change.interaction.interaction_id, change.interaction.attempt_number) == (1, 1)
    assert (change.interaction.asked_at, change.interaction.expires_at) == (later(5), due_at)
    told, required = change.events
    assert told.data["pending_interaction_id"] == 1
    assert (required.data["interaction_id"], required.data["prompt"]) == (1, "Red?")
    assert ("expires_at" in required.data) == (due_at is not None)


def test_known_handle_is_not_forgotten() -> None:
    for verdict in (Wait(), Succeed("DONE_MARKER"), Fail(TIMEOUT)):
        assert finish(running(handle=LOADABLE), verdict).after.handle == LOADABLE


FINISHED = [
    finish(running(), Succeed("OUTPUT_VALID")).after,
    finish(running(), Fail(TIMEOUT)).after,
    some(lifecycle.cancel(queued(), NOW, by="ann")).after,
]


@pytest.mark.failure("H04")
@pytest.mark.parametrize("run", FINISHED, ids=lambda run: run.state.value)
def test_nothing_moves_a_finished_run(run: Run) -> None:
    assert (run.lease, run.due_at, run.pending_interaction_id, run.held) == (None, None, None, None)
    assert run.finished_at is not None
    assert lifecycle.cancel(run, NOW, by="ann") is None
    assert questions.apply_deadline(run, None, later(10**9)) is None
    steps: list[Callable[[], object]] = [
        lambda: lifecycle.start_turn(run, "lease", NOW),
        lambda: lifecycle.lose_process(run, NOW),
        lambda: lifecycle.interrupt_turn(run, NOW, process_started=False),
        lambda: lifecycle.reconcile_failed(run, TIMEOUT, NOW),
        lambda: finish(run, Wait()),
    ]
    for step in steps:
        with pytest.raises(IllegalTransition):
            step()
    with pytest.raises(RunNotWaiting, match=f"the run is {run.state}"):
        questions.accept_reply(run, None, "blue", NOW, by="ann")
