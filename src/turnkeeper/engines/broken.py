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

# A thing on the disk, by its name or by its path: "chat", "thread" and "session" alone are also words for an endpoint
# of the provider, a part of a program, the message bus of a desktop.
_KEPT = r"(?:session|conversation|rollout|transcript|checkpoint)"
_WORDS = rf"\b(?:{_KEPT}|chat history) (?:file|data|log|store|database)\b"
_IN_PATH = r"[^\s'\"`()]"
_PATH = (
    rf"(?<![^\s'\"`(=])(?!\w{{1,10}}://){_IN_PATH}{{0,200}}"
    rf"(?:(?:{_KEPT}|chat){_IN_PATH}{{0,100}}\.(?:json|db|sqlite3?)|\.jsonl)\b"
)
_STORED = rf"(?:{_WORDS}|{_PATH})"
_READ = r"(?:load|read(?! propert)|parse|resume|open|deserialize|restore)"
_RUINED = r"(?:corrupt(?:ed)?|damaged|truncated|empty|invalid)"
_CANNOT = rf"\b(?:failed|unable|could not|cannot|can't) (?:to )?{_READ}\b"
_TORN = r"(?:unexpected end of (?:JSON|data|input|string)|unterminated string|EOF while parsing)\b"
_FILE = (
    rf"{_CANNOT}[^\n]{{0,40}}?{_STORED}",
    rf"{_CANNOT} (?:the )?{_KEPT}\b[^\n]{{0,40}}?\b{_TORN}",
    rf"{_STORED}[^\n]{{0,40}}?\b(?:is|was|seems) {_RUINED}\b",
    rf"\b(?:corrupt(?:ed)?|invalid|malformed) {_STORED}",
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
    rf"\b{_TORN}",
    # Behind a "<" there is a page of some gateway, and no session.
    r"\bSyntaxError: (?!Unexpected token '?<)[^\n]{0,200}\bJSON\b|\bJSON Parse error\b",
)
"""Of any text that ends in the middle: before a session is open, it can only be the one that is read. The end of a
"file" is not among them: so some call a connection that was cut."""


def _any(*groups: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(phrase for group in groups for phrase in group), re.IGNORECASE)


_OF_A_TURN = _any(_FILE, _DATABASE, _UNANSWERED)
_OF_A_START = _any(_FILE, _DATABASE, _UNANSWERED, _TEXT)


def line_in(stderr: str) -> str | None:
    """The line by which an engine that did not open its session says why: asked last, since it only sounds like it."""
    lines = (line.strip() for line in stderr[-MAX_READ:].splitlines())
    return next((line for line in lines if _OF_A_START.search(line)), None)


def as_lost(failure: Failure) -> Failure:
    """The same failure, by its right name if it is about the session. One that is named already stays what it is."""
    if failure.code is not Code.ENGINE_FAILED:
        return failure
    told = (failure.message[:MAX_READ], (failure.evidence or "")[:MAX_READ])
    return replace(failure, code=Code.SESSION_LOST) if any(map(_OF_A_TURN.search, told)) else failure
