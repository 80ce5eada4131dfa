"""What agents tell by the Agent Client Protocol, as far as they differ: options, tools, tokens, models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnkeeper.core.permission import Choice
from turnkeeper.core.turn import COUNTERS, TurnEvent
from turnkeeper.engines.dialect import is_count, named


def choices(options: Any) -> tuple[Choice, ...]:
    offered = options if isinstance(options, list) else []
    return tuple(
        Choice(option["optionId"], str(option.get("name") or option["optionId"]), str(option.get("kind")))
        for option in offered
        if isinstance(option, dict) and isinstance(option.get("optionId"), str)
    )


def about(known: Mapping[str, Any]) -> dict[str, Any]:
    """What a person needs to decide: which tool, with what."""
    names = {"toolCallId": "call_id", "kind": "kind", "rawInput": "input", "locations": "locations"}
    about = {ours: known.get(theirs) for theirs, ours in names.items()}
    return about | {"content": known.get("content")} if not about.get("input") else about


def _quota(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where some tell, beside or instead of `usage`, which model used how much."""
    meta = result.get("_meta")
    quota = meta.get("quota") if isinstance(meta, dict) else None
    return quota if isinstance(quota, dict) else {}


def model(result: Mapping[str, Any]) -> list[TurnEvent]:
    used = _quota(result).get("model_usage")
    first = used[0] if isinstance(used, list) and used else None
    return named(first.get("model")) if isinstance(first, dict) else []


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


def tool_output(known: Mapping[str, Any]) -> Any:
    if known.get("rawOutput") is not None:
        return known["rawOutput"]
    content = known.get("content")
    parts = content if isinstance(content, list) else []
    inside = [part["content"] for part in parts if isinstance(part, dict) and "content" in part]
    texts = [str(each.get("text", "")) for each in inside if isinstance(each, dict)]
    return "\n".join(texts) or known.get("printed") or None


def printed(update: Mapping[str, Any]) -> str:
    """By a command, where it is told piece by piece, as to a terminal."""
    meta = update.get("_meta")
    piece = meta.get("terminal_output_delta") if isinstance(meta, dict) else None
    return str(piece.get("data") or "") if isinstance(piece, dict) else ""
