"""Replies and deadlines: the two ways in which a question is closed, and what the loser is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.examples import (
    LOADABLE,
    NOW,
    RESUMABLE,
    STICKY,
    TIMEOUT,
    a_job,
    asked,
    finish,
    later,
    moved,
    queued,
    running,
    some,
    story,
)
from turnkeeper.core import lifecycle, questions
from turnkeeper.core.errors import (
    Code,
    InteractionAnswered,
    InteractionStale,
    RunEnding,
    RunNotWaiting,
    TurnkeeperError,
)
from turnkeeper.core.gate import Fail, Wait
from turnkeeper.core.run import Answer, Ending, EndingWhy, Interaction, NextTurn, Question, Resolution, Run
from turnkeeper.core.statechart import State, Trigger
from turnkeeper.core.waiting import ProfileKind


def refusal(run: Run, interaction: Interaction | None) -> tuple[type[TurnkeeperError], dict[str, object]]:
    with pytest.raises(TurnkeeperError) as caught:
        questions.accept_reply(run, interaction, "blue", NOW, by="bob")
    return type(caught.value), caught.value.facts


def test_reply_to_a_run_without_process_waits_for_a_slot() -> None:
    run, pending = asked(handle=LOADABLE)
    change = questions.accept_reply(run, pending, "x" * 500, later(5), by="ann", idempotency_key="key-1")
    assert moved(change) == {
        "state": State.QUEUED,
        "next_turn": NextTurn.REPLY,
        "pending_interaction_id": None,
    }
    assert change.enqueue
    answer = Answer("x" * 500, Resolution.USER_REPLY, later(5), "ann", "key-1")
    assert change.interaction == replace(pending, answer=answer)
    assert story(change) == [
        "interaction.reply.accepted",
        "waiting_user -> queued: interaction.reply.accepted",
    ]
    assert change.events[0].data == {
        "interaction_id": 1,
        "resolution_mode": "user_reply",
        "accepted_at": "2030-05-17T12:00:05.000000Z",
        "response_preview": "x" * 200,
        "by": "ann",
    }


def test_reply_wakes_a_live_process_and_enqueues_nothing() -> None:
    run, pending = asked(a_job(STICKY))
    change = questions.accept_reply(run, pending, "blue", later(5), by="ann")
    assert (change.after.lease, change.after.due_at, change.enqueue) == ("lease-1", None, False)


def test_reply_after_a_lost_process_takes_a_slot_again() -> None:
    run, pending = asked(a_job(STICKY), handle=LOADABLE)
    lost = lifecycle.lose_process(run, NOW).after
    assert questions.accept_reply(lost, pending, "blue", NOW, by="ann").enqueue


def test_next_turn_is_a_new_attempt_and_the_next_question_a_new_id() -> None:
    run, pending = asked()
    run = questions.accept_reply(run, pending, "blue", NOW, by="ann").after
    start = lifecycle.start_turn(run, "lease-2", later(5))
    assert (start.after.attempt_number, start.after.try_number, start.after.lease) == (2, 1, "lease-2")
    assert start.after.started_at == NOW
    assert start.attempt is not None
    assert start.attempt.next_turn is NextTurn.REPLY
    assert finish(start.after, Wait()).after.pending_interaction_id == 2


@pytest.mark.failure("H02")
def test_second_reply_is_told_that_it_lost() -> None:
    run, pending = asked()
    won = questions.accept_reply(run, pending, "red", NOW, by="ann")
    assert refusal(won.after, won.interaction) == (
        InteractionAnswered,
        {
            "state": "queued",
            "pending_interaction_id": None,
            "answered_interaction_id": 1,
            "resolution_mode": "user_reply",
            "answered_by": "ann",
            "accepted_at": "2030-05-17T12:00:00.000000Z",
        },
    )


@pytest.mark.failure("H03")
def test_stale_reply_is_told_the_open_question() -> None:
    run, pending = asked()
    stale = (InteractionStale, {"state": "waiting_user", "pending_interaction_id": 1})
    assert refusal(run, None) == stale
    assert refusal(run, replace(pending, interaction_id=2)) == stale


@pytest.mark.failure("H04")
@pytest.mark.parametrize(
    "run", [queued(), running(), finish(running(), Fail(TIMEOUT)).after], ids=lambda run: run.state.value
)
def test_reply_is_refused_outside_waiting(run: Run) -> None:
    assert refusal(run, None) == (RunNotWaiting, {"state": run.state.value, "pending_interaction_id": None})


@pytest.mark.failure("H12")
def test_ending_run_takes_no_reply() -> None:
    run, pending = asked(a_job(STICKY))
    ending = some(lifecycle.cancel(run, NOW, by="ann")).after
    assert refusal(ending, pending) == (RunEnding, {"state": "waiting_user", "pending_interaction_id": 1})


@pytest.mark.failure("H05")
@pytest.mark.parametrize(
    "text",
    ["", "  \n", '{"__SKILL_DONE__": true}', "\0\x1b[31m", "x" * 10_000_000],
    ids=lambda text: text[:8],
)
def test_any_text_is_a_reply(text: str) -> None:
    run, pending = asked()
    change = questions.accept_reply(run, pending, text, NOW, by="ann")
    assert change.after.state is State.QUEUED
    assert change.interaction is not None
    assert change.interaction.answer == Answer(text, Resolution.USER_REPLY, NOW, "ann")


def test_strict_resumable_run_waits_for_ever() -> None:
    run, pending = asked()
    assert run.due_at is None
    assert questions.apply_deadline(run, pending, later(10**9)) is None


@pytest.mark.failure("H10")
@pytest.mark.parametrize(("kind", "enqueue"), [(RESUMABLE, True), (STICKY, False)])
def test_deadline_decides_by_itself(kind: ProfileKind, enqueue: bool) -> None:
    question = Question(prompt="Red?", default_decision_policy="pick_first")
    run, pending = asked(a_job(kind, strict=False, session_timeout_sec=5.0), question=question)
    assert questions.apply_deadline(run, pending, later(4.9)) is None
    change = some(questions.apply_deadline(run, pending, later(5)))
    assert moved(change) == {
        "state": State.QUEUED,
        "next_turn": NextTurn.REPLY,
        "pending_interaction_id": None,
        "due_at": None,
    }
    assert (change.after.lease, change.enqueue) == (run.lease, enqueue)
    assert story(change) == [
        "interaction.auto_decide.timeout",
        "waiting_user -> queued: interaction.auto_decide.timeout",
    ]
    assert change.events[0].data == {
        "interaction_id": 1,
        "resolution_mode": "auto_decide_timeout",
        "accepted_at": "2030-05-17T12:00:05.000000Z",
        "policy": "pick_first",
        "timeout_sec": 5.0,
    }
    assert change.interaction is not None
    assert change.interaction.answer is not None
    assert change.interaction.answer.resolution_mode is Resolution.AUTO_DECIDE
    assert "pick_first" in change.interaction.answer.response

    # Its turn counts like any other, and who replies too late is told.
    assert lifecycle.start_turn(change.after, "lease-2", NOW).after.attempt_number == 2
    error, facts = refusal(change.after, change.interaction)
    assert (error, facts["resolution_mode"]) == (InteractionAnswered, "auto_decide_timeout")


def test_deadline_ends_a_live_process_first() -> None:
    run, pending = asked(a_job(STICKY, session_timeout_sec=5.0))
    intent = some(questions.apply_deadline(run, pending, later(5)))
    assert moved(intent) == {"ending": Ending(EndingWhy.WAIT_TIMEOUT, "turnkeeper", later(5)), "due_at": None}
    assert (intent.trigger, intent.events) == (None, ())
    assert questions.apply_deadline(intent.after, pending, later(99)) is None
    assert refusal(intent.after, pending)[0] is RunEnding

    end = lifecycle.finish_ending(intent.after, later(5))
    assert story(end) == ["waiting_user -> failed: interaction.wait.timeout", "conversation.failed"]
    assert end.after.error is not None
    assert end.after.error.code is Code.INTERACTION_WAIT_TIMEOUT
    assert (end.after.lease, end.after.pending_interaction_id) == (None, None)


def test_deadline_without_a_process_is_one_step() -> None:
    run, pending = asked(a_job(STICKY, session_timeout_sec=5.0), handle=LOADABLE)
    lost = lifecycle.lose_process(run, NOW).after
    change = some(questions.apply_deadline(lost, pending, later(5)))
    assert change.trigger is Trigger.WAIT_TIMEOUT
    assert change.after.error is not None
    assert change.after.error.code is Code.INTERACTION_WAIT_TIMEOUT
