"""Shows which test holds which scenario of the specification, by running the tests that carry a scenario id.

A scenario passes when at least one test carries its id and all that carry it passed. The exit code is 1 when
a landed scenario does not pass, when any test with an id failed, and when a test carries an unknown id.
"""

import argparse
import contextlib
import io
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

IDS = Path(__file__).with_name("spec_ids.toml")
PASSED, FAILED, SKIPPED, NO_TEST = "passed", "FAILED", "skipped", "no test"


@dataclass(frozen=True)
class Spec:
    titles: dict[str, str]
    landed: frozenset[str]

    @classmethod
    def read(cls, path: Path) -> "Spec":
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        spec = cls(titles=data["scenarios"], landed=frozenset(data["landed"]))
        if strangers := spec.landed - spec.titles.keys():
            raise SystemExit(f"{path}: landed, but not a scenario: {', '.join(sorted(strangers))}")
        return spec


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Tests:
    """The plugin: notes the ids of each selected test and how it went."""

    ids: dict[str, list[str]] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self.ids[item.nodeid] = [str(i) for mark in item.iter_markers("spec") for i in mark.args]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Three reports for each test. A failed teardown outweighs a passed call; a skip is no pass.
        if report.failed:
            self.outcomes[report.nodeid] = FAILED
        elif report.skipped:
            self.outcomes.setdefault(report.nodeid, SKIPPED)
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, PASSED)

    def of(self, scenario: str) -> dict[str, str]:
        """The tests that carry this id, and their outcomes. One that never ran to its end has not passed."""
        return {test: self.outcomes.get(test, FAILED) for test, ids in self.ids.items() if scenario in ids}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog="Other arguments go to pytest.")
    parser.add_argument("--ids", type=Path, default=IDS, help="the list of scenarios")
    options, pytest_args = parser.parse_known_args()

    spec, tests = Spec.read(options.ids), Tests()
    exit_code, said = run_pytest(tests, pytest_args)

    passing = print_table(spec, tests)
    troubles = find_troubles(spec, tests, passing, exit_code)
    if exit_code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        print(f"\n{said.rstrip()}")
    for trouble in troubles:
        print(trouble)
    print(f"\n{len(passing)} of {len(spec.titles)}")
    return 1 if troubles else 0


def run_pytest(tests: Tests, args: list[str]) -> tuple[int, str]:
    """Runs all tests with an id in one go; what pytest says is kept in case something goes wrong."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exit_code = pytest.main(["-q", "--no-header", "-m", "spec", *args], plugins=[tests])
    return int(exit_code), said.getvalue()


def print_table(spec: Spec, tests: Tests) -> set[str]:
    rows: list[tuple[str, str, str]] = []
    passing = set()
    for scenario, title in spec.titles.items():
        held_by = tests.of(scenario)
        if held_by and all(outcome == PASSED for outcome in held_by.values()):
            passing.add(scenario)
        if not held_by:
            rows.append((scenario, NO_TEST, title))
        rows += [(scenario, outcome, test) for test, outcome in sorted(held_by.items())]
    for scenario, outcome, what in rows:
        print(f"{scenario:<8} {outcome:<8} {what}")
    return passing


def find_troubles(spec: Spec, tests: Tests, passing: set[str], exit_code: int) -> list[str]:
    troubles = [
        f"{scenario} has landed, but does not pass: {spec.titles[scenario]}"
        for scenario in spec.titles
        if scenario in spec.landed - passing
    ]
    for test, ids in sorted(tests.ids.items()):
        troubles += [f"{test} carries an unknown id: {i}" for i in ids if i not in spec.titles]
        if tests.outcomes.get(test, FAILED) == FAILED:
            troubles.append(f"{test} failed")
    if not troubles and exit_code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        troubles.append("pytest did not come to its end")
    return troubles


if __name__ == "__main__":
    sys.exit(main())
