"""Which version a program is: read from its npm package, else asked by `--version`, once for each file.

An answer is remembered for as long as the files behind it stay what they are, so that looking again costs a stat.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from turnkeeper.engines.base import private_env, scratch
from turnkeeper.engines.lines import plain
from turnkeeper.engines.process import Exit
from turnkeeper.engines.spawn import Command, SpawnFailed, start

LIMIT_SEC = 10
"""How long a program may think about its version."""
MARK = "version/0/0.0"
MAX_WORDS = 500
MANIFEST = "package.json"

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z][0-9A-Za-z.-]*)?")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Answer:
    version: str | None = None
    trouble: str = ""
    """Why there is no version."""
    can_start: bool = True
    """As far as this showed: a machine that is short of something says nothing about the program."""


class _Failed(Exception):
    """An answer that is not worth remembering: the next may be another."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.trouble)
        self.answer = answer


def of_package(folder: Path, name: str) -> str | None:
    """Of the npm package in this very folder, if it has that name."""
    path = folder / MANIFEST
    identity = _identity(str(path))
    if identity is None:
        return None
    found_name, version = _once((identity,), lambda: _manifest(path))
    return version if found_name == name else None


def ask(command: tuple[str, ...], *, limit_sec: float = LIMIT_SEC) -> Answer:
    """Blocking. What could not be started, or was too slow, is tried again the next time: the file need not be why."""
    program = command[0] if os.path.isabs(command[0]) else shutil.which(command[0]) or command[0]  # noqa: PTH117
    files = tuple(_identity(word) for word in (program, *command[1:]))
    try:
        return _once((command, files), lambda: _ask(command, limit_sec))
    except SpawnFailed as error:
        return Answer(trouble=str(error), can_start=error.is_passing)
    except subprocess.TimeoutExpired:
        return Answer(trouble=f"it did not answer to --version within {limit_sec:g} s")
    except _Failed as failed:
        return failed.answer


def remembered(path: str, what: Hashable, make: Callable[[], _T]) -> _T:
    """For as long as the file at that path, wherever links lead, stays what it is."""
    identity = _identity(path)
    return make() if identity is None else _once((what, identity), make)


def major(version: str | None) -> int:
    return int(version.partition(".")[0]) if version else 0


def _identity(path: str) -> tuple[str, int, int, int, int] | None:
    """Of the file that is behind it, whatever links lead there."""
    try:
        found = os.stat(path)  # noqa: PTH116 (a Path for each word and each look would cost more than the stat)
    except (OSError, ValueError):
        return None
    return path, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _manifest(path: Path) -> tuple[str | None, str | None]:
    try:
        found: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None, None
    match found:
        case {"name": str(name), "version": str(version)}:
            return name, version
        case _:
            return None, None


def _ask(command: tuple[str, ...], limit_sec: float) -> Answer:
    with tempfile.TemporaryDirectory(prefix="turnkeeper-", ignore_cleanup_errors=True) as home:
        scratch(Path(home)).mkdir()
        asked = Command((*command, "--version"), private_env(Path(home)), Path(home))
        with start(asked, MARK) as popen:
            said, complaint = _listen(popen, limit_sec)
    code = popen.returncode
    ended = Exit(code, None) if code >= 0 else Exit(None, -code)
    return _understood(ended, said, complaint)


def _listen(popen: subprocess.Popen[bytes], limit_sec: float) -> tuple[bytes, bytes]:
    try:
        return popen.communicate(timeout=limit_sec)  # its stdin is closed at once
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
        raise


def _understood(ended: Exit, said: bytes, complaint: bytes) -> Answer:
    found = _VERSION.search(plain(said)) if ended.code == 0 else None
    if found is not None:
        return Answer(found[0])
    lines = [line.strip() for line in plain(complaint).splitlines() if line.strip()]
    words = f": {lines[-1][:MAX_WORDS]}" if lines else ""
    answer = Answer(trouble=f"it answered to --version with {ended} and no version{words}")
    if ended.code != 0:
        raise _Failed(answer)
    return answer


_known: dict[Hashable, Future[Any]] = {}
_lock = threading.Lock()


def _once(key: Hashable, make: Callable[[], _T]) -> _T:
    """Threads that want the same answer wait for the first of them; an error is nobody's answer but its own."""
    with _lock:
        known: Future[_T] | None = _known.get(key)
        answer: Future[_T] = known or _known.setdefault(key, Future())
    if known is not None:
        return known.result()
    try:
        answer.set_result(make())
    except BaseException as error:
        with _lock:
            del _known[key]
        answer.set_exception(error)
        raise
    return answer.result()
