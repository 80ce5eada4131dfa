"""Streams as scripts and services leave them: closed, full, of another encoding, or with bytes that are no text."""

from __future__ import annotations

import json
import shlex
import subprocess

from tests.cli.terminals import COMMAND, Machine
from tests.cli.test_run import INTERVIEW, NOTES
from tests.harness import PATIENCE

Ended = subprocess.CompletedProcess[bytes]


def in_shell(machine: Machine, words: tuple[str, ...], behind: str, given: bytes = b"", **env: str) -> Ended:
    ended = subprocess.run(
        ["sh", "-c", f"{shlex.join([*COMMAND, *words])} {behind}"],
        env=machine.env | env,
        cwd=machine.home,
        input=given,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert b"Traceback" not in ended.stderr, ended.stderr
    return ended


def test_closed_ones(machine: Machine) -> None:
    for behind in (">&-", "2>&-", "<&-", "<&- >&- 2>&-"):
        assert in_shell(machine, NOTES, behind).returncode == 0, behind
    assert in_shell(machine, ("watch", "nothing"), "2>&-").returncode == 2
    assert in_shell(machine, INTERVIEW, "<&-").returncode == 3
    empty = in_shell(machine, ("reply", "last", "-"), "<&-")
    assert (empty.returncode, empty.stderr) == (2, b"turnkeeper: an empty text is no answer\n")


def test_full_ones(machine: Machine) -> None:
    full = in_shell(machine, NOTES, "> /dev/full")
    assert full.returncode == 1
    assert full.stderr.endswith(b"turnkeeper: the output cannot be written: No space left on device\n")
    assert in_shell(machine, NOTES, "2> /dev/full").returncode == 1


def test_another_encoding(machine: Machine) -> None:
    words = ("run", "trip-plan", "--engine", "demo", "--input", "destination=東京")
    assert machine.call(*words).returncode == 3
    listed = in_shell(machine, ("list",), "", PYTHONIOENCODING="latin-1")
    assert (listed.returncode, rb"\u6771\u4eac" in listed.stdout) == (0, True)
    assert machine.call("cancel", "last").returncode == 0
    events = in_shell(machine, ("watch", "last", "--json"), "", PYTHONIOENCODING="latin-1")
    assert events.returncode == 4
    told = [json.loads(line) for line in events.stdout.splitlines()]
    assert any("東京" in str(event["data"]) for event in told)


def test_bytes_that_are_no_text(machine: Machine) -> None:
    assert machine.call(*INTERVIEW).returncode == 3
    answer = in_shell(machine, ("reply", "last", "-"), "", given=b"\xff\xfe")
    assert (answer.returncode, answer.stderr) == (
        2,
        b"turnkeeper: stdin is no text in UTF-8, and so no answer\n",
    )
    notes = in_shell(machine, (*NOTES[:4], "--input", "notes=@-"), "", given=b"\xff\xfe")
    assert (notes.returncode, b"no text in UTF-8" in notes.stderr) == (2, True)
