"""How much work a schema may make.

The validator cannot be stopped once it runs, holds up everything else meanwhile, and overflows its stack on what
nests too deeply. So its work is counted beforehand, and what is too much is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema_rs import Draft202012Validator, FancyRegexOptions, RegexOptions

from turnkeeper.skills.subschemas import Graph, Node, order

DEEPEST = 200
"""Levels of a schema or of a value that is told about: the validator's own limit is 255."""
LEVELS = 1000
"""Subschemas inside each other while a value is checked. Each takes about 1.5 kB of the stack."""
BRANCHES = 1000
"""Subschemas that are asked of one and the same value."""
PATHS = 20_000
"""Ways from the root to a subschema: each may be gone for each value."""
SMALL = 100
"""A schema with so few of them is not worth counting for."""
WORK = 1_000_000
"""Meetings of a subschema and a value in one check."""
LISTED = 300_000
"""The same where errors are listed; there, every copy of a value counts with all that is in it."""
TEXT = 4_000_000
"""Characters that patterns look at in one check."""
PATTERNS = 200
"""How many a schema may have, for their memory's sake; a large one counts as several."""
AROUND = 500
"""The longest pattern that may look around or back."""

_BACKTRACKS = 500
_KB = 1024
PATTERN_OPTIONS = FancyRegexOptions(
    backtrack_limit=_BACKTRACKS, size_limit=10 * _KB * _KB, dfa_size_limit=256 * _KB
)


@dataclass(frozen=True, slots=True)
class _Grade:
    """What a pattern costs if it compiles with these options."""

    options: RegexOptions | FancyRegexOptions
    for_text: int
    for_memory: int


# The plain engine takes time in proportion to the text. With look-around or back-references it is the square of it,
# or worse until the limit ends it without a verdict.
_PLAIN = (
    _Grade(RegexOptions(size_limit=64 * _KB), 1, 1),
    _Grade(RegexOptions(size_limit=10 * _KB * _KB), 200, 20),
)
_FANCY = (
    _Grade(FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=64 * _KB), 400, 2),
    _Grade(FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=_KB * _KB), 4000, 10),
)


class Bounds:
    """Of one schema; a ValueError says why it has none that we can live with."""

    def __init__(self, schema: Node) -> None:
        self._root = schema
        self._graph = Graph(schema)
        self._reach = self._measure()
        self._is_recursive, paths = self._unfold()
        self._cost_of = self._patterns()
        self._lists = {id(node): _compared(node) for node in self._graph.nodes if _compared(node)}
        self._is_small = not (self._is_recursive or self._cost_of or self._lists) and paths <= SMALL

    def refusal(self, value: object) -> str | None:
        """Why this value cannot be checked; None if it can."""
        if self._is_small:
            return None
        if self._is_recursive and levels(value, self._deepest) > self._deepest:
            return f"it nests deeper than {self._deepest} levels"
        work = text = 0
        for node, each in self._meetings(value, once=True):
            work += 1 + self._lists.get(id(node), 0)
            text += self._characters(node, each)
            if work > WORK:
                return "it is too large for this schema"
            if text > TEXT:
                return "it has too much text for the schema's patterns"
        return None

    def can_list(self, value: object) -> bool:
        """Whether every error can be told; the validator copies the value for each."""
        if levels(value, self._deepest) > self._deepest:
            return False
        sizes: dict[int, int] = {}
        work = 0
        for _, each in self._meetings(value, once=False):
            work += _size(each, sizes)
            if work > LISTED:
                return False
        return True

    @property
    def _deepest(self) -> int:
        return min(DEEPEST, LEVELS // self._reach)

    def _measure(self) -> int:
        """The longest way through subschemas of one and the same value."""
        nodes, circular = order(self._graph.nodes, self._graph.same)
        if circular:
            raise ValueError("a subschema refers to itself without going into the value")
        reach: dict[int, int] = {}
        branches: dict[int, int] = {}
        for node in nodes:
            same = self._graph.same(node)
            reach[id(node)] = 1 + max((reach[id(sub)] for sub in same), default=0)
            branches[id(node)] = 1 + sum(branches[id(sub)] for sub in same)
        if max(reach.values()) > DEEPEST:
            raise ValueError(f"more than {DEEPEST} subschemas lead to each other for one value")
        if max(branches.values()) > BRANCHES:
            raise ValueError(f"more than {BRANCHES} subschemas are asked of one value")
        return max(reach.values())

    def _unfold(self) -> tuple[bool, int]:
        """Whether it is recursive, and how many ways lead from its root; recursion itself is not followed."""
        nodes, recursive = order([self._root], self._graph.both)
        paths: dict[int, int] = {}
        for node in nodes:
            paths[id(node)] = 1 + sum(paths.get(id(sub), 0) for sub in self._graph.both(node))
        if paths[id(self._root)] > PATHS:
            raise ValueError(f"more than {PATHS} ways lead through its references")
        return recursive, paths[id(self._root)]

    def _patterns(self) -> dict[str, int]:
        """What a character costs, for each pattern."""
        written = {pattern for node in self._graph.nodes for pattern in _patterns_of(node)}
        found: dict[str, int] = {}
        memory = 0
        for pattern in sorted(written):
            grade = _grade(pattern)
            found[pattern] = grade.for_text
            memory += grade.for_memory
            if memory > PATTERNS:
                raise ValueError("its patterns are too many or too large")
        return found

    def _characters(self, node: Node, value: object) -> int:
        if isinstance(value, str):
            return len(value) * self._cost_of.get(node.get("pattern", ""), 0)
        if isinstance(value, dict) and "patternProperties" in node:
            each = sum(self._cost_of[pattern] for pattern in node["patternProperties"])
            return sum(len(key) for key in value) * each
        return 0

    def _meetings(self, value: object, *, once: bool) -> Iterator[tuple[Node, Any]]:
        """Of every subschema and every value that it may be asked of: once each, or as often as it is asked."""
        seen: set[tuple[int, int]] = set()
        waiting = [iter([(self._root, value)])]
        while waiting:
            meeting = next(waiting[-1], None)
            if meeting is None:
                waiting.pop()
                continue
            node, each = meeting
            if once and isinstance(each, dict | list):
                if (id(node), id(each)) in seen:
                    continue
                seen.add((id(node), id(each)))
            yield meeting
            waiting.append(self._graph.meetings(node, each))


def levels(value: object, most: int) -> int:
    """How deeply it nests, counted until there are more than `most`."""
    count = 0
    level = [value]
    while level and count <= most:
        count += 1
        level = [inner for each in level for inner in _inside(each)]
    return count


def _inside(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def _size(value: object, known: dict[int, int]) -> int:
    if isinstance(value, str):
        return 1 + len(value) // 50
    inside = _inside(value)
    if not inside:
        return 1
    if id(value) not in known:
        known[id(value)] = 1 + sum(_size(inner, known) for inner in inside)
    return known[id(value)]


def _compared(node: Node) -> int:
    """Objects and lists of an `enum` are compared one after the other, the rest is looked up."""
    return sum(isinstance(entry, dict | list) for entry in node.get("enum", [])) // 3


def _patterns_of(node: Node) -> list[str]:
    own = [node["pattern"]] if "pattern" in node else []
    return [*own, *node.get("patternProperties", {})]


def _grade(pattern: str) -> _Grade:
    grades = _PLAIN + _FANCY if len(pattern) <= AROUND else _PLAIN
    for grade in grades:
        if _compiles(pattern, grade.options):
            return grade
    raise ValueError(f"the pattern {pattern[:100]!r} is not a regular expression, or grows too large")


def _compiles(pattern: str, options: RegexOptions | FancyRegexOptions) -> bool:
    try:
        Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True
