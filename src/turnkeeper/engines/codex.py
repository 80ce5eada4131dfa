"""Codex, by `codex exec --json`: whole items, and a turn that is completed or failed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import tomli_w

from turnkeeper.core.errors import Code, EngineNotReady, Warn
from turnkeeper.core.run import Failure, Permissions
from turnkeeper.core.turn import Ended, Reasoning, Remark, Text, ToolCall, TurnEvent
from turnkeeper.engines import gates, meaning
from turnkeeper.engines.acp import AcpDialect, Manners
from turnkeeper.engines.base import Dialect, Launch, Login, LoginKind, TurnPlan
from turnkeeper.engines.cli import BOTH, CliEngine, option
from turnkeeper.engines.dialect import CliDialect, session_usage
from turnkeeper.engines.programs import Adapter, Package

SETTINGS: Mapping[str, Any] = {
    "check_for_update_on_startup": False,
    "analytics": {"enabled": False},
    # A question of the agent's ends its turn; a tool that asks would find nobody.
    "tools": {"experimental_request_user_input": {"enabled": False}},
    "features": {
        # With it each run looks for plugins on the network first.
        "plugins": False,
        # With it a refused connection is tried again for ever.
        "unbounded_connection_retries": False,
    },
}

OWN = "turnkeeper"
TITLE = "turnkeeper"
"""With a title of ours no other model is asked for one."""
MODES = {
    Permissions.ALLOW: "agent-full-access",
    # It looks around in a sandbox where nothing can be written, and asks for whatever needs more.
    Permissions.ASK: "read-only",
    Permissions.DENY: "read-only",
}
_WARNS = re.compile(r"\s*(?:Config w|W)arning: ")
_RETRYING = re.compile(r"Reconnecting\.{3} [^(]{0,100}\((.*)\)", re.DOTALL)
"""How it tells that it tries again, and the cause."""
# Kinds of items that are tools: where each keeps what went in, and what came out.
_TOOLS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "command_execution": ("command", ("aggregated_output",)),
    "mcp_tool_call": ("arguments", ("result", "error")),
    "collab_tool_call": ("prompt", ("agents_states",)),
    "file_change": ("changes", ()),
    "web_search": ("query", ()),
    "todo_list": ("items", ()),
}


class ResidentCodexDialect(AcpDialect):
    """Most errors are told as words of the assistant, by which it seems to end well: they only lack an id."""

    def __init__(self, plan: TurnPlan, manners: Manners) -> None:
        super().__init__(plan, manners)
        self._aside = ""
        self._is_broken = False

    def begin(self, prompt: str) -> bytes:
        self._aside, self._is_broken = "", False
        return super().begin(prompt)

    def update(self, update: dict[str, Any]) -> Sequence[TurnEvent]:
        match update:
            case {"_meta": {"codex": {"threadStatus": {"type": str(status)}}}}:
                self._is_broken = status == "systemError"
                return []
            case {"sessionUpdate": "agent_message_chunk", "messageId": str()}:
                return super().update(update)
            case {"sessionUpdate": "agent_message_chunk", "content": {"text": str(text)}}:
                return self._say_aside(text)
            case _:
                return super().update(update)

    def _say_aside(self, text: str) -> Sequence[TurnEvent]:
        if _WARNS.match(text):
            return [Remark(Warn.ENGINE_REMARK, text.strip()[: meaning.MAX_MESSAGE])]
        self._aside = f"{self._aside}{text}"[: meaning.MAX_READ]
        return []

    def asides(self) -> Sequence[TurnEvent]:
        """Of a turn that ended well: what it told of itself."""
        words = "" if self._is_broken else self._aside.strip()
        return [Remark(Warn.ENGINE_REMARK, words[: meaning.MAX_MESSAGE])] if words else []

    def stopped(self, result: Mapping[str, Any]) -> Failure | None:
        return meaning.failure(self._aside) if self._is_broken else super().stopped(result)


class CodexEngine(CliEngine):
    name = "codex"
    profiles = BOTH
    asks = True
    skills_dir = ".codex/skills"
    package = Package(
        name="@openai/codex",
        version="0.166.0",
        native=("@openai/codex-linux-{cpu}/vendor/{machine}-unknown-linux-musl/bin/codex",),
    )
    keys = ("CODEX_API_KEY", "OPENAI_API_KEY")
    addresses = ("OPENAI_BASE_URL",)
    login_files = (".codex/auth.json",)
    login_command = "codex login"
    own_logins = ("model_provider", "model_providers")
    settings_file = ".codex/config.toml"
    empty_files: ClassVar[Mapping[str, bytes]] = {".codex/.env": b""}
    adapter = Adapter(
        program="codex-acp",
        package=Package(
            name="@agentclientprotocol/codex-acp",
            version="2.6.0",
            script="dist/index.js",
            least_node=20,
            is_lean=True,
        ),
        variable="CODEX_PATH",
    )
    resident = ResidentCodexDialect

    def words(self, plan: TurnPlan) -> Sequence[str]:
        flags = ("--json", "--yolo", "--skip-git-repo-check", *option("-m", plan.model))
        if plan.session is None:
            return ("exec", *flags, "-C", str(plan.workspace), "-")
        return ("exec", "resume", *flags, plan.session.session_id, "-")

    def places(self, home: Path) -> Mapping[str, str]:
        return {"CODEX_HOME": str(home / ".codex")}

    def variables(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """Of the two keys it reads one."""
        key = given.get("CODEX_API_KEY") or given.get("OPENAI_API_KEY")
        return {**given, "CODEX_API_KEY": key} if key else given

    def settings(self, login: Login) -> Mapping[str, Any]:
        # A person's login is for its maker alone, whatever address the keys of others are for.
        address = self.value("OPENAI_BASE_URL") if login.kind is not LoginKind.FILE else None
        return {**SETTINGS, **_provider(address)} if address else SETTINGS

    def dump(self, settings: Mapping[str, Any]) -> bytes:
        return tomli_w.dumps(settings).encode()

    def launch(self, plan: TurnPlan) -> Launch:
        """Rules in the workspace could give permissions that nobody gave: it trusts whatever is there."""
        is_asking = plan.permissions is not Permissions.ALLOW
        if is_asking and (plan.workspace / ".codex").exists():
            raise EngineNotReady(
                "the workspace has a folder .codex, whose rules could permit what a person should; remove it, "
                "or run the job with `permissions` allow"
            )
        return super().launch(plan)

    def resident_variables(self, plan: TurnPlan) -> Mapping[str, str]:
        # So a model cannot be named by a file in the workspace instead.
        model = {"CODEX_CONFIG": json.dumps({"model": plan.model})} if plan.model else {}
        return {"NO_BROWSER": "1", **model}

    def resident_settings(self, plan: TurnPlan) -> Mapping[str, Any]:
        # Else the key is in a file that it leaves for its shells.
        quiet = {"features": {"shell_snapshot": False}}
        return {**quiet, "cli_auth_credentials_store": "ephemeral"} if self._has_key else quiet

    def manners(self, plan: TurnPlan) -> Manners:
        return Manners(login="api-key" if self._has_key else None, modes=MODES, title=TITLE)

    @property
    def _has_key(self) -> bool:
        """One for its maker, or for whoever is at the address. A resident has to be told to use it."""
        return self.login().kind is LoginKind.KEY and any(map(self.value, self.keys))

    def headless(self, plan: TurnPlan) -> Dialect:
        return CodexDialect(plan)


def _provider(address: str) -> Mapping[str, Any]:
    """At another address than its maker's. It does not read that variable itself, and would try WebSockets first."""
    own = {"name": OWN, "base_url": address, "wire_api": "responses", "requires_openai_auth": True}
    return {"model_provider": OWN, "model_providers": {OWN: own}}


class CodexDialect(CliDialect):
    # A session with another writer is there; it is only busy.
    lost = re.compile(r"no rollout found|thread/resume failed(?!.*active writer)")
    distrusts = re.compile(r"Not inside a trusted directory")

    def __init__(self, plan: TurnPlan) -> None:
        super().__init__(plan)
        self._used = plan.used if plan.session else {}
        self._trouble = ""
        """The last error that was no retry; `turn.failed` usually says it again."""
        self._cause = ""
        """Of the last retry, until the model answers."""

    def events(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        match said:
            # First what comes most.
            case {
                "type": "item.completed" | "item.started" | "item.updated" as moment,
                "item": {"id": str(), "type": str()} as item,
            }:
                if item["type"] != "error":
                    self._cause = ""
                return _item(item, is_over=moment == "item.completed")
            case {"type": "thread.started", "thread_id": str(session)}:
                return self.opened(session)
            case {"type": "turn.started"}:
                return []
            case {"type": "error", "message": str(message)} if message.startswith("Reconnecting"):
                found = _RETRYING.fullmatch(message)
                self._cause = found[1] if found else message
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
        if self._trouble or (code and self._cause):
            return self._why("")
        return super().failure(code, stderr)

    def _usage(self, found: object) -> list[TurnEvent]:
        """It counts the whole session: what earlier turns used is taken off."""
        if not isinstance(found, dict):
            return []
        return session_usage(
            self._used,
            input_tokens=found.get("input_tokens"),
            cached_tokens=found.get("cached_input_tokens"),
            output_tokens=found.get("output_tokens"),
            reasoning_tokens=found.get("reasoning_output_tokens"),
        )

    def _overcome(self) -> list[TurnEvent]:
        """The error was not the end after all."""
        if not self._trouble:
            return []
        return [Remark(Warn.ENGINE_REMARK, meaning.failure(self._trouble).message)]

    def _failed(self, error: object) -> Failure:
        message = error.get("message") if isinstance(error, dict) else None
        return self._why(message if isinstance(message, str) else "")

    def _why(self, last: str) -> Failure:
        """Where the last words only say that the stream broke off, those before them may name the cause."""
        told = [meaning.failure(words) for words in (last, self._trouble, self._cause) if words.strip()]
        if not told:
            return meaning.failure("")
        shown, *_ = told
        known = next((found for found in told if found.code is not Code.ENGINE_FAILED), shown)
        if known is shown:
            return shown
        return replace(known, message=shown.message, evidence=known.evidence or known.message)


def _item(item: Mapping[str, Any], *, is_over: bool) -> Sequence[TurnEvent] | None:
    match item:
        # `str(text)` would look for the parts of a text first, and take five times as long.
        case {"type": "agent_message", "id": str() as name, "text": str() as text} if is_over:
            return [Text(text, name)]
        case {"type": str() as kind} if kind in _TOOLS:
            return [_tool(item, is_over=is_over)]
        case {"type": "reasoning", "text": str() as text} if is_over:
            return [Reasoning(text)]
        case {"type": "agent_message" | "reasoning"} if not is_over:
            return []  # it comes again when it is whole
        case {"type": "error", "message": str(message)}:
            return [gates.remark(message) or Remark(Warn.ENGINE_REMARK, meaning.failure(message).message)]
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
