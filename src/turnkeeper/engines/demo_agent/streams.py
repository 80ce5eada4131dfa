"""The steps that are about bytes and not about words: what leaves the process, in which pieces, and when."""

from __future__ import annotations

import os

from .jsontext import dumps
from .script import invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .player import Beginning, Turn

DESCRIPTORS = {"stdout": 1, "stderr": 2}
CHUNK = 1 << 20


def write_all(fd: int, data: bytes) -> None:
    """Write to the descriptor itself: what was said is out, whatever happens to the process next."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def write(turn: Beginning, what: dict[str, str], to: str = "stdout", times: int = 1) -> None:
    """These bytes and no others: no newline is added. A text is UTF-8; bytes that are none come in base64."""
    data = _decoded(what["base64"]) if "base64" in what else _encoded(turn.text(what["text"]))
    at_once = max(CHUNK // max(len(data), 1), 1)
    while times > 0:
        turn.voice.wait(0)
        put(turn, to, data * min(times, at_once))
        times -= at_once


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _decoded(text: str) -> bytes:
    import binascii

    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise invalid(f"{text[:40]!r} is not base64: {error}") from error


def put(turn: Beginning, to: str, data: bytes) -> None:
    if to == "stdout":
        turn.voice.noise(data)
    else:
        write_all(DESCRIPTORS[to], data)


def event(turn: Beginning, said: Any, spread: bool = False) -> None:
    """A line of the protocol as it stands here, known or not; several objects share it, or one is spread over many."""
    objects = turn.filled(said if isinstance(said, list) else [said])
    text = "".join(_indented(each) if spread else dumps(each) for each in objects)
    turn.voice.noise(_encoded(text) + turn.voice.line_end)


def _indented(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=2)


def tell_session(turn: Turn, _: bool) -> None:
    turn.voice.announce(turn.session.id)


def pieces(turn: Beginning, size: int) -> None:
    turn.voice.piece = size


def line_end(turn: Beginning, text: str) -> None:
    turn.voice.line_end = text.encode()


def hold(turn: Beginning, _: bool) -> None:
    turn.voice.held = bytearray()


def close(turn: Beginning, stream: str) -> None:
    """Whoever reads it sees its end; what is said there from now on goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, DESCRIPTORS[stream])
    os.close(nowhere)
