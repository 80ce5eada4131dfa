"""Server-sent events out of bytes, however these were cut on their way. What was not finished is not told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    event: str
    data: bytes


class Parser:
    """Feed it what comes; it says which frames are whole by now."""

    def __init__(self) -> None:
        self._rest = b""
        self._event = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        # Lines end with a line feed: the service sends no other end, and U+2028 is an ordinary character in JSON.
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            frame = self._take(line.removesuffix(b"\r"))
            if frame is not None:
                yield frame

    def _take(self, line: bytes) -> Frame | None:
        if not line:
            return self._finished()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"data":
                self._data.append(value)
            case _:
                pass  # a comment, an `id` (each event has its number in it), or something newer
        return None

    def _finished(self) -> Frame | None:
        frame = Frame(self._event or "message", b"\n".join(self._data)) if self._data else None
        self._event, self._data = "", []
        return frame
