"""The table of failures must notice what is missing, so it is run here on a list of four lines, in workers.

And what it will say of our own list is checked ahead, from the sources alone: that every failure has a test.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tools.failure_table import Failures

ROOT = Path(__file__).parents[2]
IDS = """
[failures]
F01 = "first"
F02 = "second"
F03 = "third"
F04 = "not yet"
[later]
F04 = "waits for something"
[not_on_linux]
F02 = "drive letters"
"""
HOLDS_TWO = """
import pytest
@pytest.mark.failure("F01", "F02")
def test_both(): pass
"""
HOLDS_ALL = """
import pytest
@pytest.mark.failure("F03")
@pytest.mark.parametrize("n", range(5))
def test_third(n): pass
"""

SETTINGS = """
[pytest]
markers = failure(*ids): ids
addopts = --ignore=tests/late --import-mode=importlib
filterwarnings = error
"""
IN_WORKERS = ("-p", "xdist", "-n2", "--max-worker-restart=0")

Table = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two folders of tests; one of them runs only when it is named, as ours do."""

    def run(late: str, *args: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "ids.toml").write_text(IDS)
        (tmp_path / "pytest.ini").write_text(SETTINGS)
        for folder, tests in (
            ("early", HOLDS_TWO),
            ("late", late),
            ("live", "import nothing_of_that_name\n"),
        ):
            (tmp_path / "tests" / folder).mkdir(parents=True)
            (tmp_path / "tests" / folder / "test_it.py").write_text(tests)
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "tools.failure_table",
                "--ids",
                "ids.toml",
                "-p",
                "no:cacheprovider",
                *args,
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


@pytest.mark.parametrize("where", [(), IN_WORKERS], ids=["here", "in workers"])
def test_all_hold(table: Table, where: tuple[str, ...]) -> None:
    done = table(HOLDS_ALL, *where)
    assert done.returncode == 0, done.stdout
    assert "\nF01      passed   tests/early/test_it.py::test_both\n" in done.stdout
    assert "\nF03      passed   tests/late/test_it.py::test_third (5 cases)\n" in done.stdout
    assert "\nF04      no test  waits for something\n" in done.stdout
    assert "\nPut off:\nF04      waits for something\n" in done.stdout
    assert "\nCannot happen on Linux:\nF02      drive letters\n" in done.stdout
    assert done.stdout.endswith("\n3 of 3 hold, by 6 tests; 1 put off\n")


def test_a_long_list_is_folded_and_what_failed_comes_first(table: Table) -> None:
    many = "".join(f"@pytest.mark.failure('F03')\ndef test_{n}(): assert {n} != 8\n" for n in range(9))
    done = table(f"import pytest\n{many}")
    shown = [line for line in done.stdout.splitlines() if line.startswith("F03 ")]
    assert done.returncode == 1
    assert [line.split()[1] for line in shown] == ["FAILED", "passed", "passed", "passed"]
    assert shown[-1].endswith("and 6 more")
    assert "tests/late/test_it.py::test_8 failed" in done.stdout


def test_all_of_them_are_shown_when_asked_for(table: Table) -> None:
    done = table(HOLDS_ALL, "--all")
    assert done.returncode == 0, done.stdout
    assert "\nF03      passed   tests/late/test_it.py::test_third[4]\n" in done.stdout


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("@pytest.mark.failure('F01')\ndef test_more(): pass", "F03 has no test that passes: third"),
        (
            "@pytest.mark.failure('F03')\ndef test_it(): pytest.skip('not here')",
            "F03 has no test that passes: third",
        ),
        (
            "@pytest.mark.failure('F03')\ndef test_it(): pytest.xfail('known')",
            "F03 has no test that passes: third",
        ),
        ("@pytest.mark.failure('F03', 'F99')\ndef test_it(): pass", "test_it carries an unknown id: F99"),
        ("import nothing_of_that_name", "nothing_of_that_name"),
    ],
    ids=["no test", "skipped", "known to fail", "unknown id", "does not import"],
)
def test_what_does_not_hold_is_told(table: Table, body: str, said: str) -> None:
    done = table(f"import pytest\n{body}\n")
    assert done.returncode == 1
    assert said in done.stdout


def test_one_that_takes_its_worker_down_has_failed(table: Table) -> None:
    done = table(
        f"{HOLDS_ALL}\n@pytest.mark.failure('F01')\ndef test_it(): __import__('os')._exit(3)\n", *IN_WORKERS
    )
    assert done.returncode == 1
    assert "tests/late/test_it.py::test_it failed" in done.stdout


def test_a_skip_beside_a_pass_is_fine(table: Table) -> None:
    skipped = "@pytest.mark.failure('F03')\ndef test_elsewhere(): pytest.skip('not on this machine')\n"
    done = table(HOLDS_ALL + skipped)
    assert done.returncode == 0, done.stdout
    assert "F03      skipped  tests/late/test_it.py::test_elsewhere" in done.stdout


def test_folders_on_request(table: Table) -> None:
    done = table(HOLDS_ALL, "--live")
    assert done.returncode == 1
    assert "nothing_of_that_name" in done.stdout


# Our own list


@cache
def carried() -> tuple[tuple[Path, str | None], ...]:
    """The ids that stand in a mark, and None where one is computed."""
    sources = [(path, path.read_bytes()) for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    calls = [
        (path, node)
        for path, source in sources
        if b"mark.failure" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and _is_mark(node.func)
    ]
    return tuple((path, _text(given)) for path, node in calls for given in node.args)


def _is_mark(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(ast.Attribute(ast.Name("pytest"), "mark"), "failure"):
            return True
    return False


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def named(path: Path) -> set[str | None]:
    """Every text of a module and its neighbours: ids that come from a table there are among them."""
    modules = [ast.parse(each.read_bytes()) for each in path.parent.glob("*.py")]
    return {_text(node) for module in modules for node in ast.walk(module)}


def test_no_test_carries_an_unknown_id() -> None:
    known = Failures.read().titles
    assert not [(str(path), each) for path, each in carried() if each is not None and each not in known]


def test_every_failure_has_a_test() -> None:
    """Whether they pass is for `make failures` to say, which runs them."""
    held = {each for _, each in carried()}
    for path in {path for path, each in carried() if each is None}:
        held |= named(path)
    missing = [each for each in Failures.read().required if each not in held]
    assert not missing, f"no test carries {', '.join(missing)}"
