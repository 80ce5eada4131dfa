"""Says a turn as `claude -p --output-format stream-json` does: a line for each block, and a result that tells all."""

from __future__ import annotations

import os
import time

from .stream_json import StreamJson
from .voice import uuid, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KIND = {
    400: ("invalid_request_error", "unknown"),
    401: ("authentication_error", "authentication_failed"),
    429: ("rate_limit_error", "rate_limit"),
    500: ("api_error", "server_error"),
}
"""The provider's word for an error, and its own."""


class Claude(StreamJson):
    SHELL = "Bash"

    def gate(self) -> int | None:
        if os.environ.get("IS_SANDBOX") == "1":
            return None
        write(
            2,
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n",
        )
        return 1

    def open(self, session: str, prompt: str, *, earlier: int) -> None:
        self.session = session
        self.line(
            type="system",
            subtype="init",
            cwd=os.getcwd(),  # noqa: PTH109
            tools=["Task", "Bash", "Edit", "Read", "Skill", "Write"],
            mcp_servers=self.servers,
            model=self._model,
            permissionMode="default" if self.is_downgraded else "bypassPermissions",
            apiKeySource="ANTHROPIC_API_KEY",
            claude_code_version="2.1.325",
        )

    @property
    def _model(self) -> str:
        return self.model or "claude-opus-5-5"

    def blocks(self, *content: Any) -> None:
        """A line for each, with the id of their message."""
        for block in content:
            self._message(f"msg_{self.calls}", self._model, block)

    def _message(self, name: str, model: str, block: Any, **more: Any) -> None:
        usage = {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        message = {
            "id": name,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [block],
            "usage": usage | {"output_tokens": 1},
        }
        now, millis = divmod(time.time_ns() // 1_000_000, 1000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{millis:03}Z"
        self.line(type="assistant", message=message, parent_tool_use_id=None, timestamp=stamp, **more)

    def interrupted(self) -> None:
        if self.has_tool:
            self.end_tool("Exit code 137", is_error=True)

    def _counts(self, calls: int) -> dict[str, int]:
        return {
            "inputTokens": 1084 * calls,
            "outputTokens": 17 * calls,
            "cacheReadInputTokens": 100 * calls,
            "cacheCreationInputTokens": 50 * calls,
            "thinkingTokens": 3 * calls,
        }

    def close(self) -> None:
        models = {self._model: self._counts(self.calls)}
        session = {self._model: self._counts(self.earlier_calls + self.calls)}
        self._ended(models, session, result=self._said, api_error_status=None, is_error=False)

    def _ended(self, models: Any, session: Any, **fields: Any) -> None:
        usage = {"input_tokens": 0, "output_tokens": 0, "output_tokens_details": {"thinking_tokens": 0}}
        told = {"usage": usage, "modelUsage": session, "model_usage_since_last_result": models}
        self.result(subtype="success", num_turns=self.calls, **told, **fields)

    def retry(self) -> None:
        self.line(
            type="system",
            subtype="api_retry",
            attempt=1,
            max_retries=10,
            retry_delay_ms=565,
            error_status=500,
            error="server_error",
        )

    def fail(self, status: int) -> int:
        if status == 500:
            self.retry()
        kind, own = KIND[status]
        words = f"API Error: {status} scripted failure {status}"
        told = {"api_error_status": status, "api_error_type": kind}
        block = {"type": "text", "text": words}
        self._message(uuid(), "<synthetic>", block, error=own, is_api_error_message=True, **told)
        self._ended({}, {}, result=words, is_error=True, terminal_reason="api_error", **told)
        return 1

    def lose(self, session: str) -> int:
        self.session = session
        words = f"No conversation found with session ID: {session}"
        write(2, f"{words}\n")
        usage = {"input_tokens": 0, "output_tokens": 0}
        self.result(
            subtype="error_during_execution",
            is_error=True,
            num_turns=0,
            usage=usage,
            modelUsage={},
            errors=[words],
        )
        return 1
