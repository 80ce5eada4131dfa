"""The verdict of a turn, cell by cell.

`verdicts.txt` is the table of verdicts as it was reviewed by hand. When a rule changes, write it again with
`PYTHONPATH=src python -m tests.core.test_gate` and read the diff: every line that moved is a promise that moved.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.gate import (
    Cancel,
    Evidence,
    ExitKind,
    Fail,
    Output,
    Succeed,
    Terminal,
    Verdict,
    Wait,
    judge,
)
from turnkeeper.core.run import Failure, Mode

GOLDEN = Path(__file__).with_name("verdicts.txt")
AGAIN = (
    "the verdicts moved; if they should: PYTHONPATH=src python -m tests.core.test_gate, then read the diff"
)

TIMEOUT = Failure(Code.TURN_TIMEOUT, "the turn took longer than 3600 s")
QUOTA = Failure(Code.ENGINE_QUOTA_EXHAUSTED, "usage limit reached")

NOTHING_YET = Evidence(
    mode=Mode.INTERACTIVE, terminal=Terminal.SUCCESS, exit=ExitKind.OK, marker=False, output=Output.NONE
)
"""A turn that ended well and proves nothing."""


def cells() -> list[Evidence]:
    """Every cell once. A process that we ended, and not after its result, ran into a limit of ours."""
    return [
        Evidence(
            mode=mode,
            terminal=terminal,
            exit=exit_kind,
            marker=marker,
            output=output,
            timeout=TIMEOUT if exit_kind is ExitKind.ENDED_BY_US else None,
        )
        for mode, terminal, exit_kind, marker, output in product(
            Mode, Terminal, ExitKind, (True, False), Output
        )
    ]


def told(verdict: Verdict) -> str:
    match verdict:
        case Succeed(reason, warning):
            return f"succeeded {reason}" + (f" + {warning}" if warning else "")
        case Fail(failure):
            return f"failed {failure.code}"
        case Wait():
            return "waiting_user"
        case Cancel():
            return "canceled"


def render() -> str:
    rows = [("mode", "closing event", "process", "marker", "output", "verdict")]
    for cell in cells():
        marker = "yes" if cell.marker else "no"
        rows.append((cell.mode, cell.terminal, cell.exit, marker, cell.output, told(judge(cell))))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    text, above = "", rows[0]
    for row in rows:
        text += "" if row[:2] == above[:2] else "\n"
        text += "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() + "\n"
        above = row
    return text


@pytest.mark.failure("VERDICTS")
def test_every_cell_is_as_reviewed() -> None:
    assert len(cells()) == 216
    assert render() == GOLDEN.read_text(), AGAIN


def test_auto_never_waits() -> None:
    assert not [cell for cell in cells() if cell.mode is Mode.AUTO and judge(cell) == Wait()]


def test_cancel_before_timeout_before_typed_failure_before_table() -> None:
    for cell in cells():
        named = replace(cell, timeout=None, typed_failure=QUOTA)
        assert judge(named) == Fail(QUOTA)
        assert judge(replace(named, timeout=TIMEOUT)) == Fail(TIMEOUT)
        assert judge(replace(named, timeout=TIMEOUT, canceled=True)) == Cancel()


@pytest.mark.failure("C17")
def test_timeout_beats_a_complete_result() -> None:
    complete = replace(NOTHING_YET, marker=True, output=Output.VALID)
    assert judge(complete) == Succeed("DONE_MARKER")
    assert judge(replace(complete, exit=ExitKind.ENDED_BY_US, timeout=TIMEOUT)) == Fail(TIMEOUT)


@pytest.mark.failure("C13")
@pytest.mark.parametrize("output", [Output.INVALID, Output.NONE])
@pytest.mark.parametrize(
    ("attempt_number", "max_attempt", "verdict"),
    [
        (1, None, "waiting_user"),
        (1000, None, "waiting_user"),
        (1, 2, "waiting_user"),
        (2, 2, "failed INTERACTIVE_MAX_ATTEMPT_EXCEEDED"),
        (3, 2, "failed INTERACTIVE_MAX_ATTEMPT_EXCEEDED"),
        (1, 1, "failed INTERACTIVE_MAX_ATTEMPT_EXCEEDED"),
    ],
)
def test_only_a_declared_limit_ends_the_asking(
    output: Output, attempt_number: int, max_attempt: int | None, verdict: str
) -> None:
    seen = replace(NOTHING_YET, output=output, attempt_number=attempt_number, max_attempt=max_attempt)
    assert told(judge(seen)) == verdict


@pytest.mark.failure("C12")
def test_last_allowed_attempt_is_judged_like_any_other() -> None:
    for cell in cells():
        if judge(cell) != Wait():
            assert judge(replace(cell, attempt_number=2, max_attempt=2)) == judge(cell)


@pytest.mark.failure("C08")
@pytest.mark.parametrize("output", [Output.INVALID, Output.NONE])
def test_marker_without_valid_output_never_waits(output: Output) -> None:
    assert told(judge(replace(NOTHING_YET, marker=True, output=output))) == "failed OUTPUT_INVALID"


@pytest.mark.failure("C09")
def test_valid_output_without_marker_completes_with_a_warning() -> None:
    verdict = judge(replace(NOTHING_YET, output=Output.VALID))
    assert verdict == Succeed("OUTPUT_VALID", Warn.INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER)


@pytest.mark.failure("M03")
def test_engines_own_words_reach_the_user() -> None:
    said = "model not found: gpt-9"
    for cell in cells():
        verdict = judge(replace(cell, timeout=None, said=said))
        if told(verdict).startswith("failed ENGINE"):
            assert isinstance(verdict, Fail)
            assert verdict.failure.message.endswith(said)


@pytest.mark.failure("M05")
def test_exit_0_alone_is_no_success() -> None:
    verdict = judge(replace(NOTHING_YET, mode=Mode.AUTO, terminal=Terminal.NONE, output=Output.VALID))
    assert told(verdict) == "failed ENGINE_FAILED"


if __name__ == "__main__":
    GOLDEN.write_text(render())
