"""The statechart, written out a second time: a row that changes must be changed on purpose, in two places."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from turnkeeper.core.errors import IllegalTransition
from turnkeeper.core.statechart import TABLE, State, Trigger, diagram, next_state

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"

ROWS = {
    ("queued", "input.completed", "queued"),
    ("queued", "input.expired", "failed"),
    ("queued", "turn.started", "running"),
    ("running", "turn.needs_input", "waiting_user"),
    ("running", "turn.needs_permission", "waiting_user"),
    ("running", "turn.succeeded", "succeeded"),
    ("running", "turn.failed", "failed"),
    ("running", "restart.resume_turn", "queued"),
    ("waiting_user", "interaction.reply.accepted", "queued"),
    ("waiting_user", "interaction.auto_decide.timeout", "queued"),
    ("waiting_user", "interaction.withdrawn", "queued"),
    ("waiting_user", "interaction.wait.timeout", "failed"),
    ("waiting_user", "interaction.process_lost", "failed"),
    ("waiting_user", "restart.preserve_waiting", "waiting_user"),
    ("queued", "restart.reconcile_failed", "failed"),
    ("running", "restart.reconcile_failed", "failed"),
    ("waiting_user", "restart.reconcile_failed", "failed"),
    ("queued", "run.canceled", "canceled"),
    ("running", "run.canceled", "canceled"),
    ("waiting_user", "run.canceled", "canceled"),
}
LEGAL = {(state, trigger) for state, trigger, _ in ROWS}


def test_table_is_exactly_this() -> None:
    assert {(state.value, trigger.value, to.value) for (state, trigger), to in TABLE.items()} == ROWS


def test_six_states_are_all() -> None:
    assert {state.value for state in State} == {
        "queued", "running", "waiting_user", "succeeded", "failed", "canceled",
    }  # fmt: skip
    assert {state.value for state in State if state.is_terminal} == {"succeeded", "failed", "canceled"}


def test_every_trigger_has_a_row() -> None:
    assert {trigger.value for trigger in Trigger} == {trigger for _, trigger, _ in ROWS}


@pytest.mark.parametrize(("state", "trigger", "to"), sorted(ROWS))
def test_legal_trigger_leads_on(state: str, trigger: str, to: str) -> None:
    assert next_state(State(state), Trigger(trigger)) == to


def test_everything_else_is_refused_by_name() -> None:
    illegal = [pair for pair in product(State, Trigger) if pair not in LEGAL]
    assert len(illegal) == len(State) * len(Trigger) - len(ROWS)
    for state, trigger in illegal:
        with pytest.raises(IllegalTransition, match=f"{trigger} is not possible in state {state}"):
            next_state(state, trigger)


def test_terminal_states_have_no_way_out() -> None:
    assert not [state for state, _ in TABLE if state.is_terminal]


def test_diagram_draws_each_row_once() -> None:
    lines = [line.strip() for line in diagram().splitlines()]
    arrows = [line for line in lines if " --> " in line and "[*]" not in line]
    assert sorted(arrows) == sorted(f"{state} --> {to}: {trigger}" for state, trigger, to in ROWS)
    assert "[*] --> queued" in lines
    assert {line for line in lines if line.endswith("--> [*]")} == {
        "succeeded --> [*]", "failed --> [*]", "canceled --> [*]",
    }  # fmt: skip


def test_documentation_shows_this_diagram() -> None:
    drawn = [block.split("```")[0].strip() for block in PAGE.read_text().split("```mermaid\n")[1:]]
    assert diagram() in drawn, "run make docs"
