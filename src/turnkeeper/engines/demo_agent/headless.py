"""The headless voice: one process plays one turn, and says it as JSON lines on stdout."""

# pathlib would cost more than the rest of the start.
# ruff: noqa: PTH109

from __future__ import annotations

import os
import time

from .jsontext import line
from .player import Turn, Voice, write_all
from .script import TurnFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .permission import Permission
    from .script import Job
    from .session import Session


class Headless(Voice):
    def emit(self, kind: str, **fields: Any) -> None:
        write_all(1, line({"type": kind, **fields}))

    def delta(self, message_id: str, text: str) -> None:
        self.emit("message.delta", message_id=message_id, text=text)

    def message(self, message_id: str, text: str, *, streamed: bool) -> None:
        self.emit("message", message_id=message_id, text=text)

    def reasoning(self, text: str) -> None:
        self.emit("reasoning", text=text)

    def tool(self, call_id: str, name: str, arguments: dict[str, Any], output: str) -> None:
        self.emit("tool", call_id=call_id, name=name, input=arguments, output=output, status="completed")

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
        write_all(1, data)

    def wait(self, seconds: float) -> None:
        if seconds:
            time.sleep(seconds)


def play(job: Job, session: Session, prompt: str, *, resumed: bool) -> int:
    voice = Headless()
    # The turn saves the session when it is made: whoever reads the id below can resume it.
    turn = Turn(job, session, prompt, voice, os.getcwd())
    voice.emit("session.started", session_id=session.id, resumed=resumed)
    exit_code = 0
    try:
        turn.play()
    except TurnFailed as failure:
        voice.emit("turn.failed", error={"code": failure.code, "message": failure.message})
        exit_code = failure.exit_code
    else:
        if turn.terminal:
            session.complete(turn.said)
            voice.emit("turn.completed", usage=turn.usage())
    voice.wait(turn.linger)
    return exit_code
