"""The fields of a form and the JSON they stand for: nothing valid is changed or refused on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from playwright.async_api import Page

from tests.browser.conftest import OWN
from tests.browser.desk import Desk
from tests.harness import Json

SCHEMA = json.loads((OWN / "fields" / "assets" / "input.schema.json").read_text())
KINDS = {
    "topic": "text",
    "story": "text",
    "copies": "number",
    "ratio": "number",
    "agrees": "boolean",
    "urgent": "boolean",
    "colour": "choice",
    "country": "choice",
    "day": "text",
    "mail": "text",
    "code": "text",
    "tags": "list",
    "days": "choices",
    "people": "list",
    "labels": "map",
    "size": "object",
    "nickname": "text",
    "either": "json",
    "even": "number",
}
ROUND_TRIP = """
async ([schema, value]) => {
  const { describe } = await import("/static/forms/schema.js");
  const { groupOf, valueOf } = await import("/static/forms/request.js");
  const { faults } = await import("/static/forms/check.js");
  const group = groupOf(describe(schema), value);
  return { said: valueOf(group), faults: group.json === null ? faults(group.node, group.draft, "input") : [] };
}
"""
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
words = text.filter(lambda each: each.strip() != "")
number = st.floats(-1e9, 1e9)
whole = st.integers(-(2**53) + 1, 2**53 - 1)
VALUES = st.fixed_dictionaries(
    {
        "topic": words.filter(lambda each: len(each) >= 3),
        "copies": st.integers(1, 9),
        "agrees": st.booleans(),
        "colour": st.sampled_from(["red", "green", "blue"]),
    },
    optional={
        "story": text,
        "ratio": number.filter(lambda each: each > 0),
        "urgent": st.booleans(),
        "country": st.sampled_from(["Chile", "Ghana", "Peru"]),
        "day": st.dates().map(str),
        "mail": st.just("ada@example.org"),
        "code": st.just("AB-123"),
        "tags": st.lists(text.filter(lambda each: len(each) >= 2), max_size=3),
        "days": st.lists(st.sampled_from(["Mon", "Tue", "Wed"]), unique=True),
        "people": st.lists(
            st.fixed_dictionaries({"name": text}, optional={"age": st.integers(0, 150), "more": whole}),
            max_size=3,
        ),
        "labels": st.dictionaries(text, text, max_size=3),
        "size": st.fixed_dictionaries({"width": number}, optional={"unit": st.sampled_from(["mm", "cm"])}),
        "nickname": st.none() | text,
        "either": text | st.lists(whole, max_size=3),
        "even": whole.filter(lambda each: each != 13),
    },
)
KEYWORDS = ["type", "$ref", "allOf", "anyOf", "items", "properties", "enum", "required", "default", "const"]
NONSENSE: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.just({}) | st.sampled_from(["object", "array", "string", "#", "#/x"]),
    lambda part: st.dictionaries(st.sampled_from(KEYWORDS), part | st.lists(part, max_size=2), max_size=4),
)
quiet = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture
async def page(desk: Desk) -> Page:
    return await desk.open("/")


def filled(value: Json) -> Json:
    """As the service reads it: with the schema's defaults for what is left out."""
    size = {"size": {"unit": "mm"} | value["size"]} if "size" in value else {}
    return {"copies": 2} | value | size


async def test_each_part_of_a_schema_has_its_field(page: Page) -> None:
    read = 'async (schema) => (await import("/static/forms/schema.js")).describe(schema)'
    node = await page.evaluate(read, SCHEMA)
    assert {field["key"]: field["kind"] for field in node["fields"]} == KINDS
    assert {field["key"] for field in node["fields"] if field["required"]} == set(SCHEMA["required"])


@quiet
@given(value=VALUES)
async def test_a_request_that_is_repeated_says_the_same(page: Page, value: Json) -> None:
    """What was valid once is shown, found faultless, and sent as it was."""
    note(f"the value: {value!r}")
    came = await page.evaluate(ROUND_TRIP, [SCHEMA, value])
    assert filled(came["said"]) == filled(value)
    assert not came["faults"]


async def test_a_field_may_have_a_name_that_every_object_knows(page: Page) -> None:
    names = ("constructor", "toString", "valueOf", "hasOwnProperty")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    for value in ({}, {"constructor": "McLaren"}):
        assert await page.evaluate(ROUND_TRIP, [schema, value]) == {"said": value, "faults": []}


@quiet
@given(schema=NONSENSE)
async def test_no_schema_breaks_the_form(page: Page, schema: Any) -> None:
    """Whatever stands in a file that calls itself a schema."""
    read = """async (schema) => {
      const { describe } = await import("/static/forms/schema.js");
      const { blank, said } = await import("/static/forms/values.js");
      const { faults } = await import("/static/forms/check.js");
      const node = describe({ type: "object", properties: { field: schema } });
      faults(node, blank(node), "input");
      return typeof said(node, blank(node));
    }"""
    note(f"the schema: {schema!r}")
    assert await page.evaluate(read, schema) == "object"
