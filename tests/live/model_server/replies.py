"""What the model can answer, before a protocol gives it a shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Say:
    text: str
    delay: float = 0
    """Seconds before the first byte."""
    breaks: Literal["", "hang", "drop"] = ""
    """After the text the stream falls silent, or is cut, instead of ending."""


@dataclass(frozen=True)
class Call:
    """Of a tool."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Fail:
    name: str
    """A status, or one of the names in `failures.py`."""
    message: str = ""
    """Instead of the provider's."""


Reply = Say | Call | Fail
