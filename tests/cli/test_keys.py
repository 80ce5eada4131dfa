"""`turnkeeper keys` and `turnkeeper journal`: a key is printed once, and nothing else with it."""

from __future__ import annotations

import re

import pytest

from tests.cli.terminals import Machine

KEY = re.compile(r"tk_[a-z2-7]{8}_[A-Za-z0-9]{43}")


def test_made_used_listed_and_revoked(machine: Machine) -> None:
    made = machine.call("keys", "create", "ann", "--scope", "read", "-s", "answer", "--expires", "30d")
    assert made.returncode == 0
    key = made.stdout.removesuffix("\n")
    assert KEY.fullmatch(key), "so that it can be captured"
    assert "The key ann may: read, answer, until 20" in made.stderr
    assert key not in made.stderr

    listed = machine.call("keys", "list").stdout
    head, token, ann = listed.splitlines()
    assert head.split() == ["name", "id", "scopes", "only", "last", "used", "ends"]
    assert token.split()[:3] == ["token", "admin", "admin"]
    assert ann.split()[:4] == ["ann", key.split("_")[1], "read,", "answer"]
    assert key not in listed

    assert machine.call("list", TURNKEEPER_TOKEN=key).returncode == 0
    refused = machine.call("run", "meeting-notes", "--engine", "demo", "--auto", TURNKEEPER_TOKEN=key)
    assert refused.returncode == 2
    assert "needs the scope run or admin; key:ann has: answer, read [SCOPE_MISSING]" in refused.stderr

    gone = machine.call("keys", "revoke", "ann")
    assert (gone.returncode, gone.stdout) == (0, "ann is revoked\n")
    assert machine.call("keys", "revoke", "ann").returncode == 0
    assert "ann" not in machine.call("keys", "list").stdout
    assert machine.call("keys", "list", "--all").stdout.splitlines()[-1].endswith("revoked")
    refused = machine.call("list", TURNKEEPER_TOKEN=key)
    assert refused.returncode == 2
    assert "the key 'ann' was revoked at 20" in refused.stderr


def test_for_programs(machine: Machine) -> None:
    made = machine.told("keys", "create", "ci", "-s", "run", "--skill", "interview", "--engine", "demo")
    assert KEY.fullmatch(made["key"])
    assert (made["skills"], made["engines"], made["expires_at"]) == (["interview"], ["demo"], None)
    listed = machine.told("keys", "list")["keys"]
    assert [key["name"] for key in listed] == ["token", "ci"]
    assert all("key" not in key for key in listed)
    assert machine.told("keys", "revoke", made["id"])["status"] == "revoked"
    entries = machine.told("journal")["entries"]
    assert [(each["what"], each["subject"], each["by"]) for each in entries] == [
        ("key.revoked", "ci", "token"),
        ("key.created", "ci", "token"),
    ]
    (newest,) = machine.told("journal", "--limit", "1")["entries"]
    assert newest == entries[0]
    table = machine.call("journal", "--all").stdout.splitlines()
    assert table[0].split() == ["when", "who", "what", "of", "more"]
    assert table[2].split()[2:5] == ["token", "key.created", "ci"]
    assert '"skills": ["interview"]' in table[2]


def test_an_empty_journal(machine: Machine) -> None:
    empty = machine.call("journal")
    assert (empty.returncode, empty.stdout, empty.stderr) == (0, "", "Nothing has been changed yet.\n")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("create", "token", "-s", "read"), 1, "[KEY_NAME_TAKEN]"),
        (("create", "a b", "-s", "read"), 2, "/body/name"),
        (("create", "x", "-s", "read", "--expires", "soon"), 2, "--expires 'soon': give a number and a unit"),
        (("create", "x", "-s", "read", "--engine", "codec"), 2, "[ENGINE_NOT_FOUND]"),
        (("revoke", "nobody"), 2, "[KEY_NOT_FOUND]"),
        (("revoke", "token"), 1, "delete the file 'token' in the data directory"),
    ],
)
def test_what_goes_wrong(machine: Machine, words: tuple[str, ...], code: int, told: str) -> None:
    ended = machine.call("keys", *words)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert told in ended.stderr


def test_a_service_does_not_start_with_a_key_for_its_token(machine: Machine) -> None:
    """A key of another service in TURNKEEPER_TOKEN would be good for everything in this one."""
    key = f"tk_abcdefgh_{'x' * 43}"
    ended = machine.call("list", TURNKEEPER_TOKEN=key)
    assert ended.returncode != 0
    assert "TURNKEEPER_TOKEN holds a key" in ended.stderr
    assert key not in ended.stderr
