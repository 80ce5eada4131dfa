"""What engines and providers say of a session that is there and cannot be used: torn, locked, or of another version.

Only asked about turns that were to resume one. Most CLIs know such a session no more, and say that in words of their
own (`CliDialect.lost`); these come from what is below them: a parser, a database, the provider that is sent the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure

MAX_READ = 8192

_KEPT = r"(?:session|conversation|chat|thread|rollout|transcript|history|checkpoint)"
_READ = r"(?:load|read|parse|resume|open|deserialize|restore)"
_RUINED = r"(?:corrupt(?:ed)?|damaged|truncated|empty|invalid)"
_FILE = (
    rf"\b(?:failed|unable|could not|cannot|can't) (?:to )?{_READ}\b[^\n]{{0,80}}\b{_KEPT}\b",
    rf"\b{_KEPT}(?: file| data| log)?\b[^\n]{{0,200}}\b(?:is|was|seems) {_RUINED}\b",
    rf"\b(?:corrupt(?:ed)?|invalid|malformed) {_KEPT}\b",
)
_DATABASE = (
    r"\bdatabase (?:table )?is locked\b|\bdatabase disk image is malformed\b|\bfile is not a database\b",
    r"\bSQLITE_(?:BUSY|LOCKED|CORRUPT|NOTADB|CANTOPEN|READONLY)",
    r"\bno such (?:table|column): |\bhas no column named\b",
    r"\b(?:created|written|migrated) (?:by|with) a newer version\b",
)
_UNANSWERED = (
    r"`?tool_use`? ids were found without `?tool_result`?|\bunexpected `?tool_use_id`? found\b",
    r"\bNo tool (?:output|call) found for (?:function )?call\b",
    r"\btool_calls?'? must be followed by tool messages\b|\btool_call_ids? did not have response messages\b",
    r"\brole 'tool' must be a response to\b",
    r"\bfunction (?:call|response) turn comes immediately after\b|\bnumber of function response parts\b",
)
"""A call without its answer, or an answer without its call, as the providers refuse them."""
_TEXT = (
    r"\bunexpected end of (?:JSON|data|file|input|string)|\bunterminated string\b|\bEOF while parsing\b",
    r"\bSyntaxError: [^\n]{0,200}\bJSON\b|\bJSON Parse error\b",
)
"""Of any text that ends in the middle: before a session is open, it can only be the one that is read."""


def _any(*groups: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(phrase for group in groups for phrase in group), re.IGNORECASE)


_OF_A_TURN = _any(_FILE, _DATABASE, _UNANSWERED)
_OF_A_START = _any(_FILE, _DATABASE, _UNANSWERED, _TEXT)


def line_in(stderr: str) -> str | None:
    """The line by which an engine that did not open its session says why."""
    lines = (line.strip() for line in stderr[-MAX_READ:].splitlines())
    return next((line for line in lines if _OF_A_START.search(line)), None)


def as_lost(failure: Failure) -> Failure:
    """The same failure, by its right name if it is about the session. One that is named already stays what it is."""
    if failure.code is not Code.ENGINE_FAILED:
        return failure
    told = (failure.message[:MAX_READ], (failure.evidence or "")[:MAX_READ])
    return replace(failure, code=Code.SESSION_LOST) if any(map(_OF_A_TURN.search, told)) else failure
