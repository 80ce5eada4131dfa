"""Is it a result? Schema, marker, mode and artifacts, each way they can meet."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnkeeper.core.contract import Contract
from turnkeeper.core.evidence import Ladder
from turnkeeper.core.gate import Output
from turnkeeper.core.run import Mode
from turnkeeper.skills.output import Files, examine

STRICT = {
    "type": "object",
    "required": ["answer"],
    "additionalProperties": False,
    "properties": {"answer": {"type": "string", "minLength": 1}},
}
LOOSE = {"type": "object"}
MARK = '"__SKILL_DONE__": true'
AUTO, TALK = Mode.AUTO, Mode.INTERACTIVE
VALID, INVALID, NONE = Output.VALID, Output.INVALID, Output.NONE


def contract(schema: dict[str, Any] | None, *, is_plain: bool = False) -> Contract:
    return Contract(name="s", is_plain=is_plain, output_schema=schema)


WITH = {
    "strict": contract(STRICT),
    "loose": contract(LOOSE),
    "none": contract(None),
    "plain": contract(None, is_plain=True),
}


@pytest.mark.parametrize("mode", [AUTO, TALK])
@pytest.mark.parametrize(
    ("said", "marker", "output", "value", "rung"),
    [
        ('{"answer": "a"}', False, VALID, {"answer": "a"}, Ladder.WHOLE),
        (f'{{"answer": "a", {MARK}}}', True, VALID, {"answer": "a"}, Ladder.WHOLE),
        (f'Done. {{"answer": "a", {MARK}}} Bye.', True, VALID, {"answer": "a"}, Ladder.BALANCED),
        ('Done. {"answer": "a"} Bye.', False, NONE, None, Ladder.NONE),
        ('Here:\n```json\n{"answer": "a"}\n```\n', False, VALID, {"answer": "a"}, Ladder.FENCED),
        ('{"answer": ""}', False, INVALID, {"answer": ""}, Ladder.WHOLE),
        (f'{{"answer": "", {MARK}}}', True, INVALID, {"answer": ""}, Ladder.WHOLE),
        (f"{{{MARK}}}", True, INVALID, {}, Ladder.WHOLE),
        ('{"answer": "a", "__SKILL_DONE__": false}', False, VALID, {"answer": "a"}, Ladder.WHOLE),
        ("{}", False, INVALID, {}, Ladder.WHOLE),
        ("Which colour?", False, NONE, None, Ladder.NONE),
        ("", False, NONE, None, Ladder.NONE),
        ('["answer"]', False, NONE, None, Ladder.NONE),
    ],
)
def test_with_a_schema(
    mode: Mode, said: str, marker: bool, output: Output, value: dict[str, Any] | None, rung: Ladder
) -> None:
    """The mode does not matter to whether it is valid; the gate knows what to do with it."""
    found = examine([said], WITH["strict"], mode, Files())
    assert (found.claim.marker, found.output, found.value, found.claim.rung) == (marker, output, value, rung)
    assert bool(found.errors) == (output is not VALID)


def test_every_error_of_the_schema_is_told() -> None:
    found = examine(['{"answer": 5, "more": 1}'], WITH["strict"], AUTO, Files())
    assert sorted(error.split(": ")[0] for error in found.errors) == ["/", "/answer"]


@pytest.mark.parametrize("mode", [AUTO, TALK])
@pytest.mark.parametrize(
    ("said", "output"),
    [
        ("{}", INVALID),
        ("```json\n{}\n```", INVALID),
        (f"{{{MARK}}}", VALID),
        ('{"anything": 1}', VALID),
        ("Which colour?", NONE),
    ],
)
def test_schema_that_takes_nothing_needs_the_marker_for_nothing(
    mode: Mode, said: str, output: Output
) -> None:
    assert examine([said], WITH["loose"], mode, Files()).output is output


@pytest.mark.parametrize(
    ("kind", "mode", "said", "output", "value"),
    [
        ("plain", AUTO, "Hello.", VALID, {"text": "Hello.", "artifacts": []}),
        ("plain", TALK, "Hello.", INVALID, {"text": "Hello.", "artifacts": []}),
        ("plain", AUTO, f"Hello.\n{{{MARK}}}", VALID, {"text": "Hello.", "artifacts": []}),
        ("plain", TALK, f"Hello.\n{{{MARK}}}", VALID, {"text": "Hello.", "artifacts": []}),
        ("plain", TALK, f"Hello.\n```json\n{{{MARK}}}\n```", VALID, {"text": "Hello.", "artifacts": []}),
        ("plain", AUTO, f"{{{MARK}}}", NONE, None),
        ("plain", TALK, f"{{{MARK}}}", NONE, None),
        ("plain", AUTO, "", NONE, None),
        ("plain", AUTO, " \n ", NONE, None),
        ("plain", AUTO, '{"a": 1}', VALID, {"text": '{"a": 1}', "artifacts": []}),
        ("none", AUTO, '{"a": 1}', VALID, {"a": 1}),
        ("none", AUTO, f'{{"a": 1, {MARK}}}', VALID, {"a": 1}),
        ("none", TALK, '{"a": 1}', INVALID, {"a": 1}),
        ("none", TALK, f'{{"a": 1, {MARK}}}', VALID, {"a": 1}),
        ("none", AUTO, "Hello.", VALID, {"text": "Hello.", "artifacts": []}),
        ("none", TALK, "Hello.", INVALID, {"text": "Hello.", "artifacts": []}),
        ("none", AUTO, "", NONE, None),
    ],
)
def test_without_a_schema(
    kind: str, mode: Mode, said: str, output: Output, value: dict[str, Any] | None
) -> None:
    found = examine([said], WITH[kind], mode, Files())
    assert (found.output, found.value) == (output, value)
    assert bool(found.errors) == (output is not VALID)


@pytest.mark.parametrize("kind", ["strict", "none", "plain"])
@pytest.mark.parametrize("mode", [AUTO, TALK])
def test_missing_artifact_makes_a_result_invalid(kind: str, mode: Mode) -> None:
    said = f'{{"answer": "a", {MARK}}}'
    assert examine([said], WITH[kind], mode, Files()).output is VALID
    found = examine([said], WITH[kind], mode, Files(missing=("report.md", "charts/*")))
    assert found.output is INVALID
    assert found.errors == (
        "required artifact 'report.md' is not in the workspace",
        "required artifact 'charts/*' is not in the workspace",
    )


def test_missing_artifact_is_told_beside_other_errors() -> None:
    found = examine(["no JSON"], WITH["strict"], AUTO, Files(missing=("report.md",)))
    assert found.output is NONE
    assert len(found.errors) == 2


def test_plain_result_names_the_files_that_are_there() -> None:
    found = examine(["Done."], WITH["plain"], AUTO, Files(there=("a.txt", "b/c.txt")))
    assert found.value == {"text": "Done.", "artifacts": ["a.txt", "b/c.txt"]}


@pytest.mark.parametrize(
    ("messages", "marker", "value"),
    [
        ([f'{{"answer": "first", {MARK}}}', "Anything else?"], True, {"answer": "first"}),
        ([f'{{"answer": "first", {MARK}}}', '{"answer": "second"}'], True, {"answer": "first"}),
        (['{"answer": "first"}', "Anything else?"], False, None),
        (['{"answer": "first"}', '{"answer": "second"}'], False, {"answer": "second"}),
        ([], False, None),
    ],
)
def test_message_with_the_marker_counts_else_the_last(
    messages: list[str], marker: bool, value: dict[str, Any] | None
) -> None:
    found = examine(messages, WITH["strict"], TALK, Files())
    assert (found.claim.marker, found.value) == (marker, value)


def test_escaped_once_is_read_as_it_was_meant() -> None:
    said = json.dumps(f'{{"answer": "zwei\\nZeilen", {MARK}}}')[1:-1]
    found = examine([f"The tool printed {said}"], WITH["strict"], TALK, Files())
    assert (found.claim.marker, found.output, found.value) == (True, VALID, {"answer": "zwei\nZeilen"})


@pytest.mark.failure("C18")
def test_ask_block_is_no_result() -> None:
    said = '<ASK_USER_YAML>\n{"answer": "a"}\n</ASK_USER_YAML>'
    assert examine([said], WITH["strict"], TALK, Files()).output is NONE
