"""The steps that misbehave: what real agents do on a bad day, on purpose and at an exact moment.

What happens to their bytes on the way out is in `streams.py`.
"""

# pathlib would cost more than the rest of the start.
# ruff: noqa: PTH211

from __future__ import annotations

import os
import sys
import time

from .script import TurnFailed, invalid
from .streams import put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .player import Turn

CHUNK = 1 << 20

# Runs as a program of its own, so that it has the environment it was given and none of our threads. It leaves
# our session, forks, and lets its parent end: only the open pipes and the environment still tell whose it is.
ORPHAN = """
import os, sys, time
os.setsid()
pid = os.fork()
if pid:
    temporary = sys.argv[2] + ".tmp"
    with open(temporary, "w") as file:
        file.write(str(pid))
    os.replace(temporary, sys.argv[2])
    os._exit(0)
time.sleep(float(sys.argv[1]))
"""


def exit_now(turn: Turn, code: int) -> None:
    raise SystemExit(code)


def crash(turn: Turn, name: str) -> None:
    import resource
    import signal

    number = getattr(signal, f"SIG{name}", None)
    if not isinstance(number, signal.Signals):
        raise invalid(f"there is no signal {name!r}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    turn.voice.wait(1)  # with threads, the signal may reach another one a moment later
    raise invalid(f"the signal {name} does not end a process")


def hang(turn: Turn, _: bool) -> None:
    while True:
        turn.voice.wait(3600)


def ignore_signals(turn: Turn, _: bool) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    turn.voice.stubborn = True


def linger(turn: Turn, seconds: float) -> None:
    turn.linger = seconds


def setsid_child(turn: Turn, child: dict[str, Any], scrub_env: bool = False) -> None:
    bare = scrub_env or child.get("scrub_env", False)
    arguments = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        ORPHAN,
        str(child["seconds"]),
        turn.path(child["pid_file"]),
    ]
    pid = os.posix_spawn(
        sys.executable,
        arguments,
        {} if bare else os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
    )
    _, status = os.waitpid(pid, 0)
    if status:
        raise invalid(f"setsid_child did not start (status {status})")


def flood(turn: Turn, much: dict[str, int], to: str = "stdout", every_sec: float = 0) -> None:
    """Exactly that many bytes, newlines included; a pause after each megabyte if one is wanted."""
    line_bytes = much.get("line_bytes", 200)
    row = (b"noise " * (line_bytes // 6 + 1))[: line_bytes - 1] + b"\n" if line_bytes else b"noise "
    chunk = row * max(CHUNK // len(row), 1)
    left = much["bytes"]
    while left > len(chunk):
        turn.voice.wait(every_sec)
        put(turn, to, chunk)
        left -= len(chunk)
    if left:
        put(turn, to, chunk[: left - 1] + b"\n")


def work(turn: Turn, seconds: float) -> None:
    """Busy, and silent: one child after the other computes, as a compiler's would."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        turn.voice.wait(0)
        pid = os.fork()
        if not pid:
            _compute(0.1)
            os._exit(0)
        os.waitpid(pid, 0)


def _compute(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def link(turn: Turn, link: dict[str, str]) -> None:
    os.symlink(turn.text(link["to"]), turn.path(link["path"]))


def stderr(turn: Turn, text: str) -> None:
    text = turn.text(text).removesuffix("\n")
    os.write(2, text.encode("utf-8", "backslashreplace") + b"\n")


def raw(turn: Turn, text: str) -> None:
    turn.voice.noise(turn.text(text).encode("utf-8", "backslashreplace") + b"\n")


def fail(turn: Turn, failure: dict[str, str]) -> None:
    raise TurnFailed(turn.text(failure["code"]), turn.text(failure["message"]))


def no_terminal(turn: Turn, _: bool) -> None:
    turn.terminal = False
