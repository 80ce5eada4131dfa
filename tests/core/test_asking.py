"""From an agent's words to a question: a good block enriches it, a bad one is dropped, the question always stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.examples import NOW, later
from turnkeeper.core.asking import BASELINE_PROMPT, MAX_BLOCK, pending_view, question
from turnkeeper.core.run import Interaction, Question

GOOD: dict[str, Any] = {"interaction_id": 7, "prompt": "Which colour?"}


def tagged(body: str = "…") -> str:
    return f"<ASK_USER_YAML>\n{body}\n</ASK_USER_YAML>"


def fence(body: str = "…") -> str:
    return f"```ask_user_yaml\n{body}\n```"


def loading(value: object) -> Callable[[str], object]:
    """Stands for a YAML reader that made `value` of the block."""
    return lambda block: value


def no_block(block: str) -> object:
    raise AssertionError(f"there is no block to read: {block}")


def ask(value: object, *, words: str = "") -> tuple[Question, list[str]]:
    asked, warnings = question([words + tagged()], loading(value))
    return asked, [warning.code for warning in warnings]


def test_last_message_is_the_question() -> None:
    asked, warnings = question(["Let me look.", " Shall I go on?\n"], no_block)
    assert asked == Question(prompt="Shall I go on?", kind="open_text", source="backend")
    assert asked.default_decision_policy == "engine_judgement"
    assert warnings == ()


@pytest.mark.parametrize("block", [tagged, fence])
def test_good_block_enriches_the_words(block: Callable[[str], str]) -> None:
    fields = {
        **GOOD,
        "kind": "choose_one",
        "default_decision_policy": "pick_first",
        "options": [{"label": "Red", "value": "r"}, {"label": "Blue"}, "Green", 3],
        "ui_hints": {"widget": "radio"},
        "context": {"file": "a.txt"},
        "requested_schema": {"type": "object"},
    }
    read: list[str] = []

    def load(text: str) -> object:
        read.append(text.strip())
        return fields

    asked, warnings = question(["Earlier words.", f"Please choose.\n\n{block('the block')}"], load)
    assert read == ["the block"]
    assert warnings == ()
    assert asked == Question(
        prompt="Please choose.",
        kind="choose_one",
        default_decision_policy="pick_first",
        options=(
            {"label": "Red", "value": "r"},
            {"label": "Blue", "value": "Blue"},
            {"label": "Green", "value": "Green"},
            {"label": "3", "value": 3},
        ),
        ui_hints={"widget": "radio"},
        context={"file": "a.txt"},
        requested_schema={"type": "object"},
        source="ask_user",
    )


def test_blocks_prompt_stands_in_for_missing_words() -> None:
    asked, warnings = ask(GOOD)
    assert (asked.prompt, asked.source, warnings) == ("Which colour?", "ask_user", [])


def test_block_may_be_wrapped_in_its_name() -> None:
    assert ask({"ask_user": GOOD})[0].source == "ask_user"


@pytest.mark.parametrize(
    ("given_kind", "kind"),
    [
        ("open_text", "open_text"),
        ("choose_one", "choose_one"),
        ("single_select", "choose_one"),
        ("confirm", "confirm"),
        ("fill_fields", "fill_fields"),
        ("risk_ack", "risk_ack"),
        ("Spin the Wheel", "Spin the Wheel"),
        (None, "open_text"),
    ],
)
def test_kind_is_kept_as_given(given_kind: str | None, kind: str) -> None:
    assert ask({**GOOD, "kind": given_kind})[0].kind == kind


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.mark.failure("C18")
@pytest.mark.parametrize(
    "loaded",
    [
        without("prompt"),
        without("interaction_id"),
        {**GOOD, "prompt": "  "},
        {**GOOD, "prompt": ["Which colour?"]},
        {**GOOD, "prompt": 3},
        {**GOOD, "interaction_id": None},
        {**GOOD, "interaction_id": True},
        {**GOOD, "interaction_id": [1]},
        {**GOOD, "kind": 3},
        {**GOOD, "options": "red, blue"},
        {**GOOD, "options": [{"value": 3}]},
        {**GOOD, "options": [None]},
        {**GOOD, "options": [["red"]]},
        {**GOOD, "ui_hints": ["radio"]},
        {**GOOD, "requested_schema": "object"},
        {**GOOD, "default_decision_policy": {"a": 1}},
        {"ask_user": "Which colour?"},
        [GOOD],
        "Which colour?",
        None,
    ],
)
def test_incomplete_block_is_dropped_whole(loaded: object) -> None:
    asked, warnings = ask(loaded, words="Please choose.")
    assert asked == Question(prompt="Please choose.", source="backend")
    assert warnings == ["ASK_BLOCK_INVALID"]


@pytest.mark.failure("C18")
def test_block_that_is_no_yaml_is_dropped() -> None:
    def load(block: str) -> object:
        raise ValueError("line 1: what is this?")

    asked, warnings = question([f"Please choose. {tagged('{{{')}"], load)
    assert asked == Question(prompt="Please choose.")
    assert [warning.code for warning in warnings] == ["ASK_BLOCK_INVALID"]
    assert "what is this?" in warnings[0].message


def test_block_that_is_too_long_is_not_even_read() -> None:
    asked, warnings = question([f"Please choose. {tagged('x' * MAX_BLOCK)}"], no_block)
    assert asked == Question(prompt="Please choose.")
    assert [warning.code for warning in warnings] == ["ASK_BLOCK_INVALID"]


@pytest.mark.failure("C19", "H16")
@pytest.mark.parametrize("messages", [[], [""], [" \n"], ["Let me look.", ""]])
def test_empty_message_gives_a_question_of_ours(messages: list[str]) -> None:
    asked, warnings = question(messages, no_block)
    assert asked == Question(prompt=BASELINE_PROMPT)
    assert [warning.code for warning in warnings] == ["QUESTION_EMPTY"]


@pytest.mark.failure("C18", "H16")
def test_bad_block_alone_gives_a_question_of_ours() -> None:
    asked, warnings = ask(without("interaction_id"))
    assert asked == Question(prompt=BASELINE_PROMPT)
    assert warnings == ["ASK_BLOCK_INVALID", "QUESTION_EMPTY"]


def test_view_shows_what_there_is() -> None:
    plain = Interaction(
        run_id="run-1", interaction_id=2, attempt_number=2, question=Question(prompt="Which?"), asked_at=NOW
    )
    shown = {
        "interaction_id": 2,
        "kind": "open_text",
        "prompt": "Which?",
        "default_decision_policy": "engine_judgement",
        "source": "backend",
    }
    assert pending_view(plain) == shown

    rich = Question(
        prompt="Which?", options=({"label": "Red", "value": "r"},), ui_hints={"a": 1}, context="c"
    )
    due = Interaction(
        run_id="run-1", interaction_id=2, attempt_number=2, question=rich, asked_at=NOW, expires_at=later(60)
    )
    assert pending_view(due) == shown | {
        "options": [{"label": "Red", "value": "r"}],
        "ui_hints": {"a": 1},
        "context": "c",
        "expires_at": "2030-05-17T12:01:00.000000Z",
    }


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3)
)
keys = st.text(max_size=3) | st.booleans() | st.none() | st.integers() | st.dates()
loaded_values = st.recursive(
    scalars | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
"""What a YAML reader can come back with, which is more than JSON."""
blocks = st.fixed_dictionaries(
    {"interaction_id": st.integers() | loaded_values, "prompt": st.text() | loaded_values},
    optional={
        "kind": st.text() | loaded_values,
        "options": st.lists(loaded_values, max_size=3) | loaded_values,
        "ui_hints": loaded_values,
        "context": loaded_values,
        "requested_schema": loaded_values,
        "default_decision_policy": loaded_values,
    },
)
words = st.text() | st.sampled_from(
    ["<ASK_USER_YAML>", "</ASK_USER_YAML>", "```", "```ask_user_yaml\n", "\n"]
)


@given(st.lists(words, max_size=4).map("".join), loaded_values | blocks, st.booleans())
def test_whatever_the_agent_writes_there_is_a_question(text: str, loaded: object, has_block: bool) -> None:
    asked, warnings = question([text + tagged() if has_block else text], loading(loaded))
    assert asked.prompt.strip()
    assert asked.source == "ask_user" or (asked.options, asked.kind) == ((), "open_text")
    assert {warning.code for warning in warnings} <= {"ASK_BLOCK_INVALID", "QUESTION_EMPTY"}


@pytest.mark.parametrize(
    "hints",
    [
        {"ui_hints": {True: "shown"}},  # YAML reads the key `on` as true
        {"ui_hints": {None: 1}},
        {"context": [{date(2030, 1, 1): 1}]},
        {"context": {("a", "b"): 1}},
        {"context": "\ud800"},
        {"options": [float("nan")]},
    ],
)
def test_question_can_be_written_as_json(hints: dict[str, Any]) -> None:
    """YAML knows more than JSON; what cannot be stored would break the commit that asks."""
    asked, _ = ask(GOOD | hints)
    interaction = Interaction(
        run_id="run-1", interaction_id=1, attempt_number=1, question=asked, asked_at=NOW
    )
    shown = pending_view(interaction)
    text = json.dumps(shown, allow_nan=False, ensure_ascii=False)
    text.encode()
    assert json.loads(text) == shown
