"""From the events of a run to what a person reads: decides what is told and what is not, and prints nothing.

The words of strangers come through here as they are; `screen` makes them harmless.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from turnkeeper.core import blocks, evidence
from turnkeeper.core.fcmp import TERMINAL, Type
from turnkeeper.core.statechart import State, Trigger

if TYPE_CHECKING:
    from turnkeeper.client import Event

HELD_BACK = ("{", "```", "~~~", "<ask_user_yaml")
"""A line that begins so may open a result or an ask block: from there on a message is shown when it is whole."""
MOST_INPUT = 200
"""Characters of what a tool was given."""


class Tone(StrEnum):
    QUIET = "quiet"
    TOOL = "tool"
    THOUGHT = "thought"
    WARNING = "warning"
    REPLY = "reply"


@dataclass(frozen=True, slots=True)
class Said:
    """The agent's words, in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """About what happens; of several lines only if it is somebody's own words."""

    text: str
    tone: Tone = Tone.QUIET


@dataclass(frozen=True, slots=True)
class Asked:
    question: Mapping[str, Any]
    is_told: bool
    """The agent has just said the same words."""
    is_open: bool = True
    """It was not answered long ago, as far as is known."""


Shown = Said | Note | Asked

_CHANGES: dict[str, Note] = {
    Trigger.INPUT_COMPLETED: Note("the files are there"),
    Trigger.RESUME_TURN: Note(
        "the service was stopped in the middle of this turn: it is tried again", Tone.WARNING
    ),
    Trigger.PRESERVE_WAITING: Note("the question stays open"),
    Trigger.WITHDRAWN: Note("the agent went on without an answer"),
}
"""By trigger. The others are told by the event that caused them, or that follows."""


class Conversation:
    """Hears events in their order, once each."""

    def __init__(self, *, verbose: bool = False, after: int = 0) -> None:
        self.last_seq = after
        self.state = State.QUEUED.value
        self.attempt = 0
        self.is_over = False
        self.pending: Mapping[str, Any] | None = None
        """The open question."""
        self.answered_here: set[int] = set()
        """Questions whose answers need not be repeated to who has just typed them."""
        self._verbose = verbose
        self._pieces: dict[str, list[str]] = {}
        self._last_said = ""
        self._told_calls: set[tuple[int, str]] = set()

    @property
    def streaming(self) -> str:
        """What the agent is saying right now, as far as it can be shown before it is whole."""
        return "\n\n".join(filter(None, (_for_now("".join(each)) for each in self._pieces.values())))

    def hear(self, event: Event) -> list[Shown]:
        self.last_seq, self.attempt = event.seq, event.attempt
        told = _TOLD.get(event.type)
        shown = list(told(self, event.data)) if told else []
        self.is_over = event.type in TERMINAL
        return shown

    # One for each type that has something to tell

    def _started(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        yield Note(f"{data.get('skill_id')} on {data.get('engine')}, {data.get('execution_mode')}: in line")

    def _changed(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        before, self.state, trigger = self.state, str(data.get("to")), str(data.get("trigger"))
        if before == State.RUNNING:
            yield from self._cut_off()
        if self.state != State.WAITING_USER:
            self.pending = None
        if trigger == Trigger.TURN_STARTED:
            yield Note(f"turn {self.attempt}")
        elif trigger in _CHANGES:
            yield _CHANGES[trigger]

    def _cut_off(self) -> Iterator[Shown]:
        """The turn is over, and these messages were never finished."""
        pieces, self._pieces = self._pieces, {}
        for text in map("".join, pieces.values()):
            if text.strip():
                yield Said(text)
                yield Note("the agent was cut off here")

    def _delta(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        self._pieces.setdefault(str(data.get("message_id")), []).append(str(data.get("text", "")))
        yield from ()

    def _final(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        text = str(data.get("text", ""))
        self._pieces.pop(str(data.get("message_id")), None)
        self._last_said = evidence.without_ask_blocks(text)
        words = without_result(text)
        if words:
            yield Said(words)
        elif self._last_said:
            yield Note("the agent hands in a result")

    def _thought(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        if self._verbose:
            yield Note(str(data.get("text", "")).strip(), Tone.THOUGHT)

    def _raw(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        if self._verbose:
            yield Note(str(data.get("text", "")).strip(), Tone.QUIET)

    def _called(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        """Once when it is known what the tool is given, and again only if it fails."""
        name, call, status = str(data.get("name")), str(data.get("call_id")), data.get("status")
        is_begun = status in ("pending", "in_progress")
        if (self.attempt, call) not in self._told_calls and ("input" in data or not is_begun):
            self._told_calls.add((self.attempt, call))
            yield Note(f"{name} {in_short(data.get('input'))}".strip(), Tone.TOOL)
        if status == "failed":
            yield Note(f"{name} failed {in_short(data.get('output'))}".strip(), Tone.TOOL)

    def _asked(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        self.pending = data
        prompt = str(data.get("prompt", "")).strip()
        yield Asked(data, is_told=prompt == self._last_said.strip() and bool(without_result(prompt)))

    def _replied(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        if data.get("interaction_id") not in self.answered_here:
            yield Note(str(data.get("response_preview", "")), Tone.REPLY)

    def _decided(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        seconds = data.get("timeout_sec")
        waited = f" within {seconds:g} seconds" if isinstance(seconds, int | float) else ""
        yield Note(f"nobody answered{waited}: the agent decides ({data.get('policy')})", Tone.WARNING)

    def _warned(self, data: Mapping[str, Any]) -> Iterator[Shown]:
        yield Note(f"{data.get('message')} [{data.get('code')}]", Tone.WARNING)

    def _ended(self, _data: Mapping[str, Any]) -> Iterator[Shown]:
        self.pending = None
        yield from self._cut_off()


_TOLD: dict[str, Callable[[Conversation, Mapping[str, Any]], Iterator[Shown]]] = {
    Type.CONVERSATION_STARTED: Conversation._started,
    Type.STATE_CHANGED: Conversation._changed,
    Type.MESSAGE_DELTA: Conversation._delta,
    Type.MESSAGE_FINAL: Conversation._final,
    Type.REASONING: Conversation._thought,
    Type.TOOL_CALL: Conversation._called,
    Type.INPUT_REQUIRED: Conversation._asked,
    Type.REPLY_ACCEPTED: Conversation._replied,
    Type.AUTO_DECIDE_TIMEOUT: Conversation._decided,
    Type.WARNING: Conversation._warned,
    Type.RAW_STDOUT: Conversation._raw,
    Type.RAW_STDERR: Conversation._raw,
    **dict.fromkeys(TERMINAL, Conversation._ended),
}


def without_result(text: str) -> str:
    """The words of a message. Its ask block is shown as a question, and its result when the run is over."""
    words = evidence.without_ask_blocks(text)
    if _is_object(words):
        return ""
    fenced = [block for block in blocks.fences(words) if _is_result(block.body)]
    if fenced:
        return blocks.without(words, fenced)
    for found in blocks.balanced_objects(words):
        if _is_result(found):
            words = words.replace(found, "")
    return words.strip()


def in_short(value: Any) -> str:
    """One line for what a tool was given, or gave."""
    if value in (None, "", {}, []):
        return ""
    match value:
        case str():
            text = value
        case Mapping() if len(value) == 1:
            return in_short(next(iter(value.values())))
        case Mapping():
            text = ", ".join(f"{name}: {_compact(each)}" for name, each in value.items())
        case _:
            text = _compact(value)
    text = " ".join(text.split())
    return text if len(text) <= MOST_INPUT else f"{text[:MOST_INPUT]}…"


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _for_now(text: str) -> str:
    """Up to the first line that may be the beginning of something else."""
    lines = text.splitlines()
    held = (n for n, line in enumerate(lines) if line.lstrip().lower().startswith(HELD_BACK))
    return "\n".join(lines[: next(held, len(lines))]).strip("\n")


def _is_result(text: str) -> bool:
    return evidence.marker_in(text) is not None and _is_object(text)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
