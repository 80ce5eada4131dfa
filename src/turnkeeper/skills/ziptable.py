"""Reads the table of a zip archive and the bytes of its entries, and believes neither before it has counted.

`zipfile` is not used: what it lets pass differs between versions of Python, and it reads on where two readers could
see two archives. Here every byte of a file must belong to exactly one entry, to the table, or to the comment.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from turnkeeper.core.errors import ArchiveRefused

STORED = 0
DEFLATED = 8
CHUNK = 256 * 1024
MAX_TABLE = 4 * 1024 * 1024
"""Bytes of the table, which is read whole: names of the allowed length, two thousand times."""
LONGEST_SHOWN = 200

_END = struct.Struct("<4s4H2LH")
_LISTED = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_END_MARK, _LISTED_MARK, _LOCAL_MARK = b"PK\x05\x06", b"PK\x01\x02", b"PK\x03\x04"
_DESCRIPTOR_MARK, _ZIP64_MARK = b"PK\x07\x08", b"PK\x06\x07"
_ZIP64_LOCATOR = 20
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFF_FFFF
"""What zip64 writes where a number did not fit."""

_ENCRYPTED = 0x2041  # plainly, strongly, or with a masked table
_DESCRIBED_LATER = 0x0008
_UTF8 = 0x0800
_KNOWN_FLAGS = 0x0006 | _DESCRIBED_LATER | _UTF8  # the first: how hard the writer tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    attributes: int
    start: int
    """Where its own header begins."""
    data_start: int = 0

    @property
    def is_folder(self) -> bool:
        return self.name.endswith("/")


@dataclass(frozen=True, slots=True)
class _Table:
    start: int
    size: int
    count: int


class _Listed(NamedTuple):
    mark: bytes
    made_by: int
    needs: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    packed: int
    size: int
    name_length: int
    extra_length: int
    comment_length: int
    disk: int
    internal: int
    attributes: int
    start: int


class _Local(NamedTuple):
    mark: bytes
    needs: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    packed: int
    size: int
    name_length: int
    extra_length: int


def refused(what: str, name: str | None = None) -> ArchiveRefused:
    if name is None:
        return ArchiveRefused(f"the archive {what}")
    return ArchiveRefused(f"the archive's entry '{shown(name)}' {what}", entry=shown(name))


def shown(name: str) -> str:
    """For a message or a log: of bounded length, and nothing in it that a terminal would obey."""
    cut = name if len(name) <= LONGEST_SHOWN else name[: LONGEST_SHOWN - 1] + "…"
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in cut
    )


def entries(file: BinaryIO, most: int) -> list[Entry]:
    """All entries in the order of the table; together with it they cover the whole file."""
    table = _find_table(file, most)
    listed = list(_listed(_read(file, table.start, table.size), table.count))
    located = [_located(file, entry, table.start) for entry in listed]
    _check_cover(file, located, table.start)
    return located


def contents(file: BinaryIO, entry: Entry) -> Iterator[bytes]:
    """The bytes of an entry in pieces; refused as soon as they are not what the table says."""
    crc = size = 0
    for piece in _inflated(file, entry) if entry.method == DEFLATED else _packed(file, entry):
        size += len(piece)
        if size > entry.size:
            raise refused(f"is larger than the {entry.size} bytes it says it has", entry.name)
        crc = zlib.crc32(piece, crc)
        yield piece
    if size < entry.size:
        raise refused(f"has {size} bytes and says it has {entry.size}", entry.name)
    if crc != entry.crc:
        raise refused("is damaged: its checksum is wrong", entry.name)


def _find_table(file: BinaryIO, most: int) -> _Table:
    size = file.seek(0, os.SEEK_END)
    tail_start = max(size - _END.size - _FULL_16, 0)
    tail = _read(file, tail_start, size - tail_start)
    at = _find_end(tail)
    _, disk, table_disk, here, count, length, start, _ = _END.unpack_from(tail, at)
    locator = tail[max(at - _ZIP64_LOCATOR, 0) : at]
    if (
        locator.startswith(_ZIP64_MARK)
        or _FULL_16 in (disk, table_disk, here, count)
        or _FULL_32 in (length, start)
    ):
        raise refused("is of the zip64 kind, which nothing of an allowed size needs")
    if disk or table_disk or here != count:
        raise refused("is one part of several")
    if count > most:
        raise refused(f"has {count} entries; at most {most} are taken")
    if length > MAX_TABLE:
        raise refused(f"has a table of {length} bytes; at most {MAX_TABLE} are taken")
    if start + length != tail_start + at:
        raise refused("has its table elsewhere than it says, or something before its beginning")
    return _Table(start, length, count)


def _find_end(tail: bytes) -> int:
    """The last record that, with its comment, ends where the file ends."""
    at = len(tail)
    while (at := tail.rfind(_END_MARK, 0, at)) >= 0:
        if at + _END.size <= len(tail) and at + _END.size + _END.unpack_from(tail, at)[-1] == len(tail):
            return at
    raise ArchiveRefused("the file is not a zip archive, or it is cut off")


def _listed(table: bytes, count: int) -> Iterator[Entry]:
    at = 0
    for number in range(1, count + 1):
        if at + _LISTED.size > len(table) or not table.startswith(_LISTED_MARK, at):
            raise refused(f"says it has {count} entries; its table has no entry {number}")
        record = _Listed._make(_LISTED.unpack_from(table, at))
        at += _LISTED.size
        raw_name = table[at : at + record.name_length]
        at += record.name_length + record.extra_length + record.comment_length
        if at > len(table):
            raise refused("has a table that is cut off")
        yield _entry(record, raw_name)
    if at != len(table):
        raise refused(f"has more in its table than the {count} entries it says it has")


def _entry(record: _Listed, raw_name: bytes) -> Entry:
    name = _decoded(raw_name, record.flags)
    if _FULL_32 in (record.packed, record.size, record.start) or record.disk == _FULL_16:
        raise refused("is of the zip64 kind, which nothing of an allowed size needs", name)
    if record.disk:
        raise refused("is in another part of the archive", name)
    _check_flags(record.flags, name)
    if record.method not in (STORED, DEFLATED):
        raise refused(f"is packed by method {record.method}; only stored and deflated are taken", name)
    if record.method == STORED and record.packed != record.size:
        raise refused(f"is stored and says two sizes, {record.packed} and {record.size}", name)
    return Entry(
        name=name,
        raw_name=raw_name,
        flags=record.flags,
        method=record.method,
        crc=record.crc,
        packed=record.packed,
        size=record.size,
        attributes=record.attributes,
        start=record.start,
    )


def _decoded(raw: bytes, flags: int) -> str:
    """Some writers (macOS) use UTF-8 without saying so; old ones use the code page of the first PC."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        if flags & _UTF8:
            raise refused("has a name that is not UTF-8", raw.decode("utf-8", "backslashreplace")) from None
        return raw.decode("cp437")


def _check_flags(flags: int, name: str) -> None:
    if flags & _ENCRYPTED:
        raise refused("is encrypted", name)
    if flags & ~_KNOWN_FLAGS:
        raise refused(f"is packed in a way that is not known here (flags {flags:#06x})", name)


def _located(file: BinaryIO, entry: Entry, end: int) -> Entry:
    """The entry with the place of its data, once its own header says the same as the table."""
    if entry.start + _LOCAL.size > end:
        raise refused("has no header in the archive", entry.name)
    header = _Local._make(_LOCAL.unpack(_read(file, entry.start, _LOCAL.size)))
    if header.mark != _LOCAL_MARK:
        raise refused("has no header in the archive", entry.name)
    name_start = entry.start + _LOCAL.size
    data_start = name_start + header.name_length + header.extra_length
    if data_start + entry.packed > end:
        raise refused("says that it goes on behind the end of the data", entry.name)
    if _read(file, name_start, header.name_length) != entry.raw_name:
        raise refused("has another name in its own header", entry.name)
    _check_flags(header.flags, entry.name)
    flags = header.flags | entry.flags
    own, listed = [header.method], [entry.method]
    if not flags & _DESCRIBED_LATER:
        own += [header.crc, header.packed, header.size]
        listed += [entry.crc, entry.packed, entry.size]
    if own != listed:
        raise refused("is described in its own header otherwise than in the table", entry.name)
    return replace(entry, flags=flags, data_start=data_start)


def _check_cover(file: BinaryIO, located: list[Entry], end: int) -> None:
    """Entries that share bytes are how small archives become huge; bytes of nobody are how two files are one."""
    in_order = sorted(located, key=lambda entry: entry.start)
    starts = [*(entry.start for entry in in_order), end]
    if starts[0] != 0:
        raise refused("has something before its beginning")
    for entry, (_, following) in zip(in_order, pairwise(starts), strict=True):
        data_end = entry.data_start + entry.packed
        if following < data_end:
            raise refused("shares its bytes with another entry", entry.name)
        forms = _descriptors(entry) if entry.flags & _DESCRIBED_LATER else [b""]
        gap = following - data_end
        if gap not in map(len, forms) or _read(file, data_end, gap) not in forms:
            raise refused("is followed by bytes that belong to no entry", entry.name)


def _descriptors(entry: Entry) -> list[bytes]:
    """What a streaming writer says after the data; with or without its mark, in either width."""
    forms = [struct.pack(form, entry.crc, entry.packed, entry.size) for form in ("<3L", "<L2Q")]
    return [*forms, *(_DESCRIPTOR_MARK + form for form in forms)]


def _inflated(file: BinaryIO, entry: Entry) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for packed in _packed(file, entry):
            rest = packed
            while rest:
                if inflater.eof:
                    raise refused("has more data than its stream needs", entry.name)
                yield inflater.decompress(rest, CHUNK)
                rest = inflater.unconsumed_tail or inflater.unused_data
        yield inflater.flush()  # a few bytes at the most: all input has been taken
    except zlib.error as error:
        raise refused(f"is damaged: it cannot be inflated ({error})", entry.name) from None
    if not inflater.eof:
        raise refused("is damaged: its stream breaks off", entry.name)


def _packed(file: BinaryIO, entry: Entry) -> Iterator[bytes]:
    at, end = entry.data_start, entry.data_start + entry.packed
    while at < end:
        piece = _read(file, at, min(CHUNK, end - at))
        at += len(piece)
        yield piece


def _read(file: BinaryIO, at: int, length: int) -> bytes:
    file.seek(at)
    data = file.read(length)
    if len(data) != length:
        raise refused("is cut off")
    return data
