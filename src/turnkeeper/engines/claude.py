"""Claude Code, by `claude -p --output-format stream-json`. Its lines are understood in `streamjson.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnkeeper.core.run import Permissions
from turnkeeper.core.turn import COUNTERS, TurnEvent
from turnkeeper.engines import acptold
from turnkeeper.engines.acp import AcpDialect, Manners
from turnkeeper.engines.base import Dialect, TurnPlan
from turnkeeper.engines.cli import BOTH, CliEngine, option
from turnkeeper.engines.dialect import inclusive_usage, is_count, session_of
from turnkeeper.engines.programs import Adapter, Package
from turnkeeper.engines.streamjson import StreamJsonDialect

SWITCHES = {
    # No updates, telemetry, error reports.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # What runs in the background goes on after the result, and then there is another one.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    # As root it refuses to skip permissions otherwise.
    "IS_SANDBOX": "1",
}

WAITING = ("AskUserQuestion", "EnterPlanMode", "ExitPlanMode")
"""Tools that wait for a person: a question is asked in words here, and ends the turn."""
LATER = ("CronCreate", "Monitor", "ScheduleWakeup", "Workflow")
"""Tools by which it goes on after its result."""

MODES = {
    Permissions.ALLOW: "bypassPermissions",
    Permissions.ASK: "default",
    Permissions.DENY: "default",
}
OPTIONS: Mapping[str, Any] = {
    # Else settings in the workspace could name another address for the key, and servers of tools.
    "settingSources": ["user"],
    "strictMcpConfig": True,
    "disallowedTools": [*WAITING, *LATER],
    # Each of these would be a call to the model that nobody asked for.
    "promptSuggestions": False,
    "title": "turnkeeper",
    # A reply that opens with a slash is a reply.
    "verbatimPrompts": True,
}
"""As a resident, beside what it is given as a CLI."""

_OF_A_MODEL = (
    "inputTokens",
    "cacheCreationInputTokens",
    "cacheReadInputTokens",
    "outputTokens",
    "thinkingTokens",
)
_OF_ITSELF = (
    *("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    *("output_tokens", "thinking_tokens"),
)


class ResidentClaudeDialect(AcpDialect):
    def spent(self, result: Mapping[str, Any]) -> Mapping[str, int]:
        """By model, with what sub-agents used: `usage` is without them."""
        rows = acptold.model_usage(result)
        counts = [row["token_count"] for row in rows if isinstance(row.get("token_count"), dict)]
        if not counts:
            return super().spent(result)
        names = {
            "inputTokens": "inputTokens",
            "cachedInputTokens": "cachedReadTokens",
            "cachedWriteTokens": "cachedWriteTokens",
            "outputTokens": "outputTokens",
            "reasoningOutputTokens": "thoughtTokens",
            "totalTokens": "totalTokens",
        }
        each = [acptold.tokens({ours: row.get(theirs) for theirs, ours in names.items()}) for row in counts]
        return {name: sum(row.get(name, 0) for row in each) for name in COUNTERS}


class ClaudeEngine(CliEngine):
    name = "claude"
    profiles = BOTH
    asks = True
    skills_dir = ".claude/skills"
    package = Package(
        name="@anthropic-ai/claude-code",
        version="2.1.325",
        native=("@anthropic-ai/claude-code-linux-{cpu}{libc}/claude",),
    )
    keys = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    addresses = (
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL",
        "ANTHROPIC_DEFAULT_OPUS_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL",
    )
    login_files = (".claude/.credentials.json",)
    login_command = "claude auth login"
    own_logins = ("apiKeyHelper", "env", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")
    settings_file = ".claude/settings.json"
    switches = SWITCHES
    adapter = Adapter(
        program="claude-agent-acp",
        package=Package(
            name="@agentclientprotocol/claude-agent-acp",
            version="0.99.1",
            script="dist/index.js",
            least_node=22,
            is_lean=True,
        ),
        variable="CLAUDE_CODE_EXECUTABLE",
    )
    resident = ResidentClaudeDialect

    def words(self, plan: TurnPlan) -> Sequence[str]:
        model, session = option("--model", plan.model), option("--resume", session_of(plan))
        # A list that takes every word up to the next option: nothing else may follow it.
        without = ("--disallowedTools", ",".join((*WAITING, *LATER)))
        return (
            *("-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"),
            # Else settings in the workspace could name another address for the key.
            *("--setting-sources", "user"),
            *(*without, *model, *session),
        )

    def manners(self, plan: TurnPlan) -> Manners:
        model = {"model": plan.model} if plan.model else {}
        return Manners(modes=MODES, meta={"claudeCode": {"options": {**OPTIONS, **model}}})

    def headless(self, plan: TurnPlan) -> Dialect:
        return ClaudeDialect(plan)


class ClaudeDialect(StreamJsonDialect):
    lost = re.compile(r"No conversation found with session ID")
    unasked = "bypassPermissions"

    def counted(self, result: Mapping[str, Any]) -> list[TurnEvent]:
        """By model, with what sub-agents used; `usage` is without them, and `modelUsage` of the whole session."""
        models = result.get("model_usage_since_last_result")
        listed = models.values() if isinstance(models, dict) else ()
        each = [found for found in listed if isinstance(found, dict)]
        if each:
            return _usage(each, *_OF_A_MODEL)
        own = result.get("usage")
        details = own.get("output_tokens_details") if isinstance(own, dict) else None
        found = [part for part in (own, details) if isinstance(part, dict)]
        return _usage(found, *_OF_ITSELF)


def _usage(
    counted: Sequence[Mapping[str, Any]], new: str, written: str, cached: str, answer: str, thought: str
) -> list[TurnEvent]:
    """What is written to the cache was read anew. Thoughts are counted in the answer too."""

    def total(*names: str) -> int | None:
        counts = [part[name] for part in counted for name in names if is_count(part.get(name))]
        return sum(counts) if counts else None

    return inclusive_usage(
        input_tokens=total(new, written, cached),
        cached_tokens=total(cached),
        output_tokens=total(answer),
        reasoning_tokens=total(thought),
    )
