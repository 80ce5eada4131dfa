"""Zip archives as no decent library would write them: every field can be made to lie."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STORED, DEFLATED, LZMA = 0, 8, 14
ENCRYPTED, DESCRIBED_LATER, UTF8 = 0x0001, 0x0008, 0x0800

Fields = dict[str, Any]


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@dataclass(frozen=True)
class Member:
    """One entry, honest unless told otherwise: `listed` is for the table, `own` for its own header, `says` for both."""

    name: str | bytes
    data: bytes = b""
    method: int = DEFLATED
    mode: int = stat.S_IFREG | 0o644
    flags: int = UTF8
    packed: bytes | None = None
    says: Fields = field(default_factory=dict)
    listed: Fields = field(default_factory=dict)
    own: Fields = field(default_factory=dict)
    after: bytes = b""
    """Whatever follows its data, such as a descriptor."""
    start: int | None = None
    """Where the table says it begins; its own bytes are left out then."""

    @property
    def raw_name(self) -> bytes:
        return self.name if isinstance(self.name, bytes) else self.name.encode()

    @property
    def body(self) -> bytes:
        if self.packed is not None:
            return self.packed
        return deflated(self.data) if self.method == DEFLATED else self.data

    def fields(self) -> Fields:
        return {
            "needs": 20,
            "flags": self.flags,
            "method": self.method,
            "crc": zlib.crc32(self.data),
            "packed": len(self.body),
            "size": len(self.data),
            "name": self.raw_name,
            "extra": b"",
        } | self.says

    def block(self) -> bytes:
        its = self.fields() | self.own
        header = struct.pack(
            "<4s5H3L2H",
            b"PK\x03\x04",
            *(its["needs"], its["flags"], its["method"], 0, 0x21),
            *(its["crc"], its["packed"], its["size"]),
            *(len(its["name"]), len(its["extra"])),
        )
        return header + bytes(its["name"]) + bytes(its["extra"]) + self.body + self.after

    def record(self, start: int) -> bytes:
        its = self.fields() | {"disk": 0, "attributes": self.mode << 16, "start": start} | self.listed
        header = struct.pack(
            "<4s6H3L5H2L",
            b"PK\x01\x02",
            *(0x0314, its["needs"], its["flags"], its["method"], 0, 0x21),
            *(its["crc"], its["packed"], its["size"]),
            *(its.get("name_length", len(its["name"])), len(its["extra"]), 0, its["disk"], 0),
            *(its["attributes"], its["start"]),
        )
        return header + bytes(its["name"]) + bytes(its["extra"])


def build(
    *members: Member, prefix: bytes = b"", before_end: bytes = b"", comment: bytes = b"", **end: int
) -> bytes:
    """`end` replaces fields of the last record: disk, table_disk, here, count, length, start, comment_length."""
    blocks, records = prefix, b""
    for member in members:
        start = len(blocks) if member.start is None else member.start
        blocks += member.block() if member.start is None else b""
        records += member.record(start)
    told = {
        "disk": 0,
        "table_disk": 0,
        "here": len(members),
        "count": len(members),
        "length": len(records),
        "start": len(blocks),
        "comment_length": len(comment),
    } | end
    return blocks + records + before_end + struct.pack("<4s4H2LH", b"PK\x05\x06", *told.values()) + comment


def descriptor(data: bytes, packed: bytes) -> bytes:
    return b"PK\x07\x08" + struct.pack("<3L", zlib.crc32(data), len(packed), len(data))


def zipped(files: Mapping[str, bytes | str]) -> bytes:
    """An ordinary archive; a name that ends in a slash is a folder."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()
