"""`turnkeeper skills list`, `show`, `install` and `remove`, through a real service."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.test_serve import EXAMPLES, served
from tests.harness import TOKEN, Json
from tests.skills.folders import OBJECT, skill_at
from turnkeeper.cli import app

TEXT = "---\nname: {name}\ndescription: Says hello. Use it in the morning.\n---\n"
RUNNER: Json = {"version": "1.0.0", "schemas": {"output": "assets/out.json"}}


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Desk:
    """A person with a service of their own."""

    folder: Path

    def skills(self, *words: str | Path, **env: str) -> Ended:
        given = {
            **dict.fromkeys(os.environ, None),
            "HOME": str(self.folder),
            "TURNKEEPER_TOKEN": TOKEN,
            **env,
        }
        arguments = ["skills", *map(str, words), "--data-dir", str(self.folder / "data")]
        ended = CliRunner().invoke(app, arguments, env=given)
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return Ended(ended.exit_code, ended.stdout, ended.stderr)

    def draft(self, name: str = "hello", version: str = "1.0.0", **runner: object) -> Path:
        files = {"assets/out.json": OBJECT}
        told = {**RUNNER, "version": version, **runner}
        return skill_at(self.folder / "drafts" / name, TEXT.format(name=name), told, files)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    words = ("--data-dir", str(folder / "data"), "--skills-dir", str(folder / "own"))
    (folder / "own").symlink_to(EXAMPLES)
    with served(folder, *words, TURNKEEPER_TOKEN=TOKEN):
        yield Desk(folder)


def row(ended: Ended, skill: str) -> list[str]:
    rows = (re.split(r" {2,}", line) for line in ended.stdout.splitlines())
    (found,) = [cells for cells in rows if cells[0] == skill]
    return found


def told(ended: Ended) -> Json:
    assert (ended.code, ended.stderr) == (0, "")
    return dict(json.loads(ended.stdout))


class TestList:
    def test_table(self, desk: Desk) -> None:
        ended = desk.skills("list")
        assert (ended.code, ended.stderr) == (0, "")
        assert ended.stdout.splitlines()[0].split() == ["skill", "version", "modes", "from", "description"]
        assert row(ended, "interview")[:3] == ["interview", "1.0.0", "interactive"]
        assert row(ended, "interview")[3] == "folder"
        assert row(ended, "interview")[4].startswith("Interviews a person about a project in three")
        assert "Use it when" not in ended.stdout

    def test_json(self, desk: Desk) -> None:
        skills = {each["id"]: each for each in told(desk.skills("list", "--json"))["skills"]}
        assert skills["interview"]["managed"] is False
        assert skills["interview"]["execution_modes"] == ["interactive"]

    def test_broken_one_with_what_is_wrong(self, desk: Desk) -> None:
        place = desk.folder / "data" / "skills" / "wrong"
        skill_at(place, "---\nname: wrong\n---\n", {"max_attempt": 0})
        ended = desk.skills("list")
        assert row(ended, "wrong")[:3] == ["wrong", "-", "broken"]
        assert (
            "\nwrong cannot be used:\n  assets/runner.json: max_attempt must be a whole number"
            in ended.stdout
        )
        assert desk.skills("remove", "wrong", "--yes").code == 0
        assert not place.exists()

    def test_none_yet(self, tmp_path: Path) -> None:
        with served(tmp_path, "--data-dir", str(tmp_path / "data"), TURNKEEPER_TOKEN=TOKEN):
            ended = Desk(tmp_path).skills("list")
        assert ended.stdout.splitlines()[0] == "There are no skills yet."
        assert "turnkeeper skills new " in ended.stdout


class TestShow:
    def test_all_that_is_known(self, desk: Desk) -> None:
        ended = desk.skills("show", "document-summary")
        assert (ended.code, ended.stderr) == (0, "")
        lines = ended.stdout.splitlines()
        assert lines[0] == "document-summary 1.0.0"
        assert lines[1].startswith("Reads one document and writes a summary")
        for line in (
            "from     a folder of the operator's",
            "modes    auto, interactive",
            "turns    3 at the most",
            "Input",
            "  document  file, required",
            '  audience  string, default "a colleague who has not read it"',
            "            Who reads the summary.",
            '  length  short | medium | long, default "medium"',
            "Result",
            "  key_points   list of string, required",
            "Lint: good",
            "Run it: turnkeeper run document-summary",
        ):
            assert line in lines
        assert any(line.startswith("engines  ") and line.endswith("demo") for line in lines)

    def test_json_has_the_whole_schemas(self, desk: Desk) -> None:
        shown = told(desk.skills("show", "trip-plan", "--json"))
        assert (shown["id"], shown["findings"], shown["managed"]) == ("trip-plan", [], False)
        assert shown["schemas"]["output"]["$defs"]["day"]["type"] == "object"
        assert shown["schemas"]["parameter"] is None

    def test_broken_one(self, desk: Desk) -> None:
        skill_at(
            desk.folder / "data" / "skills" / "odd", TEXT.format(name="odd"), {"max_attempt": 0, "engine": 1}
        )
        ended = desk.skills("show", "odd")
        assert (ended.code, ended.stderr) == (1, "")
        assert "state  broken\n" in ended.stdout
        assert "  error MAX_ATTEMPT_INVALID assets/runner.json: max_attempt must be " in ended.stdout
        assert "  warning KEY_UNKNOWN assets/runner.json: unknown field 'engine'" in ended.stdout
        assert "Run it" not in ended.stdout
        ended = desk.skills("show", "odd", "--json")
        assert ended.code == 1
        assert json.loads(ended.stdout)["schemas"] is None
        assert desk.skills("remove", "odd", "--yes").code == 0

    def test_one_that_there_is_not(self, desk: Desk) -> None:
        ended = desk.skills("show", "intervew")
        assert (ended.code, ended.stdout) == (2, "")
        assert ended.stderr.startswith("turnkeeper: there is no skill 'intervew'; installed are: ")

    def test_words_of_strangers_do_not_reach_the_terminal(self, desk: Desk) -> None:
        text = '---\nname: evil\ndescription: "\\e[2Jevil"\n---\n'
        schema: Json = {
            **OBJECT,
            "properties": {"\x1b[1m": {"description": "\x1b]0;x\x07", "default": "\x9b"}},
        }
        skill_at(
            desk.folder / "data" / "skills" / "evil",
            text,
            {"schemas": {"input": "in.json"}},
            {"in.json": schema},
        )
        shown = desk.skills("show", "evil").stdout + desk.skills("list").stdout
        assert "evil" in shown
        assert not {"\x1b", "\x07", "\x9b"} & set(shown)
        assert desk.skills("remove", "evil", "--yes").code == 0


class TestInstallAndRemove:
    def test_folder(self, desk: Desk) -> None:
        ended = desk.skills("install", desk.draft())
        assert ended == Ended(0, "hello 1.0.0 is installed; run it: turnkeeper run hello\n", "")
        assert row(desk.skills("list"), "hello")[3:] == ["installed", "Says hello."]
        assert desk.skills("remove", "hello", "-y") == Ended(0, "hello is removed\n", "")
        assert "hello" not in desk.skills("list").stdout

    def test_zip_and_json(self, desk: Desk) -> None:
        archive = desk.folder / "hello.zip"
        with zipfile.ZipFile(archive, "w") as made:
            for path in desk.draft().rglob("*.*"):
                made.write(path, path.relative_to(desk.folder / "drafts"))
        installed = told(desk.skills("install", archive, "--json"))
        assert (installed["id"], installed["version"], installed["managed"]) == ("hello", "1.0.0", True)
        assert told(desk.skills("remove", "hello", "--yes", "--json")) == {"id": "hello", "removed": True}

    def test_only_a_higher_version_or_replace(self, desk: Desk) -> None:
        assert desk.skills("install", desk.draft("twice")).code == 0
        ended = desk.skills("install", desk.draft("twice"))
        assert (ended.code, ended.stdout) == (1, "")
        assert "[SKILL_VERSION_NOT_HIGHER]" in ended.stderr
        assert desk.skills("install", desk.draft("twice"), "--replace").code == 0
        assert "twice 1.0.1 is installed" in desk.skills("install", desk.draft("twice", "1.0.1")).stdout
        assert desk.skills("remove", "twice", "--yes").code == 0

    def test_warnings_are_told(self, desk: Desk) -> None:
        loose = desk.draft("loose", schemas={"output": "assets/loose.json"})
        (loose / "assets" / "loose.json").write_text('{"type": "object"}')
        assert "\n  OUTPUT_SCHEMA_TOO_LOOSE " in desk.skills("install", loose).stdout
        assert desk.skills("remove", "loose", "--yes").code == 0

    def test_broken_one_is_refused(self, desk: Desk) -> None:
        ended = desk.skills("install", desk.draft("bad", max_attempt=0))
        assert (ended.code, ended.stdout) == (2, "")
        assert "max_attempt must be a whole number" in ended.stderr
        assert "[SKILL_BROKEN]" in ended.stderr

    @pytest.mark.parametrize("what", ["nowhere", "empty"])
    def test_what_is_no_skill(self, desk: Desk, what: str) -> None:
        (desk.folder / "empty").mkdir(exist_ok=True)
        ended = desk.skills("install", desk.folder / what)
        assert ended.code in (1, 2)
        assert ended.stdout == ""
        assert ended.stderr.startswith("turnkeeper: ")

    def test_the_operators_own_stays(self, desk: Desk) -> None:
        ended = desk.skills("remove", "interview", "--yes")
        assert (ended.code, ended.stdout) == (1, "")
        assert "is in the operator's folder" in ended.stderr

    def test_remove_asks_somebody(self, desk: Desk) -> None:
        ended = desk.skills("remove", "interview")
        assert (ended.code, ended.stdout) == (2, "")
        assert ended.stderr == (
            "turnkeeper: nobody is there to ask; to remove interview all the same, say --yes\n"
        )

    def test_remove_one_that_there_is_not(self, desk: Desk) -> None:
        assert desk.skills("remove", "nobody", "--yes").code == 2
