"""Permissions that an agent asks for in the middle of a turn: as questions for a person, and what an answer decides."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnkeeper.core.run import Answer, Question, Resolution

KIND = "permission"
MAX_CONTEXT = 16 * 1024
"""Characters of what the agent tells about the tool: a file that it wants to write may be large."""

ALLOWS = ("allow_once", "allow_always")
REJECTS = ("reject_once", "reject_always")


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers that the agent takes; its kind is one of `ALLOWS` or `REJECTS`, or unknown to us."""

    id: str
    label: str
    kind: str


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    key: str
    """By which the answer finds its request."""
    title: str
    choices: tuple[Choice, ...]
    tool: Mapping[str, Any] = field(default_factory=dict)
    """What is known of the call that needs it."""


@dataclass(frozen=True, slots=True)
class PermissionWithdrawn:
    """The agent does not wait for the answer any longer."""

    key: str


@dataclass(frozen=True, slots=True)
class Decision:
    choice: str | None
    """None: none of the agent's own choices; it is told that the request was called off."""
    words: str = ""
    """What the person said instead of choosing: the agent hears it when it has given up what it wanted to do."""
    is_allowed: bool = False


def allowed(choices: Iterable[Choice]) -> Decision:
    """Once, and again the next time: what is allowed for ever some agents write into files of the workspace."""
    return _by_kind(choices, ALLOWS, is_allowed=True)


def rejected(choices: Iterable[Choice], words: str = "") -> Decision:
    return _by_kind(choices, REJECTS, words=words)


def question(asked: PermissionAsked) -> Question:
    options = tuple({"label": each.label, "value": each.id, "kind": each.kind} for each in asked.choices)
    return Question(
        prompt=f"The agent asks for permission: {asked.title}",
        kind=KIND,
        default_decision_policy="reject",
        options=options,
        context=_bounded(asked.tool) or None,
        source=KIND,
    )


def decide(asked: Question, answer: Answer) -> Decision:
    """By the value, the label or the kind of an option; other words reject, and silence does, once."""
    choices = tuple(Choice(option["value"], option["label"], option["kind"]) for option in asked.options)
    if answer.resolution_mode is not Resolution.USER_REPLY:
        return rejected(choices)
    words = answer.response.strip()
    chosen = [choice for choice in choices if choice.id == words]
    chosen += [choice for choice in choices if words and words.casefold() in _names(choice)]
    return Decision(chosen[0].id, is_allowed=chosen[0].kind in ALLOWS) if chosen else rejected(choices, words)


def _names(choice: Choice) -> tuple[str, ...]:
    return choice.label.strip().casefold(), choice.kind


def _by_kind(
    choices: Iterable[Choice], kinds: tuple[str, ...], *, words: str = "", is_allowed: bool = False
) -> Decision:
    offered = {choice.kind: choice.id for choice in reversed(tuple(choices))}
    found = next((offered[kind] for kind in kinds if kind in offered), None)
    return Decision(found, words, is_allowed and found is not None)


def _bounded(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Values that are too long are shown from their beginning, so that a person sees at least that."""
    return {name: _short(value) for name, value in tool.items() if value not in (None, "", [], {})}


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= MAX_CONTEXT else text[:MAX_CONTEXT] + "…"
