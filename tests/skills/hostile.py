"""Archives that must not be unpacked, by the failure they would cause; each with the entry to blame and why."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass

from tests.skills.archives import (
    DEFLATED,
    DESCRIBED_LATER,
    ENCRYPTED,
    LZMA,
    STORED,
    Member,
    build,
    deflated,
    descriptor,
)

MIB = 1024 * 1024
FULL = 0xFFFF_FFFF


@dataclass(frozen=True)
class Hostile:
    data: bytes
    entry: str | None
    words: str
    """Part of the message."""


def named(name: str | bytes, words: str, entry: str | None = None) -> Hostile:
    """Between two good entries, so that nothing of them may stay either."""
    members = Member("before.txt", b"x"), Member(name, b"evil"), Member("z/after.txt", b"x")
    return Hostile(build(*members), str(name) if entry is None else entry, words)


def of_kind(kind: int, words: str, name: str = "it") -> Hostile:
    return Hostile(build(Member("a.txt", b"x"), Member(name, b"/etc/passwd", mode=kind | 0o777)), name, words)


def attributes(bits: int) -> Hostile:
    return Hostile(build(Member("it", b"x", listed={"attributes": bits})), "it", "is a link or a label")


def together(*names: str) -> bytes:
    return build(*(Member(name, b"" if name.endswith("/") else b"x", mode=0) for name in names))


def by_the_library(size: int) -> bytes:
    """Half a zip64 archive, as `zipfile` writes it when asked to."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, archive.open("big", "w", force_zip64=True) as file:
        file.write(bytes(size))
    return out.getvalue()


def quoting(data: bytes) -> bytes:
    """The first entry quotes the header of the second and goes on with its stream: both inflate, both fit."""
    inner = Member("b", data)
    header = inner.block()[: -len(inner.body)]
    quote = struct.pack("<BHH", 0, len(header), len(header) ^ 0xFFFF) + header
    outer = Member("a", header + data, packed=quote + inner.body)
    return build(outer, Member("b", data, start=len(outer.block()) - len(inner.block())))


GOOD = build(Member("a.txt", b"first " * 50), Member("b/c.txt", b"second " * 50))
BLANKS = bytes(20 * MIB)
BOMB = deflated(BLANKS)

NAMES = {
    "parent": named("../evil", "leads out of"),
    "parent inside": named("a/../../evil", "leads out of"),
    "parent that comes back": named("a/../evil", "leads out of"),
    "parent alone": named("..", "leads out of"),
    "absolute": named("/etc/evil", "absolute path"),
    "root": named("/", "absolute path"),
    "unc": named("//server/share/evil", "absolute path"),
    "drive": named("C:/evil", "absolute path"),
    "drive and no slash": named("c:evil", "absolute path"),
    "backslash": named("..\\evil", "backslash"),
    "drive and backslash": named("C:\\evil", "backslash"),
    "nul": named("fine.txt\0/../../evil", "control character", "fine.txt\\x00/../../evil"),
    "nul at the end": named("fine.txt\0", "control character", "fine.txt\\x00"),
    "line break": named("a\nb", "control character", "a\\nb"),
    "escape": named("\x1b[2Jx", "control character", "\\x1b[2Jx"),
    "delete": named("a\x7f", "control character", "a\\x7f"),
    "line separator": named("a\u2028b", "control character", "a\\u2028b"),
    "turned around": named("a\u202egpj.exe", "control character", "a\\u202egpj.exe"),
    "empty name": named("", "empty part"),
    "empty part": named("a//b", "empty part"),
    "dot part": named("a/./b", "empty part"),
    "dot": named(".", "empty part"),
    "two slashes at the end": named("a//", "empty part"),
    "full-width dots": named("\uff0e\uff0e/evil", "looks like a path"),
    "two dot leader": named("\u2025/evil", "looks like a path"),
    "full-width slash": named("..\uff0fevil", "looks like a path"),
    "division slash": named("a\u2215b", "looks like a path"),
    "device": named("a/CON", "name of a device"),
    "device with a suffix": named("aux.txt", "name of a device"),
    "dot at the end": named("evil.", "ends in a dot"),
    "blank at the end": named("evil /x", "ends in a dot"),
    "part too long": named("x" * 256, "too long", "x" * 199 + "…"),
    "part too long in bytes": named("ü" * 128, "too long"),
    "path too long": named("/".join(["x" * 200] * 6), "too long", ("x" * 200)[:199] + "…"),
    "name of 60,000 bytes": named("a/" * 30_000, "too long", ("a/" * 100)[:199] + "…"),
    "too deep": named("/".join("abcdefghijklmnopq"), "deeper than 16"),
    "not utf-8": named(b"\xff\xfe", "not UTF-8", "\\xff\\xfe"),
    "half a surrogate pair": named(b"\xed\xa0\x80", "not UTF-8", "\\xed\\xa0\\x80"),
    "case of a file": Hostile(together("Read.me", "READ.ME"), "READ.ME", "the name of 'Read.me'"),
    "case of a folder": Hostile(together("Docs/a", "docs/b"), "docs/b", "the name of 'Docs'"),
    "sharp s": Hostile(together("straße", "STRASSE"), "STRASSE", "the name of 'straße'"),
    "composed and not": Hostile(together("\u00e9", "e\u0301"), "e\u0301", "the name of"),
}

KINDS = {
    "link": of_kind(stat.S_IFLNK, "is a link"),
    "link with the name of a folder": of_kind(stat.S_IFLNK, "is a link", "it/"),
    "link, then a file through it": Hostile(
        build(Member("d", b"/tmp", mode=stat.S_IFLNK | 0o777), Member("d/evil", b"x")), "d", "is a link"
    ),
    "fifo": of_kind(stat.S_IFIFO, "is a fifo"),
    "socket": of_kind(stat.S_IFSOCK, "is a socket"),
    "character device": of_kind(stat.S_IFCHR, "is a device"),
    "block device": of_kind(stat.S_IFBLK, "is a device"),
    "no kind there is": of_kind(0xF000, "neither a file nor a folder"),
    "folder with the name of a file": of_kind(stat.S_IFDIR, "a folder with the name of a file"),
    "file with the name of a folder": Hostile(build(Member("d/")), "d/", "a file with the name of a folder"),
    "folder with data": Hostile(build(Member("d/", b"x", mode=0)), "d/", "is a folder and has data"),
    "windows link": attributes(0x0400),
    "disk label": attributes(0x0008),
}

BOMBS = {
    "ratio": Hostile(build(Member("blanks", BLANKS, packed=BOMB)), "blanks", "200 times"),
    "ratio of many": Hostile(
        build(*(Member(f"{n}", BLANKS[:MIB], packed=deflated(BLANKS[:MIB])) for n in range(9))),
        "1",
        "200 times",
    ),
    "too many": Hostile(build(*(Member(str(n), method=STORED) for n in range(2001))), None, "2001 entries"),
    "too large by its own word": Hostile(
        build(
            Member("huge", bytes(2 * MIB), method=DEFLATED, packed=bytes(2 * MIB), says={"size": 300 * MIB})
        ),
        "huge",
        "grows beyond",
    ),
    "too large together": Hostile(
        build(*(Member(f"{n}", packed=bytes(MIB), says={"size": 90 * MIB}) for n in range(4))),
        "2",
        "grows beyond",
    ),
    "larger than it says": Hostile(
        build(Member("blanks", BLANKS, packed=BOMB, says={"size": 100, "crc": zlib.crc32(bytes(100))})),
        "blanks",
        "larger than the 100 bytes",
    ),
    "empty by its own word": Hostile(
        build(Member("blanks", BLANKS, packed=BOMB, says={"size": 0, "crc": 0})),
        "blanks",
        "larger than the 0 bytes",
    ),
    "folder that inflates": Hostile(
        build(Member("d/", BLANKS, packed=BOMB, mode=0, says={"size": 0, "crc": 0})),
        "d/",
        "larger than the 0 bytes",
    ),
    "shorter than it says": Hostile(
        build(Member("it", b"abc", says={"size": 4})), "it", "has 3 bytes and says it has 4"
    ),
    "all entries the same bytes": Hostile(
        build(Member("0", b"x" * 99), *(Member(str(n), b"x" * 99, start=0) for n in range(1, 9))),
        "1",
        "another name",
    ),
    "quoted headers": Hostile(quoting(b"x" * 99), "a", "shares its bytes"),
    "two entries of one file": Hostile(
        build(Member("a", b"x" * 99), Member("a", b"x" * 99, start=0)), "a", "shares its bytes"
    ),
    "entry inside another": Hostile(
        build(Member("a", method=STORED, data=Member("b", b"x").block()), Member("b", b"x", start=31)),
        "a",
        "shares its bytes",
    ),
    "table of 8 MiB": Hostile(
        build(*(Member(str(n), listed={"extra": bytes(60_000)}) for n in range(140))), None, "a table of"
    ),
    "table that is not there": Hostile(build(length=4_000_000, start=0), None, "table elsewhere"),
}

ROTTEN = {
    "empty file": Hostile(b"", None, "not a zip archive"),
    "text": Hostile(b"# SKILL.md\n" * 50, None, "not a zip archive"),
    "tar": Hostile(b"SKILL.md".ljust(257, b"\0") + b"ustar\x0000" + bytes(9000), None, "not a zip archive"),
    "only the beginning": Hostile(GOOD[:100], None, "not a zip archive"),
    "last byte gone": Hostile(GOOD[:-1], None, "not a zip archive"),
    "first byte gone": Hostile(GOOD[1:], None, "table elsewhere"),
    "hole in the data": Hostile(GOOD[:40] + GOOD[41:], None, "table elsewhere"),
    "one byte of data flipped": Hostile(GOOD[:36] + bytes([GOOD[36] ^ 4]) + GOOD[37:], "a.txt", "is damaged"),
    "something before it": Hostile(b"#!/bin/sh\nexit\n" + GOOD, None, "table elsewhere"),
    "something before it, and it knows": Hostile(
        build(Member("a", b"x"), prefix=b"#!/bin/sh\nexit\n"), None, "before its beginning"
    ),
    "something before nothing": Hostile(build(prefix=b"GIF89a"), None, "before its beginning"),
    "something after it": Hostile(GOOD + b"\0", None, "not a zip archive"),
    "two archives in one file": Hostile(GOOD + build(Member("x", b"y")), None, "table elsewhere"),
    "something between": Hostile(
        build(Member("a", b"x", after=b"%PDF-1.7"), Member("b", b"y")), "a", "belong to no entry"
    ),
    "something before the table": Hostile(
        build(Member("a", b"x", after=bytes(12))), "a", "belong to no entry"
    ),
    "comment that is too short": Hostile(
        build(Member("a"), comment=b"abc", comment_length=2), None, "not a zip"
    ),
    "encrypted": Hostile(build(Member("s", b"x" * 20, flags=ENCRYPTED)), "s", "is encrypted"),
    "strongly encrypted": Hostile(build(Member("s", b"x", flags=0x0040)), "s", "is encrypted"),
    "encrypted only in its own header": Hostile(
        build(Member("s", b"x", own={"flags": ENCRYPTED})), "s", "is encrypted"
    ),
    "patched data": Hostile(build(Member("s", b"x", flags=0x0020)), "s", "flags 0x0020"),
    "lzma": Hostile(build(Member("s", b"x", method=LZMA)), "s", "method 14"),
    "method that is none": Hostile(build(Member("s", b"x", method=0x6363)), "s", "method 25443"),
    "wrong checksum": Hostile(build(Member("s", b"abc", says={"crc": 1})), "s", "checksum is wrong"),
    "wrong checksum of a stored one": Hostile(
        build(Member("s", b"abc", method=STORED, says={"crc": 1})), "s", "checksum is wrong"
    ),
    "stored in two sizes": Hostile(
        build(Member("s", b"abc", method=STORED, says={"size": 9})), "s", "two sizes, 3 and 9"
    ),
    "stream that breaks off": Hostile(
        build(Member("s", b"abc" * 99, packed=deflated(b"abc" * 99)[:-2])), "s", "breaks off"
    ),
    "stream of nothing": Hostile(build(Member("s", packed=b"")), "s", "breaks off"),
    "stream with more behind it": Hostile(
        build(Member("s", b"abc", packed=deflated(b"abc") + b"more")), "s", "more data than its stream"
    ),
    "stream with much more behind it": Hostile(
        build(Member("s", b"abc", packed=deflated(b"abc") + bytes(8 * MIB))), "s", "more data than its stream"
    ),
    "not a stream": Hostile(build(Member("s", b"abc", packed=b"\xff" * 99)), "s", "cannot be inflated"),
    "other name in its own header": Hostile(
        build(Member("good", b"x", own={"name": b"evil"})), "good", "another name"
    ),
    "other size in its own header": Hostile(
        build(Member("s", b"abc", own={"size": 4})), "s", "otherwise than in the table"
    ),
    "other method in its own header": Hostile(
        build(Member("s", b"abc", own={"method": STORED})), "s", "otherwise than in the table"
    ),
    "descriptor that lies": Hostile(
        build(
            Member("s", b"abc", flags=DESCRIBED_LATER, after=descriptor(b"xyz", deflated(b"abc"))),
        ),
        "s",
        "belong to no entry",
    ),
    "descriptor that is missing": Hostile(
        build(Member("s", b"a", flags=DESCRIBED_LATER)), "s", "belong to no entry"
    ),
    "no header": Hostile(build(Member("a", b"x"), Member("b", b"x", start=1)), "b", "no header"),
    "header behind the end": Hostile(build(Member("b", b"x", start=FULL - 1)), "b", "no header"),
    "data behind the end": Hostile(build(Member("b", says={"packed": 5000})), "b", "behind the end"),
    "fewer entries than it says": Hostile(build(Member("a", b"x"), here=2, count=2), None, "no entry 2"),
    "more entries than it says": Hostile(
        build(Member("a", b"x"), Member("b", b"x"), here=1, count=1), None, "more in its table"
    ),
    "table cut inside a record": Hostile(
        build(Member("a"), before_end=b"PK\x01\x02" + bytes(10), here=2, count=2, length=47 + 14),
        None,
        "no entry 2",
    ),
    "table cut inside a name": Hostile(
        build(Member("a", listed={"name_length": 9})), None, "table that is cut off"
    ),
    "one disk of two": Hostile(build(Member("a", b"x"), disk=1, table_disk=1), None, "one part of several"),
    "half of it on another disk": Hostile(build(Member("a", b"x"), count=2), None, "one part of several"),
    "entry on another disk": Hostile(build(Member("a", b"x", listed={"disk": 3})), "a", "another part"),
    "zip64 by its end": Hostile(build(Member("a", b"x"), here=0xFFFF, count=0xFFFF), None, "zip64"),
    "zip64 by its table": Hostile(build(Member("a", b"x"), length=FULL, start=FULL), None, "zip64"),
    "zip64 by its locator": Hostile(
        build(Member("a", b"x"), before_end=b"PK\x06\x07" + bytes(16)), None, "zip64"
    ),
    "zip64 entry": Hostile(
        build(
            Member("a", b"x", listed={"size": FULL, "extra": struct.pack("<HHQ", 1, 8, 1), "needs": 45}),
        ),
        "a",
        "zip64",
    ),
    "zip64 by its own header": Hostile(by_the_library(9), "big", "otherwise than in the table"),
    "zip64 entry that is elsewhere": Hostile(
        build(Member("a", b"x", listed={"start": FULL, "extra": struct.pack("<HHQ", 1, 8, 2**63)})),
        "a",
        "zip64",
    ),
}

TWICE = {
    "file": Hostile(together("SKILL.md", "SKILL.md"), "SKILL.md", "twice"),
    "folder": Hostile(together("d/", "d/x", "d/"), "d/", "twice"),
    "file, then folder": Hostile(together("a", "a/"), "a/", "both a file and a folder"),
    "folder, then file": Hostile(together("a/b", "a"), "a", "both a file and a folder"),
    "file, then file inside": Hostile(together("a", "a/b"), "a/b", "both a file and a folder"),
}
