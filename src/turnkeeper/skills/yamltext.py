"""YAML from strangers: safe, and failing in one way."""

from __future__ import annotations

import yaml

MAX_DEPTH = 50
"""Levels; a thousand open brackets would take a second."""


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
    """Any failure is a ValueError, whatever the parser stumbled over."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(str(error).split("\n")[0]) from error
