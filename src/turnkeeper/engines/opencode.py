"""OpenCode, by `opencode run --format json`: steps of parts. No event closes the turn; its last step does."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure, Permissions
from turnkeeper.core.turn import Echo, Ended, Reasoning, TextDelta, ToolCall, TurnEvent
from turnkeeper.engines import broken, meaning
from turnkeeper.engines.base import Dialect, Heard, Login, LoginKind, TurnPlan
from turnkeeper.engines.cli import BOTH, CliEngine, option
from turnkeeper.engines.dialect import MAX_ID, CliDialect, is_count, usage
from turnkeeper.engines.lines import Line, plain
from turnkeeper.engines.process import Exit
from turnkeeper.engines.programs import Package

TITLE = "turnkeeper"
"""With a title of ours no model is asked for one."""

SETTINGS = {
    "autoupdate": False,
    "share": "disabled",
    # A summary that it writes for itself looks like an answer, and ends like one. A full context fails instead.
    "compaction": {"auto": False},
}

ASKING = {
    "permission": {
        **dict.fromkeys(("bash", "edit", "webfetch", "external_directory", "doom_loop"), "ask"),
        # What an agent of its agent asks for is told to nobody, and waited for.
        "task": "deny",
    },
    # Else a refusal ends the turn without a word.
    "experimental": {"continue_loop_on_deny": True},
}
"""As a resident that must not act without a permission."""

SERVER_PASSWORD = "OPENCODE_SERVER_PASSWORD"

SWITCHES = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    # A file in the workspace could send the key elsewhere.
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    # Else nobody learns why a call to the model is tried again, nor what went wrong inside.
    "OPENCODE_PRINT_LOGS": "1",
    "OPENCODE_LOG_LEVEL": "ERROR",
}

_GOES_ON = ("tool-calls", "unknown")
_MAY_END = ("stop", "unknown", "content-filter")
"""Reasons after which an exit with 0 is a good end, even where it might have gone on."""
_STATUS = {"error": "failed"}
# What its server could not do is told in its log alone, under a reference that the event has too.
_LOGGED = re.compile(r'\bref=(err_\w{1,60}) error="((?:[^"\\]|\\.){1,2000})')
MAX_LOGGED, MAX_LOGGED_LINE = 100, 8192


class OpencodeEngine(CliEngine):
    name = "opencode"
    profiles = BOTH
    asks = True
    skills_dir = ".config/opencode/skills"
    sessions_dir = ".local/share/opencode"
    package = Package(
        name="opencode-ai",
        version="1.18.33",
        native=(
            "opencode-linux-{cpu}{baseline}{libc}/bin/opencode",
            "opencode-linux-{cpu}-baseline{libc}/bin/opencode",
        ),
    )
    login_files = (".local/share/opencode/auth.json",)
    login_command = "opencode auth login"
    own_logins = ("provider",)
    settings_file = ".config/opencode/opencode.json"
    empty_files: ClassVar[Mapping[str, bytes]] = dict.fromkeys(
        (
            *(".config/opencode/opencode.jsonc", ".config/opencode/config.json"),
            *(".opencode/opencode.json", ".opencode/opencode.jsonc"),
        ),
        b"{}",
    )
    keys = (
        "ANTHROPIC_API_KEY",
        "DEEPSEEK_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "OPENAI_API_KEY",
        "OPENCODE_API_KEY",
        "OPENROUTER_API_KEY",
        "XAI_API_KEY",
    )
    switches = SWITCHES
    own_secrets = (SERVER_PASSWORD,)

    def words(self, plan: TurnPlan) -> Sequence[str]:
        which = ("--session", plan.session.session_id) if plan.session else ("--title", TITLE)
        return ("run", "--format", "json", "--auto", *option("-m", plan.model), *which)

    def resident_words(self, plan: TurnPlan) -> Sequence[str]:
        return ("acp",)

    def resident_variables(self, plan: TurnPlan) -> Mapping[str, str]:
        # It serves its API on this machine too: whoever asked it there could give the permissions.
        return {SERVER_PASSWORD: secrets.token_urlsafe(24)}

    def resident_settings(self, plan: TurnPlan) -> Mapping[str, Any]:
        # Its sessions have no title before the first prompt; none is asked of a model.
        model, title = {"model": plan.model} if plan.model else {}, {"agent": {"title": {"disable": True}}}
        return {**model, **title, **(ASKING if plan.permissions is not Permissions.ALLOW else {})}

    def variables(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """Google's key has two names; it looks for a provider by one and for the key by the other."""
        key = given.get("GOOGLE_GENERATIVE_AI_API_KEY") or given.get("GEMINI_API_KEY")
        google = {"GOOGLE_GENERATIVE_AI_API_KEY": key} if key else {}
        # Its plugins are what renews a login by browser; otherwise they only cost time.
        plugins = {} if self.login().kind is LoginKind.FILE else {"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"}
        return {**plugins, **given, **google}

    def settings(self, login: Login) -> Mapping[str, Any]:
        # Its maker's models need no key: without one of theirs, nothing may be sent there by surprise.
        is_theirs = self.value("OPENCODE_API_KEY") or (
            login.kind is LoginKind.FILE and _has_theirs(login.source)
        )
        return SETTINGS if is_theirs else {**SETTINGS, "disabled_providers": ["opencode"]}

    def headless(self, plan: TurnPlan) -> Dialect:
        return OpencodeDialect(plan)


def _has_theirs(auth_file: str | None) -> bool:
    try:
        return "opencode" in json.loads(Path(auth_file or "").read_bytes())
    except (OSError, ValueError, TypeError):
        return False


class OpencodeDialect(CliDialect):
    lost = re.compile(r"Session not found")
    # It does not say which: an argument that it does not know only makes it print its help.
    misused = re.compile(r"^opencode run \[message\.\.\]$")

    def __init__(self, plan: TurnPlan) -> None:
        super().__init__(plan)
        self._message: str | None = None
        """The one that is open: a tool closes it, and so does a text of another."""
        self._heard: set[str] = set()
        """Ids of parts: one may be told again."""
        self._spent: dict[str, int] = {}
        self._has_called = False
        """A tool, in this step: then it goes on, whatever reason a provider gave for stopping."""
        self._reason = ""
        self._logged: dict[str, str] = {}
        """Errors of its server, by their references."""
        self._unexplained: tuple[str, Failure] | None = None

    def hear(self, line: Line) -> Heard | None:
        heard = super().hear(line)
        return heard if heard is None or self._unexplained is None else replace(heard, is_last=True)

    def hear_stderr(self, line: Line) -> Heard | None:
        start = line.data[:MAX_LOGGED_LINE]
        found = _LOGGED.search(plain(start)) if b"ref=err_" in start else None
        if found and len(self._logged) < MAX_LOGGED:
            self._logged[found[1]] = found[2]
        return super().hear_stderr(line)

    def events(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        events = self._event(said)
        session = said.get("sessionID")
        if self._session is None and isinstance(session, str) and events is not None:
            return [*self.opened(session), *events]
        return events

    def _event(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        match said:
            case {"type": str(), "part": {"id": str(part_id)}} if part_id in self._heard:
                return []
            case {"type": "step_start"}:
                return self._begin_step(said.get("part"))
            case {"type": "error", "error": {"data": {"ref": str(ref)}} as error}:
                self._unexplained = ref, _failure(error)
                return []
            case {"type": "error"}:
                return [Ended(_failure(said.get("error")))]
            case {"type": "done", "reason": "idle"}:
                return [Ended()]
            case {"type": str(kind), "part": dict(part)}:
                return self._part(kind, part)
            case _:
                return None

    def _begin_step(self, part: object) -> Sequence[TurnEvent]:
        """What the step before it ended with is not the end."""
        self._has_called, self._reason = False, ""
        self._remember(part)
        return []

    def _part(self, kind: str, part: Mapping[str, Any]) -> Sequence[TurnEvent] | None:
        events = self._new_part(kind, part)
        if events is not None:
            self._remember(part)
        return events

    def _remember(self, part: object) -> None:
        part_id = part.get("id") if isinstance(part, Mapping) else None
        if isinstance(part_id, str) and len(part_id) <= MAX_ID:
            self._heard.add(part_id)

    def _new_part(self, kind: str, part: Mapping[str, Any]) -> Sequence[TurnEvent] | None:
        match (kind, part):
            case ("text", {"synthetic": True} | {"ignored": True}):
                self._message = None
                return [Echo()]
            case ("text", {"messageID": str(message), "text": str(text)}):
                return [self._text(message, text)]
            case ("reasoning", {"text": str(text)}):
                return [Reasoning(text)]
            case ("tool_use", {"callID": str(call), "tool": str(name), "state": dict(state)}):
                self._message = None
                self._has_called = True
                return [_tool(call, name, state)]
            case ("step_finish", {"reason": str(reason)}):
                goes_on = self._has_called or reason in _GOES_ON
                self._has_called, self._reason = False, reason
                return [*self._spend(part.get("tokens")), *([] if goes_on else _stopped(reason))]
            case _:
                return None

    def finish(self, ended: Exit, stderr: str) -> Sequence[TurnEvent]:
        if self._unexplained is not None:
            ref, failure = self._unexplained
            failure = _server_failure(self._logged[ref]) if ref in self._logged else failure
            return [Ended(broken.as_lost(failure) if self._resumed else failure)]
        if ended.code == 0 and self._reason in _MAY_END:
            return [Ended()]
        return super().finish(ended, stderr)

    def _text(self, message: str, text: str) -> TextDelta:
        """Several texts of one message are its paragraphs."""
        opening = "\n\n" if message == self._message else ""
        self._message = message
        return TextDelta(opening + text, message)

    def _spend(self, tokens: object) -> list[TurnEvent]:
        """Each step counts for itself. What is written to the cache was read anew."""
        if not isinstance(tokens, dict):
            return []
        cache = tokens.get("cache")
        cache = cache if isinstance(cache, dict) else {}
        step = {
            "input_tokens": _sum(tokens.get("input"), cache.get("write")),
            "cached_tokens": _sum(cache.get("read")),
            "output_tokens": _sum(tokens.get("output")),
            "reasoning_tokens": _sum(tokens.get("reasoning")),
        }
        counted = {name: count for name, count in step.items() if count is not None}
        self._spent |= {name: self._spent.get(name, 0) + count for name, count in counted.items()}
        return usage(**self._spent)


def _sum(*counts: object) -> int | None:
    """None: it did not count them."""
    found = [count for count in counts if isinstance(count, int) and is_count(count)]
    return sum(found) if found else None


def _tool(call: str, name: str, state: Mapping[str, Any]) -> ToolCall:
    status = state.get("status")
    status = status if isinstance(status, str) else "completed"
    output = state.get("output", state.get("error"))
    return ToolCall(call, name, _STATUS.get(status, status), state.get("input"), output)


def _stopped(reason: str) -> list[TurnEvent]:
    if reason in ("stop", "content-filter"):  # a refusal is an answer, and judged like one
        return [Ended()]
    return [Ended(Failure(Code.ENGINE_FAILED, f"the model stopped early: {reason}"))]


def _failure(error: object) -> Failure:
    found = error if isinstance(error, dict) else {}
    data = found.get("data")
    data = data if isinstance(data, dict) else {}
    told = (data.get("message"), found.get("message"), found.get("name"))
    message = next((words for words in told if isinstance(words, str) and words), "")
    body, headers = data.get("responseBody"), data.get("responseHeaders")
    return meaning.failure(
        message,
        status=data.get("statusCode"),
        kind=str(found.get("name", "")),
        body=body if isinstance(body, str) else "",
        retry_after=_pause(headers) if isinstance(headers, dict) else None,
    )


def _pause(headers: Mapping[str, Any]) -> object:
    exact = headers.get("retry-after-ms")
    return f"{exact}ms" if exact else headers.get("retry-after")


def _server_failure(logged: str) -> Failure:
    """Quoted in the log as it is in code."""
    return meaning.failure(re.sub(r"\\(.)", r"\1", logged))
