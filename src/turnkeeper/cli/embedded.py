"""The service that a command starts when none runs: a process of its own, which outlives the command.

It is in a session of its own, so that Ctrl-C in the terminal does not reach it, and it stops by itself when there is
nothing left to do. Of two commands that start one at once, one gets the data directory, and both talk to that.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from turnkeeper import beacon
from turnkeeper.cli.terminal import busy, printable

IDLE_STOP_SEC = 10.0
PATIENCE_SEC = 60.0
LOOK_EVERY_SEC = 0.05
LOG = "service.log"
MAX_LOG = 4 * 1024 * 1024
"""A longer one is put aside when the next service is started."""
TOLD_LINES = 8
USUAL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that this process may treat in its own way, and that one should not."""


class NotStarted(Exception):
    """No service could be had; the message says why, and what to do."""


def ensure(data_dir: Path) -> bool:
    """Until a service answers for the directory; True if it had to be started."""
    if is_ready(data_dir):
        return False
    with busy(f"starting the service on {data_dir}"):
        return _started(data_dir)


def is_gone(data_dir: Path) -> bool:
    """Nobody serves from it any more."""
    return beacon.sight(data_dir).owner is None


def let_go(data_dir: Path) -> None:
    """Until a service that is stopping has stopped."""
    deadline = time.monotonic() + PATIENCE_SEC
    while not is_gone(data_dir) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_SEC)


def is_ready(data_dir: Path) -> bool:
    """A service answers for it, as far as can be seen from outside."""
    sighting = beacon.sight(data_dir)
    if sighting.is_elsewhere:
        raise NotStarted(
            f"{sighting.owner} has {data_dir}; set TURNKEEPER_URL and TURNKEEPER_TOKEN to reach it from here"
        )
    return sighting.owner is not None and sighting.beacon is not None


def _started(data_dir: Path) -> bool:
    pid: int | None = None
    deadline = time.monotonic() + PATIENCE_SEC
    while not is_ready(data_dir):
        if time.monotonic() > deadline:
            raise NotStarted(_slow(data_dir, pid))
        is_free = is_gone(data_dir)
        if pid is None and is_free:
            pid = _start(data_dir)
        elif pid is not None and is_free and _has_ended(pid):
            raise NotStarted(f"the service ended at once\n{_last_words(data_dir)}")
        # One that is starting or stopping has the directory: it is waited for, and then looked at again.
        time.sleep(LOOK_EVERY_SEC)
    return pid is not None


def _start(data_dir: Path) -> int:
    """Its pid. Not by `subprocess`, which minds a child that outlives us."""
    # -P: whatever lies in the current folder is no part of the service.
    command = [sys.executable, "-P", "-m", "turnkeeper", "serve", "--data-dir", str(data_dir)]
    command += ["--port", "0", "--idle-stop", f"{IDLE_STOP_SEC:g}"]
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _pass_nothing_on()
        with _log(data_dir) as log:
            # Its stdout has a sign-in address, which is nobody's business here.
            files = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ]
            return os.posix_spawn(
                command[0], command, os.environ, file_actions=files, setsid=True, setsigdef=USUAL
            )
    except OSError as error:
        raise NotStarted(f"no service could be started on {data_dir}: {error.strerror}") from error


def _pass_nothing_on() -> None:
    """What a shell has open beside the streams, such as the lock of a script, is not for a process that outlives it."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (numbers, and no paths)
        with suppress(OSError):  # the one by which they are listed
            if int(name) > 2:
                os.set_inheritable(int(name), False)


@contextmanager
def _log(data_dir: Path) -> Iterator[int]:
    path = data_dir / LOG
    if path.exists() and path.stat().st_size > MAX_LOG:
        path.replace(path.with_suffix(".log.old"))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _last_words(data_dir: Path) -> str:
    path = data_dir / LOG
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-TOLD_LINES:]
    except OSError:
        lines = []
    told = "\n".join(f"  {printable(line)}" for line in lines)
    return f"{told}\nIts log is {path}; `turnkeeper doctor` looks at the whole installation."


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _slow(data_dir: Path, pid: int | None) -> str:
    if pid is not None and not _has_ended(pid):
        os.kill(pid, signal.SIGTERM)
    return f"no service answered within {PATIENCE_SEC:.0f} seconds on {data_dir}\n{_last_words(data_dir)}"
