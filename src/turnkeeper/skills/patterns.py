"""Regular expressions of a schema: of the kind that reads a text once, with a price for each character.

Looking around or back is refused: it means reading again, and nobody can tell beforehand how often.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jsonschema_rs import FancyRegexOptions, RegexOptions

_KB = 1024
_DFA = 256 * _KB
_ONE_CLASS = 150
"""Nanoseconds for a character where there is only one class to try, however often it may repeat."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a pattern costs if it compiles to so few bytes; measured with the worst that we could think of."""

    size: int
    nanoseconds: int
    """For each character of a text."""
    memory: int

    def of(self, length: int) -> int:
        """The most that a text of this length can take."""
        return self.nanoseconds * length


_GRADES = (
    Cost(_KB, 20, 1),
    Cost(2 * _KB, 100, 1),
    Cost(8 * _KB, 2500, 1),
    Cost(64 * _KB, 15_000, 1),
    Cost(256 * _KB, 100_000, 3),
    Cost(_KB * _KB, 300_000, 5),
    Cost(4 * _KB * _KB, 3_500_000, 10),
    Cost(16 * _KB * _KB, 5_000_000, 30),
)

_COUNTED = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")
_CLASS = r"(?:\.|\\[wdsWDS]|\\p\{\w+\}|\[\^?(?:[^\[\]\\]|\\.)+\])"
_ONE = re.compile(rf"\^?{_CLASS}[*+]?\$?|\^{_CLASS}\{{\d+(?:,\d*)?\}}\$")
"""One class and nothing else; counted only from the start, where there is one way to count."""


def options(size: int = _GRADES[-1].size) -> RegexOptions:
    """Without a size, those for the validator itself."""
    from jsonschema_rs import RegexOptions

    return RegexOptions(size_limit=size, dfa_size_limit=_DFA)


def cost(pattern: str) -> Cost:
    """A ValueError says why it cannot be used."""
    grade = next((each for each in _GRADES if _compiles(pattern, options(each.size))), None)
    if grade is None:
        raise ValueError(_why_not(pattern))
    if _ONE.fullmatch(pattern):
        return Cost(grade.size, min(_ONE_CLASS, grade.nanoseconds), grade.memory)
    return grade


def _compiles(pattern: str, bounds: RegexOptions | FancyRegexOptions) -> bool:
    from jsonschema_rs import Draft202012Validator

    try:
        Draft202012Validator({"pattern": pattern}, pattern_options=bounds)
    except ValueError:
        return False
    return True


def _why_not(pattern: str) -> str:
    from jsonschema_rs import FancyRegexOptions

    smaller = _COUNTED.sub(_once, pattern)
    if smaller != pattern and _compiles(smaller, options()):
        return "grows too large when compiled: use maxLength instead of a large {…}"
    if _compiles(smaller, FancyRegexOptions(size_limit=_GRADES[-1].size, dfa_size_limit=_DFA)):
        return r"looks around or back, which could take for ever: say it without, as \S for 'not blank'"
    return "is not a regular expression that we know"


def _once(counted: re.Match[str]) -> str:
    least, most = int(counted[1]), int(counted[3] or counted[1])
    return "{1}" if least <= most else counted[0]
