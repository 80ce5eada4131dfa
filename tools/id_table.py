"""What the tables of ids share: runs the tests that carry a mark, here or in workers, and tells how each id fares."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest

PASSED, FAILED, SKIPPED, NO_TEST = "passed", "FAILED", "skipped", "no test"
FINE = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)

_CASE = re.compile(r"\[.*\]$", re.DOTALL)


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Tests:
    """Notes the ids of each selected test and how it went."""

    mark: str
    ids: dict[str, list[str]] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self._note(item.nodeid, item.user_properties)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        """What a worker has found, by name alone: one that takes its worker down never says which ids it carries."""
        for test in ids:
            self.ids.setdefault(test, [])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report.nodeid, report.user_properties)
        # Three reports for each test. A failed teardown outweighs a passed call; a skip is no pass.
        if report.failed:
            self.outcomes[report.nodeid] = FAILED
        elif report.skipped:
            self.outcomes.setdefault(report.nodeid, SKIPPED)
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, PASSED)

    def _note(self, test: str, properties: Iterable[tuple[str, object]]) -> None:
        for mark, ids in properties:
            if mark == self.mark and isinstance(ids, list):
                self.ids[test] = ids

    def of(self, wanted: str) -> dict[str, str]:
        """The tests that carry this id, and their outcomes. One that never ran to its end has not passed."""
        return {test: self.outcomes.get(test, FAILED) for test, ids in self.ids.items() if wanted in ids}

    def troubles(self, known: Iterable[str], exit_code: int) -> list[str]:
        """What is wrong whatever the list of ids demands: strangers, failures, a run that broke off."""
        found = []
        for test, ids in sorted(self.ids.items()):
            found += [f"{test} carries an unknown id: {each}" for each in ids if each not in known]
            if self.outcomes.get(test, FAILED) == FAILED:
                found.append(f"{test} failed")
        if not found and exit_code not in FINE:
            found.append("pytest did not come to its end")
        return found


def run(tests: Tests, args: Iterable[str]) -> int:
    """Runs all tests with the mark in one go."""
    return int(pytest.main(["-p", "tools.carried_ids", "-m", tests.mark, *args], plugins=[tests]))


def is_held(held_by: dict[str, str]) -> bool:
    return bool(held_by) and all(outcome == PASSED for outcome in held_by.values())


def rows(each: str, title: str, held_by: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """An id, how a test of it went, and which test that is."""
    if not held_by:
        yield each, NO_TEST, title
    for test, outcome in sorted(held_by.items()):
        yield each, outcome, test


def by_function(held_by: dict[str, str]) -> dict[str, list[str]]:
    """The outcomes of all cases of a parametrized test together; those with trouble first."""
    found: dict[str, list[str]] = {}
    for test, outcome in sorted(held_by.items(), key=lambda pair: (pair[1] == PASSED, pair[0])):
        found.setdefault(_CASE.sub("", test), []).append(outcome)
    return found


def show(lines: Iterable[tuple[str, str, str]]) -> None:
    for each, outcome, what in lines:
        print(f"{each:<8} {outcome:<8} {what}")
