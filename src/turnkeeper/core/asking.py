"""From an agent's words to a question for a person. A malformed hint is dropped; the question always stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnkeeper.core.blocks import ask_blocks, without
from turnkeeper.core.errors import Warn
from turnkeeper.core.fcmp import instant
from turnkeeper.core.run import Interaction, Question, RunWarning

BASELINE_PROMPT = "The agent is waiting for you. Please reply with what it should do next."
ALIASES = {"single_select": "choose_one"}
MAX_BLOCK = 8_000
LARGEST_INT = 2**63


class NotAQuestion(ValueError):
    """The ask block cannot be used; the message says why."""


def question(
    messages: Sequence[str], load: Callable[[str], object]
) -> tuple[Question, tuple[RunWarning, ...]]:
    """The agent's last message as a question; `load` parses the YAML of an optional ask block."""
    last = messages[-1] if messages else ""
    blocks = ask_blocks(last)
    words = without(last, blocks)
    asked, warnings = None, []
    if blocks:
        try:
            asked = _read_block(blocks[-1].body, load)
        except NotAQuestion as reason:
            warnings.append(RunWarning(Warn.ASK_BLOCK_INVALID, f"ask block ignored: {reason}"))
    prompt = words or (asked.prompt if asked else "")
    if not prompt:
        prompt = BASELINE_PROMPT
        warnings.append(RunWarning(Warn.QUESTION_EMPTY, "the agent ended its turn without a question"))
    if asked is None:
        return Question(prompt=prompt), tuple(warnings)
    return replace(asked, prompt=prompt), tuple(warnings)


def _read_block(block: str, load: Callable[[str], object]) -> Question:
    if len(block) > MAX_BLOCK:
        raise NotAQuestion(f"longer than {MAX_BLOCK} characters")
    try:
        fields = _as_json(load(block))
    except ValueError as error:
        raise NotAQuestion(f"not valid YAML ({error})") from error
    if not isinstance(fields, Mapping):
        raise NotAQuestion("not a mapping")
    if isinstance(fields.get("ask_user"), Mapping):
        fields = fields["ask_user"]
    # The agent's id is never used, but its presence tells a real block from a stray one.
    if not isinstance(fields.get("interaction_id"), int | str) or isinstance(fields["interaction_id"], bool):
        raise NotAQuestion("interaction_id is missing")
    prompt = _text(fields, "prompt", None)
    if not prompt:
        raise NotAQuestion("prompt is missing")
    kind = _text(fields, "kind", "") or "open_text"
    return Question(
        prompt=prompt,
        kind=ALIASES.get(kind, kind),
        default_decision_policy=_text(fields, "default_decision_policy", "") or "engine_judgement",
        options=tuple(_option(entry) for entry in _list(fields, "options")),
        ui_hints=_mapping(fields, "ui_hints") or {},
        context=fields.get("context"),
        requested_schema=_mapping(fields, "requested_schema"),
        source="ask_user",
    )


def _as_json(value: object) -> Any:
    """YAML knows more than JSON: what the log could not hold becomes text, or is refused."""
    match value:
        case Mapping():
            return {str(_as_json(key)): _as_json(each) for key, each in value.items()}
        case list() | tuple() | set():
            return [_as_json(each) for each in value]
        case str():
            return value.encode("utf-8", "replace").decode()
        case bool() | None:
            return value
        case int() if abs(value) < LARGEST_INT:
            return value
        case float() if math.isfinite(value):
            return value
        case float() | int():
            raise NotAQuestion(f"{str(value)[:40]} is no number that JSON can hold")
        case _:
            return str(value)


def _text(fields: Mapping[str, Any], name: str, default: str | None) -> str:
    value = fields.get(name)
    if value is None:
        value = default if default is not None else ""
    if not isinstance(value, str):
        raise NotAQuestion(f"{name} is not text")
    return value.strip()


def _list(fields: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = fields.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise NotAQuestion(f"{name} is not a list")
    return value


def _mapping(fields: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise NotAQuestion(f"{name} is not a mapping")
    return value


def _option(entry: object) -> Mapping[str, Any]:
    if isinstance(entry, str | int | float):
        return {"label": str(entry), "value": entry}
    if isinstance(entry, Mapping) and isinstance(entry.get("label", entry.get("value")), str):
        label = entry.get("label", entry.get("value"))
        return {"label": label, "value": entry.get("value", label)}
    raise NotAQuestion("an option has no label")


def pending_view(interaction: Interaction) -> dict[str, Any]:
    """The question as clients see it, in the API and in the log."""
    asked = interaction.question
    view: dict[str, Any] = {
        "interaction_id": interaction.interaction_id,
        "kind": asked.kind,
        "prompt": asked.prompt,
        "default_decision_policy": asked.default_decision_policy,
        "source": asked.source,
    }
    optional = {
        "options": [dict(option) for option in asked.options],
        "ui_hints": dict(asked.ui_hints),
        "context": asked.context,
        "requested_schema": asked.requested_schema,
        "expires_at": interaction.expires_at and instant(interaction.expires_at),
    }
    return view | {key: value for key, value in optional.items() if value}
