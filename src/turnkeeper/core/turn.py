"""The turn protocol: what any engine can say in a turn, and the transcript that assembles it into messages.

Dialects (in `engines/`) translate their CLI's lines into these events; nothing behind them knows an engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.evidence import marker_in
from turnkeeper.core.fcmp import Event, RawRef, Type, warning
from turnkeeper.core.gate import Terminal
from turnkeeper.core.permission import PermissionAsked, PermissionWithdrawn
from turnkeeper.core.run import Failure, Handle, RunWarning

MAX_MESSAGE = 4 * 1024 * 1024
"""Characters of one message that are kept for the verdict; a CLI that streams for ever must not fill the memory."""
MAX_KEPT = 3 * MAX_MESSAGE
"""The same of all messages together, before those that count for nothing make room."""
MESSAGE_COST = 64
"""What a message takes besides its characters."""
MAX_TOOL_TEXT = 64 * 1024
MAX_OPEN_TOOLS = 100
OPEN = ("pending", "in_progress")
"""What a call that has not come back yet is called."""
FAILED = ("failed", "declined")
"""What a call is called that came back with an error, or was not allowed."""
MAX_ERROR = 2000
"""Characters of an error by which it is known again."""
MAX_SAME_ERROR = 30
"""Tools that fail one after the other with the same words: a sandbox that denies everything is not argued with."""

_EXIT_CODE = re.compile(
    r"\W*(?:error\W+)?(?:(?:command|process)\W+)?(?:failed\W+with\W+)?"
    r"exit(?:ed)?(?:\W+with)?(?:\W+(?:code|status))?\W+\d{1,5}\W*",
    re.IGNORECASE,
)
"""All that is said of a command that printed nothing."""

TYPED = frozenset(
    {
        Code.ENGINE_AUTH_REQUIRED,
        Code.ENGINE_QUOTA_EXHAUSTED,
        Code.ENGINE_RATE_LIMITED,
        Code.ENGINE_MODEL_UNKNOWN,
        Code.ENGINE_CONTEXT_EXHAUSTED,
        Code.ENGINE_TRUST_REQUIRED,
        Code.ENGINE_ARGS_REJECTED,
        Code.ENGINE_TTY_REQUIRED,
        Code.ENGINE_NOT_READY,
        Code.SESSION_LOST,
    }
)
"""What an engine can say about its own failure that outweighs whatever else it said."""

COUNTERS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
"""Disjoint: no token is counted in two of them. Input is what was read anew, output what was written as answer."""


@dataclass(frozen=True, slots=True)
class SessionOpened:
    handle: Handle


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A whole message; it replaces the deltas that carried the same id."""

    text: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    call_id: str
    name: str
    status: str
    input: Any = None
    output: Any = None


@dataclass(frozen=True, slots=True)
class Usage:
    tokens: Mapping[str, Any]
    """By the names of `COUNTERS`; what is no count, or has another name, is left out."""


@dataclass(frozen=True, slots=True)
class Model:
    """The model that answers, as the engine names it."""

    name: str


@dataclass(frozen=True, slots=True)
class Remark:
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The engine's closing event; `failure` says why it is an error."""

    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Echo:
    """The user's words, repeated by the engine: they end a message and prove nothing."""


TurnEvent = (
    SessionOpened
    | Model
    | TextDelta
    | Text
    | Reasoning
    | ToolCall
    | PermissionAsked
    | PermissionWithdrawn
    | Usage
    | Remark
    | Echo
    | Ended
)


@dataclass(frozen=True, slots=True)
class SameError:
    """The last calls of a turn, as far as they all came back with the same error."""

    tool: str = ""
    words: str = ""
    count: int = 0

    def after(self, said: ToolCall) -> SameError:
        """Without words two errors cannot be told apart: a check that fails until something is there has none, and an
        exit code alone is what any command may end with."""
        if said.status not in FAILED or not said.output:
            return SameError()
        words = said.output if isinstance(said.output, str) else json.dumps(said.output, ensure_ascii=False)
        words = words[:MAX_ERROR].strip()
        if not words or _EXIT_CODE.fullmatch(words):
            return SameError()
        is_same = (said.name, words) == (self.tool, self.words)
        return SameError(said.name, words, self.count + 1 if is_same else 1)


@dataclass(slots=True)
class _Message:
    number: int
    engine_id: str | None
    parts: list[str] = field(default_factory=list)
    size: int = 0
    ref: RawRef | None = None

    def add(self, text: str) -> bool:
        """False when the message is full: the text is only in the log."""
        kept = text[: MAX_MESSAGE - self.size]
        if kept:
            self.parts.append(kept)
            self.size += len(kept)
        return len(kept) == len(text)


class Transcript:
    """Assembles one turn: messages for the verdict, FCMP events for the log. Holds no bytes, does no I/O."""

    def __init__(self, attempt: int, try_number: int = 1, handle: Handle | None = None) -> None:
        self.attempt = attempt
        self._try_number = try_number
        self.messages: list[str] = []
        self.handle = handle
        self.usage: dict[str, int] = {}
        self.model: str | None = None
        self.open_tools: dict[str, str] = {}
        """Names of the calls that have begun and not come back, by their ids."""
        self.same_error = SameError()
        self.retries = 0
        """How often the engine told that it tries its model again."""
        self.last_retry = ""
        self.warnings: list[RunWarning] = []
        self.ended: Ended | None = None
        self._open: _Message | None = None
        self._count = 0
        self._kept = 0

    @property
    def terminal(self) -> Terminal:
        if self.ended is None:
            return Terminal.NONE
        return Terminal.ERROR if self.ended.failure else Terminal.SUCCESS

    @property
    def typed_failure(self) -> Failure | None:
        failure = self.ended.failure if self.ended else None
        return failure if failure and failure.code in TYPED else None

    def take(self, said: TurnEvent, now: datetime, ref: RawRef | None = None) -> list[Event]:
        """One thing the engine said, as events for the log. After the closing event nothing counts any more.

        A warning is told all the same: what stands on stderr may be read after it.
        """
        if self.ended is not None and not isinstance(said, Remark):
            return []
        match said:
            case TextDelta():
                return self._delta(said, now, ref)
            case Text():
                return self._whole(said, now, ref)
            case SessionOpened(handle):
                self.handle = handle
                return []
            case PermissionWithdrawn():
                return []
            case Model(name):
                return self._named(name, now)
            case Echo() | PermissionAsked():
                return self.close(now)
            case Remark(code, message):
                if code == Warn.ENGINE_RETRYING:
                    self.retries, self.last_retry = self.retries + 1, message
                return self._warn_once(code, message, now)
            case Usage(tokens):
                # Reported once, when the turn ends: engines differ in how often they count.
                counts = {name: tokens[name] for name in COUNTERS if _is_count(tokens.get(name))}
                self.usage = {**self.usage, **counts}
                return []
            case Reasoning(text):
                return [Event(Type.REASONING, {"text": text}, now, self.attempt, ref)]
            case ToolCall():
                return [*self.close(now), self._tool(said, now, ref)]
            case Ended():
                closed = self.close(now)
                self.ended = said
                return closed

    def close(self, now: datetime) -> list[Event]:
        """A message is a run of deltas up to the next tool call, result or user event."""
        message, self._open = self._open, None
        if message is None:
            return []
        return [self._final(message.number, "".join(message.parts), now, message.ref)]

    def _final(self, number: int, text: str, now: datetime, ref: RawRef | None) -> Event:
        self._keep(text)
        data = {"message_id": self._id(number), "text": text}
        return Event(Type.MESSAGE_FINAL, data, now, self.attempt, ref)

    def _named(self, name: str, now: datetime) -> list[Event]:
        before, self.model = self.model, name
        if before in (None, name):
            return []
        return self._warn_once(Warn.ENGINE_MODEL_CHANGED, f"{before} was followed by {name}", now)

    def _keep(self, text: str) -> None:
        self.messages.append(text)
        self._kept += len(text) + MESSAGE_COST
        if self._kept > MAX_KEPT:
            self._make_room()

    def _make_room(self) -> None:
        """Only the last words and the last with the marker count."""
        *older, last = self.messages
        marked = next((text for text in reversed(older) if marker_in(text)), None)
        self.messages = [last] if marked is None else [marked, last]
        self._kept = sum(map(len, self.messages))

    def _id(self, number: int) -> str:
        """Ours, and never given twice in a run: a try that was cut off had its own."""
        return f"{self.attempt}.{self._try_number}.{number}"

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _delta(self, said: TextDelta, now: datetime, ref: RawRef | None) -> list[Event]:
        events: list[Event] = []
        message = self._open
        if message is not None and message.engine_id != said.message_id:
            events += self.close(now)
            message = None
        if message is None:
            message = self._open = _Message(self._next(), said.message_id, ref=ref)
        if not message.add(said.text):
            events += self._too_long(now)
        data = {"message_id": self._id(message.number), "text": said.text}
        return [*events, Event(Type.MESSAGE_DELTA, data, now, self.attempt, ref)]

    def _whole(self, said: Text, now: datetime, ref: RawRef | None) -> list[Event]:
        message, text = self._open, said.text[:MAX_MESSAGE]
        events: list[Event] = []
        if message is not None and said.message_id is not None and message.engine_id == said.message_id:
            self._open, number = None, message.number
        else:
            events += self.close(now)
            if said.message_id is None and self.messages and text == self.messages[-1]:
                return events  # a result that repeats the last message is not a second one
            number = self._next()
        if len(text) < len(said.text):
            events += self._too_long(now)
        return [*events, self._final(number, text, now, ref)]

    def _too_long(self, now: datetime) -> list[Event]:
        return self._warn_once(Warn.MESSAGE_TRUNCATED, "an assistant message is too long", now)

    def _tool(self, said: ToolCall, now: datetime, ref: RawRef | None) -> Event:
        self.open_tools.pop(said.call_id, None)
        if said.status not in OPEN:
            self.same_error = self.same_error.after(said)
        elif len(self.open_tools) < MAX_OPEN_TOOLS:
            self.open_tools[said.call_id] = said.name
        data: dict[str, Any] = {"call_id": said.call_id, "name": said.name, "status": said.status}
        for key, value in (("input", said.input), ("output", said.output)):
            if value is not None:
                data |= _bounded(key, value)
        return Event(Type.TOOL_CALL, data, now, self.attempt, ref)

    def _warn_once(self, code: str, message: str, now: datetime) -> list[Event]:
        """Once for each code and turn: an engine that repeats itself does not fill the log."""
        if any(known.code == code for known in self.warnings):
            return []
        self.warnings.append(RunWarning(code, message))
        return [warning(code, message, now=now, attempt=self.attempt)]


def _bounded(key: str, value: Any) -> dict[str, Any]:
    """Tools can return whole files; the log keeps the beginning, the raw log has the rest."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= MAX_TOOL_TEXT:
        return {key: value}
    return {key: text[:MAX_TOOL_TEXT], f"{key}_truncated": True}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
