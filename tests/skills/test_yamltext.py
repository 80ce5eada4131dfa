"""YAML that strangers wrote: numbers as they are meant, and none that keeps us busy."""

from __future__ import annotations

import pytest

from turnkeeper.skills.yamltext import load_yaml


def test_numbers() -> None:
    text = "{a: 12, b: -1.5, c: 0x1F, d: 1:30, e: 1:30.5, f: 1_000, g: .inf, h: 1.10}"
    assert load_yaml(text) == {
        "a": 12,
        "b": -1.5,
        "c": 31,
        "d": 90,
        "e": 90.5,
        "f": 1000,
        "g": float("inf"),
        "h": 1.1,
    }


@pytest.mark.parametrize("number", ["1" + ":59" * 20_000, "1" + ":59" * 20_000 + ".5"])
@pytest.mark.parametrize("tag", ["", "!!int ", "!!float "])
def test_numbers_that_would_take_for_ever(number: str, tag: str) -> None:
    with pytest.raises(ValueError, match="too many digits"):
        load_yaml(f"a: {tag}{number}")
