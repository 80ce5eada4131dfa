"""Plays one turn of a script: checks the steps, takes them one by one, and speaks through a voice."""

# pathlib would cost more than the rest of the start.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import time

from . import steps
from .script import invalid, render, render_all
from .streams import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .permission import Permission
    from .script import Job
    from .session import Session


BETWEEN_PIECES_SEC = 0.0002
"""Long enough for whoever reads to read them one by one, most of the time."""


class Voice:
    """How the agent speaks, and how it waits; one subclass for each protocol."""

    stubborn = False
    """Set by `ignore_signals`: from here on the process does not want to end."""
    line_end = b"\n"
    piece = 0
    """So many bytes go out at once; 0: all of them."""
    held: bytearray | None = None
    """What is kept back until the process ends; None: nothing is."""

    def put(self, data: bytes) -> None:
        """Bytes for stdout, in the manner that steps have set: held back, in pieces, or as they are."""
        if self.held is not None:
            self.held += data
        elif self.piece:
            for start in range(0, len(data), self.piece):
                write_all(1, data[start : start + self.piece])
                time.sleep(BETWEEN_PIECES_SEC)
        else:
            write_all(1, data)

    def release(self) -> None:
        """What was held back goes out at last."""
        held, self.held = self.held, None
        if held:
            self.put(bytes(held))

    def announce(self, session_id: str) -> None:
        """Name the session, where the protocol leaves that to the agent."""

    def delta(self, message_id: str, text: str) -> None:
        raise NotImplementedError

    def message(self, message_id: str, text: str, *, streamed: bool) -> None:
        """A whole message; `streamed` when its words were already said as deltas."""
        raise NotImplementedError

    def reasoning(self, text: str) -> None:
        raise NotImplementedError

    def tool(self, call_id: str, name: str, arguments: dict[str, Any], output: str, status: str) -> None:
        raise NotImplementedError

    def permissions(self, requests: list[Permission]) -> None:
        """Ask for all of them at once; returns when each has its outcome."""
        raise NotImplementedError

    def noise(self, data: bytes) -> None:
        """Bytes for stdout that are not part of any protocol."""
        raise NotImplementedError

    def wait(self, seconds: float) -> None:
        """Pause; raises when the turn must end meanwhile. Every pause goes through here, so that it can."""
        raise NotImplementedError


class Beginning:
    """The process before it speaks its protocol: no session, no prompt, nothing but the job."""

    def __init__(self, job: Job, voice: Voice, cwd: str) -> None:
        self.job = job
        self.voice = voice
        self.cwd = cwd

    def begin(self) -> None:
        """Play what the script has before everything else."""
        before = self.job.before()
        steps.check_before(before)
        for step in before:
            self.voice.wait(0)
            steps.play(self, step)

    def text(self, template: object) -> str:
        return render(template, self._value)

    def filled(self, value: Any) -> Any:
        return render_all(value, self._value)

    def path(self, template: str) -> str:
        return os.path.join(self.cwd, self.text(template))

    def _value(self, name: str) -> object:
        group, _, key = name.partition(".")
        if group in ("input", "parameter") and key in self.job.values[group]:
            return self.job.values[group][key]
        raise invalid(f"nothing is known as {{{{{name}}}}}")


class Turn(Beginning):
    def __init__(self, job: Job, session: Session, prompt: str, voice: Voice, cwd: str) -> None:
        super().__init__(job, voice, cwd)
        self.session = session
        self.index = session.completed
        self.prompt = prompt
        self.reply = session.begin(prompt)
        self.said: list[dict[str, str]] = []
        self.counted: dict[str, int] = {}  # what a `usage` step says instead of our estimate
        self.file: dict[str, object] = {}  # about the file that a `read_file` step has read
        self.permission: str | None = None  # what became of the last `permission` step
        self.terminal = True
        self.linger = 0.0

    def play(self) -> None:
        # All turns are checked, so that a typing error in the last one shows in the first.
        steps.check(self.job.turns())
        for step in self.job.steps(self.index):
            self.voice.wait(0)
            steps.play(self, step)

    def say(self, text: str, *, message_id: str | None = None) -> None:
        """Say a whole message, or close the one whose deltas carried `message_id`."""
        streamed = message_id is not None
        message_id = message_id or self.session.next_message_id()
        self.said.append({"id": message_id, "text": text})
        self.voice.message(message_id, text, streamed=streamed)

    def usage(self) -> dict[str, int]:
        output = sum(len(message["text"]) for message in self.said)
        estimate = {"input_tokens": len(self.prompt) // 4 + 1, "output_tokens": output // 4 + 1}
        return estimate | self.counted

    def _value(self, name: str) -> object:
        group, _, key = name.partition(".")
        match group:
            case "reply" if not key:
                return self.reply
            case "permission" if not key and self.permission is not None:
                return self.permission
            case "file" if key in self.file:
                return self.file[key]
            # The reply to question N is the prompt of the turn after it; what came first is not a reply.
            case "replies" if key.isdecimal() and 1 <= int(key) <= self.index:
                return self.session.turns[int(key)]["reply"]
        return super()._value(name)
