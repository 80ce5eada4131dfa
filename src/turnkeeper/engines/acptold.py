"""What is told by the Agent Client Protocol, as far as agents differ: options, tools, tokens, models, errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from turnkeeper.core.errors import Code
from turnkeeper.core.permission import Choice
from turnkeeper.core.run import Failure
from turnkeeper.core.turn import COUNTERS, OPEN, TYPED, TurnEvent
from turnkeeper.engines import meaning
from turnkeeper.engines.dialect import is_count, named

AUTH_REQUIRED = -32000
WORDS = ("details", "message")
NAMES = ("code", "errorKind", "errorName", "codexErrorInfo")
"""Where agents say in an error's data what happened, and what they call it."""
MAX_TITLE = 1000
MAX_CHOICES = 20
MAX_PRINTED = 64 * 1024
# A byte order mark is white space to the agents, which are written in JavaScript.
_COMMAND = re.compile(r"[\s\ufeff]*[/$]")
_encode = msgspec.json.Encoder().encode


def shortened(text: str, most: int = MAX_TITLE) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


class Tool:
    """A call of a tool, put together from what is told of it bit by bit."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._printed = ""
        self._name = ""
        self.is_told = False

    def learn(self, told: Mapping[str, Any]) -> None:
        self._known |= {name: value for name, value in told.items() if value not in (None, {}, [])}
        self._printed = (self._printed + _printed(told))[:MAX_PRINTED]
        # It keeps the name that it was first told by, though some call it otherwise later.
        self._name = self._name or self._text("name", "title", "kind")

    @property
    def name(self) -> str:
        return self._name or "tool"

    @property
    def title(self) -> str:
        """What it does, for a person."""
        return self._text("title", "name", "kind")

    @property
    def status(self) -> str:
        return shortened(str(self._known.get("status", OPEN[0])))

    @property
    def is_over(self) -> bool:
        return self.status not in OPEN

    @property
    def input(self) -> Any:
        return self._known.get("rawInput")

    @property
    def output(self) -> Any:
        """When it is over: before that, some show where it works."""
        if not self.is_over:
            return None
        raw = self._known.get("rawOutput")
        return raw if raw is not None else "\n".join(self._texts()) or self._printed or None

    @property
    def about(self) -> dict[str, Any]:
        """What a person needs to decide: which tool, with what."""
        names = {"toolCallId": "call_id", "kind": "kind", "rawInput": "input", "locations": "locations"}
        found = {ours: self._known.get(theirs) for theirs, ours in names.items()}
        # Of one that tells no input, all that it would do may stand in its title.
        return found if self.input else found | {name: self._known.get(name) for name in ("title", "content")}

    def _text(self, *names: str) -> str:
        told = (self._known.get(name) for name in names)
        return next((shortened(each) for each in told if isinstance(each, str) and each), "")

    def _texts(self) -> list[str]:
        content = self._known.get("content")
        parts = content if isinstance(content, list) else []
        inside = [part["content"] for part in parts if isinstance(part, dict) and "content" in part]
        return [str(each.get("text", "")) for each in inside if isinstance(each, dict)]


def _printed(told: Mapping[str, Any]) -> str:
    """By a command, where it is told piece by piece, as to a terminal."""
    meta = told.get("_meta")
    piece = meta.get("terminal_output_delta") if isinstance(meta, dict) else None
    return str(piece.get("data") or "") if isinstance(piece, dict) else ""


def choices(options: Any) -> tuple[Choice, ...]:
    offered = options[:MAX_CHOICES] if isinstance(options, list) else []
    return tuple(
        Choice(
            option["optionId"],
            shortened(str(option.get("name") or option["optionId"])),
            shortened(str(option.get("kind") or "")),
        )
        for option in offered
        if isinstance(option, dict)
        and isinstance(option.get("optionId"), str)
        and len(option["optionId"]) <= MAX_TITLE
    )


def _quota(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where some tell, beside or instead of `usage`, which model used how much."""
    meta = result.get("_meta")
    quota = meta.get("quota") if isinstance(meta, dict) else None
    return quota if isinstance(quota, dict) else {}


def model_usage(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    used = _quota(result).get("model_usage")
    return [row for row in used if isinstance(row, dict)] if isinstance(used, list) else []


def model(result: Mapping[str, Any]) -> list[TurnEvent]:
    return next((named(row.get("model")) for row in model_usage(result)), [])


def spent(result: Mapping[str, Any]) -> dict[str, int]:
    """By one prompt."""
    counts, quota = result.get("usage"), _quota(result).get("token_count")
    if isinstance(counts, dict):
        return tokens(counts)
    counts = quota if isinstance(quota, dict) else {}
    return _counted(input_tokens=counts.get("input_tokens"), output_tokens=counts.get("output_tokens"))


def tokens(counts: Mapping[str, Any]) -> dict[str, int]:
    """What is cached some count as input too, and thoughts as output: by the sum it can be told."""
    found = _counted(
        input_tokens=counts.get("inputTokens"),
        cached_tokens=counts.get("cachedReadTokens"),
        output_tokens=counts.get("outputTokens"),
        reasoning_tokens=counts.get("thoughtTokens"),
    )
    total, written = counts.get("totalTokens"), _counted(n=counts.get("cachedWriteTokens")).get("n", 0)
    read, cached, said, thought = (found.get(name, 0) for name in COUNTERS)
    if total == read + said:
        found |= {"input_tokens": max(0, read - cached), "output_tokens": max(0, said - thought)}
    elif total == read + written + cached + said:
        found |= {"input_tokens": read + written, "output_tokens": max(0, said - thought)}
    elif written:
        found["input_tokens"] = read + written
    return {name: found[name] for name in COUNTERS if name in found}


def _counted(**found: object) -> dict[str, int]:
    return {name: n for name, n in found.items() if isinstance(n, int) and is_count(n)}


def failure(error: Mapping[str, Any]) -> Failure:
    """Its words may be in the message or in the data, and its code that of the protocol or of HTTP."""
    code, data = error.get("code"), error.get("data")
    data = data if isinstance(data, dict) else {WORDS[0]: data}
    told = {name: data[name] for name in (*WORDS, *NAMES) if isinstance(data.get(name), str)}
    words = str(error.get("message") or "").removeprefix("Internal error").removeprefix(": ")
    message = words or next((told[name] for name in WORDS if name in told), "")
    message = shortened(message, meaning.MAX_MESSAGE)
    if code == AUTH_REQUIRED:
        return Failure(Code.ENGINE_AUTH_REQUIRED, message or "the agent wants a login")
    typed = Code.__members__.get(told.get("code", ""))
    if typed in TYPED:
        return Failure(typed, message)
    return meaning.failure(
        message,
        # A server's own trouble is told as such in better words, if it is that.
        status=code if isinstance(code, int) and 400 <= code < 500 else None,
        kind=" ".join(told[name] for name in NAMES if name in told),
        body=_encode(error.get("data")).decode() if error.get("data") else "",
    )


def as_words(prompt: str) -> str:
    """A reply that looks like a command to the agent is a reply. White space before it would not help with all."""
    return f"The reply is:\n{prompt}" if _COMMAND.match(prompt) else prompt
