"""Objects of a stream that is out of step: which are heard, whatever was torn, fused or spread around them."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnkeeper.engines import objects
from turnkeeper.engines.lines import Line
from turnkeeper.engines.objects import MAX_FUSED, MAX_SPREAD, MAX_TOGETHER, MAX_TRIES, Objects

A, B = {"type": "a", "n": 1}, {"type": "b", "in": {"deep": ["}", "{", '"']}}
TEXT_A, TEXT_B = json.dumps(A), json.dumps(B)


def line(text: str, *, truncated: bool = False) -> Line:
    data = text.encode()
    return Line(data, 0, len(data) + 1, truncated)


def heard(*lines: str) -> list[dict[str, Any]]:
    objects = Objects()
    return [found for text in lines for found in objects.read(line(text))]


@pytest.mark.failure("B12")
@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([TEXT_A, TEXT_B], [A, B]),
        ([TEXT_A + TEXT_B], [A, B]),
        ([f"{TEXT_A}  {TEXT_B} "], [A, B]),
        ([f"{TEXT_A} done."], [A]),
        ([f"  {TEXT_A}"], [A]),
        (json.dumps(B, indent=2).split("\n"), [B]),
        ([*json.dumps(B, indent=2).split("\n"), TEXT_A], [B, A]),
        (
            [TEXT_A + '{"type": "b", "in":', '{"deep": ["}", "{", "\\""]}}'],
            [A],
        ),  # the second line begins anew
        ([TEXT_A + '{"type": "b", "in":', ' {"deep": ["}", "{", "\\""]}}'], [A, B]),
        ([TEXT_B[:12], TEXT_A], [A]),
        ([TEXT_B[:12] + TEXT_A], [A]),
        ([TEXT_B[:12] + TEXT_A + TEXT_B], [A, B]),
        ([TEXT_A + TEXT_B[:12] + TEXT_A], [A, A]),
        ([TEXT_B[:12] + TEXT_A + " and words"], []),
        ([TEXT_B[:20] + TEXT_A], []),  # where its value would stand
        (['{"type":"outer","x":' + TEXT_A], []),
        (['{"type":"outer","x": ' + TEXT_A + TEXT_A], [A]),
        (['{"type":"outer","x":[' + f"{TEXT_A},{TEXT_A}"], []),
        (['{"type":"outer","x":1,' + TEXT_A], []),
        ([f"sent {TEXT_A}"], []),
        ([f"[{TEXT_A}]"], []),
        (['{"type": "text", "text": "one', 'two"}'], [{"type": "text", "text": "one\ntwo"}]),
        (["{", f"  {TEXT_A}", "}"], []),  # an object inside another is no object of the stream
        (["{", "noise", TEXT_A], [A]),
        (["{}{}"], [{}, {}]),
        (["}", TEXT_A], [A]),
    ],
)
def test_what_is_heard(lines: list[str], found: list[Any]) -> None:
    assert heard(*lines) == found


def test_what_is_torn_out_of_a_text_is_not_taken_for_an_object() -> None:
    """The words of an agent may hold anything: inside a text they are escaped, and stay what they are."""
    said = json.dumps({"type": "text", "text": f"I would print {TEXT_A}{TEXT_B}"})
    assert heard(said[:-2]) == []
    assert heard(said[:-2], TEXT_B) == [B]


def test_a_line_that_was_cut_ends_what_was_open() -> None:
    objects = Objects()
    assert objects.read(line('{"type": "a",')) == []
    assert objects.read(line('"n": ', truncated=True)) == []
    assert objects.read(line(' "n": 1}')) == []


def test_an_object_over_lines_has_a_largest_size() -> None:
    objects = Objects()
    assert objects.read(line('{"type": "a", "n": "')) == []
    for _ in range(5):
        assert objects.read(line("x" * (MAX_SPREAD // 4))) == []
    assert objects.read(line('"}')) == []
    assert objects.read(line(TEXT_A)) == [A]


@pytest.mark.failure("B12", "V09")
def test_lines_of_nothing_fill_no_memory() -> None:
    """A spinner redraws for hours behind a torn object: what is left of its lines is empty, and a line all the same."""
    objects = Objects()
    assert objects.read(line('{"a": ')) == []
    for _ in range(MAX_SPREAD + 1):
        objects.read(line("\x1b[0m"))
    assert len(objects._open) <= MAX_SPREAD
    assert objects.read(line("1}")) == []
    assert objects.read(line(TEXT_A)) == [A]


@pytest.mark.failure("B05", "B12")
def test_a_huge_line_is_one_object_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects in it are not looked for one by one: meanwhile nobody else is heard."""
    scan = Mock(wraps=objects._scan)
    monkeypatch.setattr(objects, "_scan", scan)
    huge = json.dumps({"type": "a", "list": [{"a": "b"}] * (MAX_FUSED // 10)})
    assert heard(huge) == [json.loads(huge)]
    assert heard(f"{huge} and words", TEXT_A) == [A]
    assert scan.call_count == 0


@pytest.mark.failure("B12")
@pytest.mark.parametrize("text", ["{}" * 100_000, '{"":0}' * 10_000, '{"a"' + '{"":0}' * 10_000])
def test_very_many_on_a_line_are_not_all_read(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Each is read while everybody else waits."""
    scan = Mock(wraps=objects._scan)
    monkeypatch.setattr(objects, "_scan", scan)
    assert len(heard(text)) <= MAX_TOGETHER
    assert scan.call_count <= 5 * MAX_TOGETHER + 2 * MAX_TRIES


@given(
    st.lists(st.text(max_size=40) | st.sampled_from([TEXT_A, TEXT_B[:20], "{", "}", '{"', '"'])),
    st.booleans(),
)
@example(["{" * 5000], True)
@example(['{"a":' * 3000 + "1" + "}" * 3000], True)
def test_whatever_came_before_a_whole_line_is_heard(noise: list[str], is_fused: bool) -> None:
    objects = Objects()
    for text in "".join(noise).split("\n") if is_fused else noise:
        objects.read(line(text.replace("\n", " ")))
    assert objects.read(line(TEXT_B)) == [B]
