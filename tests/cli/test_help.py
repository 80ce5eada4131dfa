"""Every command in the same form: what it does, an example that exists, its exit codes, and JSON for programs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from tests.cli.test_serve import environment
from tests.harness import PATIENCE
from turnkeeper.cli import app

WIDTH = 80
HEAVY = {"fastapi", "httpx", "jsonschema_rs", "uvicorn"}
"""Most of the time that a start can take; who asks for help does not need them."""


def commands(group: TyperGroup, *path: str) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, *path, name)
        else:
            assert isinstance(command, TyperCommand)
            yield " ".join((*path, name)), command


ROOT = get_command(app)
assert isinstance(ROOT, TyperGroup)
COMMANDS = dict(commands(ROOT))
GROUPS = ["", *sorted({" ".join(path.split()[:-1]) for path in COMMANDS if " " in path})]
each_command = pytest.mark.parametrize("path", COMMANDS)


def paragraph(path: str, opening: str) -> str:
    """Of what the command says about itself. After the first line there is one for the example, one for the codes."""
    found = [each for each in (COMMANDS[path].help or "").split("\n\n") if each.startswith(opening)]
    assert len(found) == 1, f"the help of {path!r} needs one paragraph that begins with {opening!r}"
    return found[0]


def options(path: str) -> set[str]:
    return {name for each in COMMANDS[path].params for name in (*each.opts, *each.secondary_opts)}


@each_command
def test_it_can_answer_a_program(path: str) -> None:
    assert "--json" in options(path)


@each_command
def test_its_example_is_one(path: str) -> None:
    lines = paragraph(path, "For example:").removeprefix("For example:").strip().splitlines()
    assert lines
    for line in map(str.strip, lines):
        assert line.startswith(f"turnkeeper {path}"), line
        words = shlex.split(line, comments=True)
        named = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
        assert named <= options(path), f"{line}: {named - options(path)}"


@each_command
def test_it_tells_its_exit_codes(path: str) -> None:
    assert re.match(r"Ends with 0\b", paragraph(path, "Ends with"))


@each_command
def test_its_first_line_is_for_the_list_of_commands(path: str) -> None:
    first = (COMMANDS[path].help or "").split("\n\n")[0]
    assert first
    assert "\n" not in first
    assert "for example" not in first.lower()
    assert first.endswith(".")


@pytest.mark.parametrize("path", [*GROUPS, *COMMANDS])
def test_it_fits_into_a_narrow_terminal(path: str) -> None:
    shown = CliRunner().invoke(app, [*path.split(), "--help"], env={"COLUMNS": str(WIDTH)}, color=False)
    assert shown.exit_code == 0
    assert [line for line in shown.stdout.splitlines() if len(line) > WIDTH] == []
    assert "…" not in shown.stdout, "a name was cut off"


@each_command
def test_every_option_is_explained(path: str) -> None:
    unexplained = [each.name for each in COMMANDS[path].params if not getattr(each, "help", None)]
    assert not unexplained


def test_help_comes_at_once(tmp_path: Path) -> None:
    assert loaded(tmp_path, "--help") == []


def loaded(home: Path, *words: str) -> list[str]:
    """What a fresh interpreter has loaded of the heavy ones when the command is over."""
    code = (
        "import sys; from turnkeeper.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        f"print(*sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return ended.stderr.split()
