"""A schema as a graph: which subschemas it leads to, for the same value and for the values inside it.

It expects what the metaschema of draft 2020-12 has passed. Only references within the file are followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Node = Mapping[str, Any]
Way = tuple[str, ...]
"""From the root to a subschema: the segments of its JSON pointer."""

_SAME = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
)
_SINGLE = frozenset(
    {"not", "if", "then", "else", "items", "contains", "unevaluatedItems", "contentSchema"}
    | {"additionalProperties", "unevaluatedProperties", "propertyNames"}
)
_NOT_APPLIED = frozenset({"$defs", "definitions", "contentSchema"})
_ONE_EACH = frozenset({"properties", "prefixItems"})
_REFERENCES = ("$ref", "$dynamicRef")


class Graph:
    """Subschemas are known by identity: the same text in two places is two of them."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._at = dict(_places(root))
        self._ways = {id(node): way for way, node in self._at.items()}
        self.nodes = [node for node in self._at.values() if isinstance(node, dict)]
        self._named = _anchors(self.nodes)
        self._same: dict[int, list[Node]] = {}
        self._below: dict[int, list[Node]] = {}
        self._asked: dict[int, int] = {}
        for way, node in self._at.items():
            if isinstance(node, dict):
                self._link(way, node)

    def place(self, node: Node) -> str:
        """Its JSON pointer."""
        return pointer(self._ways[id(node)])

    def same(self, node: Node) -> list[Node]:
        """What is asked of the same value."""
        return self._same[id(node)]

    def both(self, node: Node) -> list[Node]:
        """What is asked of the same value, and of values inside it."""
        return self._same[id(node)] + self._below[id(node)]

    def asked_inside(self, node: Node) -> int:
        """How many subschemas of this node, at most, are asked of each value directly inside its own."""
        return self._asked[id(node)]

    def meetings(self, node: Node, value: object) -> Iterator[tuple[Node, Any]]:
        """One step further: what else is asked of this value, and what of each value inside. Rather too much."""
        for sub in self._same[id(node)]:
            yield sub, value
        found: Iterator[tuple[Any, Any]] = iter(())
        if isinstance(value, dict):
            found = _in_object(node, value)
        elif isinstance(value, list):
            found = _in_list(node, value)
        for sub, inner in found:
            if isinstance(sub, dict):
                yield sub, inner

    def _link(self, way: Way, node: Node) -> None:
        if way and "$id" in node:
            raise ValueError(f"{pointer(way)}: only the root may have an $id")
        same: list[Any] = []
        below: list[Any] = []
        asked: set[Way] = set()
        for step, sub in _parts(node):
            key = step[0]
            if key in _SAME:
                same.append(sub)
            elif key not in _NOT_APPLIED:
                below.append(sub)
                if isinstance(sub, dict):
                    asked.add((key,) if key in _ONE_EACH else step)
        self._asked[id(node)] = len(asked)
        for key in _REFERENCES:
            if key in node:
                same.append(self._resolve(way, node[key]))
        self._same[id(node)] = [sub for sub in same if isinstance(sub, dict)]
        self._below[id(node)] = [sub for sub in below if isinstance(sub, dict)]

    def _resolve(self, way: Way, reference: str) -> Any:
        fragment = reference.removeprefix(str(self._root.get("$id", "")).rstrip("#"))
        if fragment in ("", "#"):
            return self._root
        name = unquote(fragment[1:])
        if not fragment.startswith("#"):
            raise ValueError(
                f"{pointer(way)}: only references within the file are followed, not {reference!r}"
            )
        target = tuple(part.replace("~1", "/").replace("~0", "~") for part in name[1:].split("/"))
        found = self._at.get(target) if name.startswith("/") else self._named.get(name)
        if found is None:
            raise ValueError(f"{pointer(way)}: there is no subschema {reference!r}")
        return found


def order(start: Iterable[Node], leads_to: Callable[[Node], Iterable[Node]]) -> tuple[list[Node], bool]:
    """Every node after those that it leads to, and whether any leads back to itself."""
    done: list[Node] = []
    seen: dict[int, bool] = {}
    circular = False
    for root in start:
        if id(root) in seen:
            continue
        seen[id(root)] = False
        path = [(root, iter(leads_to(root)))]
        while path:
            node, rest = path[-1]
            sub = next(rest, None)
            if sub is None:
                path.pop()
                seen[id(node)] = True
                done.append(node)
            elif id(sub) not in seen:
                seen[id(sub)] = False
                path.append((sub, iter(leads_to(sub))))
            else:
                circular = circular or not seen[id(sub)]
    return done, circular


def _places(root: Node) -> Iterator[tuple[Way, Any]]:
    waiting: list[tuple[Way, Any]] = [((), root)]
    while waiting:
        way, node = waiting.pop()
        yield way, node
        if isinstance(node, dict):
            waiting += [((*way, *step), sub) for step, sub in _parts(node)]


def _anchors(nodes: Iterable[Node]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for node in nodes:
        for name in {node[key] for key in ("$anchor", "$dynamicAnchor") if key in node}:
            if name in found:
                raise ValueError(f"the anchor {name!r} is there twice")
            found[name] = node
    return found


def _parts(node: Node) -> Iterator[tuple[Way, Any]]:
    for key, entry in node.items():
        if key in _LISTS:
            yield from (((key, str(number)), sub) for number, sub in enumerate(entry))
        elif key in _MAPS:
            # `dependencies` may also list names.
            yield from (((key, name), sub) for name, sub in entry.items() if not isinstance(sub, list))
        elif key in _SINGLE:
            yield (key,), entry


def _in_object(node: Node, value: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    properties = node.get("properties", {})
    for key in properties.keys() & value.keys():
        yield properties[key], value[key]
    for sub in (*node.get("patternProperties", {}).values(), node.get("unevaluatedProperties")):
        if sub is not None:
            yield from ((sub, inner) for inner in value.values())
    if "additionalProperties" in node:
        rest = node["additionalProperties"]
        yield from ((rest, inner) for key, inner in value.items() if key not in properties)
    if "propertyNames" in node:
        yield from ((node["propertyNames"], key) for key in value)


def _in_list(node: Node, value: list[Any]) -> Iterator[tuple[Any, Any]]:
    first = node.get("prefixItems", [])
    yield from zip(first, value, strict=False)
    if "items" in node:
        yield from ((node["items"], inner) for inner in value[len(first) :])
    for key in ("contains", "unevaluatedItems"):
        if key in node:
            yield from ((node[key], inner) for inner in value)


def pointer(way: Iterable[str]) -> str:
    """A JSON pointer; we write the root as `/`."""
    return "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in way)
