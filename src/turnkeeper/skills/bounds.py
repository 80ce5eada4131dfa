"""How much work a schema may make.

The validator cannot be stopped once it runs, holds up everything else meanwhile, and overflows its stack on what
nests too deeply. So its work is counted beforehand, and what is too much is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from turnkeeper.skills import patterns
from turnkeeper.skills.patterns import Cost
from turnkeeper.skills.subschemas import Graph, Node, order, pointer

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
TIME = 500_000_000
"""Nanoseconds that patterns may take in one check; where errors are listed, they take as long again."""
SHORT = 100
"""Characters that every pattern must be quick enough for."""
PATTERNS = 200
"""How many a schema may have, for their memory's sake; a large one counts as several."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a value cannot be checked, with the JSON pointer of what is in the way."""

    reason: str
    place: str = "/"


@dataclass(frozen=True, slots=True)
class _Match:
    """A pattern and a text: a value, or a name in the object that stands for it here."""

    time: int
    pattern: str
    length: int
    holder: object

    def refusal(self, value: object) -> Refusal:
        what = "a name of" if isinstance(self.holder, dict) else "a text of"
        reason = f"{what} {self.length} characters is too long for the pattern {_cut(self.pattern)}"
        if self.time <= TIME:
            reason = f"too much text for the schema's patterns: {what} {self.length} characters costs most"
        return Refusal(reason, pointer(_way_to(self.holder, value)))


class Bounds:
    """Of one schema; a ValueError says why it has none that we can live with."""

    def __init__(self, schema: Node) -> None:
        self._root = schema
        self._graph = Graph(schema)
        self._reach = self._measure()
        self._is_recursive, paths = self._unfold()
        self._cost_of = self._patterns()
        self._matching = {id(node) for node in self._graph.nodes if _patterns_of(node)}
        self._lists = {id(node): _compared(node) for node in self._graph.nodes if _compared(node)}
        self._flat = self._flatten()
        self._is_small = not (self._is_recursive or self._cost_of or self._lists) and paths <= SMALL

    def refusal(self, value: object) -> Refusal | None:
        """Why this value cannot be checked; None if it can."""
        if self._is_small:
            return None
        if self._is_recursive and levels(value, self._deepest) > self._deepest:
            return Refusal(f"it nests deeper than {self._deepest} levels")
        work = time = 0
        slowest: _Match | None = None
        for node, each in self._meetings(value, once=True):
            work += 1 + self._lists.get(id(node), 0) + self._inside_flat(node, each)
            if work > WORK:
                return Refusal("it is too large for this schema")
            for match in self._matches(node, each) if id(node) in self._matching else ():
                time += match.time
                slowest = match if slowest is None or match.time > slowest.time else slowest
                if time > TIME:
                    return slowest.refusal(value)
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

    def _patterns(self) -> dict[str, Cost]:
        found: dict[str, Cost] = {}
        for node in self._graph.nodes:
            for pattern in _patterns_of(node):
                if pattern not in found:
                    found[pattern] = _cost(pattern, self._graph.place(node))
                    if sum(cost.memory for cost in found.values()) > PATTERNS:
                        raise ValueError("its patterns are too many or too large")
        return found

    def _flatten(self) -> dict[int, int]:
        """Subschemas with nothing inside that needs a look: it is enough to count there, and much quicker."""
        both = self._graph.both
        busy = self._matching | self._lists.keys()
        quiet = {id(node) for node in self._graph.nodes if not both(node) and id(node) not in busy}
        return {
            id(node): self._graph.asked_inside(node)
            for node in self._graph.nodes
            if not self._graph.same(node) and all(id(sub) in quiet for sub in both(node))
        }

    def _inside_flat(self, node: Node, value: object) -> int:
        return self._flat.get(id(node), 0) * len(value) if isinstance(value, dict | list) else 0

    def _matches(self, node: Node, value: object) -> Iterator[_Match]:
        """Every text that a pattern of this node looks at."""
        if isinstance(value, str) and "pattern" in node:
            pattern = node["pattern"]
            yield _Match(self._cost_of[pattern].of(len(value)), pattern, len(value), value)
        elif isinstance(value, dict) and "patternProperties" in node:
            for pattern in node["patternProperties"]:
                for key in value:
                    yield _Match(self._cost_of[pattern].of(len(key)), pattern, len(key), value)

    def _meetings(self, value: object, *, once: bool) -> Iterator[tuple[Node, Any]]:
        """Of every subschema and every value that it may be asked of: once each, or as often as it is asked.

        Where it is once, what is inside flat subschemas is left out.
        """
        seen: set[tuple[int, int]] = set()
        waiting = [iter([(self._root, value)])]
        while waiting:
            meeting = next(waiting[-1], None)
            if meeting is None:
                waiting.pop()
                continue
            node, each = meeting
            if once and id(node) in self._flat:
                yield meeting
                continue
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


def _cost(pattern: str, place: str) -> Cost:
    try:
        cost = patterns.cost(pattern)
    except ValueError as error:
        raise ValueError(f"{place}: the pattern {_cut(pattern)} {error}") from None
    if cost.of(SHORT) > TIME:
        raise ValueError(f"{place}: the pattern {_cut(pattern)} is too slow, even for {SHORT} characters")
    return cost


def _cut(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 80 else pattern[:79] + "…")


def _way_to(wanted: object, value: object) -> list[str]:
    """Where it first is in the value: the same object, not an equal one."""
    waiting: list[tuple[list[str], object]] = [([], value)]
    while waiting:
        way, each = waiting.pop()
        if each is wanted:
            return way
        steps = each.items() if isinstance(each, dict) else enumerate(each) if isinstance(each, list) else ()
        waiting += [([*way, str(step)], inner) for step, inner in steps]
    return []
