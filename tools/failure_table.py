"""Shows which test holds which failure of the list, by running the tests that carry a failure id, on all cores.

Those of the page and of the real CLIs run only when asked for. The exit code is 1 when a failure that is not put off
has no test or one that does not pass, when any test with an id failed, and when a test carries an unknown id.
"""

import argparse
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import id_table
from tools.id_table import FAILED, PASSED, SKIPPED, Tests

IDS = Path(__file__).with_name("failure_ids.toml")
TESTS = Path("tests")
ON_REQUEST = ("live", "browser")
"""They fetch what they need, and take their time."""
SHOWN = 3


@dataclass(frozen=True)
class Failures:
    titles: dict[str, str]
    later: dict[str, str]
    """Put off, with the reason."""
    not_on_linux: dict[str, str]
    """The part of a row that cannot happen here, with the reason; the rest of the row is tested."""

    @classmethod
    def read(cls, path: Path = IDS) -> "Failures":
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        found = cls(data["failures"], data.get("later", {}), data.get("not_on_linux", {}))
        if strangers := (found.later.keys() | found.not_on_linux.keys()) - found.titles.keys():
            raise SystemExit(f"{path}: has a reason, but is no failure: {', '.join(sorted(strangers))}")
        return found

    @property
    def required(self) -> list[str]:
        return [each for each in self.titles if each not in self.later]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog="Other arguments go to pytest.")
    parser.add_argument("--ids", type=Path, default=IDS, help="the list of failures")
    parser.add_argument(
        "--all", action="store_true", help="every test of every failure, instead of the first few"
    )
    for name in ON_REQUEST:
        parser.add_argument(f"--{name}", action="store_true", help=f"run those of tests/{name} as well")
    options, pytest_args = parser.parse_known_args()

    failures, tests = Failures.read(options.ids), Tests("failure")
    exit_code = id_table.run(
        tests, ["-q", *pytest_args, *_paths([n for n in ON_REQUEST if vars(options)[n]])]
    )

    print()
    for each, title in failures.titles.items():
        held_by = tests.of(each)
        if held_by and not options.all:
            id_table.show(_folded(each, held_by))
        else:
            id_table.show(id_table.rows(each, failures.later.get(each) or title, held_by))
    _print_reasons("Put off", failures.later)
    _print_reasons("Cannot happen on Linux", failures.not_on_linux)
    return _conclude(failures, tests, exit_code)


def _paths(asked: list[str]) -> list[str]:
    """Every folder and module of tests by itself: a folder that pyproject.toml leaves out is run when it is named."""
    left_out = {*ON_REQUEST} - {*asked}
    found = [path for path in TESTS.iterdir() if path.is_dir() or path.match("test_*.py")]
    return sorted(str(path) for path in found if path.name not in left_out and path.name[0] not in "._")


def _folded(each: str, held_by: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """A line for each function, those with trouble first and all of them, of the others the first few."""
    lines = [_line(each, name, outcomes) for name, outcomes in id_table.by_function(held_by).items()]
    most = max(SHOWN, sum(outcome != PASSED for _, outcome, _ in lines))
    yield from lines[:most]
    if len(lines) > most:
        yield each, PASSED, f"and {len(lines) - most} more"


def _line(each: str, name: str, outcomes: list[str]) -> tuple[str, str, str]:
    worst = next((outcome for outcome in (FAILED, SKIPPED) if outcome in outcomes), PASSED)
    return each, worst, name if len(outcomes) == 1 else f"{name} ({len(outcomes)} cases)"


def _print_reasons(heading: str, reasons: dict[str, str]) -> None:
    if reasons:
        print(f"\n{heading}:")
    for each, reason in reasons.items():
        print(f"{each:<8} {reason}")


def _conclude(failures: Failures, tests: Tests, exit_code: int) -> int:
    # A test that this machine cannot run is skipped, and says why; another one has to hold the id then.
    held = [each for each in failures.required if PASSED in tests.of(each).values()]
    missing = [each for each in failures.required if each not in held]
    troubles = [f"{each} has no test that passes: {failures.titles[each]}" for each in missing]
    troubles += tests.troubles(failures.titles, exit_code)
    print()
    for trouble in troubles:
        print(trouble)
    print(
        f"{len(held)} of {len(failures.required)} hold, by {len(tests.ids)} tests; {len(failures.later)} put off"
    )
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
