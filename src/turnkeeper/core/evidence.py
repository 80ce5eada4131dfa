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

MARKER_KEY = "__SKILL_DONE__"

# Quotes plain or escaped once, both the same; escaped twice has a backslash before the backslash.
_MARKER = re.compile(
    rf'(?<!\\)(?P<escape>\\?)"{MARKER_KEY}(?P=escape)"(?:\s|\\[nrt])*:(?:\s|\\[nrt])*true(?![A-Za-z0-9_])'
)
_FENCE = re.compile(
    r"^[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<tag>[\w+-]*)[^\n]*\n(?P<body>.*?)^[ \t]*(?P=mark)[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_ASK_BLOCK = re.compile(
    r"<ASK_USER_YAML>(?P<tagged>.*?)</ASK_USER_YAML>"
    r"|^[ \t]*(?P<mark>`{3,})[ \t]*ask_user_yaml[^\n]*\n(?P<fenced>.*?)^[ \t]*(?P=mark)[ \t]*$",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_IN_OBJECT = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}]', re.DOTALL)
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNCLOSED_STARTS = 64
"""How many `{` without a partner are passed over before we stop looking: keeps the search linear."""


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
    return _MARKER.search(text)


def read_claim(messages: Sequence[str]) -> Claim:
    """Marker and candidate: from the last message that holds the marker, else from the last message."""
    for text in reversed(messages):
        found = marker_in(text)
        if found:
            readable = _unescape(text) if found["escape"] else text
            readable = without_ask_blocks(readable)
            rung, candidate = _climb(readable, balanced=True)
            return Claim(True, text is messages[-1], readable, candidate, rung)
    last = without_ask_blocks(messages[-1]) if messages else ""
    rung, candidate = _climb(last, balanced=False)
    return Claim(False, False, last, candidate, rung)


def without_marker(candidate: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in candidate.items() if key != MARKER_KEY}


def text_without_marker(text: str) -> str:
    """A plain skill's answer: the words, without the object or line that only carried the marker."""
    bare = re.sub(rf'\{{\s*\\?"{MARKER_KEY}\\?"\s*:\s*true\s*\}}', "", text)
    bare = re.sub(r"^[ \t]*```(?:json)?[ \t]*\n\s*```[ \t]*$", "", bare, flags=re.MULTILINE)
    return _MARKER.sub("", bare).strip()


def ask_blocks(text: str) -> list[str]:
    return [found["tagged"] or found["fenced"] or "" for found in _ASK_BLOCK.finditer(text)]


def without_ask_blocks(text: str) -> str:
    return _ASK_BLOCK.sub("", text).strip()


def _climb(text: str, *, balanced: bool) -> tuple[Ladder, dict[str, Any] | None]:
    whole = _as_object(text)
    if whole is not None:
        return Ladder.WHOLE, whole
    for body in reversed(_fenced_bodies(text)):
        fenced = _as_object(body)
        if fenced is not None:
            return Ladder.FENCED, fenced
    if balanced:
        # Without the marker an object in the middle of a sentence is an example, not a result.
        for span in reversed(_outermost_spans(text)):
            found = _as_object(span)
            if found is not None:
                return Ladder.BALANCED, found
    return Ladder.NONE, None


def _fenced_bodies(text: str) -> list[str]:
    return [found["body"] for found in _FENCE.finditer(text) if found["tag"].lower() in ("", "json")]


def _as_object(text: str) -> dict[str, Any] | None:
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return None
    try:
        value = json.loads(stripped, parse_constant=_no_constant, parse_float=_finite)
        # Half a surrogate pair is JSON to the parser, but no text that anybody could store.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{number} is beyond any number")
    return value


def _outermost_spans(text: str) -> list[str]:
    spans: list[str] = []
    position = text.find("{")
    unclosed = 0
    while position >= 0 and unclosed < _UNCLOSED_STARTS:
        end = _closing(text, position)
        if end is None:
            unclosed += 1
            position = text.find("{", position + 1)
        else:
            spans.append(text[position:end])
            position = text.find("{", end)
    return spans


def _closing(text: str, start: int) -> int | None:
    depth = 0
    for token in _IN_OBJECT.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return None


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if code[0] == "u" and len(code) == 5 else _ESCAPED[code]

    # A character beyond the first plane was escaped in two halves.
    return _ESCAPE.sub(one, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
