"""Promises name the tests that hold them: README one or two for each, the page about reliability all of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROMISES = 12
NAMED = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
PAGES = {"README.md": "## What it promises", "docs/reliability.md": "## Promises"}


def promises(page: str) -> list[str]:
    """The items of the numbered list, each with everything that belongs to it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    section = text.partition(f"{PAGES[page]}\n")[2].partition("\n## ")[0]
    return re.split(r"^\d+\. ", section, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("page", PAGES)
def test_each_promise_names_a_test_that_is_there(page: str) -> None:
    found = promises(page)
    assert len(found) == PROMISES
    for promise in found:
        named = NAMED.findall(promise)
        assert named, promise
        for path, name in named:
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            there = {
                node.name
                for node in ast.walk(tree)
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            assert name in there, f"{page} names {path}::{name}"


def test_the_page_names_what_the_readme_names() -> None:
    short, long = ([set(NAMED.findall(each)) for each in promises(page)] for page in PAGES)
    for number, (one, all_of_them) in enumerate(zip(short, long, strict=True), 1):
        assert one <= all_of_them, f"promise {number}"


def test_what_is_defended_names_tests_that_are_there() -> None:
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    table = text.partition("## What is defended, and by which test\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert len(rows) >= 5
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)`", row)
        assert named, row
        assert all((ROOT / path).is_file() for path in named), row
