"""JSON Schema as we use it: every error with its place, defaults, and no way to hang or fetch."""

from __future__ import annotations

from typing import Any

import pytest

from turnkeeper.skills import schema

PERSON = {
    "type": "object",
    "required": ["name", "age"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"type": "object", "properties": {"zip": {"type": "string"}}},
        "a/b": {"type": "string"},
        "c~d": {"type": "string"},
        "": {"type": "string"},
        "0": {"type": "string"},
    },
}


def pointers(value: object) -> list[str]:
    return sorted(error.split(": ")[0] for error in schema.errors(PERSON, value))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"name": "Ada", "age": 36}, []),
        ({}, ["/", "/"]),
        ({"name": "", "age": -1}, ["/age", "/name"]),
        ({"name": "Ada", "age": 36, "tags": ["x", 1, None]}, ["/tags/1", "/tags/2"]),
        ({"name": "Ada", "age": 36, "home": {"zip": 5}}, ["/home/zip"]),
        ({"name": "Ada", "age": 36, "a/b": 1, "c~d": 2, "": 3, "0": 4}, ["/", "/0", "/a~1b", "/c~0d"]),
        ({"name": "Ada", "age": 36, "more": 1}, ["/"]),
        ({"name": "Ada", "age": 36.0}, []),
        ({"name": "Ada", "age": True}, ["/age"]),
        ({"name": "Ada", "age": 10**40}, []),
        ([], ["/"]),
        (None, ["/"]),
    ],
)
def test_every_error_with_the_pointer_of_its_place(value: object, found: list[str]) -> None:
    assert pointers(value) == found


def test_message_says_what_was_wanted() -> None:
    (error,) = schema.errors(PERSON, {"name": "Ada", "age": "old"})
    assert error == '/age: "old" is not of type "integer"'


def test_schema_is_the_draft_of_2020() -> None:
    wanted = {"type": "object", "properties": {"a": {"prefixItems": [{"type": "integer"}], "items": False}}}
    assert schema.errors(wanted, {"a": [1]}) == []
    assert len(schema.errors(wanted, {"a": ["x", 2]})) == 2


@pytest.mark.parametrize(
    ("wanted", "given", "filled"),
    [
        (None, {"a": 1}, {"a": 1}),
        ({}, {"a": 1}, {"a": 1}),
        ({"properties": {"a": {"default": 5}}}, {}, {"a": 5}),
        ({"properties": {"a": {"default": 5}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"default": 5}}}, {"a": 0}, {"a": 0}),
        ({"properties": {"a": {"default": None}, "b": {}, "c": True}}, {}, {"a": None}),
        ({"properties": {"a": {"default": {"x": [1]}}}}, {"b": 2}, {"b": 2, "a": {"x": [1]}}),
        ({"properties": {"a": {"properties": {"deep": {"default": 1}}}}}, {"a": {}}, {"a": {}}),
    ],
)
def test_defaults_fill_what_is_missing_at_the_top(
    wanted: dict[str, Any] | None, given: dict[str, Any], filled: dict[str, Any]
) -> None:
    before = dict(given)
    assert schema.defaults(wanted, given) == filled
    assert given == before


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "object", "$ref": "https://example.com/x"},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"$dynamicRef": "https://example.com/x#y"}}},
        {"$id": "https://example.com/root", "$ref": "other"},
    ],
)
@pytest.mark.failure("A10")
def test_remote_reference_is_a_problem(wanted: dict[str, Any]) -> None:
    problem = schema.problem(wanted)
    assert problem is not None
    assert "\n" not in problem


@pytest.mark.failure("A10")
@pytest.mark.parametrize(
    "wanted",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"properties": {"a": {"$ref": "#"}}},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    ],
)
def test_schema_that_speaks_of_itself_comes_to_an_end(wanted: dict[str, Any]) -> None:
    assert schema.problem(wanted) is None
    value: dict[str, Any] = {}
    for _ in range(200):
        value = {"a": value}
    assert schema.errors(wanted, value) == []


@pytest.mark.failure("A10")
@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(?=(a+)+b)(a|aa)+$", r"^(?:(a+)+)\1$", "(.*)*(.*)*x"]
)
def test_catastrophic_pattern_ends_in_time(pattern: str) -> None:
    wanted = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    assert schema.errors(wanted, {"a": "a" * 5000 + "!"})
