"""The JSON objects that an engine prints: one on a line, as it should be, and what is left of those that are not.

The rule by which a stream that is out of step is taken up again:

- A line that opens with a brace holds objects, one behind the other. Those that are whole are heard, in their order;
  with more than `MAX_TOGETHER`, the others as if they stood behind a torn one. Beyond `MAX_FUSED` a line must be one
  object and nothing else.
- One that is not whole by the end of its line goes on with the next, until its braces are closed. A line that opens
  with a brace in the first column begins anew: the one before it was torn, and is dropped.
- A torn object may have others right behind it: they are heard if they are whole up to the end of the line. What stands
  behind a colon, a comma or a bracket is a part of the torn one.
- Words before an object make the line noise, and so does a brace too many behind it: a log that quotes an event is
  none, nor is a part of a larger object.

Whatever is not heard is kept as raw output by whoever asked.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

import msgspec

from turnkeeper.core.evidence import MAX_DEPTH, is_deep
from turnkeeper.engines.lines import Line, plain

LARGEST_NUMBER = 2**63
MAX_SPREAD = 256 * 1024
"""Characters of an object that is spread over lines."""
MAX_TOGETHER = 1000
"""Objects that are read one behind the other: whoever reads them keeps everybody waiting meanwhile."""
MAX_FUSED = 1024 * 1024
"""Characters of a line in which several are looked for: it is read a second time, and slower."""
MAX_TORN = 64 * 1024
MAX_TRIES = 64
"""Of a line, and how often it is searched for whole objects behind a torn one: it must not take its time."""

_decode = msgspec.json.Decoder().decode
_scan = json.JSONDecoder(strict=False).raw_decode
_BLANKS = re.compile(r"[ \t\r\n]*")
# Right behind whatever the torn one broke off with; where a value of it could stand, it is its value.
_NEXT = re.compile(r'(?<=[^:,\[\s])\{"')
_BRACES = re.compile(r'\\.|["{}]', re.DOTALL)


class Objects:
    """Of one stream, in its order."""

    def __init__(self) -> None:
        self._open: list[str] = []
        """The lines of an object that is not whole yet."""
        self._size = 0
        self._depth = 0
        self._in_text = False

    def read(self, line: Line) -> list[dict[str, Any]]:
        """Those that are whole with this line; none: it is noise, or only a part."""
        whole = read_object(line)
        if whole is not None and not (self._open and line.data[:1].isspace()):
            if self._open:
                self._drop()
            return [whole]
        if line.truncated:
            self._drop()
            return []
        text = plain(line.data)
        if text.startswith("{"):
            self._drop()
            if len(text) > MAX_FUSED:
                return []
            found, rest = _several(text)
            if rest.startswith("{"):
                self._go_on(rest)
            return found
        return self._go_on(text) if self._open else []

    def _go_on(self, text: str) -> list[dict[str, Any]]:
        self._open.append(text)
        self._size += len(text) + 1  # lines of nothing are kept, too
        if self._size > MAX_SPREAD:
            self._drop()
            return []
        for found in _BRACES.finditer(text):
            if found[0] == '"':
                self._in_text = not self._in_text
            elif not self._in_text and found[0] in "{}":
                self._depth += 1 if found[0] == "{" else -1
        if self._depth > 0:
            return []
        whole = "\n".join(self._open)
        self._drop()
        return _several(whole)[0]

    def _drop(self) -> None:
        self._open, self._size, self._depth, self._in_text = [], 0, 0, False


def _several(text: str) -> tuple[list[dict[str, Any]], str]:
    """Objects one behind the other, and what is left behind the last of them."""
    found, end = _from(text, 0)
    rest = text[end:]
    if rest.startswith(("}", "]")):
        return [], ""  # the tail of something larger, and these were parts of it
    if not rest.startswith("{") or len(rest) > MAX_TORN:
        return found, rest
    after = 0
    for start in islice(_NEXT.finditer(rest), MAX_TRIES):
        if start.start() < after:
            continue  # read already, and not up to the end
        later, after = _from(rest, start.start())
        if later and not rest[after:].strip():
            return [*found, *later], ""
    return found, rest


def _from(text: str, at: int) -> tuple[list[dict[str, Any]], int]:
    """Those that are whole from this place on, and where the last of them ends."""
    found: list[dict[str, Any]] = []
    while len(found) < MAX_TOGETHER and text.startswith("{", at):
        try:
            value, end = _scan(text, at)
            value = _whole_characters(value)
        except (ValueError, RecursionError):
            break
        if is_deep(value):
            break
        found.append(value)
        at = _end_of_blanks(text, end)
    return found, at


def _end_of_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def read_object(line: Line) -> dict[str, Any] | None:
    """The JSON object on a line; None if it is something else. What one broken character spoils is repaired."""
    if line.truncated:
        return None
    text = plain(line.data)
    if not text.lstrip().startswith("{"):
        return None  # most noise, for next to nothing
    try:
        value = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        value = _lenient(text)
    if not isinstance(value, dict):
        return None
    # Without so many brackets it cannot be deep: counting them takes a tenth of the time of going through it.
    might_be = text.count("{") + text.count("[") > MAX_DEPTH
    return None if might_be and is_deep(value) else value


def _lenient(text: str) -> Any:
    """Lone surrogates, NaN and huge numbers are JSON to some writers; the standard library reads them."""
    try:
        return _whole_characters(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _whole_characters(value: Any) -> Any:
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole_characters(each) for each in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    # What JSON cannot hold is shown as text: NaN, infinity, numbers beyond any counter.
    is_plain = not isinstance(value, float | int) or abs(value) < LARGEST_NUMBER
    return value if is_plain else str(value)
