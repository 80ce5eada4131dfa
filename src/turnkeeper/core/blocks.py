"""Finds the marked-off parts of a text: fences, ask blocks, balanced objects. One pass each, whatever the text.

Agents may write megabytes of anything; a search that starts over at every opening would stand still on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

ASK_TAG = "ask_user_yaml"

_FENCE_LINE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<tag>[\w+-]*)")
_ASK_OPEN = re.compile(r"<ASK_USER_YAML>", re.IGNORECASE)
_ASK_CLOSE = re.compile(r"</ASK_USER_YAML>", re.IGNORECASE)
# A string that never ends is one token, too: otherwise every quotation mark in it would be tried as a start.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[{}]', re.DOTALL)
_RESTARTS = 3
"""A quotation mark in prose can hide everything behind it; so often the search starts again after a lone brace."""


@dataclass(frozen=True, slots=True)
class Block:
    tag: str
    body: str
    start: int
    end: int
    """The block with its own marks is `text[start:end]`."""


def fences(text: str) -> Iterator[Block]:
    """Fenced blocks that are closed by a line of the same mark."""
    opened: tuple[str, str, int, int] | None = None
    position = 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):  # splitlines() would also split at U+2028 in a string
        start, position = position, position + len(line)
        if line[0] not in " \t`~":
            continue
        found = _FENCE_LINE.match(line)
        if found is None:
            continue
        if opened is None:
            opened = found["mark"], found["tag"].lower(), start, position
        elif line.strip() == opened[0]:
            _, tag, begin, body = opened
            yield Block(tag, text[body:start], begin, start + len(line.rstrip()))
            opened = None


def ask_blocks(text: str) -> list[Block]:
    """In the order they stand; tagged ones and fenced ones."""
    found = [block for block in fences(text) if block.tag == ASK_TAG]
    position = 0
    while (opening := _ASK_OPEN.search(text, position)) and (
        closing := _ASK_CLOSE.search(text, opening.end())
    ):
        body = text[opening.end() : closing.start()]
        found.append(Block(ASK_TAG, body, opening.start(), closing.end()))
        position = closing.end()
    return sorted(found, key=lambda block: block.start)


def without(text: str, blocks: list[Block]) -> str:
    kept, position = [], 0
    for block in blocks:
        if block.start >= position:
            kept.append(text[position : block.start])
            position = block.end
    return "".join([*kept, text[position:]]).strip()


def balanced_objects(text: str) -> list[str]:
    """The outermost `{…}` that are closed, in order. Braces inside their strings do not count."""
    spans: list[tuple[int, int]] = []
    start = text.find("{")
    for _ in range(_RESTARTS):
        if start < 0:
            break
        found, lone = _scan(text, start)
        spans += found
        if found and found[-1][0] > lone:
            break
        start = text.find("{", lone + 1)
    return [text[begin:end] for begin, end in spans]


def _scan(text: str, start: int) -> tuple[list[tuple[int, int]], int]:
    """The outermost closed spans from `start` on, and the last brace that was never closed."""
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    position = start
    while token := _TOKEN.search(text, position):
        position = token.end()
        if token[0] == "{":
            opened.append(token.start())
        elif token[0] == "}" and opened:
            begin = opened.pop()
            while spans and spans[-1][0] > begin:
                spans.pop()  # it lies inside the one that closes now
            spans.append((begin, position))
        if not opened:
            # Between objects there is prose, and its quotation marks are not strings.
            position = text.find("{", position)
            if position < 0:
                break
    return spans, opened[-1] if opened else len(text)
