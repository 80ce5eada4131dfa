"""The operator's own login, lent to a run for the time of one process.

The files are copied into the run's home when the process is about to start. When it has ended, one that the engine
renewed goes back to the operator, in one step, and none stays in the home. A note, written before the first copy, lets
the next start of the service do the same after a crash.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LARGEST = 1024 * 1024
"""Bytes of a login file; a larger one is something else."""
SHORTEST_SECRET = 16
"""Characters of a text in a login file that may be a token; shorter ones are names."""


@dataclass(frozen=True, slots=True)
class Lent:
    """Files that are in a home and do not belong there."""

    note: Path
    home: Path
    files: Mapping[str, Path]
    digests: Mapping[str, str]
    """Of each file as the operator had it."""
    secrets: frozenset[str] = frozenset()
    """What in them may be a token."""

    def take_back(self) -> list[str]:
        """Empties the home of them; says which of them the engine renewed and the operator could not be given."""
        problems = []
        for name, owner in self.files.items():
            with _inside(self.home, name) as path:
                if path is not None:
                    problems += self._return(name, path, owner)
                    path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)
        return problems

    def _return(self, name: str, path: Path, owner: Path) -> list[str]:
        data = _read(path)
        if data is None or _digest(data) == self.digests[name]:
            return []
        if not _is_whole(data):
            return [f"{name} was left half written by the engine; {owner} was not changed"]
        known = _read(owner)
        if known is None or _digest(known) != self.digests[name]:
            return [
                f"{owner} was changed by somebody else meanwhile; the engine's renewed {name} was dropped"
            ]
        try:
            _replace(owner, data)
        except OSError as error:
            return [f"{owner} cannot be written: {error.strerror}; log in again"]
        return []


def lend(files: Mapping[str, Path], home: Path, note: Path) -> Lent:
    """Copies of the files, by their names inside the home."""
    found = {name: data for name, path in files.items() if (data := _read(path)) is not None}
    digests = {name: _digest(data) for name, data in found.items()}
    lent = Lent(note, home, {name: files[name] for name in found}, digests, _secrets(found.values()))
    paths = {name: str(path) for name, path in lent.files.items()}
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _replace(note, json.dumps({"home": str(home), "files": paths, "digests": digests}).encode())
    for name, data in found.items():
        with _inside(home, name, make=True) as path:
            if path is None:
                raise ValueError(f"{name} is not inside the home")
            _replace(path, data)
    return lent


def still_lent(notes: Path) -> list[Lent]:
    """What earlier processes had been lent and nobody took back."""
    return [lent for note in sorted(notes.glob("*.json")) if (lent := _remembered(note)) is not None]


def _remembered(note: Path) -> Lent | None:
    try:
        told: Any = json.loads(_read(note) or b"")
        files = {str(name): Path(path) for name, path in told["files"].items()}
        return Lent(note, Path(told["home"]), files, dict(told["digests"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # not one of ours: a note is written whole, or not at all


@contextlib.contextmanager
def _inside(home: Path, name: str, *, make: bool = False) -> Iterator[Path | None]:
    """The file's path, if the agent has put no link in the way."""
    path = home / name
    if make:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    yield path if path.parent.resolve() == home.resolve() / Path(name).parent else None


def _read(path: Path) -> bytes | None:
    """None if it is not there, or no plain file: a link is never followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        data = file.read(LARGEST + 1) if is_file else b""
    return data if is_file and len(data) <= LARGEST else None


def _replace(path: Path, data: bytes) -> None:
    """Whole or not at all, and readable by its owner alone."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _is_whole(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def _secrets(found: Any) -> frozenset[str]:
    texts: set[str] = set()
    for data in found:
        with contextlib.suppress(ValueError):
            _gather(json.loads(data), texts)
    return frozenset(texts)


def _gather(value: Any, texts: set[str]) -> None:
    if isinstance(value, str) and len(value) >= SHORTEST_SECRET:
        texts.add(value)
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            _gather(each, texts)
