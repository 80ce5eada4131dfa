"""A figure passes or does not, and all that is told of it agrees."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from bench import page
from bench.__main__ import main
from bench.figures import Figure, median, quantile
from bench.goals import GOALS
from bench.measures import MEASURES
from bench.report import Report, cells, number


def figure(**changed: Any) -> Figure:
    given: Mapping[str, Any] = {"goal": "G1", "what": "a thing", "unit": "ms", "measured": 3.0, **changed}
    return Figure(**given)


@pytest.mark.parametrize(
    ("told", "passes", "share"),
    [
        ({}, True, None),
        ({"limit": 3}, True, 1),
        ({"limit": 2}, False, 1.5),
        ({"limit": 2, "floor": 1.5}, True, 1),
        ({"limit": 2, "floor": 1}, False, 1.5),
        ({"limit": 3, "at_least": True}, True, 1),
        ({"limit": 6, "at_least": True}, False, 2),
        ({"limit": 0, "measured": 0}, True, 0),
        ({"limit": 0, "measured": 1}, False, 2),
        ({"limit": 2, "measured": -1}, True, 0),
        ({"limit": 2, "floor": 0}, False, float("inf")),
    ],
)
def test_what_passes(told: Mapping[str, Any], passes: bool, share: float | None) -> None:
    found = figure(**told)
    assert found.passes is passes
    assert found.share == share
    assert cells(found)[-1] == ("" if share is None else "pass" if passes else "MISSED")


def test_quantiles_are_values_that_were_measured() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert median(values) == 3.0
    assert quantile(values, 0.99) == 5.0
    assert quantile([7.0], 0.5) == 7.0


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (3, "3"), (1234567, "1,234,567"), (1.234, "1.23"), (0.01234, "0.0123"), (250.4, "250")],
)
def test_numbers_have_three_digits_that_count(value: float, shown: str) -> None:
    assert number(value) == shown


def test_every_goal_is_measured_by_somebody() -> None:
    assert {goal for about in MEASURES.values() for goal in about} == set(GOALS)


def report() -> Report:
    return Report([figure(limit=2, what="<slow> | thing"), figure(goal="G2")], "today", "a machine", "abc")


def test_the_table_and_the_json_say_the_same() -> None:
    told = json.loads(report().json())
    assert [each["passes"] for each in told["figures"]] == [False, True]
    assert "1 of 2 missed; today, a machine, commit abc" in report().text()


def test_the_page_keeps_its_words_and_gets_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "benchmarks.md"
    written.write_text("before\n<!-- measured -->\nyesterday\n<!-- /measured -->\nbehind\n")
    page.write(report(), written, tmp_path / "plot.svg")
    text = written.read_text()
    assert text.startswith("before\n<!-- measured -->\n")
    assert text.endswith("<!-- /measured -->\nbehind\n")
    assert "yesterday" not in text
    assert r"<slow> \| thing" in text
    drawn = Xml.parse(tmp_path / "plot.svg").getroot()
    assert [each.text for each in drawn.iter() if each.text and "thing" in each.text] == [
        "G1  <slow> | thing"
    ]


def test_a_goal_that_nobody_knows_is_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "--only", "G99"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
