"""The command line of the demo agent: what it was told to do, and which voice it does it in."""

# pathlib would cost more than the rest of the start.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import sys

from .script import Job, NoJob
from .session import Session

VERSION = "1.0.0"
USAGE = "usage: demo_agent [--resume ID | --acp | --version]   (the prompt is read from stdin)\n"

FAILED = 1
WRONG_USE = 2
NO_SESSION = 3


def main(arguments: list[str]) -> None:
    _end_by_signal()
    try:
        code = _run(arguments)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else FAILED
    except BaseException as error:  # noqa: BLE001  (shown in full; what matters is that no thread keeps us alive)
        sys.excepthook(type(error), error, error.__traceback__)
        code = FAILED
    # Nothing is buffered and nothing needs tidying; a thread may still be reading stdin.
    os._exit(code)


def _run(arguments: list[str]) -> int:
    match arguments:
        case ["--version"]:
            os.write(1, f"demo {VERSION}\n".encode())
            return 0
        case [] | ["--acp"] | ["--resume", _]:
            pass
        case _:
            return _refuse(USAGE, WRONG_USE)
    folder = os.path.join(os.environ.get("HOME", ""), ".demo")
    sessions = os.path.join(folder, "sessions")
    try:
        job = Job.read(folder)
    except NoJob as reason:
        return _refuse(f"{reason}\n", WRONG_USE)
    if arguments == ["--acp"]:
        from . import acp

        return acp.serve(job, sessions, VERSION)

    from . import headless

    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not prompt:  # whoever wanted to say something died before
        return _refuse("no prompt on stdin\n", WRONG_USE)
    session = Session.find(sessions, arguments[1]) if arguments else Session.new(sessions)
    if session is None:
        return _refuse(f"session not found: {arguments[1]}\n", NO_SESSION)
    return headless.play(job, session, prompt, resumed=bool(arguments))


def _refuse(why: str, code: int) -> int:
    os.write(2, why.encode("utf-8", "backslashreplace"))
    return code


def _end_by_signal() -> None:
    """INT, TERM and a closed pipe end us as they end any program, even if our parent ignored them."""
    try:
        import _signal as signal  # type: ignore[import-not-found]  # `signal` costs 5 ms, all for its enums
    except ImportError:
        import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
