"""Writes the generated parts of README and docs: tables, commands and a diagram that the code already knows.

A part stands between `<!-- generated:NAME -->` and `<!-- /generated:NAME -->`; everything around it is written by
hand. There is a file for each subject; this one knows the parts and the pages.
"""

import re
from collections.abc import Callable
from pathlib import Path

from tools.docs import commands, engines, errors, lifecycle, settings

ROOT = Path(__file__).parents[2]

PARTS: dict[str, Callable[[], str]] = {
    "command-list": commands.overview,
    "commands": commands.commands,
    "engines": engines.engines,
    "engine-logins": engines.logins,
    "engine-words": engines.words,
    "engine-residents": engines.residents,
    "engine-resident-words": engines.resident_words,
    "engine-homes": engines.homes,
    "scripts": engines.scripts,
    "chaos": engines.chaos,
    "request-codes": errors.request_codes,
    "start-codes": errors.start_codes,
    "run-codes": errors.run_codes,
    "warnings": errors.warnings,
    "lint-codes": errors.lint_codes,
    "diagram": lifecycle.mermaid,
    "transitions": lifecycle.transitions,
    "settings": settings.settings,
}

_PART = re.compile(
    r"(?P<open><!-- generated:(?P<name>[\w-]+) -->\n).*?(?P<close><!-- /generated:(?P=name) -->)", re.DOTALL
)


def pages(root: Path = ROOT) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def fill(text: str) -> str:
    """The page with each of its generated parts made anew."""
    return _PART.sub(lambda part: f"{part['open']}\n{PARTS[part['name']]()}\n{part['close']}", text)


def names(text: str) -> list[str]:
    return [part["name"] for part in _PART.finditer(text)]
