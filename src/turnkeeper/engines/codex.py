"""Codex, by `codex exec --json`: whole items, and a turn that is completed or failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.run import Failure
from turnkeeper.core.turn import Ended, Reasoning, Remark, Text, ToolCall, TurnEvent
from turnkeeper.engines import meaning
from turnkeeper.engines.base import Dialect, TurnPlan
from turnkeeper.engines.cli import CliDialect, CliEngine, is_count, option, usage

CONFIG = b"""\
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
# Without it each run looks for plugins on the network first.
plugins = false
# Else a refused connection is tried again for ever.
unbounded_connection_retries = false
"""

_RETRYING = "Reconnecting"
_COUNTERS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)
"""They have the names that we use."""

# Kinds of items that are tools: where each keeps what went in, and what came out.
_TOOLS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "command_execution": ("command", ("aggregated_output",)),
    "mcp_tool_call": ("arguments", ("result", "error")),
    "collab_tool_call": ("prompt", ("agents_states",)),
    "file_change": ("changes", ()),
    "web_search": ("query", ()),
    "todo_list": ("items", ()),
}


class CodexEngine(CliEngine):
    name = "codex"
    skills_dir = ".codex/skills"
    install = "npm install -g @openai/codex@0.166.0"
    keys = ("CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL")

    def words(self, plan: TurnPlan) -> Sequence[str]:
        flags = ("--json", "--yolo", "--skip-git-repo-check", *option("-m", plan.model))
        if plan.session is None:
            return ("exec", *flags, "-C", str(plan.workspace), "-")
        return ("exec", "resume", *flags, plan.session.session_id, "-")

    def places(self, home: Path) -> Mapping[str, str]:
        return {"CODEX_HOME": str(home / ".codex")}

    def files(self) -> Mapping[str, bytes]:
        return {".codex/config.toml": CONFIG}

    def dialect(self, plan: TurnPlan) -> Dialect:
        return CodexDialect(plan)


class CodexDialect(CliDialect):
    # A session with another writer is there; it is only busy.
    lost = re.compile(r"no rollout found|thread/resume failed(?!.*active writer)")

    def __init__(self, plan: TurnPlan) -> None:
        super().__init__(plan)
        self._used = plan.used if plan.session else {}
        self._trouble = ""
        """The last error that was no retry; `turn.failed` usually says it again."""

    def events(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        match said:
            case {"type": "thread.started", "thread_id": str(session)}:
                return self.opened(session)
            case {"type": "turn.started"}:
                return []
            case {
                "type": "item.started" | "item.updated" | "item.completed" as moment,
                "item": {"id": str(), "type": str()} as item,
            }:
                return _item(item, is_over=moment == "item.completed")
            case {"type": "error", "message": str(message)} if message.startswith(_RETRYING):
                return [Remark(Warn.ENGINE_RETRYING, message)]
            case {"type": "error", "message": str(message)}:
                self._trouble = message
                return []
            case {"type": "turn.completed"}:
                return [*self._overcome(), *self._usage(said.get("usage")), Ended()]
            case {"type": "turn.failed"}:
                return [Ended(self._failed(said.get("error")))]
            case _:
                return None

    def failure(self, code: int, stderr: str) -> Failure | None:
        return meaning.failure(self._trouble) if self._trouble else super().failure(code, stderr)

    def _usage(self, found: object) -> list[TurnEvent]:
        """It counts the whole session: what earlier turns used is taken off."""
        if not isinstance(found, dict):
            return []
        counts = {name: found[name] for name in _COUNTERS if is_count(found.get(name))}
        return usage(**{name: max(0, n - self._used.get(name, 0)) for name, n in counts.items()})

    def _overcome(self) -> list[TurnEvent]:
        """The error was not the end after all."""
        if not self._trouble:
            return []
        return [Remark(Warn.ENGINE_REMARK, meaning.failure(self._trouble).message)]

    def _failed(self, error: object) -> Failure:
        """The last error may name the cause where the closing event only says that the stream broke off."""
        message = error.get("message") if isinstance(error, dict) else None
        before = meaning.failure(self._trouble)
        if not isinstance(message, str) or not message:
            return before
        failure = meaning.failure(message)
        return replace(failure, code=before.code) if failure.code is Code.ENGINE_FAILED else failure


def _item(item: Mapping[str, Any], *, is_over: bool) -> Sequence[TurnEvent] | None:
    match item:
        case {"type": "agent_message" | "reasoning"} if not is_over:
            return []  # it comes again when it is whole
        case {"type": "agent_message", "id": str(name), "text": str(text)}:
            return [Text(text, name)]
        case {"type": "reasoning", "text": str(text)}:
            return [Reasoning(text)]
        case {"type": "error", "message": str(message)}:
            return [Remark(Warn.ENGINE_REMARK, meaning.failure(message).message)]
        case {"type": str(kind)} if kind in _TOOLS:
            return [_tool(item, is_over=is_over)]
        case _:
            return None


def _tool(item: Mapping[str, Any], *, is_over: bool) -> ToolCall:
    what, results = _TOOLS[item["type"]]
    parts = [item[part] for part in ("server", "tool") if isinstance(item.get(part), str)]
    status = item.get("status")
    if not isinstance(status, str):
        status = "completed" if is_over else "in_progress"
    output = next((item[result] for result in results if item.get(result)), None)
    return ToolCall(item["id"], ".".join(parts) or item["type"], status, item.get(what), output)
