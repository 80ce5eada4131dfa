"""`turnkeeper skills lint` as a person or a script meets it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import PATIENCE, SKILLS
from tests.skills.folders import OBJECT, Json, skill_at

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
TEXT = "---\nname: {name}\ndescription: Does it.\n---\n"
OUTPUT = "assets/output.schema.json"


def lint(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "turnkeeper", "skills", "lint", *map(str, arguments)],
        env=kept | {"PYTHONWARNINGS": "error", "COLUMNS": "200"},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """One good skill, one with a warning, one with an error and a warning."""
    runner: Json = {"version": "1.0", "schemas": {"output": OUTPUT}}
    faults: dict[str, Json] = {"good": {}, "odd": {"engine": []}, "wrong": {"max_attempt": 0, "engine": []}}
    for name, more in faults.items():
        skill_at(tmp_path / "shelf" / name, TEXT.format(name=name), runner | more, {OUTPUT: OBJECT})
    return tmp_path / "shelf"


def test_folder_of_skills(shelf: Path) -> None:
    ended = lint(shelf)
    assert ended.stdout.splitlines() == [
        f"{shelf}/good: good",
        f"{shelf}/odd:",
        "  warning KEY_UNKNOWN assets/runner.json: unknown field 'engine'; did you mean 'engines'?",
        f"{shelf}/wrong:",
        "  error MAX_ATTEMPT_INVALID assets/runner.json: max_attempt must be a whole number from 1 to 1000000",
        "  warning KEY_UNKNOWN assets/runner.json: unknown field 'engine'; did you mean 'engines'?",
        "",
        "3 skills, 1 error, 2 warnings",
    ]
    assert (ended.returncode, ended.stderr) == (1, "")


def test_one_skill_by_its_folder(shelf: Path) -> None:
    ended = lint("good", cwd=shelf)
    assert (ended.stdout, ended.returncode) == ("good: good\n\n1 skill, 0 errors, 0 warnings\n", 0)


def test_folder_one_stands_in(shelf: Path) -> None:
    ended = lint(".", cwd=shelf / "good")
    assert (ended.stdout.splitlines()[0], ended.returncode) == (f"{(shelf / 'good').resolve()}: good", 0)


@pytest.mark.parametrize(("name", "plain", "strict"), [("good", 0, 0), ("odd", 0, 1), ("wrong", 1, 1)])
def test_exit_code_is_for_scripts(shelf: Path, name: str, plain: int, strict: int) -> None:
    assert lint(shelf / name).returncode == plain
    assert lint(shelf / name, "--strict").returncode == strict


def test_json_is_for_programs(shelf: Path) -> None:
    ended = lint(shelf / "wrong", shelf / "good", "--json")
    assert ended.returncode == 1
    assert json.loads(ended.stdout) == {
        "skills": [
            {
                "path": str(shelf / "wrong"),
                "findings": [
                    {
                        "severity": "error",
                        "code": "MAX_ATTEMPT_INVALID",
                        "where": "assets/runner.json",
                        "message": "max_attempt must be a whole number from 1 to 1000000",
                    },
                    {
                        "severity": "warning",
                        "code": "KEY_UNKNOWN",
                        "where": "assets/runner.json",
                        "message": "unknown field 'engine'; did you mean 'engines'?",
                    },
                ],
            },
            {"path": str(shelf / "good"), "findings": []},
        ],
        "errors": 1,
        "warnings": 1,
    }


def test_nothing_is_checked_twice(shelf: Path) -> None:
    ended = lint(shelf / "good", shelf / "odd" / ".." / "good", shelf / "good")
    assert ended.stdout.splitlines()[-1] == "1 skill, 0 errors, 0 warnings"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nowhere", "no such folder"),
        ("file", "no such folder"),
        ("empty", "there is no SKILL.md in it, nor in a folder in it"),
    ],
)
def test_nothing_to_check_is_a_usage_error(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    ended = lint(tmp_path / name)
    assert ended.stderr == f"turnkeeper: {tmp_path / name}: {problem}\n"
    assert (ended.returncode, ended.stdout) == (2, "")


def test_no_path_is_a_usage_error() -> None:
    ended = lint()
    assert ended.returncode == 2
    assert "Missing argument" in ended.stderr


def test_help_shows_an_example() -> None:
    ended = lint("--help")
    assert ended.returncode == 0
    assert "turnkeeper skills lint examples/skills" in re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout)
    for option in ("--json", "--strict"):
        assert option in re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout)


def test_words_of_strangers_do_not_reach_the_terminal(shelf: Path) -> None:
    runner = {"\x1b[2Jkey\r\n": 1, "schemas": {"output": "\x1b]0;title\x07"}}
    skill_at(shelf / "evil\x1b[1m", "---\nname: it\n---\n", runner)
    ended = lint(shelf / "evil\x1b[1m")
    assert ended.returncode == 1
    assert "\x1b" not in ended.stdout
    assert "\x07" not in ended.stdout


def test_our_own_skills_have_no_errors() -> None:
    ended = lint(EXAMPLES, SKILLS)
    assert ended.returncode == 0, ended.stdout


def test_web_stack_is_not_loaded(shelf: Path) -> None:
    """It takes most of the time that a start takes, and is of no use here."""
    code = (
        "import sys; from turnkeeper.cli import app\n"
        "try: app(['skills', 'lint', sys.argv[1]])\n"
        "except SystemExit as ended: assert ended.code == 0\n"
        "print(sorted({'fastapi', 'uvicorn', 'turnkeeper.wiring', 'turnkeeper.web'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(shelf / "good")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == "[]"
