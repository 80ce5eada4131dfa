"""The table of scenarios must notice what is missing, so it is run here on specifications of three lines."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IDS = """
landed = ["A-01", "A-02"]
[scenarios]
A-01 = "first"
A-02 = "second"
A-03 = "not done yet"
"""
HOLDS_ONE = """
import pytest
@pytest.mark.spec("A-01")
def test_first(): pass
"""
HOLDS_TWO = f"""{HOLDS_ONE}
@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.spec("A-02")), 2])
def test_second(n): pass
"""

Table = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    def run(tests: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "ids.toml").write_text(IDS)
        (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = spec(*ids): scenario ids\n")
        (tmp_path / "test_it.py").write_text(tests)
        return subprocess.run(
            [sys.executable, "-m", "tools.spec_table", "--ids", "ids.toml", "-p", "no:cacheprovider"],
            cwd=tmp_path,
            # Without plugins it is four times faster to start.
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def test_all_landed_ids_pass(table: Table) -> None:
    done = table(HOLDS_TWO)
    assert done.returncode == 0, done.stdout
    assert "A-01     passed   test_it.py::test_first" in done.stdout
    assert "A-02     passed   test_it.py::test_second[1]" in done.stdout
    assert "A-03     no test  not done yet" in done.stdout
    assert done.stdout.endswith("\n2 of 3\n")


def test_a_test_may_hold_several_ids(table: Table) -> None:
    done = table('import pytest\n@pytest.mark.spec("A-01", "A-02", "A-03")\ndef test_all(): pass\n')
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("\n3 of 3\n")


def test_a_landed_id_without_a_test(table: Table) -> None:
    done = table(HOLDS_ONE)
    assert done.returncode == 1
    assert "A-02 has landed, but does not pass: second" in done.stdout
    assert done.stdout.endswith("\n1 of 3\n")


@pytest.mark.parametrize(
    ("scenario", "body", "outcome"),
    [
        ("A-02", "assert False", "FAILED"),
        ("A-03", "assert False", "FAILED"),  # not landed, but a red test is never fine
        ("A-02", "pytest.skip('not today')", "skipped"),
        ("A-02", "pytest.xfail('known')", "skipped"),
    ],
)
def test_one_that_does_not_pass_spoils_its_id(table: Table, scenario: str, body: str, outcome: str) -> None:
    done = table(f"{HOLDS_TWO}\n@pytest.mark.spec({scenario!r})\ndef test_again(): {body}\n")
    assert done.returncode == 1
    assert f"{scenario}     {outcome:<8} test_it.py::test_again" in done.stdout


def test_an_unknown_id(table: Table) -> None:
    done = table(f"{HOLDS_TWO}\n@pytest.mark.spec('A-99')\ndef test_typo(): pass\n")
    assert done.returncode == 1
    assert "test_it.py::test_typo carries an unknown id: A-99" in done.stdout


def test_a_failed_teardown_is_a_failure(table: Table) -> None:
    fixture = "@pytest.fixture\ndef leak():\n    yield\n    raise RuntimeError('left open')\n"
    done = table(f"{HOLDS_TWO}\n{fixture}\n@pytest.mark.spec('A-01')\ndef test_leaks(leak): pass\n")
    assert done.returncode == 1
    assert "A-01     FAILED   test_it.py::test_leaks" in done.stdout


def test_a_file_that_does_not_import(table: Table) -> None:
    done = table("import nothing_of_that_name\n")
    assert done.returncode == 1
    assert "nothing_of_that_name" in done.stdout
