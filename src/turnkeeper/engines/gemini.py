"""Gemini, by `gemini -o stream-json`. The single object of `-o json` is understood as well."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.run import Failure, Permissions
from turnkeeper.core.turn import Echo, Ended, Remark, Text, TextDelta, ToolCall, TurnEvent
from turnkeeper.engines import meaning
from turnkeeper.engines.acp import AcpDialect, Manners
from turnkeeper.engines.base import Dialect, Heard, Login, LoginKind, TurnPlan
from turnkeeper.engines.cli import BOTH, CliEngine, option
from turnkeeper.engines.dialect import (
    MAX_ID,
    CliDialect,
    SpreadObject,
    inclusive_usage,
    is_count,
    named,
    session_of,
)
from turnkeeper.engines.lines import Line
from turnkeeper.engines.programs import Package

SETTINGS: Mapping[str, Any] = {
    "general": {
        "enableAutoUpdate": False,
        "enableAutoUpdateNotification": False,
        # A plan wants a person's approval, and without one approves itself.
        "plan": {"enabled": False},
    },
    # Commands that a file in the workspace names would be run with the key in their environment.
    "hooksConfig": {"enabled": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}
SWITCHES = {
    "GEMINI_CLI_NO_RELAUNCH": "1",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "NO_BROWSER": "true",
}

POLICY_FILE = ".gemini/ask.toml"
POLICY = b"""[[rule]]
toolName = ["run_shell_command", "write_file", "replace", "web_fetch"]
decision = "ask_user"
priority = 999
"""
"""As a resident that must not act without a permission: else settings in the workspace could give it."""

_STATUS = {"success": "completed", "error": "failed"}

_EXITS = {
    41: Failure(Code.ENGINE_AUTH_REQUIRED, "gemini has no login that it could use (exit code 41)"),
    55: Failure(Code.ENGINE_TRUST_REQUIRED, "gemini does not trust the workspace (exit code 55)"),
}
_STATUS_EXITS = {
    status % 256: Failure(code, f"the provider answered with HTTP {status} (exit code {status % 256})")
    for status, code in meaning.BY_STATUS.items()
}
"""An HTTP status without its upper bits: what it says besides is told in better words, if there are any."""
# Every limit is a quota to the provider. The CLI has read which: one of a day it calls so, for others it has this.
_SUGGESTS = re.compile(r"\bSuggested retry after \d{1,3}(?:\.\d{1,12})?s\b")


class ResidentGeminiDialect(AcpDialect):
    def failure(self, error: Mapping[str, Any]) -> Failure:
        words = str(error.get("message"))
        if not _SUGGESTS.search(words):
            return super().failure(error)
        return meaning.failure(words, status=error.get("code"), kind="RetryableQuotaError")


class GeminiEngine(CliEngine):
    name = "gemini"
    profiles = BOTH
    asks = True
    skills_dir = ".gemini/skills"
    package = Package(name="@google/gemini-cli", version="0.61.0", script="bundle/gemini.js", least_node=20)
    keys = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    addresses = (
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_VERTEX_BASE_URL",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
    )
    login_files = (".gemini/oauth_creds.json", ".gemini/google_accounts.json")
    login_command = "gemini"
    own_logins = ("security", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_GENAI_USE_VERTEXAI")
    settings_file = ".gemini/settings.json"
    switches = SWITCHES
    resident = ResidentGeminiDialect

    def words(self, plan: TurnPlan) -> Sequence[str]:
        model, session = option("-m", plan.model), option("--resume", session_of(plan))
        # A server of tools may be sent the key, by settings that an agent left in the workspace.
        servers = ("--allowed-mcp-server-names", self.tool_servers())
        return ("--yolo", "-o", "stream-json", *servers, *model, *session)

    def resident_words(self, plan: TurnPlan) -> Sequence[str]:
        asking = ("--approval-mode", "default", "--admin-policy", str(plan.home / POLICY_FILE))
        access = ("--yolo",) if plan.permissions is Permissions.ALLOW else asking
        servers = ("--allowed-mcp-server-names", self.tool_servers())
        return ("--acp", *access, *servers, *option("-m", plan.model))

    def resident_files(self, plan: TurnPlan) -> Mapping[str, bytes]:
        return {} if plan.permissions is Permissions.ALLOW else {POLICY_FILE: POLICY}

    def manners(self, plan: TurnPlan) -> Manners:
        # It finds a session again once, and not in the minute that it was begun in.
        return Manners(loads=False)

    def variables(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """What is not set, even to nothing, it takes from a file `.env` that an agent may have left: with the key."""
        return {"GOOGLE_GEMINI_BASE_URL": "", **given}

    def settings(self, login: Login) -> Mapping[str, Any]:
        return {"security": {"auth": {"selectedType": _login_type(login)}}, **SETTINGS}

    def headless(self, plan: TurnPlan) -> Dialect:
        return GeminiDialect(plan)


def _login_type(login: Login) -> str:
    """Without it a base URL alone makes the CLI choose another login, and exit."""
    if login.kind is LoginKind.FILE:
        return "oauth-personal"
    return "vertex-ai" if login.source == "GOOGLE_API_KEY" else "gemini-api-key"


class GeminiDialect(CliDialect):
    takes_commands = True
    lost = re.compile(r"Error resuming session|Invalid session identifier")
    exits = _EXITS

    def __init__(self, plan: TurnPlan) -> None:
        super().__init__(plan)
        self._streams = False
        self._tools: dict[str, str] = {}
        self._trouble = ""
        self._answer = SpreadObject()
        self._complaint = SpreadObject()
        self._complained: Failure | None = None

    def hear(self, line: Line) -> Heard | None:
        heard = super().hear(line)
        if heard is not None or self._streams:
            return heard
        whole = self._answer.take(line)
        if whole is None:
            return Heard(()) if self._answer.is_open else None
        events = self._whole(whole)
        return None if events is None else Heard(events)

    def hear_stderr(self, line: Line) -> Heard | None:
        """With `-o json` an error is an object at the end of stderr; it counts at the exit, in any order."""
        said = self._complaint.take(line)
        if said is not None and isinstance(said.get("error"), dict):
            self._complained = _failure(said["error"])
        return super().hear_stderr(line)

    def failure(self, code: int, stderr: str) -> Failure | None:
        if code and self._complained:
            return self._complained
        told = super().failure(code, stderr)
        return told or (meaning.explained(_STATUS_EXITS[code], stderr) if code in _STATUS_EXITS else None)

    def events(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        if "type" not in said:
            return None if self._streams else self._whole(said)
        events = self._event(said)
        self._streams = self._streams or events is not None
        return events

    def _event(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        match said:
            case {"type": "init", "session_id": str(session)}:
                return [*self.opened(session), *named(said.get("model"))]
            case {"type": "message", "role": "user"}:
                return [Echo()]
            case {"type": "message", "role": "assistant", "content": str(text), "delta": True}:
                return [TextDelta(text)]
            case {"type": "message", "role": "assistant", "content": str(text)}:
                return [Text(text)]
            case {"type": "tool_use", "tool_id": str(call), "tool_name": str(name)}:
                if max(len(call), len(name)) <= MAX_ID:
                    self._tools[call] = name
                return [ToolCall(call, name, "in_progress", said.get("parameters"))]
            case {"type": "tool_result", "tool_id": str(call), "status": str(status)}:
                name = self._tools.pop(call, "tool")
                return [ToolCall(call, name, _STATUS.get(status, status), None, _output(said))]
            case {"type": "error", "message": str(message)}:
                self._trouble = message
                return [Remark(Warn.ENGINE_REMARK, message)]
            case {"type": "result", "status": "success"}:
                return [*_usage(said.get("stats")), Ended()]
            case {"type": "result", "status": "error"}:
                failure = _failure(said.get("error"), self._trouble)
                return [*_usage(said.get("stats")), Ended(failure)]
            case _:
                return None

    def _whole(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        """The one object of `-o json`. Once events were heard an object like it comes from somebody else."""
        response, error, stats = said.get("response"), said.get("error"), said.get("stats")
        session = said.get("session_id")
        if not (isinstance(session, str) or isinstance(stats, dict)):
            return None
        if not (isinstance(response, str) or isinstance(error, dict)):
            return None
        return [
            *(self.opened(session) if isinstance(session, str) else []),
            *([Text(response)] if isinstance(response, str) and response else []),
            *_whole_usage(stats),
            Ended(_failure(error) if isinstance(error, dict) else None),
        ]


def _failure(error: object, otherwise: str = "") -> Failure:
    found = error if isinstance(error, dict) else {}
    message, code, kind = found.get("message"), found.get("code"), found.get("type")
    if isinstance(code, int) and code in _EXITS:
        words = message if isinstance(message, str) and message else _EXITS[code].message
        return Failure(_EXITS[code].code, words)
    text = message if isinstance(message, str) and message else otherwise
    kinds = [kind if isinstance(kind, str) else "", "RetryableQuotaError" if _SUGGESTS.search(text) else ""]
    return meaning.failure(text, status=code, kind=" ".join(kinds))


def _output(said: Mapping[str, Any]) -> Any:
    if said.get("output") is not None:
        return said["output"]
    error = said.get("error")
    return error.get("message", error) if isinstance(error, dict) else error


def _usage(stats: object) -> list[TurnEvent]:
    if not isinstance(stats, dict):
        return []
    return inclusive_usage(
        input_tokens=stats.get("input_tokens"),
        cached_tokens=stats.get("cached"),
        output_tokens=stats.get("output_tokens"),
    )


def _whole_usage(stats: object) -> list[TurnEvent]:
    """There the counts are kept for each model, under other names."""
    models = stats.get("models") if isinstance(stats, dict) else None
    if not isinstance(models, dict):
        return _usage(stats)
    each = [model["tokens"] for model in models.values() if isinstance(model, dict) and "tokens" in model]
    found = [tokens for tokens in each if isinstance(tokens, dict)]

    def total(*names: str) -> int | None:
        values = [tokens[name] for tokens in found for name in names if is_count(tokens.get(name))]
        return sum(values) if values else None

    return inclusive_usage(
        input_tokens=total("prompt"),
        cached_tokens=total("cached"),
        output_tokens=total("candidates", "thoughts"),
        reasoning_tokens=total("thoughts"),
    )
