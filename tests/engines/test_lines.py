"""Bytes to lines: the same lines at any chunking, in bounded memory, found again in the raw bytes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnkeeper.engines.lines import KEPT, MAX_LINE, Line, LineAssembler, RawFile, plain

MIB = 1024 * 1024


def assemble(chunks: list[bytes], max_line: int = MAX_LINE) -> list[Line]:
    assembler = LineAssembler(max_line)
    return [line for chunk in chunks for line in assembler.feed(chunk)] + assembler.close()


def texts(*chunks: bytes) -> list[bytes]:
    return [line.data for line in assemble(list(chunks))]


pieces = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"a", b"{}", b"\xe2\x80\xa8", b"\xc2\x85", b"\xff", b"\0", b"x" * 40]
)
streams = st.lists(pieces, max_size=30).map(b"".join)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    stream = draw(streams)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    return stream, [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


@pytest.mark.failure("B04")
@given(cut_streams(), st.sampled_from([1, 7, 16, MAX_LINE]))
def test_lines_do_not_depend_on_chunks(stream_and_chunks: tuple[bytes, list[bytes]], max_line: int) -> None:
    stream, chunks = stream_and_chunks
    lines = assemble(chunks, max_line)
    assert lines == assemble([stream], max_line)
    # Together they are the stream, byte for byte.
    assert b"".join(stream[line.offset : line.offset + line.length] for line in lines) == stream
    for line in lines:
        whole = stream[line.offset : line.offset + line.length].removesuffix(b"\n")
        assert line.truncated == (len(whole) > max_line)
        assert line.data == (whole[:max_line] if line.truncated else whole.removesuffix(b"\r"))


@pytest.mark.failure("B03", "B04")
def test_line_ends() -> None:
    assert texts(b"one\r\n\ntw", b"o\r", b"\nlast") == [b"one", b"", b"two", b"last"]
    assert texts(b"no newline\r") == [b"no newline"]
    assert texts(b"a\r\r\n") == [b"a\r"]
    assert texts() == texts(b"") == []


@pytest.mark.failure("B08")
def test_only_a_newline_byte_ends_a_line() -> None:
    data = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\rh".encode()
    assert texts(data + b"\n") == [data]


@pytest.mark.failure("B05")
def test_endless_line_costs_no_memory() -> None:
    assembler = LineAssembler()
    chunk = b"x" * 65536
    tracemalloc.start()
    for _ in range(1600):
        assert assembler.feed(chunk) == []
    (line,) = assembler.feed(b"\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert line == Line(b"x" * KEPT, 0, 1600 * 65536 + 1, truncated=True)
    assert peak < 3 * MAX_LINE
    assert assembler.feed(b"next\n") == [Line(b"next", line.length, 5, truncated=False)]


@pytest.mark.failure("B05")
def test_line_just_short_enough_is_whole() -> None:
    whole, cut = assemble([b"x" * MAX_LINE + b"\n", b"x" * (MAX_LINE + 1)])
    assert (len(whole.data), whole.truncated) == (MAX_LINE, False)
    assert (len(cut.data), cut.truncated) == (KEPT, True)
    assert assemble([b"abc\rdef\r\n"], max_line=4) == [Line(b"abc\r", 0, 9, truncated=True)]


@pytest.mark.failure("B05")
def test_long_line_in_tiny_chunks_is_whole() -> None:
    """An assembler that copied the line at every chunk would move 800 GB here, and never come back."""
    assembler = LineAssembler()
    for _ in range(640_000):
        assembler.feed(b"xxxx")
    assert len(assembler.close()[0].data) == 4 * 640_000


def test_open_line_moves_to_a_new_place() -> None:
    assembler = LineAssembler(max_line=10)
    assert assembler.feed(b"first\nsec") == [Line(b"first", 0, 6, truncated=False)]
    assert assembler.move(100) == b"sec"
    assert assembler.feed(b"ond\nthird\n") == [
        Line(b"second", 100, 7, truncated=False),
        Line(b"third", 107, 6, truncated=False),
    ]
    assembler.feed(b"x" * 15)
    assert assembler.move(0) == b"x" * 10
    assert assembler.feed(b"yy\n") == [Line(b"x" * 10, 0, 13, truncated=True)]


@pytest.mark.failure("B09")
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'\xef\xbb\xbf{"a":1}', '{"a":1}'),
        (b"\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mtrue\x1b[m", "red true"),
        (b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "textlink"),
        (b"\x1b[?2004h\x1b[200~pasted\x1b[201~\x1b[?2004l", "pasted"),
        (b"\x1bPq#0\x1b\\sixel\x1b(B\x1b7\x1b8\x1b=", "sixel"),
        (b"ding\x07dong\x1b", "dingdong"),
        (b'\x1b]0;no end {"a":1}', '0;no end {"a":1}'),
        (b"\xe2\xa0\x8b thinking\x1b[2K\x1b[1G\xe2\xa0\x99 thinking\x1b[2K\r{}", "\r{}"),
        (b"working...\r\x1b[K{}", "{}"),
        (b'{"a":1}\x1b[2K\r', '{"a":1}'),
        (b"\x1b[32m\x1b[Kmatch\x1b[m\x1b[K here", "match here"),
        (b'{"a":"\\u001b[1m"}', '{"a":"\\u001b[1m"}'),
    ],
)
def test_plain_text(raw: bytes, text: str) -> None:
    assert plain(raw) == text


@pytest.mark.failure("B07")
def test_plain_text_of_broken_bytes() -> None:
    assert plain(b"a\xff\xe2\x82b\0c") == "a\ufffd\ufffdb\0c"
    assert plain(b'"\\ud800"') == '"\\ud800"'


@given(st.binary(max_size=200))
def test_plain_never_fails(data: bytes) -> None:
    assert not {"\x1b", "\x07"} & set(plain(data))


@pytest.mark.parametrize(
    "raw", [b"\x1b[" * 200_000, b"\x1b]" * 200_000, b"\x1b[" + b"0" * 400_000, b"\x1bP" * 200_000]
)
def test_plain_comes_to_an_end(raw: bytes) -> None:
    assert not {"\x1b", "\x07"} & set(plain(raw))


@pytest.mark.failure("B14")
def test_raw_file_stops_at_its_limit(tmp_path: Path) -> None:
    raw = RawFile(tmp_path / "raw", keep=10)
    for chunk in (b"12345", b"67890", b"lost", b"lost"):
        raw.append(chunk)
    raw.close()
    raw.close()
    kept = (tmp_path / "raw").read_bytes()
    assert kept.startswith(b"1234567890\n[turnkeeper: ")
    assert b"lost" not in kept
    assert (tmp_path / "raw").stat().st_mode & 0o777 == 0o600


def test_raw_file_appends_and_refuses_a_symlink(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(b"before ")
    raw = RawFile(tmp_path / "raw")
    assert raw.size == 7
    raw.append(b"after")
    raw.close()
    assert (tmp_path / "raw").read_bytes() == b"before after"
    (tmp_path / "link").symlink_to(tmp_path / "raw")
    with pytest.raises(OSError, match="symbolic"):
        RawFile(tmp_path / "link")
