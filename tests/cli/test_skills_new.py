"""`turnkeeper skills new` as an author meets it: made, checked, and played at once by the demo engine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.harness import Json, opened
from turnkeeper.cli import app


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the author stands."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def new(*words: str) -> Result:
    return CliRunner().invoke(app, ["skills", "new", *words], env=dict.fromkeys(os.environ, None))


def test_it_says_what_to_do_next(folder: Path) -> None:
    ended = new("party-plan")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[0] == "party-plan is made:"
    assert ended.stdout.splitlines()[-3:] == [
        "  play it:    turnkeeper run ./party-plan --engine demo",
        "  check it:   turnkeeper skills lint ./party-plan",
        "  install it: turnkeeper skills install ./party-plan",
    ]
    for name in ("SKILL.md", "assets/runner.json", "assets/demo.json"):
        assert f"  {name}\n" in ended.stdout
        assert (folder / "party-plan" / name).is_file()


def test_paths_can_be_copied_into_a_shell(folder: Path) -> None:
    ended = new("party", "--in", "my skills")
    assert "turnkeeper run './my skills/party' --engine demo" in ended.stdout
    ended = new("party", "--in", str(folder / "other"))
    assert f"turnkeeper run {folder}/other/party --engine demo" in ended.stdout


def test_json_is_for_programs(folder: Path) -> None:
    told = json.loads(new("party", "--in", "deep/er", "--json").stdout)
    assert set(told) == {"name", "path", "files"}
    assert (told["name"], told["path"]) == ("party", str(folder / "deep/er/party"))
    assert all((folder / "deep/er/party" / name).is_file() for name in told["files"])


def test_it_overwrites_nothing(folder: Path) -> None:
    assert new("party").exit_code == 0
    (folder / "party" / "SKILL.md").write_text("precious")
    ended = new("party")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr == "turnkeeper: party is there already; choose another name, or another --in\n"
    assert (folder / "party" / "SKILL.md").read_text() == "precious"


@pytest.mark.parametrize("words", [["Party"], ["a/b"], ["party", "--description", " "], []])
def test_what_cannot_be_used_is_a_usage_error(folder: Path, words: list[str]) -> None:
    ended = new(*words)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert list(folder.iterdir()) == []


def test_the_linter_agrees(folder: Path) -> None:
    new("asks", "--description", "Plans: everything. Use it when there is a party.")
    new("tells", "--auto")
    ended = CliRunner().invoke(app, ["skills", "lint", "--strict", "."])
    assert (ended.exit_code, ended.stdout) == (
        0,
        "asks: good\ntells: good\n\n2 skills, 0 errors, 0 warnings\n",
    )


async def test_it_plays_at_once(folder: Path) -> None:
    new("asks", "--in", "skills")
    new("tells", "--auto", "--in", "skills")
    interactive: Json = {"execution_mode": "interactive"}
    async with opened(folder / "data", skills_dir=(folder / "skills",)) as place:
        client = place.client
        for mode in ({}, interactive):
            run_id = await client.create("tells", **mode)
            assert (await client.settled(run_id))["warnings"] == []
            assert (await client.result(run_id))["title"] == "A note about rain"
        run_id = await client.create(
            "asks", input={"topic": "snow"}, parameter={"length": "long"}, **interactive
        )
        await client.settled(run_id)
        question = await client.pending(run_id)
        assert (question["kind"], question["prompt"]) == ("choose_one", "Who is the note about snow for?")
        await client.reply(run_id, "customers")
        assert (await client.settled(run_id))["warnings"] == []
        assert (await client.result(run_id))["readers"] == "customers"
