"""Runs that are canceled, lose their process or are cut off: when they end, when they go on, and as which try."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.examples import (
    LOADABLE,
    NOW,
    SAID,
    STICKY,
    TIED,
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
from turnkeeper.core.change import Change, TurnReport
from turnkeeper.core.errors import Code
from turnkeeper.core.gate import Wait
from turnkeeper.core.run import (
    Ending,
    EndingWhy,
    Failure,
    Handle,
    NextTurn,
    OnInterrupted,
    Recovery,
    Run,
    RunWarning,
)
from turnkeeper.core.statechart import State, Trigger


def interrupt(run: Run, *, process_started: bool = True, **more: Any) -> Change:
    said = TurnReport(output=more.pop("output", ()), handle=more.pop("handle", None))
    return lifecycle.interrupt_turn(run, later(5), process_started=process_started, report=said, **more)


@pytest.mark.failure("H12")
@pytest.mark.parametrize("run", [queued(), asked()[0]], ids=lambda run: run.state.value)
def test_cancel_without_a_process_is_one_step(run: Run) -> None:
    change = some(lifecycle.cancel(run, later(5), by="ann"))
    assert change.before == run
    assert story(change) == [f"{run.state} -> canceled: run.canceled", "conversation.canceled"]
    assert change.events[-1].data == {"reason": "cancel", "by": "ann"}
    assert change.after.ending == Ending(EndingWhy.CANCEL, "ann", later(5))
    assert (change.after.pending_interaction_id, change.after.finished_at) == (None, later(5))
    assert lifecycle.cancel(change.after, NOW, by="bob") is None


@pytest.mark.parametrize("run", [running(), asked(a_job(STICKY))[0]], ids=lambda run: run.state.value)
def test_cancel_of_a_live_process_is_an_intent_first(run: Run) -> None:
    intent = some(lifecycle.cancel(run, later(5), by="ann"))
    assert {"ending": Ending(EndingWhy.CANCEL, "ann", later(5))}.items() <= moved(intent).items()
    assert (intent.after.state, intent.after.lease, intent.after.due_at) == (run.state, "lease-1", None)
    assert (intent.trigger, intent.events) == (None, ())
    assert lifecycle.cancel(intent.after, NOW, by="bob") is None

    end = lifecycle.finish_ending(intent.after, later(5), output=[SAID])
    assert story(end) == [
        "assistant.message.final",
        f"{run.state} -> canceled: run.canceled",
        "conversation.canceled",
    ]
    assert (end.after.lease, end.after.finished_at) == (None, later(5))


def test_ending_run_is_finished_and_never_resumed() -> None:
    cut_off = some(lifecycle.cancel(running(handle=LOADABLE), NOW, by="ann")).after
    assert story(interrupt(cut_off, output=[SAID])) == [
        "assistant.message.final",
        "running -> canceled: run.canceled",
        "conversation.canceled",
    ]
    lost = some(lifecycle.cancel(asked(a_job(STICKY), handle=LOADABLE)[0], NOW, by="ann")).after
    assert lifecycle.lose_process(lost, NOW).after.state is State.CANCELED


def test_lost_process_keeps_the_question_if_the_session_can_be_loaded() -> None:
    run, _ = asked(a_job(STICKY), handle=LOADABLE)
    change = lifecycle.lose_process(run, later(5))
    (warned,) = change.after.warnings
    assert warned.code == "RESIDENT_PROCESS_LOST"
    assert moved(change) == {
        "lease": None,
        "recovery": Recovery(Trigger.PRESERVE_WAITING, later(5)),
        "warnings": (warned,),
    }
    assert change.trigger is Trigger.PRESERVE_WAITING
    assert story(change) == ["diagnostic.warning"]


@pytest.mark.failure("H14")
@pytest.mark.parametrize("handle", [None, TIED])
def test_lost_process_fails_the_run_if_not(handle: Handle | None) -> None:
    run, _ = asked(a_job(STICKY), handle=handle)
    change = lifecycle.lose_process(run, later(5))
    assert story(change) == ["waiting_user -> failed: interaction.process_lost", "conversation.failed"]
    assert change.after.error is not None
    assert change.after.error.code is Code.INTERACTION_PROCESS_LOST


@pytest.mark.failure("H13")
def test_reconcile_failed_says_why() -> None:
    failure = Failure(Code.RECONCILE_FAILED, "no open question")
    for run in (queued(), running(), asked()[0]):
        change = lifecycle.reconcile_failed(run, failure, later(5))
        assert story(change) == [f"{run.state} -> failed: restart.reconcile_failed", "conversation.failed"]
        assert (change.after.error, change.after.pending_interaction_id) == (failure, None)


def test_interrupted_turn_continues_its_session() -> None:
    change = interrupt(running(handle=LOADABLE), output=[SAID])
    assert moved(change) == {
        "state": State.QUEUED,
        "lease": None,
        "interruptions": 1,
        "next_turn": NextTurn.CONTINUE,
        "recovery": Recovery(Trigger.RESUME_TURN, later(5)),
    }
    assert change.enqueue
    assert story(change) == ["assistant.message.final", "running -> queued: restart.resume_turn"]


@pytest.mark.parametrize("handle", [LOADABLE, None], ids=["goes on", "fails"])
def test_try_that_was_cut_off_is_closed(handle: Handle | None) -> None:
    run = running(handle=handle)
    change = interrupt(run, attempt=attempt_of(run))
    assert change.attempt is not None
    assert (change.attempt.ended_at, change.attempt.verdict) == (later(5), {"verdict": "interrupted"})


def test_handle_that_came_with_the_interrupted_turn_counts() -> None:
    change = interrupt(running(), handle=LOADABLE)
    assert (change.after.state, change.after.handle) == (State.QUEUED, LOADABLE)


def test_turn_without_a_process_starts_anew() -> None:
    change = interrupt(running(), process_started=False)
    assert (change.after.next_turn, change.after.interruptions) == (NextTurn.RESTART, 1)
    assert [warning.code for warning in change.after.warnings] == ["TURN_RESTARTED"]
    assert story(change) == ["diagnostic.warning", "running -> queued: restart.resume_turn"]


def test_attempt_that_ran_is_continued_even_if_its_second_try_never_started() -> None:
    """Starting it anew would say the user's words twice in one session."""
    cut_off = interrupt(running(handle=LOADABLE)).after
    second_try = lifecycle.start_turn(cut_off, "lease-2", NOW).after
    assert interrupt(second_try, process_started=False).after.next_turn is NextTurn.CONTINUE


@pytest.mark.parametrize(
    ("run", "process_started"),
    [
        pytest.param(running(), True, id="no handle"),
        pytest.param(running(handle=TIED), True, id="session gone with its process"),
        pytest.param(running(handle=LOADABLE, interruptions=2), True, id="third time"),
        pytest.param(running(interruptions=2), False, id="third time, never started"),
        pytest.param(
            running(a_job(on_interrupted=OnInterrupted.FAIL), handle=LOADABLE), True, id="asked to fail"
        ),
    ],
)
def test_interrupted_turn_that_cannot_go_on_fails(run: Run, process_started: bool) -> None:
    change = interrupt(run, process_started=process_started, output=[SAID])
    assert story(change) == [
        "assistant.message.final",
        "running -> failed: restart.reconcile_failed",
        "conversation.failed",
    ]
    assert change.after.error is not None
    assert change.after.error.code is Code.RUN_INTERRUPTED
    assert change.after.recovery == Recovery(Trigger.RECONCILE_FAILED, later(5))
    assert (change.after.lease, change.enqueue) == (None, False)


@pytest.mark.parametrize("process_started", [True, False])
def test_attempt_is_tried_again_at_most_twice(process_started: bool) -> None:
    run = running(handle=LOADABLE)
    for number in (1, 2):
        cut_off = interrupt(run, process_started=process_started).after
        assert (cut_off.state, cut_off.interruptions) == (State.QUEUED, number)
        run = lifecycle.start_turn(cut_off, "lease", NOW).after
        assert (run.attempt_number, run.try_number) == (1, number + 1)
    assert interrupt(run, process_started=process_started).after.state is State.FAILED

    # The next attempt counts from the beginning.
    wait = finish(run, Wait())
    replied = questions.accept_reply(wait.after, wait.interaction, "blue", NOW, by="ann").after
    fresh = lifecycle.start_turn(replied, "lease", NOW).after
    assert (fresh.attempt_number, fresh.try_number, fresh.interruptions) == (2, 1, 0)


def test_graceful_stop_does_not_count() -> None:
    change = interrupt(running(handle=LOADABLE, interruptions=2), counts=False)
    assert (change.after.state, change.after.interruptions) == (State.QUEUED, 2)


def test_what_a_turn_used_counts_even_if_the_run_is_given_up() -> None:
    run = running(a_job(on_interrupted=OnInterrupted.FAIL), handle=LOADABLE, usage={"input_tokens": 1})
    report = TurnReport(output=[SAID], usage={"input_tokens": 4}, warnings=[RunWarning("ODD", "told")])
    change = lifecycle.interrupt_turn(run, later(5), process_started=True, report=report)
    assert change.after.usage == {"input_tokens": 5}
    assert change.after.warnings == (RunWarning("ODD", "told"),)
    assert story(change)[:3] == ["assistant.message.final", "usage.reported", "diagnostic.warning"]
