"""The headless voice: one process plays one turn, and says it as JSON lines on stdout."""

# pathlib would cost more than the rest of the start.
# ruff: noqa: PTH109

from __future__ import annotations

import os
import time

from .jsontext import line
from .player import Turn, Voice
from .script import TurnFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .permission import Permission
    from .script import Job
    from .session import Session


class Headless(Voice):
    def __init__(self, *, resumed: bool) -> None:
        self.resumed = resumed

    def emit(self, kind: str, **fields: Any) -> None:
        self.put(line({"type": kind, **fields})[:-1] + self.line_end)

    def announce(self, session_id: str) -> None:
        self.emit("session.started", session_id=session_id, resumed=self.resumed)

    def delta(self, message_id: str, text: str) -> None:
        self.emit("message.delta", message_id=message_id, text=text)

    def message(self, message_id: str, text: str, *, streamed: bool) -> None:
        self.emit("message", message_id=message_id, text=text)

    def reasoning(self, text: str) -> None:
        self.emit("reasoning", text=text)

    def tool(self, call_id: str, name: str, arguments: dict[str, Any], output: str, status: str) -> None:
        self.emit("tool", call_id=call_id, name=name, input=arguments, output=output, status=status)

    def permissions(self, requests: list[Permission]) -> None:
        for request in requests:
            request.allow()
            self.emit(
                "tool",
                call_id=request.call_id,
                name=request.tool,
                input=request.input,
                output=request.output,
                status=request.status,
            )

    def noise(self, data: bytes) -> None:
        self.put(data)

    def wait(self, seconds: float) -> None:
        if seconds:
            time.sleep(seconds)


def play(job: Job, session: Session, prompt: str, *, resumed: bool) -> int:
    voice = Headless(resumed=resumed)
    # The turn saves the session when it is made: whoever reads the id below can resume it.
    turn = Turn(job, session, prompt, voice, os.getcwd())
    exit_code = 0
    try:
        turn.begin()
        if job.announced:
            voice.announce(session.id)
        turn.play()
    except TurnFailed as failure:
        voice.emit("turn.failed", error={"code": failure.code, "message": failure.message})
        exit_code = failure.exit_code
    else:
        if turn.terminal:
            session.complete(turn.said)
            voice.emit("turn.completed", usage=turn.usage())
    finally:
        voice.release()  # as a program does whose output was buffered, however it leaves
    voice.wait(turn.linger)
    return exit_code
