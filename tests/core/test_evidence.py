"""What words prove: the marker's grammar, the ladder to the candidate, and that hostile text costs little."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnkeeper.core.evidence import (
    MARKER_KEY,
    MAX_DEPTH,
    Ladder,
    marker_in,
    read_claim,
    text_without_marker,
    without_marker,
)

MARKER = '"__SKILL_DONE__": true'
DONE = '{"__SKILL_DONE__": true, "answer": 42}'


def escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def fenced(body: str, tag: str = "json") -> str:
    return f"```{tag}\n{body}\n```"


# The marker


@pytest.mark.failure("C04", "C05")
@pytest.mark.parametrize(
    "text",
    [
        MARKER,
        "{" + MARKER + "}",
        'All done: "__SKILL_DONE__": true, thank you.',
        '"__SKILL_DONE__":true',
        '"__SKILL_DONE__"\t \n:\r\n  true',
        '{"result": {"state": {"__SKILL_DONE__": true}}}',
        '[1, [{"__SKILL_DONE__": true}]]',
        '{\\"__SKILL_DONE__\\": true}',
        '{\\n  \\"__SKILL_DONE__\\"\\n :\\t true\\n}',
        '"__SKILL_DONE__": false, then "__SKILL_DONE__": true',
    ],
)
def test_marker(text: str) -> None:
    assert marker_in(text)


@pytest.mark.failure("C03", "C04", "C05")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "__SKILL_DONE__",
        "I will not set __SKILL_DONE__: true yet.",
        'I set "__SKILL_DONE__" to true.',
        '{"__SKILL_DONE__": false}',
        '{"__SKILL_DONE__": "true"}',
        '{"__SKILL_DONE__": 1}',
        '{"__SKILL_DONE__": null}',
        '{"__SKILL_DONE__": True}',
        '{"__SKILL_DONE__": truely}',
        '{"__SKILL_DONE__": true1}',
        '{"__SKILL_DONE__": true_}',
        '["__SKILL_DONE__", true]',
        "{'__SKILL_DONE__': true}",
        '{"__skill_done__": true}',
        '{"X__SKILL_DONE__": true}',
        escaped(escaped(DONE)),
        escaped(escaped(escaped(DONE))),
        '{\\"__SKILL_DONE__": true}',
        '{"__SKILL_DONE__\\": true}',
    ],
)
def test_not_a_marker(text: str) -> None:
    assert not marker_in(text)


@pytest.mark.failure("C06")
def test_marker_is_judged_on_each_assembled_message() -> None:
    assert read_claim(['{"__SKILL_DO' + 'NE__": true}']).marker
    assert not read_claim(['{"__SKILL_DO', 'NE__": true}']).marker


@pytest.mark.failure("C07")
def test_marker_in_an_early_message_is_found_there() -> None:
    claim = read_claim(["Working.", DONE, "Shall I also paint it?"])
    assert (claim.marker, claim.marker_in_last, claim.candidate) == (True, False, json.loads(DONE))
    assert read_claim(["Working.", DONE]).marker_in_last
    assert not read_claim([]).marker_in_last


def test_last_message_with_the_marker_counts() -> None:
    claim = read_claim([DONE, '{"__SKILL_DONE__": true, "answer": 43}', '{"answer": 44}'])
    assert claim.candidate == {"__SKILL_DONE__": True, "answer": 43}


def test_marker_is_removed_at_the_top_only() -> None:
    nested = {"__SKILL_DONE__": True, "in": {"__SKILL_DONE__": True}}
    assert without_marker(nested) == {"in": {"__SKILL_DONE__": True}}


# The ladder


@pytest.mark.failure("C10", "C14")
@pytest.mark.parametrize(
    ("text", "rung", "candidate"),
    [
        # one object and nothing else
        ('{"a": 1}', Ladder.WHOLE, {"a": 1}),
        (' \n{"a": 1}\n ', Ladder.WHOLE, {"a": 1}),
        # the last fenced object
        ("Here:\n" + fenced('{"a": 1}') + "\nBye.", Ladder.FENCED, {"a": 1}),
        (fenced('{"a": 1}', tag=""), Ladder.FENCED, {"a": 1}),
        (fenced('{"a": 1}', tag="JSON"), Ladder.FENCED, {"a": 1}),
        ('~~~json\n{"a": 1}\n~~~', Ladder.FENCED, {"a": 1}),
        ('  ```json\n  {"a": 1}\n  ```', Ladder.FENCED, {"a": 1}),
        ('Here:\r\n```json\r\n{"a": 1}\r\n```\r\nBye.', Ladder.FENCED, {"a": 1}),
        (fenced('{"a": "\u2028```\u2028"}'), Ladder.FENCED, {"a": "\u2028```\u2028"}),
        (fenced('{"a": 1}') + "\nor\n" + fenced('{"b": 2}'), Ladder.FENCED, {"b": 2}),
        (fenced('{"a": 1}') + "\nand\n" + fenced("[1, 2]"), Ladder.FENCED, {"a": 1}),
        (fenced('{"a": 1}') + "\nand\n" + fenced("x = {}", tag="python"), Ladder.FENCED, {"a": 1}),
        (fenced('{"a": 1}', tag="python"), Ladder.NONE, None),
        # without the marker, an object in a sentence is an example
        ('Shall I write {"a": 1} to the file?', Ladder.NONE, None),
        ('{"a": 1} {"b": 2}', Ladder.NONE, None),
        ('{"a": 1}, is that right?', Ladder.NONE, None),
        # not JSON, or not an object
        ('{"a": 1,}', Ladder.NONE, None),
        ('{"a": 1 // one\n}', Ladder.NONE, None),
        ("{'a': 1}", Ladder.NONE, None),
        ('{"a": NaN}', Ladder.NONE, None),
        ('{"a": -Infinity}', Ladder.NONE, None),
        ("[1, 2]", Ladder.NONE, None),
        ('"text"', Ladder.NONE, None),
        ("", Ladder.NONE, None),
    ],
)
def test_candidate_without_the_marker(text: str, rung: Ladder, candidate: dict[str, Any] | None) -> None:
    claim = read_claim(["Something before.", text])
    assert (claim.marker, claim.rung, claim.candidate) == (False, rung, candidate)


@pytest.mark.failure("C14")
@pytest.mark.parametrize(
    ("text", "rung", "candidate"),
    [
        (DONE, Ladder.WHOLE, {"answer": 42}),
        (f"Done.\n{fenced(DONE)}", Ladder.FENCED, {"answer": 42}),
        (f"I found it: {DONE} Have a nice day.", Ladder.BALANCED, {"answer": 42}),
        (f'Not {{"answer": 1}} but {DONE}', Ladder.BALANCED, {"answer": 42}),
        (f"Use {{braces}} like }} or {{ and then {DONE}", Ladder.BALANCED, {"answer": 42}),
        ('Done: {"__SKILL_DONE__": true, "s": "}{ \\" }"}', Ladder.BALANCED, {"s": '}{ " }'}),
        (f"{{{DONE}", Ladder.BALANCED, {"answer": 42}),
        (f'A set {{x}} in {{ 6" or so: {DONE}', Ladder.BALANCED, {"answer": 42}),
        (f"[{DONE}]", Ladder.BALANCED, {"answer": 42}),
        (f"```json\n{DONE}", Ladder.BALANCED, {"answer": 42}),
        (f'{{"outer": {DONE}}}', Ladder.WHOLE, {"outer": json.loads(DONE)}),
        # the marker is there, its object is not
        (f"{{{MARKER},}}", Ladder.NONE, None),
        (f"{{{MARKER}, 'a': 1}}", Ladder.NONE, None),
        (f"{{{MARKER}}} // done }}", Ladder.BALANCED, {}),
        (MARKER, Ladder.NONE, None),
    ],
)
def test_candidate_with_the_marker(text: str, rung: Ladder, candidate: dict[str, Any] | None) -> None:
    claim = read_claim(["Something before.", text])
    found = None if claim.candidate is None else without_marker(claim.candidate)
    assert (claim.marker, claim.rung, found) == (True, rung, candidate)


@pytest.mark.failure("C05")
def test_text_escaped_once_is_read_unescaped() -> None:
    result = {"__SKILL_DONE__": True, "say": 'a "b" \\ \n c/d', "face": "\N{GRINNING FACE}", "tab": "\t"}
    for inner in (json.dumps(result), json.dumps(result, ensure_ascii=False, indent=1)):
        claim = read_claim([escaped(inner)])
        assert (claim.marker, claim.rung, claim.candidate) == (True, Ladder.WHOLE, result)
    assert not read_claim([escaped(escaped(json.dumps(result)))]).marker


@pytest.mark.failure("C18")
@pytest.mark.parametrize("tail", ["", "\nPlease say.", f"\n{MARKER}"])
@pytest.mark.parametrize(
    "block",
    [
        '<ASK_USER_YAML>{"interaction_id": 1, "prompt": "Which?"}</ASK_USER_YAML>',
        '<ASK_USER_YAML>\n```json\n{"interaction_id": 1, "prompt": "Which?"}\n```\n</ASK_USER_YAML>',
        fenced('{"interaction_id": 1, "prompt": "Which?"}', tag="ask_user_yaml"),
    ],
)
def test_ask_block_is_no_candidate(block: str, tail: str) -> None:
    assert read_claim([block + tail]).candidate is None


def test_result_that_speaks_of_ask_blocks_is_kept_whole() -> None:
    result = {"__SKILL_DONE__": True, "doc": "Write <ASK_USER_YAML>prompt: x</ASK_USER_YAML> to ask."}
    assert read_claim([json.dumps(result)]).candidate == result


@pytest.mark.failure("B07", "B13")
@pytest.mark.parametrize("value", ["1e999", "-1e999", r'"\ud800"', r'{"\udfff": 1}'])
def test_candidate_can_be_written_as_json_again(value: str) -> None:
    """What cannot be stored would break the commit that ends the turn, so it is no candidate or is repaired."""
    for text in (f'{{"a": {value}}}', f'{{"__SKILL_DONE__": true, "a": {value}}}'):
        candidate = read_claim([text]).candidate
        json.dumps(candidate, allow_nan=False, ensure_ascii=False).encode()


# A plain skill's answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Hello.\n" + MARKER, "Hello."),
        ("Hello.\n{" + MARKER + "}", "Hello."),
        ("Hello.\n{\n  " + MARKER + "\n}\nBye.", "Hello.\n\nBye."),
        ("Hello.\n\n" + fenced("{" + MARKER + "}"), "Hello."),
        ("Hello.\n\n" + fenced("{" + MARKER + "}", tag=""), "Hello."),
        ("Hello.\n" + fenced("print()", tag="python"), "Hello.\n" + fenced("print()", tag="python")),
        ('{"answer": 42, ' + MARKER + "}", '{"answer": 42}'),
        ("{" + MARKER + ', "answer": 42}', '{"answer": 42}'),
        ('Set "__SKILL_DONE__" to true.', 'Set "__SKILL_DONE__" to true.'),
        ("{" + MARKER + "}", ""),
        ("", ""),
    ],
)
def test_answer_of_a_plain_skill(text: str, answer: str) -> None:
    assert text_without_marker(text) == answer


# Hostile text


@pytest.mark.failure("B13")
@pytest.mark.parametrize("depth", [2_000, 10_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
def test_depth_is_bounded_alike_on_every_python(opening: str, closing: str, depth: int) -> None:
    def nested(times: int) -> str:
        return f'{{"__SKILL_DONE__": true, "a": {opening * times}1{closing * times}}}'

    claim = read_claim([nested(depth)])
    assert (claim.marker, claim.candidate) == (True, None)
    assert read_claim([nested(100)]).rung is Ladder.WHOLE
    deepest = MAX_DEPTH - 1  # the object around it counts
    assert read_claim([nested(deepest)]).rung is Ladder.WHOLE
    assert read_claim([nested(deepest + 1)]).candidate is None


@pytest.mark.failure("B13")
def test_number_without_end_is_no_candidate() -> None:
    assert read_claim([f'{{"a": {"9" * 100_000}}}']).candidate is None


def test_large_numbers_stay_exact() -> None:
    assert read_claim([f'{{"a": {10**300}}}']).candidate == {"a": 10**300}


@pytest.mark.failure("B13")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MARKER + "{" * 800_000, id="open braces"),
        pytest.param(MARKER + "{}" * 1_000_000, id="closed braces"),
        pytest.param(MARKER + "{x}" * 200_000, id="braces around words"),
        pytest.param(MARKER + "{" + '\\"' * 160_000, id="escaped quotes"),
        pytest.param(MARKER + "{" + '"' * 2_000_001, id="quotes"),
        pytest.param("```a\n" * 80_000, id="open fences"),
        pytest.param("```" + "a" * 100_000 + "\n" + "x\n" * 100_000, id="long tag of an open fence"),
        pytest.param("`" * 600_000, id="one long fence"),
        pytest.param("<ASK_USER_YAML>" * 80_000, id="open ask blocks"),
        pytest.param('"__SKILL_DONE__"' + " " * 2_000_000, id="blanks after the name"),
        pytest.param('{\n"__SKILL_DONE__"' * 200_000, id="names without an end"),
    ],
)
def test_hostile_text_comes_to_an_end(text: str) -> None:
    """A search that starts over at every opening would stand still here for hours."""
    claim = read_claim([text])
    text_without_marker(text)
    assert claim.candidate in (None, {})


pieces = st.sampled_from(
    [MARKER, DONE, MARKER_KEY, "{", "}", "[", "]", '"', "\\", '\\"', "\\u12", "\\ud800", ":", "true", "1e9", "\n",
     "\r\n", " ", "```", "```json\n", "~~~", "<ASK_USER_YAML>", "</ASK_USER_YAML>", "ask_user_yaml", "é", "\ud800"]
)  # fmt: skip
texts = st.text() | st.lists(pieces | st.text(max_size=3), max_size=30).map("".join)


@given(st.lists(texts, max_size=4))
def test_no_text_raises(messages: list[str]) -> None:
    claim = read_claim(messages)
    assert claim.marker == any(marker_in(text) for text in messages)
    assert (claim.candidate is None) == (claim.rung is Ladder.NONE)
    text_without_marker(claim.text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
results = st.dictionaries(st.text().filter(lambda key: key != MARKER_KEY), json_values, max_size=4)

RENDERINGS: dict[str, Callable[[str], str]] = {
    "whole": lambda text: f"\n{text}  ",
    "fenced": lambda text: f"Done.\n\n```json\n{text}\n```\nAnything else?",
    "in prose": lambda text: f"The result is {text}, as you wished.",
    "after an example": lambda text: f'You asked for {{"this": [1]}} or so; {text}',
    "escaped": escaped,
}


@pytest.mark.parametrize("rendering", RENDERINGS)
@given(result=results, first=st.booleans(), ascii_only=st.booleans(), indent=st.sampled_from([None, 2]))
@example(result={"face": "\N{GRINNING FACE}"}, first=True, ascii_only=False, indent=None)
def test_any_result_with_the_marker_is_found(
    rendering: str, result: dict[str, Any], first: bool, ascii_only: bool, indent: int | None
) -> None:
    whole = {MARKER_KEY: True, **result} if first else {**result, MARKER_KEY: True}
    text = RENDERINGS[rendering](json.dumps(whole, ensure_ascii=ascii_only, indent=indent))
    claim = read_claim(["Let me see.", text])
    assert claim.marker
    assert claim.candidate is not None
    assert without_marker(claim.candidate) == result
