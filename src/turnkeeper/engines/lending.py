"""The operator's own login, lent to a run for the time of one process.

The files are copied into the run's home when the process is about to start. When it has ended, one that the engine
renewed goes back to the operator, in one step, and none stays in the home. One process at a time is lent the login of
an engine: a lock on their folder says so, to other processes of ours too. A note, written before the first copy, lets
the next start of the service take everything back after a crash. A machine that is short of something is no reason to
lose a renewed login: copy and note stay, and it goes back at that start, or before anybody is lent it again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from turnkeeper.core.errors import EngineNotReady, StorageUnavailable
from turnkeeper.engines.census import SHORT
from turnkeeper.failpoints import Deed, around

log = logging.getLogger(__name__)

LARGEST = 1024 * 1024
"""Bytes of a login file; a larger one is something else."""
SHORTEST_SECRET = 16
"""Characters of a text in a login file that may be a token; shorter ones are names."""
FRESH = ".turnkeeper"
"""What a copy is called until it is whole."""
NOTE, KEPT = ".json", ".kept"
"""How notes are called: of what a process has, or had when the service died, and of what nobody has any more."""
PASSING = SHORT | {errno.ENOSPC, errno.EDQUOT, errno.EIO}
"""Of the machine, and not of the files: the same may work another day."""


class LoginBusy(EngineNotReady):
    """Another process of ours has the login: a turn of another service, or the doctor's."""


class LoginUnreadable(EngineNotReady):
    """It is there, and cannot be lent."""


@dataclass(frozen=True, slots=True)
class Lent:
    """Files that are in a home and do not belong there."""

    note: Path
    home: Path
    files: Mapping[str, Path]
    digests: Mapping[str, str]
    """Of each file as the operator had it."""
    lock: int
    """The open folder; the kernel lets go of it with the process."""
    secrets: frozenset[str] = frozenset()
    """What in them may be a token."""

    def take_back(self) -> list[str]:
        """Empties the home of them; says which of them the engine renewed and the operator could not be given.

        Never raises: an agent can do to its home what it likes, and must not be able to hold us up by it.
        """
        problems, _ = self._end()
        return problems

    def _end(self) -> tuple[list[str], OSError | None]:
        """The problems, and why something stays, with its note, for another day."""
        problems: list[str] = []
        kept: OSError | None = None
        for name, owner in self.files.items():
            try:
                problems += self._take_back(name, owner)
            except (OSError, RuntimeError) as error:  # a loop of links is the latter
                if _is_passing(error):
                    kept = error
                    problems.append(f"{name} stays in {self.home} until it can go back: {error.strerror}")
                else:
                    problems.append(f"{name} cannot be taken back from {self.home}: {error}")
        with contextlib.suppress(OSError):
            if kept is not None:
                self.note.rename(self.note.with_suffix(KEPT))
            else:
                with around(Deed.FORGET_LOAN):
                    self.note.unlink(missing_ok=True)
        os.close(self.lock)
        return problems, kept

    def _take_back(self, name: str, owner: Path) -> list[str]:
        path = _inside(self.home, name)
        if path is None:
            return [f"the folder of {name} is not where it was; {owner} was not changed"]
        problems = self._return(name, path, owner)
        for left in (path, _fresh(path)):
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            left.unlink(missing_ok=True)
        return problems

    def _return(self, name: str, path: Path, owner: Path) -> list[str]:
        try:
            path.lstat()
        except FileNotFoundError:
            return []
        data = _read(path)
        if data is None:
            return [f"{name} is no longer a file of its own; {owner} was not changed"]
        known = _read(owner)
        if _digest(data) == self.digests.get(name) or known == data:
            return []
        if not _is_whole(data):
            return [f"{name} was left half written by the engine; {owner} was not changed"]
        if known is None or _digest(known) != self.digests.get(name):
            return [
                f"{owner} was changed by somebody else meanwhile; the engine's renewed {name} was dropped"
            ]
        try:
            with around(Deed.RENEW_LOGIN):
                _replace(owner, data)
        except OSError as error:
            if _is_passing(error):
                raise
            return [f"{owner} cannot be written: {error.strerror}; log in again"]
        return []


def lend(files: Mapping[str, Path], home: Path, note: Path) -> Lent:
    """Copies of the files, by their names inside the home. All of them, or none and an error that says why."""
    # The operator may have it behind a link of their own; an agent may not.
    owners = {name: Path(os.path.realpath(path)) for name, path in files.items()}
    _settle(note.parent, owners.values())
    held = _hold(owners.values())
    if held is None:
        raise LoginBusy("its login is in use by another process; try again when that is done")
    try:
        found = {name: _read(path) for name, path in owners.items()}
    except OSError as error:
        os.close(held)
        raise LoginUnreadable(f"{error.filename} cannot be read now: {error.strerror}") from error
    copies = {name: data for name, data in found.items() if data is not None}
    lent = Lent(
        note, home, owners, {n: _digest(d) for n, d in copies.items()}, held, _secrets(copies.values())
    )
    try:
        if missing := [owners[name] for name in found if name not in copies]:
            raise LoginUnreadable(f"{missing[0]} cannot be read by the service, or is no login")
        _note(lent)
        for name, data in copies.items():
            path = _inside(home, name, make=True)
            if path is None:
                raise LoginUnreadable(
                    f"{name} has no place in the run's home: the agent put a link in the way"
                )
            with around(Deed.LEND):
                _replace(path, data)
    except BaseException:
        lent.take_back()
        raise
    return lent


def still_lent(notes: Path) -> list[Lent]:
    """What earlier processes had been lent and nobody took back. What another process still holds is left to it."""
    return [*_left(notes, KEPT), *_left(notes, NOTE)]


def _settle(notes: Path, owners: Collection[Path]) -> None:
    """What had to stay in a home goes back first: until then the operator has a login that the engine has spent.

    What a crash left is not touched: its process may be alive until the next start has ended it.
    """
    for lent in _left(notes, KEPT):
        problems, kept = lent._end()
        for problem in problems:
            log.warning("%s: %s", lent.home, problem)
        if kept is not None and not set(owners).isdisjoint(lent.files.values()):
            raise kept


def _note(lent: Lent) -> None:
    paths = {name: str(path) for name, path in lent.files.items()}
    told = {"home": str(lent.home), "files": paths, "digests": dict(lent.digests)}
    lent.note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with around(Deed.NOTE_LOAN):
        _replace(lent.note, json.dumps(told).encode())


def _left(notes: Path, suffix: str) -> Iterator[Lent]:
    try:
        found = sorted(notes.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:  # a glob would find nothing, and the next loan would overwrite what is there
        raise _unknown(notes, error) from error
    for note in found:
        if note.suffix == suffix and (lent := _remembered(note)) is not None:
            yield lent


def _remembered(note: Path) -> Lent | None:
    try:
        told: Any = json.loads(_read(note) or b"")
        files = {str(name): Path(path) for name, path in told["files"].items()}
        digests, home = dict(told["digests"]), Path(told["home"])
        held = _hold(files.values())
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno in SHORT:
            raise _unknown(note, error) from error
        return None  # not one of ours (a note is written whole, or not at all), or its folder is gone
    return None if held is None else Lent(note, home, files, digests, held)


def _unknown(note: Path, error: OSError) -> StorageUnavailable:
    return StorageUnavailable(f"what logins are still lent cannot be read in {note}: {error.strerror}")


def _hold(files: Iterable[Path]) -> int | None:
    """The folder of the first of them, the same for everybody who is lent it. None: somebody else has it."""
    fd = os.open(next(iter(files)).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _inside(home: Path, name: str, *, make: bool = False) -> Path | None:
    """The file's path, if the agent has put no link in the way."""
    path = home / name
    if make:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path if path.parent.resolve() == home.resolve() / Path(name).parent else None


def _read(path: Path) -> bytes | None:
    """None if it is not there, or no plain file: a link is never followed. A machine that is short of something says
    nothing about the file: that is raised."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if _is_passing(error):
            raise
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    with os.fdopen(fd, "rb") as file:
        data = file.read(LARGEST + 1)
    return data if len(data) <= LARGEST else None


def _is_passing(error: BaseException) -> TypeGuard[OSError]:
    return isinstance(error, OSError) and error.errno in PASSING


def _fresh(path: Path) -> Path:
    return path.with_name(f".{path.name}{FRESH}")


def _replace(path: Path, data: bytes) -> None:
    """Whole or not at all, on the disk when this returns, and readable by its owner alone."""
    fresh = _fresh(path)
    fresh.unlink(missing_ok=True)
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    with _opened(path.parent) as folder:
        os.fsync(folder)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _is_whole(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def _secrets(found: Iterable[bytes]) -> frozenset[str]:
    texts: set[str] = set()
    for data in found:
        with contextlib.suppress(ValueError):
            _gather(json.loads(data), texts)
    return frozenset(texts)


def _gather(value: Any, texts: set[str]) -> None:
    """Long texts without the signs of a mail address, a web address or a sentence."""
    if isinstance(value, str):
        if len(value) >= SHORTEST_SECRET and not any(sign in value for sign in ("@", "://", " ")):
            texts.add(value)
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            _gather(each, texts)
