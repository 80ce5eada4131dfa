"""Starts a command, or says in one sentence why it could not be started; and knows its program again later."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Literal, cast

from turnkeeper.engines import census
from turnkeeper.engines.veil import Known

PIPE_SIZE = 1024 * 1024
"""As much as Linux lets anybody have, by default."""

Subject = Literal["program", "cwd", "output"]


@dataclass(frozen=True, slots=True)
class Command:
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    secrets: frozenset[str] = frozenset()
    """What must not be read in its output by anybody."""
    walls: tuple[str, ...] = ()
    """The words before `argv` that put it into a sandbox; empty: there is none."""
    known: Known | None = None
    """The same of the whole service: an agent may come by more than it was given."""


class SpawnFailed(Exception):
    """No engine was started. `reason` is the name of the errno, `subject` the part that was at fault."""

    def __init__(self, reason: str, subject: Subject, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.subject = subject

    @property
    def is_passing(self) -> bool:
        """The machine was short of something: the same spawn may work a moment later."""
        return self.reason in {"EAGAIN", "EMFILE", "ENFILE", "ENOMEM", "ETXTBSY"}


def start(command: Command, mark: str, keeper: int | None = None) -> subprocess.Popen[bytes]:
    """In a session of its own, with pipes for all three streams. `keeper`: where a sandbox tells its first process."""
    popen = _popen(command, mark, keeper)
    for pipe in (popen.stdout, popen.stderr):
        # Some CLIs exit without waiting for their reader: what does not fit into the pipe is lost.
        with contextlib.suppress(OSError):  # there is a limit to what one user may have of it
            fcntl.fcntl(cast("IO[bytes]", pipe).fileno(), fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    return popen


def _popen(command: Command, mark: str, keeper: int | None) -> subprocess.Popen[bytes]:
    cwd = str(command.cwd)
    try:
        return subprocess.Popen(
            _words(command, keeper),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**command.env, census.MARK: mark},
            start_new_session=True,
            pass_fds=() if keeper is None else (keeper,),
        )
    except OSError as error:
        if error.filename == cwd:
            raise failed(error, "cwd", f"the working directory {cwd} cannot be entered") from error
        raise failed(error, "program", _explain(error, command)) from error
    except ValueError as error:  # a NUL byte, or a name with "="
        raise SpawnFailed("EINVAL", "program", f"{command.argv[0]!r} cannot be started: {error}") from error


def _words(command: Command, keeper: int | None) -> tuple[str, ...]:
    if keeper is None or not command.walls:
        return (*command.walls, *command.argv)
    builder, *walls = command.walls
    return (builder, "--info-fd", str(keeper), *walls, *command.argv)


_SENTENCES = {
    errno.ENOENT: "was not found; is it installed, and on the PATH of the service?",
    errno.EACCES: "is not executable for this user",
    errno.EPERM: "is not executable for this user",
    errno.ENOEXEC: "is not a program for this machine: another architecture, or a script without a #! line",
    errno.E2BIG: "got arguments and environment longer than the kernel takes",
    errno.EAGAIN: "was not started: the limit of processes is reached",
    errno.EMFILE: "was not started: the service has too many open files",
    errno.ENFILE: "was not started: the machine has too many open files",
    errno.ENOMEM: "was not started: the machine is out of memory",
    errno.ETXTBSY: "is just being replaced by another process",
}


def _explain(error: OSError, command: Command) -> str:
    program = (*command.walls, *command.argv)[0]
    if error.errno == errno.ENOENT and shutil.which(program, path=command.env.get("PATH")):
        return f"{program!r} is there, but the interpreter or loader it asks for is not installed"
    return f"{program!r} {_SENTENCES.get(error.errno or 0, 'cannot be started')}"


def failed(error: OSError, subject: Subject, sentence: str) -> SpawnFailed:
    reason = errno.errorcode.get(error.errno or 0, "EIO")
    return SpawnFailed(reason, subject, f"{sentence} ({error.strerror})")


def digests(words: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """By path, the SHA-256 of the program and of the files that it is told to run. Blocking: it reads them."""
    first = shutil.which(words[0], path=env.get("PATH")) if words else None
    paths = [*([first] if first else []), *(word for word in words[1:] if os.path.isabs(word))]  # noqa: PTH117
    found: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        with contextlib.suppress(OSError):  # gone, or can be run and not read
            if (digest := _digest(path)) is not None:
                found[path] = digest
    return found


def replaced_files(noted: Mapping[str, str]) -> list[str]:
    """The files that are not any more what they were. Blocking."""
    return [path for path, digest in noted.items() if _is_other(path, digest)]


def _is_other(path: str, digest: str) -> bool:
    try:
        return _digest(path) != digest
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # it is there, and cannot be read now: that tells nothing about it


def _digest(path: str) -> str | None:
    """None of what is no ordinary file."""
    status = os.stat(path)  # noqa: PTH116 (a path as it was found)
    if not stat.S_ISREG(status.st_mode):
        return None
    return _sha256(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(maxsize=64)
def _sha256(path: str, *_identity: int) -> str:
    """Read once for as long as nothing about the file changes: some of these programs have 200 MB."""
    with open(path, "rb") as file:  # noqa: PTH123
        return hashlib.file_digest(file, "sha256").hexdigest()
