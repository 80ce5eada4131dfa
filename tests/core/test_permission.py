"""A permission that is asked for in the middle of a turn: the question, the answer, and what becomes of the turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.examples import (
    LOADABLE,
    NOW,
    SAID,
    STICKY,
    a_job,
    attempt_of,
    finish,
    later,
    moved,
    running,
    some,
    story,
)
from turnkeeper.core import lifecycle, permission, questions
from turnkeeper.core.change import TurnReport
from turnkeeper.core.errors import Code
from turnkeeper.core.gate import Cancel, Succeed, Wait
from turnkeeper.core.permission import Choice, Decision, PermissionAsked
from turnkeeper.core.run import Answer, Interaction, NextTurn, Resolution, Run
from turnkeeper.core.statechart import State, Trigger

ONCE, ALWAYS = Choice("yes", "Yes, once", "allow_once"), Choice("ever", "Always", "allow_always")
NO, NEVER = Choice("no", "No", "reject_once"), Choice("never", "Never", "reject_always")
ALL = (ONCE, ALWAYS, NEVER, NO)
ASKED = PermissionAsked(
    "1", "touch note.txt", ALL, {"kind": "execute", "input": {"command": "touch note.txt"}}
)


def paused(**job: Any) -> tuple[Run, Interaction]:
    change = questions.ask_permission(
        running(a_job(STICKY, **job)), permission.question(ASKED), NOW, output=[SAID], handle=LOADABLE
    )
    return change.after, some_interaction(change.interaction)


def some_interaction(interaction: Interaction | None) -> Interaction:
    assert interaction is not None
    return interaction


def answered(text: str, mode: Resolution = Resolution.USER_REPLY) -> Decision:
    return permission.decide(permission.question(ASKED), Answer(text, mode, NOW, "ann"))


# The answer


@pytest.mark.parametrize("text", ["yes", "Yes, once", "YES, ONCE", "allow_once", "  yes\n"])
def test_an_option_is_chosen_by_its_value_its_label_or_its_kind(text: str) -> None:
    assert answered(text) == Decision("yes", is_allowed=True)


def test_a_value_weighs_more_than_a_label() -> None:
    """An agent may call its rejection what another of its options is worth."""
    odd = replace(ASKED, choices=(Choice("1", "2", "allow_once"), Choice("2", "1", "reject_once")))
    asked = permission.question(odd)
    assert permission.decide(asked, Answer("2", Resolution.USER_REPLY, NOW, "ann")) == Decision("2")


def test_other_words_reject_and_are_heard_later() -> None:
    assert answered("no") == Decision("no")
    assert answered("use another file") == Decision("no", words="use another file")
    assert answered("  ") == Decision("no")


def test_silence_rejects_once() -> None:
    assert answered("yes", Resolution.AUTO_DECIDE) == Decision("no")


def test_an_agent_without_the_option_is_told_that_its_request_was_called_off() -> None:
    assert permission.rejected([ONCE]) == Decision(None)
    assert permission.allowed([NO]) == Decision(None)
    assert permission.allowed([NO, ALWAYS, ONCE]) == Decision("yes", is_allowed=True)
    assert permission.allowed([NO, ALWAYS]) == Decision("ever", is_allowed=True)
    assert permission.rejected([NEVER]) == Decision("never")


def test_the_question_shows_what_is_asked_for() -> None:
    asked = permission.question(ASKED)
    assert "touch note.txt" in asked.prompt
    assert (asked.kind, asked.source) == ("permission", "permission")
    assert asked.options[0] == {"label": "Yes, once", "value": "yes", "kind": "allow_once"}
    assert asked.context == {"kind": "execute", "input": {"command": "touch note.txt"}}


def test_a_long_context_is_cut() -> None:
    long = replace(ASKED, tool={"input": {"content": "x" * 100_000}, "locations": []})
    context = permission.question(long).context
    assert len(context["input"]) == permission.MAX_CONTEXT + 1
    assert "locations" not in context


# The run


def test_the_turn_pauses_and_keeps_its_number_and_its_slot() -> None:
    run = running(a_job(STICKY))
    change = questions.ask_permission(
        run, permission.question(ASKED), later(5), output=[SAID], handle=LOADABLE
    )
    assert story(change) == [
        "assistant.message.final",
        "running -> waiting_user: turn.needs_permission",
        "user.input.required",
    ]
    assert moved(change) == {
        "state": State.WAITING_USER,
        "next_turn": NextTurn.PERMISSION,
        "pending_interaction_id": 1,
        "questions": 1,
        "due_at": later(65),
        "handle": LOADABLE,
    }
    assert change.after.is_paused


def test_the_answer_lets_the_same_try_go_on() -> None:
    run, pending = paused()
    change = questions.accept_reply(run, pending, "yes", later(3), by="ann")
    assert story(change) == [
        "interaction.reply.accepted",
        "waiting_user -> queued: interaction.reply.accepted",
    ]
    assert not change.enqueue  # its owner is there, with its slot
    goes_on = lifecycle.go_on(change.after, later(5))
    assert story(goes_on) == ["queued -> running: turn.started"]
    assert moved(goes_on) == {"state": State.RUNNING, "next_turn": NextTurn.CONTINUE}
    assert goes_on.attempt is None
    ended = finish(goes_on.after, Wait()).after  # and its question is an ordinary one
    assert (ended.attempt_number, ended.is_paused, ended.questions) == (1, False, 2)


def test_nobody_answers() -> None:
    run, pending = paused(strict=False)
    change = some(questions.apply_deadline(run, pending, later(60)))
    assert change.trigger is Trigger.AUTO_DECIDE_TIMEOUT
    interaction = some_interaction(change.interaction)
    assert interaction.answer is not None
    assert permission.decide(interaction.question, interaction.answer) == Decision("no")

    run, pending = paused(strict=True)
    intent = some(questions.apply_deadline(run, pending, later(60)))
    ended = finish(intent.after, Cancel()).after
    assert ended.error is not None
    assert (ended.state, ended.error.code) == (State.FAILED, Code.INTERACTION_WAIT_TIMEOUT)


def test_the_process_that_asked_is_the_only_one_to_answer() -> None:
    """However loadable its session is: the request has died with it."""
    run, pending = paused()
    report = TurnReport(output=[SAID], usage={"input_tokens": 7})
    lost = lifecycle.lose_process(run, later(5), attempt=attempt_of(run), report=report)
    assert lost.trigger is Trigger.PROCESS_LOST
    assert lost.after.error is not None
    assert lost.after.error.code is Code.INTERACTION_PROCESS_LOST
    assert lost.after.usage == {"input_tokens": 7}
    assert lost.attempt is not None
    assert (lost.attempt.ended_at, lost.attempt.verdict) == (later(5), {"verdict": "interrupted"})

    replied = questions.accept_reply(run, pending, "yes", NOW, by="ann").after
    late = lifecycle.lose_process(replied, later(5))
    assert late.trigger is Trigger.RECONCILE_FAILED
    assert late.after.error is not None
    assert late.after.error.code is Code.INTERACTION_PROCESS_LOST


def test_a_run_that_is_ended_in_its_pause_ends_as_it_was_told() -> None:
    run, _ = paused()
    intent = some(lifecycle.cancel(run, NOW, by="ann")).after
    assert finish(intent, Cancel()).after.state is State.CANCELED
    assert lifecycle.lose_process(intent, NOW, attempt=attempt_of(intent)).after.state is State.CANCELED


def test_a_turn_that_was_permitted_and_is_cut_off_goes_on_later() -> None:
    run, pending = paused()
    run = lifecycle.go_on(questions.accept_reply(run, pending, "yes", NOW, by="ann").after, NOW).after
    again = lifecycle.interrupt_turn(run, NOW, process_started=True).after
    assert (again.state, again.next_turn) == (State.QUEUED, NextTurn.CONTINUE)
    assert lifecycle.start_turn(again, "lease-2", NOW).after.try_number == 2
    assert finish(run, Succeed("DONE_MARKER")).after.state is State.SUCCEEDED
