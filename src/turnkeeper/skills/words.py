"""The words that we say to agents. They live in `fragments/`, so that they can be read and changed as text."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def render(name: str, **values: str) -> str:
    """One of our own texts; a placeholder without a value is a fault of ours, and raised."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], fragment(name))


def fill(template: str, **values: str) -> str:
    """A text of somebody else's. A placeholder that we do not know stays as it is; so does one inside a value."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


@cache
def fragment(name: str) -> str:
    return (resources.files("turnkeeper.skills") / "fragments" / f"{name}.md").read_text(encoding="utf-8")
