"""What an assistant's words prove: the done marker, and the JSON object that is meant as the result.

Only assembled assistant text comes in here. Tool output, reasoning, the echoed prompt and the user's replies
are kept out by the dialects, by envelope and not by content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from turnkeeper.core import blocks

MARKER_KEY = "__SKILL_DONE__"

# Quotes plain or escaped once, both the same; escaped twice has a backslash before the backslash.
_MARKER = re.compile(
    rf'(?<!\\)(?P<escape>\\?)"{MARKER_KEY}(?P=escape)"(?:\s|\\[nrt])*:(?:\s|\\[nrt])*true(?![A-Za-z0-9_])'
)
_UNESCAPED = rf'"{MARKER_KEY}"\s*:\s*true(?![A-Za-z0-9_])'
_MARKER_ALONE = re.compile(rf"\{{\s*{_UNESCAPED}\s*\}}")
_MARKER_AMONG_OTHERS = re.compile(rf",\s*{_UNESCAPED}|{_UNESCAPED}\s*,?\s*")
_EMPTY_FENCE = re.compile(r"^[ \t]*```(?:json)?[ \t]*\r?\n\s*```[ \t]*$", re.MULTILINE)
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
MAX_TRIES = 100
"""So many blocks of one message are tried, from the last: a result stands at the end."""
MAX_DEPTH = 200
"""How deep an agent's JSON may be nested. What is deeper can just be read, and then breaks whoever writes it down."""


class Ladder(StrEnum):
    """Which rung of the ladder the candidate stands on; recorded with the verdict."""

    WHOLE = "whole_message"
    FENCED = "fenced_object"
    BALANCED = "balanced_object"
    TEXT = "plain_text"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Claim:
    """What the words of a turn say about its completion."""

    marker: bool
    marker_in_last: bool
    text: str
    """The message that was read: without its ask block, unescaped if the marker was escaped."""
    candidate: dict[str, Any] | None
    rung: Ladder


def marker_in(text: str) -> re.Match[str] | None:
    # Most texts have not even the word, and it is found fifty times as fast.
    return _MARKER.search(text) if MARKER_KEY in text else None


def read_claim(messages: Sequence[str]) -> Claim:
    """Marker and candidate: from the last message that holds the marker, else from the last message."""
    for text in reversed(messages):
        found = marker_in(text)
        if found:
            return _claim(
                _unescape(text) if found["escape"] else text, marker=True, is_last=text is messages[-1]
            )
    return _claim(messages[-1] if messages else "", marker=False, is_last=False)


def _claim(text: str, *, marker: bool, is_last: bool) -> Claim:
    words = without_ask_blocks(text)
    # A result that speaks of ask blocks is one object before anything is taken out of it.
    whole = _as_object(text)
    rung, candidate = (Ladder.WHOLE, whole) if whole is not None else _climb(words, balanced=marker)
    return Claim(marker, is_last, words, candidate, rung)


def without_marker(candidate: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in candidate.items() if key != MARKER_KEY}


def text_without_marker(text: str) -> str:
    """A claim's text as a plain skill's answer: without the marker, and what it would leave empty."""
    bare = _MARKER_AMONG_OTHERS.sub("", _MARKER_ALONE.sub("", text))
    return _EMPTY_FENCE.sub("", bare).strip()


def without_ask_blocks(text: str) -> str:
    return blocks.without(text, blocks.ask_blocks(text))


def _climb(text: str, *, balanced: bool) -> tuple[Ladder, dict[str, Any] | None]:
    whole = _as_object(text)
    if whole is not None:
        return Ladder.WHOLE, whole
    for block in reversed(list(blocks.fences(text))[-MAX_TRIES:]):
        fenced = _as_object(block.body) if block.tag in ("", "json") else None
        if fenced is not None:
            return Ladder.FENCED, fenced
    if balanced:
        # Without the marker an object in the middle of a sentence is an example, not a result.
        spans = blocks.balanced_objects(text)
        holders = [span for span in spans[-MAX_TRIES:] if marker_in(span)]
        found = _as_object((holders or spans)[-1]) if spans else None
        if found is not None:
            return Ladder.BALANCED, found
    return Ladder.NONE, None


def _as_object(text: str) -> dict[str, Any] | None:
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return None
    try:
        value = json.loads(stripped, parse_constant=_no_constant, parse_float=_finite)
        if not isinstance(value, dict) or is_deep(value):
            return None
        # Half a surrogate pair is JSON to the parser, but no text that anybody could store.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{number} is beyond any number")
    return value


def is_deep(value: object) -> bool:
    """More than MAX_DEPTH objects and lists inside each other."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [below for every in inside for below in every if isinstance(below, dict | list)]
    return bool(level)


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if code[0] == "u" and len(code) == 5 else _ESCAPED[code]

    # A character beyond the first plane was escaped in two halves.
    return _ESCAPE.sub(one, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
