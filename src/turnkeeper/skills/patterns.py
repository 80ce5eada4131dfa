"""What a regular expression of a schema may cost: an upper bound of the time for a text, known before it is used.

Plain ones take time in proportion to the text, and to their size when compiled. Those that look around or back are
tried again and again, from places and in loops that are counted here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from jsonschema_rs import Draft202012Validator, FancyRegexOptions, RegexOptions

LONGEST = 500
"""The longest pattern that may look around or back."""

_BACKTRACKS = 500
_DEEPEST = 50
_STEP = 25
"""Nanoseconds for one step of the engine that can look around."""
_ONE_CLASS = 150
"""Nanoseconds for a character where there is only one class to try, however often it may repeat."""
_KB = 1024
_DFA = 256 * _KB


@dataclass(frozen=True, slots=True)
class _Grade:
    """What a pattern costs if it compiles to so few bytes; measured with the worst that we could think of."""

    size: int
    nanoseconds: int
    memory: int


_GRADES = (
    _Grade(_KB, 20, 1),
    _Grade(2 * _KB, 100, 1),
    _Grade(8 * _KB, 2500, 1),
    _Grade(64 * _KB, 15_000, 1),
    _Grade(256 * _KB, 100_000, 3),
    _Grade(_KB * _KB, 300_000, 5),
    _Grade(4 * _KB * _KB, 3_500_000, 10),
    _Grade(16 * _KB * _KB, 5_000_000, 30),
)
OPTIONS = FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=_GRADES[-1].size, dfa_size_limit=_DFA)
"""For the validator itself."""


@dataclass(frozen=True, slots=True)
class Cost:
    """In nanoseconds, for a text of so many characters: at least, for each, and for each pair of them."""

    memory: int
    fixed: int = 0
    each: int = 0
    pairs: int = 0

    def of(self, length: int) -> int:
        """The most that a text of this length can take."""
        return self.fixed + (self.each + self.pairs * length) * length


@dataclass(frozen=True, slots=True)
class _Look:
    """A look-around or back-reference: how often it is tried at one place, and how far it sees."""

    times: int = 1
    in_loop: bool = False
    is_short: bool = False


def cost(pattern: str) -> Cost:
    """A ValueError says why it cannot be told, or is too much."""
    grade = _grade(pattern, _plain)
    if grade:
        return Cost(grade.memory, each=_nanoseconds(grade, pattern))
    grade = _grade(pattern, _fancy)
    if grade is None:
        raise ValueError(_why_not(pattern))
    if len(pattern) > LONGEST:
        raise ValueError(f"looks around or back, and is longer than {LONGEST} characters")
    try:
        scan = _Scan(pattern)
    except _Unknown as error:
        raise ValueError(f"looks around or back, and has {error}") from None
    return _leading(pattern, scan, grade) or _looking(pattern, scan, grade)


def _leading(pattern: str, scan: _Scan, whole: _Grade) -> Cost | None:
    """`^(?!…)(?=…)…`: each part is tried once, at the start, and is plain in itself."""
    each = 0
    parts = _after_start(pattern, scan)
    for part in parts:
        # Letters and digits are those of all languages as soon as there is a look-around.
        grade = _grade(f"(?=){part}", _fancy)
        if grade is None or not _grade(part, _plain):
            return None
        each += _nanoseconds(grade, part)
    return Cost(2 * whole.memory, _BACKTRACKS * _STEP, each) if parts else None


def _after_start(pattern: str, scan: _Scan) -> list[str]:
    if not pattern.startswith("^") or scan.has_alternatives:
        return []
    parts, end = [], 1
    for start, stop in scan.ahead:
        if start == end:
            parts.append(f"^(?:{pattern[start + 3 : stop - 1]})")
            end = stop
    is_repeated = _QUANTIFIER.match(pattern, end)
    return [] if is_repeated else [*parts, "^" + pattern[end:]]


def _looking(pattern: str, scan: _Scan, grade: _Grade) -> Cost:
    total = Cost(2 * grade.memory, scan.steps * _BACKTRACKS * _STEP, scan.steps * _STEP)
    # What follows the last look-around is tried at once, as a look-around is.
    for look in [*scan.looks, _Look()]:
        total = _plus(total, look, grade.nanoseconds, len(pattern))
    return total


def _plus(total: Cost, look: _Look, nanoseconds: int, reach: int) -> Cost:
    """The backtracks are the most that it is tried, apart from loops that go on without any."""
    tried, again = look.times * _BACKTRACKS, look.times if look.in_loop else 0
    if look.is_short:
        near = nanoseconds * reach
        return replace(total, fixed=total.fixed + tried * near, each=total.each + again * near)
    return replace(total, each=total.each + tried * nanoseconds, pairs=total.pairs + again * nanoseconds)


def _plain(size: int) -> RegexOptions:
    return RegexOptions(size_limit=size, dfa_size_limit=_DFA)


def _fancy(size: int) -> FancyRegexOptions:
    return FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=size, dfa_size_limit=_DFA)


def _grade(pattern: str, engine: Callable[[int], RegexOptions | FancyRegexOptions]) -> _Grade | None:
    return next((grade for grade in _GRADES if _compiles(pattern, engine(grade.size))), None)


def _compiles(pattern: str, options: RegexOptions | FancyRegexOptions) -> bool:
    try:
        Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True


def _nanoseconds(grade: _Grade, pattern: str) -> int:
    if _REPEATED_CLASS.fullmatch(pattern):
        return min(_ONE_CLASS, grade.nanoseconds)
    return grade.nanoseconds


def _why_not(pattern: str) -> str:
    smaller = _COUNTED.sub(_once, pattern)
    if smaller != pattern and _compiles(smaller, OPTIONS):
        return "grows too large when compiled: use maxLength instead of a large {…}"
    return "is not a regular expression that we know"


def _once(counted: re.Match[str]) -> str:
    least, most = int(counted[1]), int(counted[3] or counted[1])
    return "{1}" if least <= most else counted[0]


_COUNTED = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")
_REPEATED_CLASS = re.compile(
    r"\^(?:\.|\\[wdsWDS]|\\p\{\w+\}|\[\^?(?:[^\[\]\\]|\\.)+\])(?:[*+]|\{\d+(?:,\d*)?\})\$"
)


class _Unknown(Exception):
    """Something whose cost we cannot count."""


_GROUP = re.compile(r"\((?:\?(?:(?P<look><?[=!])|(?P<back>P=\w+\))|P?<\w+>|[imsu]*(?:-[imsu]+)?[:)]))?")
_CLASS = re.compile(r"\[\^?(?:[^\[\]\\]|\\.)+\]", re.DOTALL)
_BACK = re.compile(r"\\(?:(?P<number>[1-9]\d*)|k(?:<[^>]*>|\{[^}]*\}|'[^']*')?)")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[\d, ]+\})(?P<mode>[?+]?)")


class _Scan:
    """Reads a pattern that compiles, as far as it takes to count."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._captured = 0
        self._open: set[int] = set()
        self.has_alternatives = False
        self.ahead: list[tuple[int, int]] = []
        """Where the look-aheads are that stand in no group."""
        self.steps, self.looks = self._sequence()

    def _sequence(self) -> tuple[int, list[_Look]]:
        """Until its group ends."""
        steps, looks = 1, list[_Look]()
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            if self._pattern[self._at] == "|" and self._depth == 0:
                self.has_alternatives = True
            more, inner = self._atom()
            times, is_loop = self._quantifiers()
            steps += more * times
            looks += [replace(one, times=one.times * times, in_loop=one.in_loop or is_loop) for one in inner]
        return steps, looks

    def _atom(self) -> tuple[int, list[_Look]]:
        letter = self._pattern[self._at]
        if letter == "(":
            return self._group()
        if letter == "[":
            self._take(_CLASS, "a class inside a class: write \\[ and \\]")
            return 1, []
        back = _BACK.match(self._pattern, self._at)
        if back:
            # The engine would stumble over such a one, and say so on our standard error.
            if int(back["number"] or 0) in self._open:
                raise _Unknown("a back-reference inside its own group")
            self._at = back.end()
            return 1, [_Look()]
        if self._pattern.startswith("\\g", self._at):
            raise _Unknown("a call of a group")
        self._at += 2 if letter == "\\" else 1
        return 1, []

    def _group(self) -> tuple[int, list[_Look]]:
        start = self._at
        opening = self._take(_GROUP, "an atomic or conditional group, a comment, or the flag x")
        if opening["back"]:
            return 1, [_Look()]
        if opening[0].endswith(")"):
            return 1, []
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unknown(f"more than {_DEEPEST} groups inside each other")
        with self._capture(opening[0]):
            steps, looks = self._sequence()
        self._depth -= 1
        self._at += 1
        if not opening["look"]:
            return steps, looks
        if looks:
            raise _Unknown("a look-around or back-reference inside a look-around")
        inside = self._pattern[start : self._at]
        if self._depth == 0 and inside[2] in "=!":
            self.ahead.append((start, self._at))
        return steps, [_Look(is_short=not set("*+{") & set(inside))]

    @contextmanager
    def _capture(self, opening: str) -> Iterator[None]:
        if opening == "(" or opening.endswith(">"):
            self._captured += 1
            number = self._captured
            self._open.add(number)
            yield
            self._open.discard(number)
        else:
            yield

    def _quantifiers(self) -> tuple[int, bool]:
        times, is_loop = 1, False
        for found in self._each_quantifier():
            numbers = [int(number) for number in re.findall(r"\d+", found[0])]
            times *= max([1, *numbers])
            is_loop = is_loop or found[0][0] in "*+" or bool(re.search(r",\s*\}", found[0]))
        return times, is_loop

    def _each_quantifier(self) -> Iterator[re.Match[str]]:
        while found := _QUANTIFIER.match(self._pattern, self._at):
            if found["mode"] == "+":
                raise _Unknown("a possessive quantifier")
            self._at = found.end()
            yield found

    def _take(self, wanted: re.Pattern[str], otherwise: str) -> re.Match[str]:
        found = wanted.match(self._pattern, self._at)
        # `(` alone also opens what we do not know: `(?>`, `(?(`.
        if found is None or (found[0] == "(" and self._pattern.startswith("?", found.end())):
            raise _Unknown(otherwise)
        self._at = found.end()
        return found
