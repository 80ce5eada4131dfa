"""Says a turn as `opencode run --format json` does: steps of parts, and no event that closes the turn."""

from __future__ import annotations

import json
import os
import time

from .voice import KIND, Voice, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .arguments import Call


class OpenCode(Voice):
    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._message: str | None = None
        self._after_tool = "tool-calls"

    def new_session(self) -> str:
        return _id("ses")

    def line(self, **event: Any) -> None:
        kind = event.pop("type")
        super().line(type=kind, timestamp=_now(), sessionID=self.session, **event)

    def open(self, session: str, prompt: str, *, earlier: int) -> None:
        self.session = session

    def _part(self, kind: str, **fields: Any) -> None:
        """A step opens by itself with its first part."""
        self.begin_message()
        ids = {"id": _id("prt"), "messageID": self._message, "sessionID": self.session}
        self.line(type=kind, part=ids | {"type": kind.replace("_", "-"), **fields})

    def begin_message(self) -> None:
        if self._message is None:
            self._message = _id("msg")
            self._part("step_start")

    def begin_tool(self, command: str) -> None:
        self.begin_message()

    def say(self, text: str) -> None:
        self._part("text", text=text, time={"start": _now(), "end": _now()})

    def think(self, text: str) -> None:
        self._part("reasoning", text=text, time={"start": _now(), "end": _now()})

    def tool(self, command: str, output: str) -> None:
        super().tool(command, output)
        state = {
            "status": "completed",
            "input": {"command": command},
            "output": output,
            "metadata": {"output": output, "exit": 0, "truncated": False},
            "title": command,
            "time": {"start": _now(), "end": _now()},
        }
        self._part("tool_use", type="tool", tool="bash", callID=f"call_{self.calls}", state=state)
        self._finish(self._after_tool)

    def mistake_tools(self) -> None:
        self._after_tool = "stop"

    def _finish(self, reason: str) -> None:
        tokens = {
            "total": 1251,
            "input": 1134,
            "output": 17,
            "reasoning": 0,
            "cache": {"write": 0, "read": 100},
        }
        self._part("step_finish", reason=reason, tokens=tokens, cost=0)
        self._message = None

    def close(self) -> None:
        self._finish("stop")

    def fail(self, status: int) -> int:
        error = {"message": f"scripted failure {status}", "type": KIND[status], "code": None, "param": None}
        data = {
            "message": f"scripted failure {status}",
            "statusCode": status,
            "isRetryable": status in (429, 500),
            "responseHeaders": {"content-type": "application/json"},
            "responseBody": json.dumps({"error": error}),
            "metadata": {"url": "http://127.0.0.1/v1/chat/completions"},
        }
        self.line(type="error", error={"name": "APIError", "data": data})
        return 1

    def lose(self, session: str) -> int:
        write(2, "\x1b[91m\x1b[1mError: \x1b[0mSession not found\n")
        return 1


def _now() -> int:
    return time.time_ns() // 1_000_000


def _id(kind: str) -> str:
    return f"{kind}_{os.urandom(13).hex()}"
