"""Unpacks a zip archive from somebody else: all of it, inside a new folder and on disk, or nothing at all."""

from __future__ import annotations

import os
import re
import shutil
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from turnkeeper.skills.durable import sync_folder
from turnkeeper.skills.ziptable import Entry, contents, entries, refused, shown

RATIO_FLOOR = 1024 * 1024
"""Bytes that may come out whatever the ratio: a small file of blanks is no bomb."""


@dataclass(frozen=True, slots=True)
class Limits:
    total_bytes: int = 256 * 1024 * 1024
    ratio: int = 200
    count: int = 2000
    depth: int = 16
    part_bytes: int = 255
    path_bytes: int = 1024


LIMITS = Limits()


def extract(archive: BinaryIO, into: Path, limits: Limits = LIMITS) -> list[str]:
    """Makes the folder `into` and answers with the paths of the files in it, in the order of the archive.

    Names, kinds and sizes are checked before the first byte is written, and the bytes are held to them. Whatever goes
    wrong, `into` is gone again.
    """
    found = [_plain(entry) for entry in entries(archive, limits.count) if not _is_clutter(entry.name)]
    for entry in found:
        _check_name(entry.name, limits)
        _check_kind(entry)
    _check_sizes(found, limits)
    folders = _folders(found)
    with ExitStack() as undo:
        into.mkdir(mode=0o700)
        undo.callback(shutil.rmtree, into, ignore_errors=True)
        for folder in folders:
            (into / folder).mkdir(mode=0o700)
        for entry in found:
            _unpack(archive, entry, into)
        for made in (*(into / folder for folder in reversed(folders)), into, into.parent):
            sync_folder(made)
        undo.pop_all()
    return [entry.name for entry in found if not entry.is_folder]


def _plain(entry: Entry) -> Entry:
    """Some writers begin every name with `./`."""
    return replace(entry, name=entry.name.removeprefix("./"))


def _is_clutter(name: str) -> bool:
    """What macOS adds to every archive, and the folder itself as some writers list it."""
    parts = name.removesuffix("/").split("/")
    return name == "./" or "__MACOSX" in parts or parts[-1] == ".DS_Store"


def _check_sizes(found: Sequence[Entry], limits: Limits) -> None:
    """By what the entries say they are; unpacking stops where one has more than it says."""
    size = packed = 0
    for entry in found:
        size, packed = size + entry.size, packed + entry.packed
        if size > limits.total_bytes:
            raise refused(f"is where the archive grows beyond {limits.total_bytes} bytes", entry.name)
        if size > RATIO_FLOOR and size > limits.ratio * packed:
            raise refused(
                f"is where the archive grows to more than {limits.ratio} times its size", entry.name
            )


_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a fifo",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder with the name of a file",
    stat.S_IFREG: "a file with the name of a folder",
}
_DOS_LABEL, _DOS_LINK = 0x0008, 0x0400


def _check_kind(entry: Entry) -> None:
    kind = stat.S_IFMT(_mode(entry))
    if kind not in (0, stat.S_IFDIR if entry.is_folder else stat.S_IFREG):
        raise refused(f"is {_KINDS.get(kind, 'neither a file nor a folder')}", entry.name)
    if entry.attributes & (_DOS_LABEL | _DOS_LINK):
        raise refused("is a link or a label of a disk", entry.name)
    if entry.is_folder and entry.size:
        raise refused("is a folder and has data", entry.name)


def _mode(entry: Entry) -> int:
    """Zero from writers that know no Unix."""
    return entry.attributes >> 16


_DRIVE = re.compile(r"[A-Za-z]:")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\..*)?", re.IGNORECASE)
_HIDDEN = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Turn the direction of what follows: a name would be read as another."""
_SLASHES = frozenset("\u2044\u2215\u2216\u29f5\u29f8\u29f9")


def _check_name(name: str, limits: Limits) -> None:
    path = name.removesuffix("/")
    parts = path.split("/")
    if any(unicodedata.category(char) in ("Cc", "Zl", "Zp") or char in _HIDDEN for char in name):
        raise refused("has a control character in its name", name)
    if "\\" in name:
        raise refused("has a backslash in its name; pack it with forward slashes", name)
    if name.startswith("/") or _DRIVE.match(name):
        raise refused("has an absolute path", name)
    if ".." in parts:
        raise refused("leads out of the archive", name)
    if "" in parts or "." in parts:
        raise refused("has an empty part in its path", name)
    if len(path.encode()) > limits.path_bytes or any(
        len(part.encode()) > limits.part_bytes for part in parts
    ):
        raise refused("has a name that is too long", name)
    if len(parts) > limits.depth:
        raise refused(f"is deeper than {limits.depth} folders", name)
    for part in parts:
        if problem := _look_alike(part):
            raise refused(problem, name)


def _look_alike(part: str) -> str | None:
    """Names that are harmless here and something else to another system, or to the eye."""
    plain = unicodedata.normalize("NFKC", part)
    if plain in (".", "..") or "/" in plain or "\\" in plain or not _SLASHES.isdisjoint(part):
        return "has a name that looks like a path"
    if part[-1] in ". ":
        return "has a part that ends in a dot or a blank"
    if _DEVICE.fullmatch(part):
        return "has the name of a device"
    return None


def _folders(found: Iterable[Entry]) -> list[str]:
    """Every folder, outer ones first. No two names may become one on a disk that knows no case."""
    known: dict[str, tuple[str, bool]] = {}
    listed: set[str] = set()
    for entry in found:
        path = entry.name.removesuffix("/")
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            here = "/".join(parts[:depth])
            is_folder = entry.is_folder or depth < len(parts)
            other, was_folder = known.setdefault(_folded(here), (here, is_folder))
            if other != here:
                raise refused(f"has the name of '{shown(other)}' where case does not count", entry.name)
            if was_folder != is_folder:
                raise refused("is both a file and a folder", entry.name)
        if path in listed:
            raise refused("is in the archive twice", entry.name)
        listed.add(path)
    return sorted((path for path, is_folder in known.values() if is_folder), key=lambda path: path.split("/"))


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


def _unpack(archive: BinaryIO, entry: Entry, into: Path) -> None:
    pieces = contents(archive, entry)
    if entry.is_folder:
        for _ in pieces:  # nothing, and even that is checked
            pass
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = 0o700 if _mode(entry) & stat.S_IXUSR else 0o600
    with os.fdopen(os.open(into / entry.name, flags, mode), "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
