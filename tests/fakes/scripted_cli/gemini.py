"""Says a turn as `gemini -o stream-json` does: the prompt echoed, the answer in small pieces."""

from __future__ import annotations

import json
import os
import time

from .voice import Voice, compact, write

STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


NOTICES = """\
Warning: Basic terminal detected (TERM=dumb). Visual rendering will be limited. For the best experience, use a \
terminal emulator with truecolor support.
Warning: 256-color support not detected. Using a terminal with at least 256-color support is recommended for a \
better visual experience.
YOLO mode is enabled. All tool calls will be automatically approved.
YOLO mode is enabled. All tool calls will be automatically approved.
"""


class Gemini(Voice):
    DELTA = 16

    def line(self, **event: Any) -> None:
        kind = event.pop("type")
        now, millis = divmod(time.time_ns() // 1_000_000, 1000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{millis:03}Z"
        super().line(type=kind, timestamp=stamp, **event)

    def gate(self) -> int | None:
        if os.environ.get("GEMINI_CLI_TRUST_WORKSPACE") == "true":
            return None
        write(2, "Gemini CLI is not running in a trusted directory.\n")
        return 55

    def open(self, session: str, prompt: str, *, earlier: int) -> None:
        write(2, NOTICES)
        self.line(type="init", session_id=session, model=self.model or "auto")
        self.line(type="message", role="user", content=prompt)

    def _delta(self, text: str) -> None:
        self.line(type="message", role="assistant", content=text, delta=True)

    def say(self, text: str) -> None:
        for start in range(0, len(text), self.DELTA):
            self._delta(text[start : start + self.DELTA])

    def begin_message(self) -> None:
        self._delta("partial answer t")

    def begin_tool(self, command: str) -> None:
        call = f"run_shell_command__call_{self.calls}"
        given = {"command": command}
        self.line(type="tool_use", tool_name="run_shell_command", tool_id=call, parameters=given)

    def tool(self, command: str, output: str) -> None:
        self.begin_tool(command)
        call = f"run_shell_command__call_{self.calls}"
        self.line(type="tool_result", tool_id=call, status="success", output=output.rstrip("\n"))
        super().tool(command, output)

    def _stats(self, calls: int) -> dict[str, Any]:
        tokens = {
            "total_tokens": 1251 * calls,
            "input_tokens": 1234 * calls,
            "output_tokens": 17 * calls,
            "cached": 100 * calls,
            "input": 1134 * calls,
        }
        models = {self.model or "auto": tokens}
        return tokens | {"duration_ms": 103 * calls, "tool_calls": max(calls - 1, 0), "models": models}

    def close(self) -> None:
        self.line(type="result", status="success", stats=self._stats(self.calls))

    def respond(self, session: str, text: str) -> None:
        """As with `-o json`."""
        tokens = {"prompt": 1234, "candidates": 17, "total": 1251, "cached": 100, "thoughts": 0, "tool": 0}
        stats = {"models": {self.model or "auto": {"tokens": tokens}}}
        whole = {"session_id": session, "response": text, "stats": stats}
        write(1, json.dumps(whole, ensure_ascii=False, indent=2) + "\n")

    def retry(self) -> None:
        write(2, "Attempt 1 failed with status 500. Retrying with backoff... _ApiError: scripted failure\n")

    def fail(self, status: int) -> int:
        body = compact(
            {"error": {"code": status, "message": f"scripted failure {status}", "status": STATUS[status]}}
        )
        write(
            2, f"Error when talking to Gemini API Full report available at: /tmp/x.json _ApiError: {body}\n"
        )
        write(2, "    at throwErrorIfNotOK (file:///bundle/chunk-JDPZ4CE3.js:267833:24)\n")
        error = {"type": "unknown", "message": f"[API Error: {body}]"}
        self.line(type="result", status="error", error=error, stats=self._stats(0))
        return status % 256

    def lose(self, session: str) -> int:
        write(2, f'Error resuming session: Invalid session identifier "{session}".\n')
        write(2, f"  Searched for sessions in {os.environ['HOME']}/.gemini/tmp/ws/chats.\n")
        write(2, "  Use --list-sessions to see available sessions, then use --resume {number}, ")
        write(2, "--resume {uuid}, or --resume latest.\n")
        return 42
