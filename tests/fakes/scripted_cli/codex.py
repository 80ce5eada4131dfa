"""Says a turn as `codex exec --json` does: items that are complete, and a turn that is closed."""

from __future__ import annotations

import json
import os

from .voice import KIND, REASON, Voice, uuid, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .arguments import Call


class Codex(Voice):
    KNOWN_MODEL = "gpt-5.5"

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._items = 0

    def new_session(self) -> str:
        return uuid(f"01a1e1cb{os.urandom(2).hex()}7")

    def _item(self, kind: str, phase: str = "completed", **fields: Any) -> None:
        self.line(type=f"item.{phase}", item={"id": f"item_{self._items}", "type": kind, **fields})
        if phase == "completed":
            self._items += 1

    def open(self, session: str, prompt: str, *, earlier: int) -> None:
        self.line(type="thread.started", thread_id=session)
        if self.model not in (None, self.KNOWN_MODEL):
            words = f"Model metadata for `{self.model}` not found. Defaulting to fallback metadata; "
            self._item("error", message=words + "this can degrade performance and cause issues.")
        self.line(type="turn.started")

    def mutter(self, words: str) -> None:
        self._item("error", message=words)

    def say(self, text: str) -> None:
        self._item("agent_message", text=text)

    def think(self, text: str) -> None:
        self._item("reasoning", text=text)

    def _command(self, phase: str, command: str, output: str, code: int | None, status: str) -> None:
        shell = f"/bin/bash -lc '{command}'"
        self._item(
            "command_execution",
            phase,
            command=shell,
            aggregated_output=output,
            exit_code=code,
            status=status,
        )

    def begin_tool(self, command: str) -> None:
        self._command("started", command, "", None, "in_progress")

    def tool(self, command: str, output: str) -> None:
        super().tool(command, output)
        self.begin_tool(command)
        self._command("completed", command, output, 0, "completed")

    def close(self) -> None:
        calls = self.earlier_calls + self.calls  # it counts the whole session
        usage = {
            "input_tokens": 1234 * calls,
            "cached_input_tokens": 100 * calls,
            "cache_write_input_tokens": 0,
            "output_tokens": 17 * calls,
            "reasoning_output_tokens": 3 * calls,
        }
        self.line(type="turn.completed", usage=usage)

    def retry(self) -> None:
        self.line(type="error", message="Reconnecting... 1/5 (We’re currently experiencing high demand.)")

    def fail(self, status: int) -> int:
        error = {"message": f"scripted failure {status}", "type": KIND[status], "code": None, "param": None}
        body = json.dumps({"error": error})
        message = {
            400: body,
            401: f"unexpected status 401 {REASON[401]}: {body}, url: http://127.0.0.1/v1/responses",
            429: f"exceeded retry limit, last status: 429 {REASON[429]}",
            500: "We’re currently experiencing high demand, which may cause temporary errors.",
        }[status]
        if status == 500:
            self.retry()
        self.line(type="error", message=message)
        self.line(type="turn.failed", error={"message": message})
        return 1

    def lose(self, session: str) -> int:
        why = f"no rollout found for thread id {session} (code -32600)"
        write(2, f"Error: thread/resume: thread/resume failed: {why}\n")
        return 1
