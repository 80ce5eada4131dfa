"""`turnkeeper secrets`: values go in unseen, and only names come out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.terminals import Machine

VALUE = "a-value-that-nobody-sees"


def kept(machine: Machine) -> dict[str, str]:
    told = json.loads((machine.data / "secrets.json").read_text())
    return {name: each["value"] for name, each in told["secrets"].items()}


def test_set_from_a_pipe_granted_listed_revoked_and_removed(machine: Machine) -> None:
    none = machine.call("secrets", "list")
    assert (none.returncode, none.stdout) == (
        0,
        "There are no secrets; set one: turnkeeper secrets set NAME\n",
    )
    was_set = machine.call("secrets", "set", "GITHUB_TOKEN", given=f"{VALUE}\n")
    assert (was_set.returncode, was_set.stderr) == (0, "")
    assert was_set.stdout == (
        "GITHUB_TOKEN is set; grant it to a skill: turnkeeper secrets grant GITHUB_TOKEN SKILL\n"
    )
    assert kept(machine) == {"GITHUB_TOKEN": VALUE}, "without the line break at its end"
    granted = machine.call("secrets", "grant", "GITHUB_TOKEN", "meeting-notes")
    assert (granted.returncode, granted.stdout, granted.stderr) == (
        0,
        "meeting-notes may have GITHUB_TOKEN\n",
        "",
    )
    early = machine.call("secrets", "grant", "GITHUB_TOKEN", "not-there-yet")
    assert (early.returncode, "is installed yet" in early.stderr) == (0, True)
    head, line = machine.call("secrets", "list").stdout.splitlines()
    assert head.split() == ["NAME", "GRANTED", "TO", "SET", "BY"]
    assert line.startswith("GITHUB_TOKEN  meeting-notes, not-there-yet  ")
    assert machine.told("secrets", "list")["secrets"][0]["grants"] == ["meeting-notes", "not-there-yet"]
    assert machine.told("secrets", "revoke", "GITHUB_TOKEN", "not-there-yet")["grants"] == ["meeting-notes"]
    again = machine.call("secrets", "set", "GITHUB_TOKEN", given="another-value-of-it")
    assert again.stdout == "GITHUB_TOKEN is set; granted to meeting-notes\n"
    asks = machine.call("secrets", "remove", "GITHUB_TOKEN")
    assert (asks.returncode, asks.stdout) == (2, "")
    gone = machine.call("secrets", "remove", "GITHUB_TOKEN", "--yes")
    assert (gone.returncode, gone.stdout) == (0, "GITHUB_TOKEN is removed\n")
    missing = machine.call("secrets", "grant", "GITHUB_TOKEN", "meeting-notes")
    assert missing.returncode == 2
    assert "[SECRET_NOT_FOUND]" in missing.stderr
    assert kept(machine) == {}


def test_from_a_file_and_typed_unseen(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text("first line\nsecond line\n")
    told = machine.told("secrets", "set", "A_KEY", "--from-file", str(path))
    assert (told["name"], told["grants"], told["set_by"]) == ("A_KEY", [], "token")
    assert kept(machine) == {"A_KEY": "first line\nsecond line"}
    with machine.terminal("secrets", "set", "TYPED") as terminal:
        terminal.sees("The value of TYPED (it is not shown): ")
        terminal.waitnoecho()
        terminal.sendline(VALUE)
        assert VALUE not in terminal.ends(0)
    assert kept(machine)["TYPED"] == VALUE
    with machine.terminal("secrets", "remove", "TYPED") as terminal:
        terminal.sees("Remove TYPED? [y/N]: ")
        terminal.sendline("y")
        terminal.sees("TYPED is removed")
        terminal.ends(0)


@pytest.mark.parametrize(
    ("words", "given", "told"),
    [
        (("LD_PRELOAD",), VALUE, "changes how programs start"),
        (("lower",), VALUE, "capital letters"),
        (("GITHUB_TOKEN",), "short", "fewer than 8 characters"),
        (("GITHUB_TOKEN",), "", "fewer than 8 characters"),
        (("GITHUB_TOKEN",), "x" * 70_000, "larger than 65536 bytes"),
        (("GITHUB_TOKEN", "--from-file", "nowhere"), "", "nowhere cannot be read: No such file"),
        (("GITHUB_TOKEN", VALUE), "", "unexpected extra argument"),
    ],
)
def test_what_is_refused_before_a_service_is_asked(
    machine: Machine, words: tuple[str, ...], given: str, told: str
) -> None:
    ended = machine.call("secrets", "set", *words, given=given)
    assert ended.returncode == 2
    assert told in ended.stderr
    assert machine.service is None


def test_a_run_says_which_command_helps(machine: Machine, tmp_path: Path) -> None:
    root = tmp_path / "needy"
    (root / "assets").mkdir(parents=True)
    (root / "SKILL.md").write_text("---\nname: needy\ndescription: Needs a token.\n---\nUse it.\n")
    (root / "assets" / "runner.json").write_text(
        '{"id": "needy", "version": "1", "secrets": ["NEEDED_TOKEN"]}'
    )
    assert machine.call("skills", "install", str(root)).returncode == 0
    refused = machine.call("run", "needy", "--engine", "demo", "--auto")
    assert refused.returncode == 1
    assert (
        "turnkeeper secrets set NEEDED_TOKEN && turnkeeper secrets grant NEEDED_TOKEN needy" in refused.stderr
    )
    assert "[SECRET_NOT_GRANTED]" in refused.stderr
    assert "NEEDED_TOKEN" in machine.call("skills", "show", "needy").stdout


def test_links_are_shown_and_not_fetched(machine: Machine, tmp_path: Path) -> None:
    run_id = machine.told("run", "plain", "--engine", "demo", "--auto")["run"]["run_id"]
    (machine.workspace(run_id) / "report.txt").write_text("words")
    (machine.workspace(run_id) / "trap.txt").symlink_to("/etc/passwd")
    listed = machine.call("artifacts", run_id).stdout
    assert "link  trap.txt -> /etc/passwd" in listed
    fetched = machine.told("artifacts", run_id, "--to", str(tmp_path / "out"))["files"]
    assert [Path(each).name for each in fetched] == ["report.txt"]
    refused = machine.call("artifacts", run_id, "trap.txt", "--to", str(tmp_path / "out"))
    assert refused.returncode == 2
    assert "is a link, which is not followed [FILE_NOT_FOUND]" in refused.stderr
