"""Tables on terminals of several widths, and in a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_serve import environment
from tests.harness import PATIENCE

PROGRAM = """
from turnkeeper.cli.tables import Column, print_table
print_table(
    (Column("name"), Column("modes", wraps=True), Column("words", is_cut=True)),
    [("a-long-name", "auto, interactive", "all that can be said about it"), ("b", "broken", "[red]nothing[/red]")],
    indent=2,
)
"""
PLAIN = """\
  name         modes              words
  a-long-name  auto, interactive  all that can be said about it
  b            broken             [red]nothing[/red]
"""


def on_a_terminal(home: Path, width: int, **env: str) -> str:
    """What comes out of a terminal of this width."""
    ours, theirs = pty.openpty()
    given = environment(home, COLUMNS=str(width), TERM="xterm-256color", **env)
    try:
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=given, stdout=theirs, timeout=PATIENCE, check=True
        )
        return os.read(ours, 100_000).decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
        os.close(theirs)


def lines(said: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", said).splitlines()]


def test_wide_terminal(tmp_path: Path) -> None:
    assert lines(on_a_terminal(tmp_path, 100)) == PLAIN.splitlines()


def test_narrow_terminal_cuts_the_last_column(tmp_path: Path) -> None:
    assert lines(on_a_terminal(tmp_path, 50)) == [
        "  name         modes              words",
        "  a-long-name  auto, interactive  all that can be…",
        "  b            broken             [red]nothing[/r…",
    ]


@pytest.mark.parametrize("width", [40, 24])
def test_narrower_still_leaves_it_out(tmp_path: Path, width: int) -> None:
    shown = lines(on_a_terminal(tmp_path, width))
    assert shown[0].split() == ["name", "modes"]
    assert all(len(line) <= width for line in shown)
    assert shown[1].startswith("  a-long-name  auto,")


def test_colours_are_for_terminals_that_want_them(tmp_path: Path) -> None:
    assert "\x1b[31mbroken" in on_a_terminal(tmp_path, 100)
    assert "\x1b[31m" not in on_a_terminal(tmp_path, 100, NO_COLOR="1")


def test_pipe(tmp_path: Path) -> None:
    piped = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment(tmp_path, COLUMNS="20"),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert piped.stdout == PLAIN
