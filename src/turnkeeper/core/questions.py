"""The Changes of a conversation: a question is asked, answered, or left until its deadline.

A turn that is over asks for words; one that pauses in its middle asks for a permission.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from turnkeeper.core import asking, waiting
from turnkeeper.core.change import Change, TurnReport, added, all_warnings, closing_words, fail, intend, step
from turnkeeper.core.errors import Code, InteractionAnswered, InteractionStale, RunEnding, RunNotWaiting
from turnkeeper.core.fcmp import Event, Type, instant
from turnkeeper.core.run import (
    Answer,
    Ending,
    EndingWhy,
    Failure,
    Handle,
    Interaction,
    NextTurn,
    Question,
    Resolution,
    Run,
)
from turnkeeper.core.statechart import State, Trigger

PREVIEW = 200
_RESOLVES = {
    Resolution.USER_REPLY: (Trigger.REPLY_ACCEPTED, Type.REPLY_ACCEPTED),
    Resolution.AUTO_DECIDE: (Trigger.AUTO_DECIDE_TIMEOUT, Type.AUTO_DECIDE_TIMEOUT),
    Resolution.WITHDRAWN: (Trigger.WITHDRAWN, Type.WITHDRAWN),
}


def ask(run: Run, report: TurnReport, now: datetime) -> Change:
    """The turn is over, and its last words are a question."""
    assert report.question is not None
    return _pose(
        run,
        report.question,
        Trigger.TURN_NEEDS_INPUT,
        now,
        cause=closing_words(run, report, now),
        handle=report.handle or run.handle,
        warnings=all_warnings(run, report),
        usage=added(run.usage, report.usage),
    )


def ask_permission(
    run: Run, question: Question, now: datetime, *, output: Sequence[Event], handle: Handle | None
) -> Change:
    """The turn is not over: it pauses, and nothing of it is judged or counted yet."""
    return _pose(
        run,
        question,
        Trigger.TURN_NEEDS_PERMISSION,
        now,
        cause=output,
        handle=handle or run.handle,
        next_turn=NextTurn.PERMISSION,
    )


def _pose(
    run: Run, question: Question, trigger: Trigger, now: datetime, *, cause: Sequence[Event], **fields: Any
) -> Change:
    policy = run.job.wait_policy
    due_at = waiting.deadline(policy, now, run.job.session_timeout_sec)
    interaction = Interaction(
        run_id=run.id,
        interaction_id=run.questions + 1,
        attempt_number=run.attempt_number,
        question=question,
        asked_at=now,
        expires_at=due_at,
    )
    change = step(
        run,
        trigger,
        now,
        cause=cause,
        effect=[Event(Type.INPUT_REQUIRED, asking.pending_view(interaction), now, run.attempt_number)],
        lease=run.lease if policy.keeps_slot else None,
        due_at=due_at,
        pending_interaction_id=interaction.interaction_id,
        questions=interaction.interaction_id,
        **fields,
    )
    return replace(change, interaction=interaction)


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
            _why_closed(interaction.interaction_id, interaction.answer),
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


def withdraw(run: Run, pending: Interaction, now: datetime) -> Change:
    """The agent has gone on without the permission that it asked for; its turn does, too."""
    return _resolve(run, pending, Answer("", Resolution.WITHDRAWN, now, run.job.engine), now)


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
    return wait_timeout(run, now)


def _resolve(run: Run, pending: Interaction, answer: Answer, now: datetime) -> Change:
    """A sticky run with a live process is woken by its owner's lease; any other waits for a slot."""
    data: dict[str, Any] = {
        "interaction_id": pending.interaction_id,
        "resolution_mode": answer.resolution_mode.value,
        "accepted_at": instant(now),
    }
    trigger, type_ = _RESOLVES[answer.resolution_mode]
    if answer.resolution_mode is Resolution.USER_REPLY:
        data |= {"response_preview": answer.response[:PREVIEW], "by": answer.by}
    elif answer.resolution_mode is Resolution.AUTO_DECIDE:
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
        next_turn=run.next_turn if run.is_paused else NextTurn.REPLY,
        due_at=None,
        pending_interaction_id=None,
    )
    return replace(change, interaction=replace(pending, answer=answer))


def wait_timeout(run: Run, now: datetime, *, output: Sequence[Event] = (), **fields: Any) -> Change:
    failure = Failure(
        Code.INTERACTION_WAIT_TIMEOUT,
        f"nobody replied within {run.job.session_timeout_sec:.12g} s; the run was ended",
    )
    return fail(run, Trigger.WAIT_TIMEOUT, failure, now, cause=output, **fields)


def _why_closed(number: int, answer: Answer) -> str:
    if answer.resolution_mode is Resolution.WITHDRAWN:
        return f"question {number} was withdrawn: the agent went on without an answer"
    mode = answer.resolution_mode.value
    return f"question {number} was already answered ({mode}); another answer was accepted first"


def _auto_reply(run: Run, pending: Interaction) -> str:
    if run.is_paused:
        return f"Nobody answered within {run.job.session_timeout_sec:.12g} seconds: not permitted."
    return (
        f"Nobody answered within {run.job.session_timeout_sec:.12g} seconds. Do not ask again about this; decide "
        f"yourself by the policy `{pending.question.default_decision_policy}` and go on with the task."
    )
