"""Schemas and values that would keep the validator busy for ever, or end the process: they come to an end.

Nothing is timed here: what is not refused in time hangs, and pytest says where.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnkeeper.skills import bounds, schema
from turnkeeper.skills.bounds import DEEPEST, TIME, levels

Json = dict[str, Any]

CANNOT = "/: cannot be checked: "


def nested(depth: int) -> Json:
    """A value with so many levels."""
    value: Json = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def chain(length: int, link: Callable[[Json], Json], last: Json) -> Json:
    """Definitions, each made with a reference to the next."""
    defs = {f"d{number}": link({"$ref": f"#/$defs/d{number + 1}"}) for number in range(length)}
    return {"$defs": {**defs, f"d{length}": last}, "$ref": "#/$defs/d0"}


def tower(height: int, floor: Callable[[Json], Json]) -> Json:
    built: Json = {}
    for _ in range(height):
        built = floor(built)
    return built


def twice(next_one: Json) -> Json:
    return {"allOf": [next_one, next_one]}


def mixed(length: int) -> str:
    return "".join(random.Random(1).choices("ab", k=length))


@pytest.mark.failure("A10")
@pytest.mark.parametrize(
    "wanted",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"not": {"anyOf": [{"$ref": "#"}, {"type": "object"}]}},
        {"$dynamicAnchor": "x", "if": {"$dynamicRef": "#x"}, "then": False},
        {"dependentSchemas": {"a": {"$ref": "#"}}},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
    ],
)
def test_schema_that_goes_round_in_circles_is_refused(wanted: Json) -> None:
    assert schema.problem(wanted) == "a subschema refers to itself without going into the value"


RECURSIVE = [
    {"properties": {"a": {"$ref": "#"}}},
    {"$dynamicAnchor": "x", "additionalProperties": {"$dynamicRef": "#x"}},
    {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "unevaluatedProperties": {"$ref": "#/$defs/n"}}}},
    {
        "anyOf": [
            {"properties": {"a": {"$ref": "#"}}, "required": ["b"]},
            {"properties": {"a": {"$ref": "#"}}},
        ]
    },
]


@pytest.mark.failure("A10")
@pytest.mark.parametrize("wanted", RECURSIVE)
def test_recursion_into_the_value_is_fine_as_deep_as_anybody_goes(wanted: Json) -> None:
    assert schema.problem(wanted) is None
    assert schema.errors(wanted, nested(DEEPEST)) == []


@pytest.mark.failure("A10")
@pytest.mark.parametrize("wanted", RECURSIVE)
@pytest.mark.parametrize("depth", [DEEPEST + 1, 20_000])
def test_value_that_would_overflow_the_stack_is_refused(wanted: Json, depth: int) -> None:
    assert schema.errors(wanted, nested(depth)) == [f"{CANNOT}it nests deeper than {DEEPEST} levels"]


def test_more_subschemas_for_one_value_leave_room_for_fewer_levels() -> None:
    wanted = {"properties": {"a": tower(40, lambda inner: {"anyOf": [inner or {"$ref": "#"}, False]})}}
    assert schema.problem(wanted) is None
    assert schema.errors(wanted, nested(20)) == []
    (error,) = schema.errors(wanted, nested(50))
    assert error.startswith(f"{CANNOT}it nests deeper than ")


@pytest.mark.parametrize("wanted", [{"type": "string"}, {"properties": {"a": {"type": "string"}}}])
def test_wrong_value_too_deep_to_be_shown_is_wrong_all_the_same(wanted: Json) -> None:
    assert schema.errors(wanted, nested(300)) == [
        "/: does not fit the schema, and is too large or too deep to say where"
    ]


@pytest.mark.failure("A10")
@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (chain(30, twice, {}), "subschemas are asked of one value"),
        (chain(30, lambda one: {"anyOf": [one, one, one]}, {}), "subschemas are asked of one value"),
        (chain(30, lambda one: {**twice(one), "unevaluatedProperties": False}, {}), "are asked of one value"),
        (chain(30, lambda one: {"properties": {"a": twice(one)}}, {}), "ways lead through its references"),
        (chain(30, lambda one: {"prefixItems": [one, one]}, {}), "ways lead through its references"),
        (chain(5000, lambda one: one, {}), "subschemas lead to each other"),
        (tower(150, lambda inner: {"allOf": [inner]}), "nests deeper than 200 levels"),
        (tower(2000, lambda inner: {"not": inner}), "nests deeper than 200 levels"),
        ({"allOf": [{"minimum": number} for number in range(1001)]}, "subschemas are asked of one value"),
        (
            {"allOf": [{"pattern": f"{number}"} for number in range(500)]},
            "patterns are too many or too large",
        ),
        (
            {"allOf": [{"pattern": f"^\\p{{L}}{{9}}{n}"} for n in range(50)]},
            "patterns are too many or too large",
        ),
    ],
)
def test_schema_that_would_take_for_ever_is_refused(wanted: Json, problem: str) -> None:
    found = schema.problem(wanted)
    assert found is not None
    assert problem in found


def test_large_schema_of_an_honest_author_is_fine() -> None:
    row = {"type": "object", "properties": {f"p{n}": {"$ref": "#/$defs/text"} for n in range(300)}}
    wanted = {
        "$defs": {"text": {"type": "string", "maxLength": 10}, "row": row},
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
        "oneOf": [{"properties": {"kind": {"const": number}}} for number in range(100)],
    }
    assert schema.problem(wanted) is None
    assert schema.errors(wanted, {"kind": 7, "rows": [{"p7": "x"}] * 50}) == []
    assert schema.errors(wanted, {"kind": 7, "rows": [{"p7": 5}]}) == [
        '/rows/0/p7: 5 is not of type "string"'
    ]


@pytest.mark.failure("A10")
def test_branches_that_all_go_deeper_are_judged_without_listing_every_way() -> None:
    wanted = {"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": [name]} for name in "bcd"]}
    assert schema.errors(wanted, nested(DEEPEST)) == [
        "/: does not fit the schema, and is too large or too deep to say where"
    ]
    (error,) = schema.errors(wanted, nested(3))
    assert "not valid under any of the schemas" in error


def test_document_of_nested_blocks_can_be_checked() -> None:
    """The honest case of the same shape: each kind of block holds blocks of any kind."""
    kinds = [{"properties": {"kind": {"const": n}, "in": {"$ref": "#/$defs/blocks"}}} for n in range(10)]
    blocks = {"type": "array", "items": {"oneOf": [{**kind, "required": ["kind"]} for kind in kinds]}}
    wanted = {"$defs": {"blocks": blocks}, "properties": {"blocks": {"$ref": "#/$defs/blocks"}}}

    def document(depth: int, leaf: int) -> list[Json]:
        return [{"kind": n, "in": document(depth - 1, leaf) if depth else [{"kind": leaf}]} for n in range(3)]

    assert schema.errors(wanted, {"blocks": document(4, leaf=9)}) == []
    assert schema.errors(wanted, {"blocks": document(4, leaf=10)}) != []


@pytest.mark.failure("A10")
@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        ({"items": {"enum": [{"a": n} for n in range(20_000)]}}, [{"a": n} for n in range(20_000)]),
        ({"items": {"allOf": [{"minimum": n} for n in range(900)]}}, [1] * 20_000),
    ],
    ids=["enum", "allOf"],
)
def test_too_large_a_value_for_its_schema_says_so(wanted: Json, value: object) -> None:
    assert schema.problem(wanted) is None
    assert schema.errors(wanted, value) == [f"{CANNOT}it is too large for this schema"]


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        ({"additionalProperties": {"type": "integer"}}, {str(number): "x" for number in range(200_000)}),
        (
            {"allOf": [{"required": [f"x{number}"]} for number in range(90)]},
            {str(n): n for n in range(50_000)},
        ),
    ],
    ids=["wide", "copies"],
)
def test_errors_of_a_huge_value_do_not_fill_the_memory(wanted: Json, value: object) -> None:
    assert schema.errors(wanted, value) == [
        "/: does not fit the schema, and is too large or too deep to say where"
    ]


UNKNOWN = "is not a regular expression that we know"
LOOKS = "looks around or back, which could take for ever"
LARGE = "grows too large when compiled: use maxLength instead of a large {…}"


class TestPatterns:
    @pytest.mark.failure("A10")
    @pytest.mark.parametrize(
        "pattern",
        [
            "^(a+)+$",
            "^(a|a)*$",
            "(.*)*(.*)*x",
            "^(a?){30}a{30}$",
            "(a|b)*a(a|b){45}c",
        ],
    )
    @pytest.mark.parametrize("length", [30, 1000, 5000, 100_000])
    def test_catastrophic_one_comes_to_an_end(self, pattern: str, length: int) -> None:
        wanted = {"properties": {"a": {"type": "string", "pattern": pattern}}}
        assert schema.problem(wanted) is None
        assert schema.errors(wanted, {"a": "a" * length + "!"}) != []
        assert schema.errors(wanted, {"a": mixed(length) + "!"}) != []

    @pytest.mark.failure("A10")
    @pytest.mark.parametrize(
        ("pattern", "why"),
        [
            ("(", UNKNOWN),
            ("[z-a]", UNKNOWN),
            ("(?P<x", UNKNOWN),
            ("a{2,1}", UNKNOWN),
            ("(" * 5000 + "a" + ")" * 5000, UNKNOWN),
            ("(a{1000}){1000}{1000}", LARGE),
            ("((a{100}){100}){100}{100}", LARGE),
            (r"\p{L}{50000}", LARGE),
            (r"^(?!\s*$)", LOOKS),
            ("(?<=a+)c", LOOKS),
            (r"^(['\"]).*\1$", LOOKS),
            (r"(?=\p{L}{5000})a", LOOKS),
            ("(?:(?=(?:(?=.*a).)*).)*", LOOKS),
            ("(?=(a|b)*a(a|b){395}c)d", LOOKS),
            ("^(?:(?!(a|b)*a(a|b){395}c).)*$", LOOKS),
        ],
        ids=lambda text: text[:20],
    )
    @pytest.mark.parametrize("key", ["pattern", "patternProperties"])
    def test_one_that_cannot_be_used_is_a_problem_of_the_schema(
        self, pattern: str, why: str, key: str
    ) -> None:
        node = {key: pattern if key == "pattern" else {pattern: True}}
        found = schema.problem({"properties": {"a/b": node}})
        assert found is not None
        assert found.startswith("/properties/a~1b: the pattern ")
        assert why in found

    @pytest.mark.parametrize(
        ("pattern", "good", "bad"),
        [
            (r"\S", "x" * 5000, " " * 5000),
            (r"^[\p{L}\p{N} .'-]{1,100}$", "Zoë O'Brien", "<b>"),
            (r"^.{1,1000}$", "x" * 1000, "x" * 1001),
            (r"^[\w.+-]+@[\w-]+\.[\w.-]+$", "a.b@c.de", "a.b"),
            (r"^# ", "# " + "long " * 100_000, "## no"),
            (r"^[\p{L} ]{1,255}$", "Zoë " * 60, "Zoë " * 64),
            (r"^[^<>]{0,10000}$", "é" * 10_000, "é" * 10_001),
            (r"^[^[\]]+$", "x", "[x]"),
        ],
    )
    def test_honest_ones_are_judged_rightly(self, pattern: str, good: str, bad: str) -> None:
        wanted = {"type": "object", "properties": {"a": {"pattern": pattern}}}
        assert schema.problem(wanted) is None
        assert schema.errors(wanted, {"a": good}) == []
        (error,) = schema.errors(wanted, {"a": bad})
        assert "does not match" in error

    @pytest.mark.parametrize(
        ("pattern", "length"),
        [
            (r"\S", 1_000_000),
            (r"^[A-Z]{2}\d{4}$", 1_000_000),
            (r"^[\w.+-]+@[\w-]+\.[\w.-]+$", 1_000_000),
            (r"\.(pdf|docx?)$", 1_000_000),
            (r"^https?://\S+$", 100_000),
            (r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$", 100_000),
            (r"^[\p{L} ]{1,255}$", 100_000),
            (r"^[^<>]{0,10000}$", 100_000),
        ],
    )
    def test_honest_ones_are_for_long_texts_too(self, pattern: str, length: int) -> None:
        assert bounds.Bounds({"pattern": pattern}).refusal("word " * (length // 5)) is None

    COSTLY = "(a|b){0,1000}(b|a){0,1000}c"

    @pytest.mark.failure("A10")
    @pytest.mark.parametrize(
        ("wanted", "value", "place"),
        [
            ({"pattern": COSTLY}, mixed(30_000), "/: cannot be checked: a text of 30000 characters"),
            ({"pattern": "(a|b)*a(a|b){395}c"}, mixed(400_000), "/: "),
            (
                {"properties": {"a/b": {"items": {"pattern": COSTLY}}}},
                {"a/b": ["a", mixed(9000)]},
                "/a~1b/1: ",
            ),
            (
                {"additionalProperties": {"patternProperties": {COSTLY: True}}},
                {"a": {mixed(9000): 1}},
                "/a: ",
            ),
            ({"propertyNames": {"pattern": COSTLY}}, {mixed(9000): 1}, "/: "),
        ],
    )
    def test_too_long_a_text_for_a_pattern_is_named(self, wanted: Json, value: object, place: str) -> None:
        assert schema.problem(wanted) is None
        (error,) = schema.errors(wanted, value)
        assert error.startswith(place)
        assert "cannot be checked: " in error
        assert " is too long for the pattern '" in error

    @pytest.mark.failure("A10")
    @pytest.mark.parametrize(
        ("wanted", "value"),
        [
            ({"allOf": [{"pattern": f"^{number}"} for number in range(150)]}, "a" * (TIME // 2500)),
            ({"items": {"pattern": COSTLY}}, ["a" * 100] * 100),
            ({"patternProperties": {COSTLY: True}}, {"a" * 100 + str(number): 1 for number in range(100)}),
        ],
    )
    def test_too_much_text_for_the_patterns_says_so(self, wanted: Json, value: object) -> None:
        assert schema.problem(wanted) is None
        (error,) = schema.errors(wanted, value)
        assert "cannot be checked: too much text for the schema's patterns" in error

    def test_long_text_beside_a_costly_pattern_is_fine(self) -> None:
        wanted = {
            "properties": {"slug": {"pattern": self.COSTLY}, "report": {"type": "string"}},
            "additionalProperties": {"pattern": self.COSTLY},
        }
        assert schema.errors(wanted, {"slug": "abc", "report": "word " * 100_000}) == []


KEYWORDS = st.sampled_from(
    [
        *("allOf", "anyOf", "not", "if", "then", "properties", "items"),
        *("$ref", "$defs", "pattern", "enum", "required", "patternProperties", "additionalProperties"),
        *("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "type", "a", "dependencies"),
        *("dependentSchemas", "unevaluatedProperties", "prefixItems", "contains", "x-input-source"),
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["#", "#/$defs/a", "#a", "object", "string", "a", "(a+)+$", "(?=a)", "x:y", "\ud800"])
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=25,
)


@given(wanted=st.dictionaries(KEYWORDS, SCHEMAS, max_size=5), value=SCHEMAS)
def test_any_schema_and_any_value_get_an_answer(wanted: Json, value: object) -> None:
    problem = schema.problem(wanted)
    errors = schema.errors(wanted, value)
    if problem is not None:
        assert errors != [], "what is not a schema accepts nothing"
    for sentence in [*errors, *([problem] if problem else [])]:
        assert "\n" not in sentence


@pytest.mark.parametrize(
    ("value", "count"), [(1, 1), ([], 1), ({}, 1), ([1], 2), ({"a": [{}]}, 3), ([[], [[]]], 3)]
)
def test_levels(value: object, count: int) -> None:
    assert levels(value, 10) == count


def test_levels_are_counted_only_as_far_as_asked() -> None:
    assert levels(nested(100), 5) == 6


def test_limits_leave_room_for_the_validators_own() -> None:
    assert bounds.DEEPEST < 255
    assert bounds.LEVELS * 1500 < 2 * 1024 * 1024
