"""The one statechart. This table is executed: what it does not list cannot happen to a run."""

from __future__ import annotations

from enum import StrEnum

from turnkeeper.core.errors import IllegalTransition


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING_USER = "waiting_user"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


class Trigger(StrEnum):
    INPUT_COMPLETED = "input.completed"
    INPUT_EXPIRED = "input.expired"
    TURN_STARTED = "turn.started"
    TURN_NEEDS_INPUT = "turn.needs_input"
    TURN_NEEDS_PERMISSION = "turn.needs_permission"
    TURN_SUCCEEDED = "turn.succeeded"
    TURN_FAILED = "turn.failed"
    REPLY_ACCEPTED = "interaction.reply.accepted"
    AUTO_DECIDE_TIMEOUT = "interaction.auto_decide.timeout"
    WAIT_TIMEOUT = "interaction.wait.timeout"
    WITHDRAWN = "interaction.withdrawn"
    PROCESS_LOST = "interaction.process_lost"
    RESUME_TURN = "restart.resume_turn"
    PRESERVE_WAITING = "restart.preserve_waiting"
    RECONCILE_FAILED = "restart.reconcile_failed"
    RUN_CANCELED = "run.canceled"


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELED})
LIVE = (State.QUEUED, State.RUNNING, State.WAITING_USER)

TABLE: dict[tuple[State, Trigger], State] = {
    (State.QUEUED, Trigger.INPUT_COMPLETED): State.QUEUED,
    (State.QUEUED, Trigger.INPUT_EXPIRED): State.FAILED,
    (State.QUEUED, Trigger.TURN_STARTED): State.RUNNING,
    (State.RUNNING, Trigger.TURN_NEEDS_INPUT): State.WAITING_USER,
    (State.RUNNING, Trigger.TURN_NEEDS_PERMISSION): State.WAITING_USER,
    (State.RUNNING, Trigger.TURN_SUCCEEDED): State.SUCCEEDED,
    (State.RUNNING, Trigger.TURN_FAILED): State.FAILED,
    (State.RUNNING, Trigger.RESUME_TURN): State.QUEUED,
    (State.WAITING_USER, Trigger.REPLY_ACCEPTED): State.QUEUED,
    (State.WAITING_USER, Trigger.AUTO_DECIDE_TIMEOUT): State.QUEUED,
    (State.WAITING_USER, Trigger.WITHDRAWN): State.QUEUED,
    (State.WAITING_USER, Trigger.WAIT_TIMEOUT): State.FAILED,
    (State.WAITING_USER, Trigger.PROCESS_LOST): State.FAILED,
    (State.WAITING_USER, Trigger.PRESERVE_WAITING): State.WAITING_USER,
    **{(state, Trigger.RECONCILE_FAILED): State.FAILED for state in LIVE},
    **{(state, Trigger.RUN_CANCELED): State.CANCELED for state in LIVE},
}


def next_state(state: State, trigger: Trigger) -> State:
    """Where `trigger` leads from `state`; an illegal trigger is an error, never a silent write."""
    try:
        return TABLE[state, trigger]
    except KeyError:
        raise IllegalTransition(f"{trigger} is not possible in state {state}") from None


def diagram() -> str:
    """The table as a Mermaid state diagram; `docs/lifecycle.md` holds exactly this text."""
    lines = ["stateDiagram-v2", "    [*] --> queued"]
    for (state, trigger), target in TABLE.items():
        lines.append(f"    {state} --> {target}: {trigger}")
    lines += [f"    {state} --> [*]" for state in State if state.is_terminal]
    return "\n".join(lines)
