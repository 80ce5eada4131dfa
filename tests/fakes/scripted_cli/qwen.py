"""Says a turn as `qwen --output-format stream-json` does: an error is told as if the assistant had said it."""

from __future__ import annotations

import json
import os

from .stream_json import StreamJson
from .voice import uuid, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Qwen(StreamJson):
    SHELL = "run_shell_command"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._has_begun = False

    def gate(self) -> int | None:
        """Without a way to log in, in its settings, it does not even look for a key."""
        try:
            with open(f"{os.environ['HOME']}/.qwen/settings.json", encoding="utf-8") as file:  # noqa: PTH123
                selected = json.load(file)["security"]["auth"]["selectedType"]
        except (OSError, KeyError):
            selected = None
        if selected == "openai":
            return None
        self.session = uuid()
        self._failed("No auth type is selected.")
        return 1

    def open(self, session: str, prompt: str, *, earlier: int) -> None:
        self.session = session
        self.line(
            type="system",
            subtype="init",
            cwd=os.getcwd(),  # noqa: PTH109
            tools=["agent", "edit", "read_file", "run_shell_command", "skill", "write_file"],
            mcp_servers=self.servers,
            model=self._model,
            permission_mode="default" if self.is_downgraded else "yolo",
            qwen_code_version="0.24.4",
        )
        goal = {"type": "goal_state", "goal_state": {"v": 2, "goal": None, "activity": "idle"}}
        self.line(type="stream_event", parent_tool_use_id=None, event=goal)

    @property
    def _model(self) -> str:
        return self.model or os.environ.get("OPENAI_MODEL") or "qwen3.7-max"

    def blocks(self, *content: Any) -> None:
        self._has_begun = False
        is_call = content[-1]["type"] == "tool_use"
        message = {
            "id": uuid(),
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": list(content),
            "stop_reason": "tool_use" if is_call else None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        self.line(type="assistant", message=message, parent_tool_use_id=None)

    def begin_message(self) -> None:
        self._has_begun = True

    def interrupted(self) -> None:
        """What it had of an answer is told then, and that a tool was cancelled."""
        if self._has_begun:
            self.blocks({"type": "text", "text": "partial answer that never "})
        if self.has_tool:
            self.end_tool("[Operation Cancelled] Reason: User intentionally cancelled.", is_error=True)
        write(2, "Operation cancelled.\n")

    def close(self) -> None:
        calls = self.earlier_calls + self.calls  # it counts the whole session
        usage = {
            "input_tokens": 1234 * calls,
            "output_tokens": 17 * calls,
            "cache_read_input_tokens": 100 * calls,
            "total_tokens": 1251 * calls,
        }
        self.result(
            subtype="success",
            is_error=False,
            duration_ms=612,
            duration_api_ms=466,
            num_turns=self.calls,
            result=self._said,
            usage=usage,
        )

    def retry(self) -> None:
        why = {"reason": "retry", "discardedToolCalls": 0, "preserveText": True}
        self.line(type="system", subtype="retry", parent_tool_use_id=None, data=why)

    def _failed(self, words: str) -> None:
        usage = {"input_tokens": 0, "output_tokens": 0}
        self.result(
            subtype="error_during_execution",
            is_error=True,
            duration_ms=0,
            duration_api_ms=0,
            num_turns=1,
            usage=usage,
            error={"message": words},
        )

    def fail(self, status: int) -> int:
        words = f"[API Error: {status} scripted failure {status}]"
        self.blocks({"type": "text", "text": words})
        self._failed(words)
        return 1

    def lose(self, session: str) -> int:
        write(
            2, f"No saved session found with ID {session}. Run `qwen --resume` without an ID to choose from "
        )
        write(2, "existing sessions.\n")
        return 1
