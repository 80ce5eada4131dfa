"""A terminal with a shell in it, for a test that types what a page tells a reader to type."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PATIENCE_SEC = 90
"""After which a test gives up; nothing is ever waited for this long when all is well."""
ROWS, COLUMNS = 50, 120
# A dumb terminal shows the same words, and nothing that moves; programs do not look how wide one is.
_QUIET = {
    "PS1": "",
    "PS2": "",
    "VIRTUAL_ENV_DISABLE_PROMPT": "1",
    "TERM": "dumb",
    "COLUMNS": str(COLUMNS),
    "LINES": str(ROWS),
}
_SAY_DONE = "printf '\\n@@done %s@@\\n' \"$?\""
_DONE = re.compile(r"\n@@done (\d+)@@")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()=>][A-Z0-9]?|\x07")


class Terminal:
    """Without echo: what is read is what the commands print."""

    def __init__(self, folder: Path, env: Mapping[str, str], scratch: Path) -> None:
        self._script = scratch
        self._read = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        modes = termios.tcgetattr(slave)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        self._shell = subprocess.Popen(
            # Ctrl-C reaches who is in front only if the terminal is the session's own.
            ["setsid", "--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i"],
            cwd=folder,
            env={**env, **_QUIET},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.is_busy = False

    def begin(self, script: str) -> None:
        """Types a script; by a file, so that the keyboard is left to what it starts."""
        assert not self.is_busy
        self._read, self.is_busy = b"", True
        self._script.write_text(script, encoding="utf-8")
        self.type(f". '{self._script}'; {_SAY_DONE}")

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def interrupt(self) -> None:
        """Ctrl-C makes the shell forget the rest of the line, too."""
        os.write(self._master, b"\x03")
        self.type(_SAY_DONE)

    @property
    def printed(self) -> str:
        text = self._read.decode(errors="replace").replace("\r\n", "\n")
        return _CONTROL.sub("", _DONE.sub("", text))

    def wait_for(self, is_there: Callable[[str], bool]) -> bool:
        """Until it is printed; False if the command ended, or time did, without it."""
        deadline = time.monotonic() + PATIENCE_SEC
        while not is_there(self.printed):
            if self._code() is not None or not self._more(deadline):
                return is_there(self.printed)
        return True

    def end(self) -> int:
        """The exit code of what was typed, once it is over."""
        deadline = time.monotonic() + PATIENCE_SEC
        while (code := self._code()) is None:
            assert self._more(deadline), f"the command did not end; it printed\n{self.printed}"
        self.is_busy = False
        return code

    def close(self) -> None:
        """As a window is closed, after Ctrl-C if something is still going on."""
        try:
            if self.is_busy:
                self.interrupt()
                self.end()
        finally:
            os.close(self._master)
            self._leave()

    def _leave(self) -> None:
        try:
            self._shell.wait(PATIENCE_SEC)
        except subprocess.TimeoutExpired:
            self._shell.kill()
            self._shell.wait()
            raise

    def _code(self) -> int | None:
        found = _DONE.search(self._read.decode(errors="replace").replace("\r\n", "\n"))
        return int(found[1]) if found else None

    def _more(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            self._read += os.read(self._master, 65536)
        except OSError:  # the shell is gone
            return False
        return True
