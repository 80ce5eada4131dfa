"""What any of the CLIs can say in a turn, and how their lines are written."""

from __future__ import annotations

import json
import os

from .surroundings import Unexpected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .arguments import Call

KIND = {
    400: "invalid_request_error",
    401: "authentication_error",
    429: "rate_limit_error",
    500: "server_error",
}
REASON = {400: "Bad Request", 401: "Unauthorized", 429: "Too Many Requests", 500: "Internal Server Error"}


def write(fd: int, text: str) -> None:
    """A lone surrogate stands for a byte that is not UTF-8."""
    data = memoryview(text.encode("utf-8", "surrogateescape"))
    while data:
        data = data[os.write(fd, data) :]


def uuid(first: str = "") -> str:
    digits = (first + os.urandom(16).hex())[:32]
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Voice:
    """What any of them can say; what a CLI never shows, says nothing."""

    lost_session_is_new = False

    def __init__(self, call: Call) -> None:
        self.dialect = call.dialect
        self.model = call.model
        self.is_downgraded = False
        """It does not run in the mode that it was started in."""
        self.lacks_server = False
        """One of its servers of tools did not come up."""
        self.session = ""
        self.noisy = False
        self.calls = 1
        """To the model: one, and one more after each tool."""
        self.earlier_calls = 0
        """In the turns before this one, of the same session."""

    def new_session(self) -> str:
        return uuid()

    def line(self, **event: Any) -> None:
        """Noisy: drawn over a spinner, and ended as on Windows."""
        text = compact(event)
        write(1, f"\r\x1b[2K\x1b[1G\x1b[32m{text}\x1b[0m\r\n" if self.noisy else f"{text}\n")

    def gate(self) -> int | None:
        """The exit code of a CLI that does not even begin here."""
        return None

    def open(self, session: str, prompt: str, *, earlier: int) -> None:
        raise NotImplementedError

    def mutter(self, words: str) -> None:
        """A trouble that it gets over."""
        write(2, words)

    def say(self, text: str) -> None:
        raise NotImplementedError

    def think(self, text: str) -> None:
        """Not shown by this CLI."""

    def begin_message(self) -> None:
        """What can be seen of an answer whose end never comes."""

    def begin_tool(self, command: str) -> None:
        """What can be seen of a tool that has not ended."""

    def tool(self, command: str, output: str) -> None:
        self.calls += 1

    def delegate(self, words: str) -> None:
        """To a sub-agent that says these words; not shown by this CLI."""

    def mistake_tools(self) -> None:
        """From now on the provider calls a tool the end of the answer, as some do; this CLI does not tell."""

    def close(self) -> None:
        """The event that closes a turn."""
        raise NotImplementedError

    def respond(self, session: str, text: str) -> None:
        """A whole turn as one object, by a CLI that has such a form."""
        raise Unexpected("unexpected word [[response]]: this CLI has no such form")

    def retry(self) -> None:
        """Trouble with the model that the CLI gets over by itself."""

    def interrupted(self) -> None:
        """What it still says when it is told to stop."""

    def fail(self, status: int) -> int:
        """The model answered with this HTTP status; returns the exit code."""
        raise NotImplementedError

    def lose(self, session: str) -> int:
        """There is no such session; returns the exit code."""
        raise NotImplementedError

    def noise(self) -> None:
        """What a terminal program prints beside its events."""
        write(
            1, "\ufeffA new version is available!\r\n\n\x1b]0;title\x07\x1b[?2004hLoading \x1b[1m⠋\x1b[0m\n"
        )
        write(1, "caf\udce9 \x00 \u2028\n[1, 2]\n")
        write(2, "\x1b[33mwarning:\x1b[0m caf\udce9\r\n")
        self.noisy = True
