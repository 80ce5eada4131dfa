"""`turnkeeper prune`: it says what would go, asks, and says what went."""

from __future__ import annotations

import signal

import pytest

from tests.cli.terminals import Machine
from tests.cli.test_serve import served
from tests.client.services import Cable
from tests.harness import PATIENCE
from turnkeeper.cli.prune import _bytes, age
from turnkeeper.core.errors import InvalidRequest

NOTES = ("run", "meeting-notes", "--engine", "demo", "--input", "notes=We ship.", "--auto")


def ended(machine: Machine) -> str:
    return str(machine.told(*NOTES)["run"]["run_id"])


def runs(machine: Machine) -> list[str]:
    return [run["run_id"] for run in machine.told("list", "--all")["jobs"]]


def test_a_dry_run_then_the_real_one_then_nothing(machine: Machine) -> None:
    run_id = ended(machine)
    waits = machine.told("run", "interview", "--engine", "demo", code=3)["run"]["run_id"]
    would = machine.call("prune", "--older-than", "0d", "--dry-run")
    assert (would.returncode, would.stderr) == (0, "")
    head, line, summary = would.stdout.splitlines()
    assert head.split() == ["run", "state", "skill", "since", "size"]
    assert line.split()[:3] == [run_id[:12], "succeeded", "meeting-notes"]
    assert summary.startswith("1 run would be removed: ")
    assert "(homes " in summary
    assert sorted(runs(machine)) == sorted([run_id, waits])

    asks = machine.call("prune", "--older-than", "0d")
    assert (asks.returncode, asks.stdout) == (2, "")
    assert asks.stderr == "turnkeeper: nobody is there to ask; to remove runs all the same, say --yes\n"

    was = machine.call("prune", "--older-than", "0d", "--yes")
    assert (was.returncode, was.stderr) == (0, "")
    assert was.stdout.strip() == summary.replace("would be removed", "removed")
    assert runs(machine) == [waits]
    again = machine.call("prune", "--older-than", "0d", "--yes")
    assert (again.returncode, again.stdout) == (0, "Nothing to remove; no run is that old, or too much.\n")
    told = machine.told("prune", "--keep-size", "0B", "--waiting", "--yes")
    assert (told["count"], told["runs"][0]["status"]) == (1, "waiting_user")
    assert runs(machine) == []


def test_only_those_that_wait(machine: Machine) -> None:
    run_id = ended(machine)
    waits = machine.told("run", "interview", "--engine", "demo", code=3)["run"]["run_id"]
    told = machine.told("prune", "--older-than", "0d", "--status", "waiting_user", "--waiting", "--yes")
    assert [run["run_id"] for run in told["runs"]] == [waits]
    assert runs(machine) == [run_id]


def test_a_person_is_asked(machine: Machine) -> None:
    run_id = ended(machine)
    with machine.terminal("prune", "--older-than", "0d") as terminal:
        terminal.sees("1 run would be removed: ", "Remove them?")
        terminal.sendline("n")
        assert "nothing was removed" in terminal.ends(1)
    assert runs(machine) == [run_id]
    with machine.terminal("prune", "--older-than", "0d") as terminal:
        terminal.sees("Remove them?")
        terminal.sendline("y")
        assert "1 run removed: " in terminal.ends(0)
    assert runs(machine) == []


def test_ctrl_c_ends_the_command_and_not_the_removal(machine: Machine) -> None:
    named = {name: value for name, value in machine.env.items() if name.startswith("TURNKEEPER_")}
    with served(machine.home, **named), machine.client() as client:
        ended(machine)
        token = (machine.data / "token").read_text().strip()
        with Cable(int(client.url.rpartition(":")[2]), delay=[b'"older_than_sec"']) as cable:
            words = ("prune", "--older-than", "0d", "--yes")
            command = machine.begin(*words, TURNKEEPER_URL=cable.url, TURNKEEPER_TOKEN=token)
            assert cable.is_holding.wait(PATIENCE)
            command.send_signal(signal.SIGINT)
            said = command.communicate(timeout=PATIENCE)
        told = "interrupted; the service goes on removing, and turnkeeper list --all shows what is left"
        assert (command.returncode, *said) == (130, "", f"turnkeeper: {told}\n")
        machine.until(lambda: not list(client.jobs()))


def test_logs_alone_and_what_an_audit_says_then(machine: Machine) -> None:
    run_id = ended(machine)
    homes = machine.call("prune", "--only", "homes", "--older-than", "0d", "--yes")
    assert homes.stdout.startswith("The homes of 1 run removed: ")
    assert "cannot be played by hand any more" in machine.call("show", run_id, "--attempt", "1").stdout
    logs = machine.call("prune", "--only", "logs", "--older-than", "0d", "--yes")
    assert logs.stdout.startswith("The raw logs of 1 run removed: ")
    for part, having in (("homes", "a home"), ("logs", "raw logs")):
        again = machine.call("prune", "--only", part, "--older-than", "0d", "--yes")
        assert again.stdout == f"Nothing to remove; no run with {having} is that old, or too much.\n"
    audit = machine.call("audit", run_id)
    assert audit.returncode == 0
    assert audit.stdout == "1.1  succeeded  (its raw log was deleted, so it can no longer be judged)\n"
    (told,) = machine.told("audit", run_id)["attempts"]
    assert (told["agrees"], told["again"]) == (None, None)
    assert machine.told("result", run_id)["result"]["decisions"] == ["We ship."]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "say what may go: --older-than 30d, --keep-size 10GB, or both"),
        (["--older-than", "30"], "--older-than '30': give a number and a unit, such as 90m, 12h, 30d or 8w"),
        (["--keep-size", "much"], "--keep-size 'much': give a number and a unit, such as 500MB or 10GB"),
        (
            ["--older-than", "1d", "--status", "running"],
            "no run is removed in state 'running', but in: waiting_user, succeeded, failed, canceled",
        ),
        (
            ["--older-than", "1d", "--status", "waiting_user", "--status", "failed"],
            "--status waiting_user: a run that waits for a person is removed only with --waiting",
        ),
        (
            ["--older-than", "1d", "--waiting", "--only", "homes"],
            "a run that waits needs its home and its logs; it can only be removed whole",
        ),
    ],
)
def test_what_is_not_understood(machine: Machine, words: list[str], told: str) -> None:
    ended = machine.call("prune", *words, "--yes")
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"turnkeeper: {told}\n")
    assert not machine.data.exists(), "no service was started for it"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("12h", 43200), ("1.5 d", 129600), ("2W", 1209600), ("0d", 0)]
)
def test_ages(text: str, seconds: float) -> None:
    assert age(text).total_seconds() == seconds


@pytest.mark.parametrize(
    ("text", "count"), [("10GB", 10**10), ("1.5 kB", 1500), ("0b", 0), ("2tb", 2 * 10**12)]
)
def test_sizes(text: str, count: int) -> None:
    assert _bytes(text) == count


@pytest.mark.parametrize("text", ["", "d", "-1d", "1y", "1e9d", "٣d", "999999999999w", "1d 2h"])
def test_ages_that_are_none(text: str) -> None:
    with pytest.raises(InvalidRequest):
        age(text)
