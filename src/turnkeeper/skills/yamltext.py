"""YAML from strangers: safe, small, and nothing in it that JSON could not hold."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import yaml

LARGEST_INT = 2**63
MAX_DEPTH = 50
"""Levels; a thousand open brackets would take a second, on the event loop."""


class _Loader(yaml.SafeLoader):
    """Without aliases: an anchor that is used again and again can grow to gigabytes."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        if self._depth == MAX_DEPTH:
            raise yaml.YAMLError(f"more than {MAX_DEPTH} levels")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def load_yaml(text: str) -> object:
    """Plain JSON values. Any failure is a ValueError, whatever the parser stumbled over."""
    try:
        return _plain(yaml.load(text, _Loader))
    except (yaml.YAMLError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(str(error).split("\n")[0]) from error


def _plain(value: object) -> Any:
    match value:
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case str():
            return value.encode("utf-8", "replace").decode()
        case bool() | None:
            return value
        case int() if abs(value) < LARGEST_INT:
            return value
        case float() if math.isfinite(value):
            return value
        case date():
            return value.isoformat()
        case _:
            raise ValueError(f"{str(value)[:40]} has no place in JSON")
