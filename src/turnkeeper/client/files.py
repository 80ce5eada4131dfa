"""Files on their way to the service: those of a job's inputs, and the folder of a skill as a zip."""

from __future__ import annotations

import os
import tempfile
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from turnkeeper.client.errors import ClientError

Source: TypeAlias = "str | os.PathLike[str] | bytes | tuple[str, bytes]"
"""A path, the bytes themselves, or a name and bytes."""
Sources: TypeAlias = "Mapping[str, Source | Sequence[Source]]"
"""By the key of the input; a list for an input that takes many."""
Part: TypeAlias = "tuple[str, tuple[str, IO[bytes] | bytes]]"

LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".DS_Store", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
ENTRY_FILE = "SKILL.md"
IN_MEMORY = 8 * 1024 * 1024
"""A zip up to this size never touches the disk."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The date of every entry, so that the same folder is always the same zip."""


@dataclass(frozen=True, slots=True)
class Upload:
    parts: tuple[Part, ...]
    names: dict[str, str | list[str]]
    """By key: how the job names its files. Optional ones are only waited for if it does."""


@contextmanager
def opened(files: Sources) -> Iterator[Upload]:
    """All files of a job, open: one that cannot be read should be known before the job exists."""
    with ExitStack() as stack:
        parts: list[Part] = []
        names: dict[str, str | list[str]] = {}
        for key, given in files.items():
            found = [_file(key, each, stack) for each in _sources(given)]
            names[key] = found[0][0] if _is_one(given) else [name for name, _ in found]
            parts += [(key, each) for each in found]
        yield Upload(tuple(parts), names)


def _sources(given: Source | Sequence[Source]) -> Iterator[Source]:
    if _is_one(given):
        yield cast(Source, given)
    else:
        yield from cast(Sequence[Source], given)


def _is_one(given: Source | Sequence[Source]) -> bool:
    """A pair of a name and bytes is one file; so is a text, which is a path."""
    match given:
        case str() | bytes() | (str(), bytes()):
            return True
        case _:
            return not isinstance(given, Sequence)


def _file(key: str, given: Source, stack: ExitStack) -> tuple[str, IO[bytes] | bytes]:
    match given:
        case bytes():
            return key, given
        case (str() as name, bytes() as content):
            return name, content
        case str() | os.PathLike():
            path = Path(given)
            return path.name, stack.enter_context(_open(path))
        case _:
            raise TypeError(f"the file {key!r} is given as a path, as bytes, or as (name, bytes)")


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}") from error


@contextmanager
def packed(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """The zip of a skill: as it is, or made of its folder."""
    given = Path(path)
    if not given.is_dir():
        with _open(given) as archive:
            yield archive
        return
    if not (given / ENTRY_FILE).is_file():
        raise ClientError(f"{given} is no folder of a skill: it has no {ENTRY_FILE}")
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as archive:
        _zip(given.resolve(), archive)
        archive.seek(0)
        yield archive


def _zip(folder: Path, into: IO[bytes]) -> None:
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(_content(folder)):
            name = f"{folder.name}/{path.relative_to(folder).as_posix()}"
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if os.access(path, os.X_OK) else 0o100644) << 16
            with _open(path) as file, archive.open(entry, "w") as out:
                _copy(file, out)


def _content(folder: Path) -> Iterator[Path]:
    try:
        inside = list(folder.iterdir())
    except OSError as error:
        raise ClientError(f"{folder} cannot be read: {error.strerror}") from error
    for path in inside:
        if path.name in LEFT_OUT or path.suffix == ".pyc":
            continue
        if path.is_symlink():
            raise ClientError(f"{path} is a link, and a skill takes none along; put the file itself there")
        if path.is_dir():
            yield from _content(path)
        elif path.is_file():
            yield path
        else:
            raise ClientError(f"{path} is no ordinary file; take it out of the skill's folder")


def _copy(file: IO[bytes], out: Any) -> None:
    while chunk := file.read(256 * 1024):
        out.write(chunk)


@contextmanager
def landing(to: str | os.PathLike[str], name: str) -> Iterator[tuple[Path, IO[bytes]]]:
    """A file that is there when it is whole, and not before; in `to` if that is a folder, else as `to`."""
    given = Path(to)
    path = given / name if given.is_dir() else given
    half = path.with_name(f".{uuid.uuid4().hex}")  # a longer name than its own may be too long
    try:
        file = half.open("xb")
    except OSError as error:
        raise ClientError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with file:
            yield path, file
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
