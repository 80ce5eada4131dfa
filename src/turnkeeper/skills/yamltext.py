"""YAML from strangers: safe, and failing in one way."""

from __future__ import annotations

import yaml

MAX_DEPTH = 50
"""Levels; a thousand open brackets would take a second."""
LONGEST_NUMBER = 100
"""Characters of one that is counted in sixties."""


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


def _number(loader: _Loader, node: yaml.ScalarNode) -> object:
    """YAML counts in sixties as well (`1:59:59`), which takes seconds for a long one."""
    if ":" in node.value and len(node.value) > LONGEST_NUMBER:
        raise yaml.YAMLError("a number of too many digits")
    is_whole = node.tag.endswith(":int")
    return loader.construct_yaml_int(node) if is_whole else loader.construct_yaml_float(node)


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _number)


def load_yaml(text: str) -> object:
    """Any failure is a ValueError, whatever the parser stumbled over."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(str(error).split("\n")[0]) from error
