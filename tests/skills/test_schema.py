"""JSON Schema as we use it: every error with its place, defaults, and no way to hang or fetch."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 1, "x"),
        ({"$ref": "#/definitions/n", "definitions": {"n": {"type": "integer"}}}, 1, "x"),
        ({"$ref": "#/$defs/a%20b~1c~0d", "$defs": {"a b/c~d": {"type": "integer"}}}, 1, "x"),
        ({"$ref": "#n", "$defs": {"n": {"$anchor": "n", "type": "integer"}}}, 1, "x"),
        ({"$dynamicRef": "#n", "$defs": {"n": {"$dynamicAnchor": "n", "type": "integer"}}}, 1, "x"),
        (
            {
                "$id": "https://e.com/s",
                "$ref": "https://e.com/s#/$defs/n",
                "$defs": {"n": {"type": "integer"}},
            },
            1,
            "x",
        ),
        ({"$id": "https://e.com/s#", "$ref": "#/$defs/n", "$defs": {"n": False}, "not": True}, None, 1),
        ({"prefixItems": [{"$ref": "#/$defs/n"}], "$defs": {"n": {"const": 1}}}, [1, 2], [2]),
        ({"allOf": [{"not": {"$ref": "#/allOf/1"}}, {"type": "integer"}]}, None, 1),
        ({"properties": {"$ref": {"type": "string"}}, "const": {"$ref": "https://e.com"}}, None, {"$ref": 1}),
    ],
)
def test_references_within_the_file_are_followed(wanted: dict[str, Any], good: object, bad: object) -> None:
    assert schema.problem(wanted) is None
    assert good is None or schema.errors(wanted, good) == []
    assert schema.errors(wanted, bad) != []


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"$ref": "#/$defs/nowhere"}, "/: there is no subschema '#/$defs/nowhere'"),
        ({"not": {"$ref": "#nowhere"}}, "/not: there is no subschema '#nowhere'"),
        ({"$ref": "#/enum/0", "enum": [{"type": "integer"}]}, "/: there is no subschema '#/enum/0'"),
        (
            {"items": {"$ref": "other.json"}},
            "/items: only references within the file are followed, not 'other.json'",
        ),
        ({"items": {"$id": "https://e.com/x"}}, "/items: only the root may have an $id"),
        ({"allOf": [{"$anchor": "a"}, {"$anchor": "a"}]}, "the anchor 'a' is there twice"),
        ({"properties": {"a": {"type": "text"}}}, '/properties/a/type: "text" is not valid under any of the'),
        ({"required": "a"}, '/required: "a" is not of type "array"'),
        ({"items": [{}]}, '/items: [{}] is not of types "boolean", "object"'),
    ],
)
def test_problem_says_where(wanted: dict[str, Any], problem: str) -> None:
    found = schema.problem(wanted)
    assert found is not None
    assert found.startswith(problem)


@pytest.mark.parametrize("value", [{"a": "\ud800"}, {"\ud800": 1}])
def test_text_that_nobody_could_store_is_never_valid(value: object) -> None:
    wanted = {"additionalProperties": {"type": "string", "pattern": "^b"}}
    assert schema.errors(wanted, value) == ["/: cannot be checked: it holds text that is not Unicode"]


def test_schema_that_was_once_accepted_is_never_a_crash() -> None:
    """A run keeps its contract; what we accept may have become less since."""
    assert schema.errors({"$ref": "#"}, {}) == [
        "/: cannot be checked: a subschema refers to itself without going into the value"
    ]


FILES = {
    "type": "object",
    "required": ["report", "title", "more"],
    "additionalProperties": False,
    "properties": {
        "report": {"type": "string", "x-input-source": "file"},
        "more": {"type": "array", "items": {"type": "string"}, "x-input-source": "file"},
        "extra": {"type": "string", "x-input-source": "file"},
        "title": {"type": "string", "x-input-source": "inline"},
        "tags": {"type": "array", "items": {"type": "string", "x-input-source": "file"}},
        "any": True,
    },
}


def test_before_the_upload_a_file_may_be_anything_but_must_be_announced() -> None:
    before = json.dumps(FILES)
    part = schema.before_upload(FILES, ["report", "more", "extra"])
    to_come = dict.fromkeys(("report", "more"), "")
    assert schema.errors(part, {"title": "x", **to_come}) == []
    assert len(schema.errors(part, {"title": 5, **to_come})) == 1
    assert len(schema.errors(part, {"title": "x", "stranger": 1, **to_come})) == 1
    assert len(schema.errors(part, {"title": "x"})) == 2
    assert json.dumps(FILES) == before


@pytest.mark.parametrize("wanted", [{}, {"type": "object"}, {"properties": {"a": {}}, "required": ["a"]}])
def test_before_the_upload_a_schema_without_files_is_the_same(wanted: dict[str, Any]) -> None:
    assert schema.before_upload(wanted, []) == wanted
