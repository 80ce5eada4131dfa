"""What somebody types, as an answer to a question."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from turnkeeper.cli.questions import Form, form_of, how_to_answer, in_time, time_left, understand

PACES = [{"label": "Slow: long lunches", "value": "slow"}, {"label": "Full", "value": "full"}]
KEEP = [{"label": "Yes, keep it", "value": "keep"}, {"label": "No, change it", "value": "change"}]
PERMIT = [
    {"label": "Allow once", "value": "allow", "kind": "allow_once"},
    {"label": "Always", "value": "always", "kind": "allow_always"},
    {"label": "Reject", "value": "reject", "kind": "reject_once"},
]


def form(kind: str = "open_text", options: Any = None, **more: Any) -> Form:
    return form_of({"interaction_id": 1, "prompt": "?", "kind": kind, "options": options, **more})


@pytest.mark.parametrize(
    ("kind", "options", "typed", "reply"),
    [
        ("open_text", None, " 1 ", "1"),
        ("open_text", None, "y", "y"),
        ("open_text", None, "   ", None),
        ("choose_one", PACES, "1", "slow"),
        ("choose_one", PACES, "2.", "full"),
        ("choose_one", PACES, "2)", "full"),
        ("choose_one", PACES, "3", "3"),
        ("choose_one", PACES, "FULL", "full"),
        ("choose_one", PACES, "slow: long lunches", "slow"),
        ("choose_one", PACES, "slow, but with a boat", "slow, but with a boat"),
        ("choose_one", [{"label": "five", "value": 5}], "five", "5"),
        ("choose_one", [{"label": "all", "value": {"n": 1}}], "1", '{"n": 1}'),
        ("confirm", None, "y", "yes"),
        ("confirm", None, "No", "no"),
        ("confirm", None, "maybe", "maybe"),
        ("confirm", KEEP, "y", "keep"),
        ("confirm", KEEP, "n", "change"),
        ("confirm", KEEP, "2", "change"),
        ("confirm", PACES, "y", "yes"),
        ("permission", PERMIT, "1", "allow"),
        ("permission", PERMIT, "y", "allow"),
        ("permission", PERMIT, "n", "reject"),
        ("permission", PERMIT, "allow_always", "always"),
        ("permission", PERMIT, "use a branch", "use a branch"),
        ("permission", PERMIT[1:], "yes", None),
    ],
)
def test_what_is_meant(kind: str, options: Any, typed: str, reply: str | None) -> None:
    assert understand(form(kind, options), typed) == reply


def test_options_that_are_numbers_are_marked_by_letters() -> None:
    people = form("choose_one", [{"label": "2", "value": 2}, {"label": "1", "value": 1}])
    assert list(people.marks) == ["a", "b"]
    assert (understand(people, "1"), understand(people, "a")) == ("1", "2")
    assert how_to_answer(people).startswith("a–b")
    assert list(form("choose_one", [{"label": "7", "value": 7}]).marks) == ["1"], "7 is no mark of the list"


def test_what_the_agent_wants_to_do() -> None:
    asked = form(
        "permission", PERMIT, context={"call_id": "t1", "kind": "execute", "input": {"command": "rm -r x"}}
    )
    assert asked.wants == ("kind: execute", "input: rm -r x")
    assert form("open_text", context={"a": 1}).wants == ()


def test_until_when() -> None:
    now = datetime(2026, 11, 16, 12, tzinfo=UTC)
    assert time_left(form(), now) is None
    left = time_left(form(expires_at="2026-11-16T12:20:30.000000Z"), now)
    assert left is not None
    assert left.endswith("(in 20 min 30 s)")
    past = time_left(form(expires_at="2026-11-16T11:00:00.000000Z"), now)
    assert past is not None
    assert past.endswith("(in 0 s)")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.24, "0.2 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"), (90000, "1 d 1 h")],
)
def test_lengths_of_time(seconds: float, words: str) -> None:
    assert in_time(seconds) == words
