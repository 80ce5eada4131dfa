"""What the pages say must hold: generated parts are fresh, links lead somewhere, shown calls exist."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest

from tests.harness import DOOR
from tools import docs
from turnkeeper.runtime.house import House
from turnkeeper.web.app import make_app

ROOT = Path(__file__).parents[2]
PAGES = docs.pages(ROOT)
LINKING = [
    *PAGES,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "examples").rglob("*.md")),
]

_FENCE = re.compile(r"^```(?P<tag>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_TAKES_VALUE = "FHXdow"
_ENDS = ";|&()\n"


def each(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


@each(PAGES)
def test_generated_parts_are_fresh(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert docs.fill(text) == text, f"{page.name} is behind: run make docs"


def test_every_part_stands_on_a_page_once() -> None:
    shown = [name for page in PAGES for name in docs.names(page.read_text(encoding="utf-8"))]
    assert sorted(shown) == sorted(docs.PARTS)


def test_parts_are_the_same_wherever_they_are_made(tmp_path: Path) -> None:
    """Neither the width of the terminal nor anything else of whoever runs it gets into the pages."""
    odd = {
        "HOME": str(tmp_path),
        "COLUMNS": "30",
        "TERMINAL_WIDTH": "30",
        "FORCE_COLOR": "1",
        "TURNKEEPER_SLOTS": "7",
    }
    code = "from tools import docs\nprint(*(make() for make in docs.PARTS.values()), sep='')"
    made = subprocess.run(
        [sys.executable, "-c", code], env=odd, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert made.stdout == "".join(make() for make in docs.PARTS.values()) + "\n"


def test_a_part_that_is_behind_is_filled() -> None:
    page = "before\n<!-- generated:diagram -->\nold\n<!-- /generated:diagram -->\nafter\n"
    filled = docs.fill(page)
    assert "old" not in filled
    assert "queued --> running: turn.started" in filled
    assert filled.startswith("before\n")
    assert filled.endswith("\nafter\n")
    assert docs.fill(filled) == filled


@each(LINKING)
def test_relative_links_resolve(page: Path) -> None:
    broken = [target for target in links(page) if not resolves(page, target)]
    assert not broken


def links(page: Path) -> Iterator[str]:
    for found in _LINK.finditer(prose(page)):
        if not urlsplit(found["target"]).scheme:
            yield found["target"]


def resolves(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    linked = (page.parent / path).resolve() if path else page
    if not linked.exists():
        return False
    return not anchor or anchor in {slug(found["text"]) for found in _HEADING.finditer(prose(linked))}


def slug(heading: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.fixture(scope="module")
def calls() -> dict[str, set[str]]:
    """Method to path templates, as OpenAPI tells them. No route is called, so no house is needed."""
    paths = make_app(cast(House, None), DOOR).openapi()["paths"]
    known: dict[str, set[str]] = {}
    for path, methods in paths.items():
        for method in methods:
            known.setdefault(method.upper(), set()).add(path)
    return known


@each([page for page in PAGES if "curl -" in page.read_text(encoding="utf-8")])
def test_shown_calls_exist(page: Path, calls: dict[str, set[str]]) -> None:
    shown = list(curls(page))
    assert shown
    unknown = [
        f"{method} {path}"
        for method, path in shown
        if not any(template(known).fullmatch(path) for known in calls.get(method, ()))
    ]
    assert not unknown


def test_every_call_is_in_the_protocol(calls: dict[str, set[str]]) -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    missing = [
        f"{method} {path}"
        for method, paths in calls.items()
        for path in paths
        if f"`{method} {path}`" not in page
    ]
    assert not missing


def curls(page: Path) -> Iterator[tuple[str, str]]:
    """Method and path of each curl in the shell fences."""
    for fence in _FENCE.finditer(page.read_text(encoding="utf-8")):
        if fence["tag"] == "sh":
            script = fence["body"].replace("\\\n", " ")
            for found in re.finditer(r"\bcurl ", script):
                yield request(words(script[found.end() :]))


def words(script: str) -> list[str]:
    """The words of the first command."""
    lexer = shlex.shlex(script, posix=True, punctuation_chars=_ENDS)
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    return list(takewhile(lambda word: word[0] not in _ENDS, lexer))


def request(arguments: list[str]) -> tuple[str, str]:
    method, url = "GET", ""
    rest = iter(arguments)
    for word in rest:
        if word.startswith("-") and word[-1] in _TAKES_VALUE:
            value = next(rest)
            method = {"X": value, "d": "POST", "F": "POST"}.get(word[-1], method)
        elif not word.startswith("-"):
            url = word
    url = _VARIABLE.sub(lambda found: "http://service/v1" if found[1] == "API" else "some", url)
    return method, urlsplit(url).path


def template(path: str) -> re.Pattern[str]:
    """`{path}` may hold slashes, other parameters may not."""
    return re.compile(
        re.sub(r"\\\{(\w+)\\\}", lambda p: ".+" if p[1] == "path" else "[^/]+", re.escape(path))
    )
