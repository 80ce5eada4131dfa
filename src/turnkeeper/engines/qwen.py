"""Qwen Code, by `qwen --output-format stream-json`. Its lines are understood in `streamjson.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnkeeper.core.run import Mode, Permissions
from turnkeeper.core.turn import TurnEvent
from turnkeeper.engines.acp import AcpDialect, Manners
from turnkeeper.engines.acptold import tokens
from turnkeeper.engines.base import Dialect, Login, TurnPlan
from turnkeeper.engines.cli import BOTH, CliEngine, option
from turnkeeper.engines.dialect import session_of, session_usage
from turnkeeper.engines.programs import Package
from turnkeeper.engines.streamjson import StreamJsonDialect

SETTINGS: Mapping[str, Any] = {
    # Its maker ended the other login, by an account: this version refuses it before it asks anybody.
    "security": {"auth": {"selectedType": "openai"}},
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    # Else a second model call after the answer, unseen and paid for, writes down what to remember.
    "memory": {"enableManagedAutoMemory": False},
    # Else a limit is tried again for more than seven minutes, without a word. Seven tries in some 80 s are left.
    "model": {"generationConfig": {"maxRetries": 0}},
    # Else a file in the workspace could name commands that are run with the key in their environment.
    "disableAllHooks": True,
    # Or name another address for the key.
    "modelProviders": {"openai": []},
}
QUIET: Mapping[str, Any] = {"ui": {"enableFollowupSuggestions": False}}
"""As a resident: else a second call to the model guesses what the person will say."""
ASKING: Mapping[str, Any] = {"permissions": {"ask": ["Bash", "Edit", "Write", "WebFetch"]}}
"""Else settings in the workspace could allow what a person should."""
DEFAULT_ADDRESS = "https://api.openai.com/v1"
"""Where it goes by itself. If nothing says so, an `.env` in the workspace may say otherwise."""

SWITCHES = {
    "QWEN_CODE_NO_RELAUNCH": "1",
    "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
}

WAITING = ("ask_user_question", "enter_plan_mode", "exit_plan_mode")
"""Tools that wait for a person: a question is asked in words here, and ends the turn."""
BEHIND = ("agent",)
"""As a resident: its agents work on after the turn, uncounted, and begin another when they are done."""
LATER = ("cron_create", "loop_wakeup", "monitor")
"""Tools by which a turn goes on by itself, some of them for ever."""

MAY_ASK = (
    "Unlike what is said above about questions: in this run a person reads your last message and can reply to it. "
    "Where the skill or the work needs it, ask in plain text and end your turn; the reply is the next message."
)
"""Without a terminal the CLI tells its agent that nobody will ever answer, and never to ask."""


class ResidentQwenDialect(AcpDialect):
    def update(self, update: dict[str, Any]) -> Sequence[TurnEvent]:
        """Each call to the model is told with the last of its words, which may be none."""
        meta = update.get("_meta")
        used = meta.get("usage") if isinstance(meta, dict) else None
        counts = self.count(tokens(used)) if isinstance(used, dict) else []
        is_silent = update.get("content") == {"type": "text", "text": ""}
        return [*(() if is_silent else super().update(update)), *counts]


class QwenEngine(CliEngine):
    name = "qwen"
    profiles = BOTH
    asks = True
    skills_dir = ".qwen/skills"
    package = Package(name="@qwen-code/qwen-code", version="0.24.4", script="cli.js", least_node=22)
    keys = ("OPENAI_API_KEY",)
    addresses = ("OPENAI_BASE_URL", "OPENAI_MODEL")
    own_logins = ("security", "modelProviders", "env")
    settings_file = ".qwen/settings.json"
    switches = SWITCHES
    resident = ResidentQwenDialect

    def words(self, plan: TurnPlan) -> Sequence[str]:
        model, session = option("-m", plan.model), option("--resume", session_of(plan))
        asking = option("--append-system-prompt", MAY_ASK if plan.mode is Mode.INTERACTIVE else None)
        # A list that takes every word up to the next option: nothing else may follow it.
        without = ("--exclude-tools", ",".join((*WAITING, *LATER)))
        # A server of tools may be sent the key, by settings that an agent left in the workspace.
        servers = ("--allowed-mcp-server-names", self.tool_servers())
        return ("--yolo", "--output-format", "stream-json", *servers, *without, *asking, *model, *session)

    def resident_words(self, plan: TurnPlan) -> Sequence[str]:
        access = ("--yolo",) if plan.permissions is Permissions.ALLOW else ("--approval-mode", "default")
        without = ("--exclude-tools", ",".join((*WAITING, *LATER, *BEHIND)))
        servers = ("--allowed-mcp-server-names", self.tool_servers())
        return ("--acp", *access, *servers, *without, *option("-m", plan.model))

    def manners(self, plan: TurnPlan) -> Manners:
        return Manners(saves_late=True)

    def resident_settings(self, plan: TurnPlan) -> Mapping[str, Any]:
        return QUIET if plan.permissions is Permissions.ALLOW else {**QUIET, **ASKING}

    def places(self, home: Path) -> Mapping[str, str]:
        """Read as the machine's settings too, the file outweighs one of the same name in the workspace."""
        return {"QWEN_CODE_SYSTEM_SETTINGS_PATH": str(home / self.settings_file)}

    def variables(self, given: Mapping[str, str]) -> Mapping[str, str]:
        return {"OPENAI_BASE_URL": DEFAULT_ADDRESS, **given}

    def settings(self, login: Login) -> Mapping[str, Any]:
        return SETTINGS

    def headless(self, plan: TurnPlan) -> Dialect:
        return QwenDialect(plan)


class QwenDialect(StreamJsonDialect):
    lost = re.compile(r"No saved session found with ID")
    unasked = "yolo"

    def __init__(self, plan: TurnPlan) -> None:
        super().__init__(plan)
        self._used = plan.used if plan.session else {}

    def counted(self, result: Mapping[str, Any]) -> list[TurnEvent]:
        """It counts the whole session: what earlier turns used is taken off."""
        found = result.get("usage")
        if not isinstance(found, dict):
            return []
        return session_usage(
            self._used,
            input_tokens=found.get("input_tokens"),
            cached_tokens=found.get("cache_read_input_tokens"),
            output_tokens=found.get("output_tokens"),
        )
