"""Every command that pages, errors and banners tell a person to type is one, with options that it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from tools import docs
from turnkeeper.cli import app
from turnkeeper.core import fixes
from turnkeeper.skills import findings

ROOT = Path(__file__).parents[2]
PAGES = [*docs.pages(ROOT), ROOT / "CONTRIBUTING.md"]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES} | {
    "core/fixes.py": "\n".join(fixes.FIX.values()),
    "skills/findings.py": "\n".join(findings.FIX.values()),
}

_FENCE = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`(turnkeeper [^`]+)`")
_CALL = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(turnkeeper .*)$", re.MULTILINE)


def shown(text: str) -> Iterator[str]:
    for fence in _FENCE.findall(text):
        yield from _CALL.findall(fence.replace("\\\n", " "))
    yield from (
        span.replace("\n", " ") for span in _SPAN.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    )


def unknown(line: str) -> str | None:
    """What of it there is not."""
    words = iter(shlex.split(re.split(r"[|>;&]", line)[0], comments=True)[1:])
    command = get_command(app)
    seen = ["turnkeeper"]
    for word in words:
        if word.startswith("-") and word != "-":
            options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            if word.partition("=")[0] not in {
                *options,
                "--help",
                "--install-completion",
                "--show-completion",
            }:
                return f"{' '.join(seen)} has no {word}"
        elif isinstance(command, TyperGroup) and word not in ("COMMAND", "…", "..."):
            if word not in command.commands:
                return f"there is no {' '.join(seen)} {word}"
            command = command.commands[word]
            seen.append(word)
    return None


@pytest.mark.parametrize("place", TEXTS)
def test_shown_commands_exist(place: str) -> None:
    wrong = [f"{line}: {problem}" for line in shown(TEXTS[place]) if (problem := unknown(line))]
    assert not wrong


def test_wrong_ones_would_be_found() -> None:
    text = "```sh\n.venv/bin/turnkeeper skils list\n```\nand `turnkeeper serve --prot 1` here"
    assert [unknown(line) for line in shown(text)] == [
        "there is no turnkeeper skils",
        "turnkeeper serve has no --prot",
    ]
