"""What comes in as a stream: the bytes of an engine, its escape sequences and secrets, events over HTTP."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from random import Random

from turnkeeper.client.sse import Frame, Parser
from turnkeeper.core.errors import CursorInvalid
from turnkeeper.engines.keypatterns import Keys
from turnkeeper.engines.lines import KEPT, MAX_LINE, Line, LineAssembler, RawFile, plain
from turnkeeper.engines.veil import Known, Veil
from turnkeeper.web.events import MAX_DIGITS, read_cursor

LINE_ENDS = (
    b"\n", b"\r", b"\r\n", b"\n\n", b"\xe2\x80\xa8", b"\xc2\x85", b"\xef\xbb\xbf", b"\0", b"\xff",
)  # fmt: skip
ESCAPES = (
    b"\x1b", b"\x1b[", b"\x1b[0m", b"\x1b[2K", b"\x1b[1G", b"\r\x1b[K", b"\x1b]0;", b"\x1b]8;;", b"\x07",
    b"\x1b\\", b"\x1bP", b"\x1b^", b"\x1b_", b"\x1b(B", b"\x9b", b"\xef\xbb\xbf", b"\xe2\xa0\x8b", b"\r", b"{}",
)  # fmt: skip
KEY, LONGER, QUOTED = "sk-aaab-aaac", "sk-aaab-aaac-aaab", 'quo"ted\\key\n'
ONCE = json.dumps(QUOTED)[1:-1]
TWICE = json.dumps(ONCE)[1:-1]
SECRETS = (
    *(word.encode() for word in (KEY, LONGER, QUOTED, ONCE, TWICE)),
    b"sk-",
    b"aaa",
    b"-aaac",
    b"\\",
    b"key",
)
FRAMES = (
    b"event:", b"data:", b"data: {}", b"id: 7", b": heartbeat", b"\n", b"\n\n", b"\r\n", b"retry: 1",
    b"\xef\xbb\xbf",
)  # fmt: skip
DIGITS = (
    b"0", b"1", b"-", b"+", b" ", b"_", b".", b"e", b"\xd9\xa1", b"\xc2\xb2", b"\0", b",", b"null", b"%31",
)  # fmt: skip
LAST_SEQ = 120


def chunks(data: bytes) -> list[bytes]:
    """Cut where the bytes themselves say, sometimes byte by byte."""
    chance = Random(data)
    if len(data) < 2000 and chance.random() < 0.2:
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted(chance.choices(range(len(data) + 1), k=chance.randint(0, 12)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def check_lines(data: bytes) -> None:
    """The same lines at any cut; together they are the stream; no line keeps more than it may."""
    for longest in (1, 16, MAX_LINE):
        whole = _assembled([data], longest)
        assert _assembled(chunks(data), longest) == whole
        assert b"".join(data[line.offset : line.offset + line.length] for line in whole) == data
        for line in whole:
            body = data[line.offset : line.offset + line.length].removesuffix(b"\n")
            assert b"\n" not in body
            assert line.truncated == (len(body) > longest)
            kept = body[: min(longest, KEPT)] if line.truncated else body.removesuffix(b"\r")
            assert line.data == kept
    _check_moved(data)
    _check_raw(data)


def _assembled(pieces: list[bytes], longest: int) -> list[Line]:
    assembler = LineAssembler(longest)
    return [line for piece in pieces for line in assembler.feed(piece)] + assembler.close()


def _check_moved(data: bytes) -> None:
    """A stream that goes on in another file: its open line is found there, whole."""
    chance = Random(data + b"moved")
    at, place = chance.randint(0, len(data)), chance.randint(0, 1000)
    assembler = LineAssembler()
    before = assembler.feed(data[:at])
    head = assembler.move(place)
    after = assembler.feed(data[at:]) + assembler.close()
    stood = b"".join(data[line.offset : line.offset + line.length] for line in before)
    assert stood + head == data[:at]
    moved = head + data[at:]
    assert b"".join(moved[line.offset - place :][: line.length] for line in after) == moved


def _check_raw(data: bytes) -> None:
    """Kept as they came, up to the limit, and the file says where it ends early."""
    with tempfile.TemporaryDirectory() as folder:
        for keep in (8, 1 << 20):
            raw = RawFile(Path(folder) / str(keep), keep)
            for piece in chunks(data):
                raw.append(piece)
            raw.close()
            kept = (Path(folder) / str(keep)).read_bytes()
            assert kept[:keep] == data[:keep]
            assert raw.is_full == (len(data) > keep) == (b"was not kept" in kept[keep:])


def check_plain(data: bytes) -> None:
    """Nothing that a terminal obeys is left, nothing is made up, and ordinary text stays as it is."""
    text = data.decode("utf-8", "replace")
    shown = plain(data)
    assert not {"\x1b", "\x07"} & set(shown)
    assert len(shown) <= len(text)
    rest = iter(text)
    assert all(char in rest for char in shown), "it says what was not there, or in another order"
    if not {"\x1b", "\x07"} & set(text):
        assert shown == text.removeprefix("\ufeff")
    # Whatever a line is dressed in, it is the same line.
    line = re.sub(r"[\x00-\x1f]", "", text).lstrip("\ufeff")
    if line.strip():
        dressed = f"\ufeff\x1b[?2004h\x1b[1;32m{line}\x1b[0m\x1b]0;title\x07"
        assert plain(dressed.encode()) == line
        assert plain(f"thinking\x1b[2K\x1b[1G{line}".encode()) == line


def check_veil(data: bytes) -> None:
    """No form of a secret is left, no byte is lost, and what is no part of one is as it was."""
    shown = _veiled(chunks(data))
    assert shown == _veiled([data])
    assert len(shown) == len(data)
    forms = Known([KEY, LONGER, QUOTED]).index.forms
    assert _forms() <= forms
    spans = [(found, found + len(form)) for form in forms for found in _places(form, data)]
    keys = Keys()
    spans += [*keys.find(data)[0], *keys.find(b"", is_last=True)[0]]
    secret = {at for start, end in spans for at in range(start, end)}
    starred = (0x2A if at in secret and byte not in b"\r\n" else byte for at, byte in enumerate(data))
    assert shown == bytes(starred)


def _veiled(pieces: list[bytes]) -> bytes:
    veil = Veil([KEY, LONGER, QUOTED, "short"])
    return b"".join([*map(veil.hide, pieces), veil.close()])


def _forms() -> set[bytes]:
    return {text.encode() for text in (KEY, LONGER, QUOTED, ONCE, TWICE)}


def _places(form: bytes, data: bytes) -> list[int]:
    return [found.start() for found in re.finditer(b"(?=" + re.escape(form) + b")", data)]


def check_client_sse(data: bytes) -> None:
    """The same frames at any cut: those that are finished by an empty line, as they stand between two of them."""
    parser = Parser()
    frames = [frame for piece in chunks(data) for frame in parser.feed(piece)]
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")[:-1]]
    expected, block = [], list[bytes]()
    for line in lines:
        if line:
            block.append(line)
        else:
            expected += _frame(block)
            block = []
    assert frames == expected
    assert sum(len(frame.data) for frame in frames) <= len(data)


def _frame(block: list[bytes]) -> list[Frame]:
    fields = [(name, value.removeprefix(b" ")) for name, _, value in (line.partition(b":") for line in block)]
    words = [value for name, value in fields if name == b"data"]
    names = [value.decode("utf-8", "replace") for name, value in fields if name == b"event"]
    return [Frame((names or [""])[-1] or "message", b"\n".join(words))] if words else []


def check_cursor(data: bytes) -> None:
    """As a header has it and as a query has it: a number that the log has reached, or a typed refusal."""
    for given in (data.decode("latin-1"), data.decode("utf-8", "replace")):
        is_number = re.fullmatch(rf"[0-9]{{1,{MAX_DIGITS}}}", given) is not None
        is_good = given == "" or (is_number and int(given) <= LAST_SEQ)
        try:
            after = read_cursor(given, LAST_SEQ)
        except CursorInvalid as refusal:
            facts, words = refusal.facts, refusal.message
        else:
            assert is_good
            assert after == int(given or "0")
            continue
        assert not is_good
        assert facts == {"last_seq": LAST_SEQ}
        assert len(words) < 200
