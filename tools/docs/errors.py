"""Every code: the status it comes with, what it means, what to do about it."""

from collections.abc import Iterable

from tools.docs.tables import table
from turnkeeper.core.errors import MEANING, Code, Warn
from turnkeeper.core.fixes import FIX
from turnkeeper.skills import findings
from turnkeeper.web.problems import status_of

# The enum lists the codes in three groups; these open the second and the third.
FIRST_OF_START, FIRST_OF_RUNS = Code.SETTINGS_INVALID, Code.OUTPUT_INVALID


def request_codes() -> str:
    """Those of the first group, and the few others that have a status of their own."""
    codes = list(Code)
    first = codes[: codes.index(FIRST_OF_START)]
    both = [code for code in codes if code not in first and status_of(code) != 400]
    return table(
        ("code", "HTTP", "meaning", "what to do"),
        ((f"`{code}`", str(status_of(code)), MEANING[code], FIX[code]) for code in [*first, *both]),
    )


def start_codes() -> str:
    codes = list(Code)
    return _meanings(codes[codes.index(FIRST_OF_START) : codes.index(FIRST_OF_RUNS)])


def run_codes() -> str:
    codes = list(Code)
    return _meanings(codes[codes.index(FIRST_OF_RUNS) :])


def warnings() -> str:
    return _meanings(Warn)


def lint_codes() -> str:
    return table(
        ("code", "severity", "meaning", "what to do"),
        (
            (f"`{code}`", "warning" if code in findings.WARNS else "error", meaning, findings.FIX[code])
            for code, meaning in findings.LINT.items()
        ),
    )


def _meanings(codes: Iterable[Code | Warn]) -> str:
    return table(
        ("code", "meaning", "what to do"), ((f"`{code}`", MEANING[code], FIX[code]) for code in codes)
    )
