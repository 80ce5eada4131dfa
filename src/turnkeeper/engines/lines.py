"""Bytes of a stream to a raw file and to lines, in bounded memory, and a line to plain text.

What a line means is left to the dialects; where the bytes come from, to the process.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

MAX_LINE = 8 * 1024 * 1024
KEPT = 64 * 1024
KEEP = 256 * 1024 * 1024
OPEN_START = 4096
"""Bytes of an open line that are shown."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. `offset` and `length` find it in the raw stream, newline byte included."""

    data: bytes
    offset: int
    length: int
    truncated: bool
    has_stars: bool = False
    """Something was hidden in it."""

    @property
    def is_blank(self) -> bool:
        return not self.data or self.data.isspace()  # which looks no further than the first letter


class LineAssembler:
    """Cuts chunks at byte 0x0A and nowhere else: U+2028, U+0085 and a carriage return do not end a line.

    Of a line longer than `max_line` only the head is kept; the rest is counted, so an endless line costs no
    memory. Each byte is looked at once, however small the chunks are.
    """

    def __init__(self, max_line: int = MAX_LINE, *, offset: int = 0) -> None:
        self._max_line = max_line
        self._kept = min(KEPT, max_line)
        self._offset = offset
        # The open line. A bytearray, not a list of chunks: a line that comes byte by byte would
        # otherwise cost fifty times its size.
        self._head = bytearray()
        self._length = 0
        self._truncated = False

    def feed(self, chunk: bytes) -> list[Line]:
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            if self._length or len(part) > self._max_line:
                self._extend(part)
                lines.append(self._finish(newline=1))
            else:  # a whole line in one chunk, nearly always: no copy
                lines.append(Line(part.removesuffix(b"\r"), self._offset, len(part) + 1, truncated=False))
                self._offset += len(part) + 1
        self._extend(rest)
        return lines

    def close(self) -> list[Line]:
        """The last line, if it came without a newline."""
        return [self._finish(newline=0)] if self._length else []

    @property
    def start(self) -> bytes:
        """How the line begins that is still open."""
        return bytes(self._head[:OPEN_START])

    def move(self, offset: int) -> bytes:
        """From now on lines are counted from `offset`; returns the open line, to be copied there.

        Of an open line that is too long already, only the kept head moves: its length is then what stands
        in the new place.
        """
        self._offset = offset
        self._length = len(self._head)
        return bytes(self._head)

    def _extend(self, part: bytes) -> None:
        self._length += len(part)
        if self._truncated:
            return
        self._head += part
        if len(self._head) > self._max_line:
            self._truncated = True
            del self._head[self._kept :]

    def _finish(self, *, newline: int) -> Line:
        data = bytes(self._head)
        if not self._truncated:  # the last byte of a kept head is in the middle of its line
            data = data.removesuffix(b"\r")
        line = Line(data, self._offset, self._length + newline, self._truncated)
        self._offset += line.length
        self._head = bytearray()
        self._length = 0
        self._truncated = False
        return line


class RawFile:
    """The bytes of a stream as they came, at most `keep` of them: a flood must not fill the disk."""

    def __init__(self, path: Path, keep: int = KEEP) -> None:
        # A symlink is refused: a skill could point it anywhere.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self.fd: int | None = os.open(path, flags, 0o600)
        self.size = os.fstat(self.fd).st_size
        self.keep = keep
        self._room = keep - self.size

    @property
    def is_empty(self) -> bool:
        return self._room == self.keep

    @property
    def is_full(self) -> bool:
        return self._room < 0

    def append(self, data: bytes) -> None:
        if self.fd is None or self._room < 0:
            return
        if len(data) > self._room:
            data = data[: self._room] + b"\n[turnkeeper: the output beyond this was not kept]\n"
            self._room = -1
        else:
            self._room -= len(data)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self.fd, rest) :]
        except OSError:
            self.close()  # better a file that ends early than one with a hole
            raise

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


# A raw ESC or BEL is never part of valid JSON, so taking them out cannot change an event.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, bracketed paste
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"  # the short ones, and the opening of a string that never ends
    r"|[\x1b\x07]"
)
# Line erased, or cursor back at the first column and erasing: what stood before was a spinner.
_REDRAW = re.compile(r"\x1b\[2K|\x1b\[[01]?G|\r\x1b\[0?[JK]")


def plain(data: bytes) -> str:
    """The text a person would see: no byte order mark, no escape sequences, no spinner drawn over."""
    text = data.decode("utf-8", "replace")
    if "\x1b" in text or "\x07" in text:
        drawn = [_ESCAPES.sub("", part) for part in _REDRAW.split(text)]
        text = next((part for part in reversed(drawn) if part.strip()), "")
    return text.removeprefix("\ufeff")
