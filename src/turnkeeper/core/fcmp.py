"""FCMP, the event log's language: event types and their payloads. Sequence numbers are given by the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

PROTOCOL = "fcmp/1.0"

Json = Mapping[str, Any]


class Type(StrEnum):
    CONVERSATION_STARTED = "conversation.started"
    STATE_CHANGED = "conversation.state.changed"
    MESSAGE_DELTA = "assistant.message.delta"
    MESSAGE_FINAL = "assistant.message.final"
    REASONING = "assistant.reasoning"
    TOOL_CALL = "assistant.tool_call"
    INPUT_REQUIRED = "user.input.required"
    REPLY_ACCEPTED = "interaction.reply.accepted"
    AUTO_DECIDE_TIMEOUT = "interaction.auto_decide.timeout"
    WITHDRAWN = "interaction.withdrawn"
    COMPLETED = "conversation.completed"
    FAILED = "conversation.failed"
    CANCELED = "conversation.canceled"
    USAGE = "usage.reported"
    WARNING = "diagnostic.warning"
    RAW_STDOUT = "raw.stdout"
    RAW_STDERR = "raw.stderr"


TERMINAL = frozenset({Type.COMPLETED, Type.FAILED, Type.CANCELED})


@dataclass(frozen=True, slots=True)
class RawRef:
    """Where in the raw log of its attempt the words of an event stand."""

    try_number: int
    stream: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a run's log before it has its number."""

    type: Type
    data: Json
    ts: datetime
    attempt: int
    raw_ref: RawRef | None = None


def instant(moment: datetime) -> str:
    """UTC with microseconds and Z: fixed width, so that text order is time order."""
    return f"{moment.astimezone(UTC).isoformat(timespec='microseconds')[:-6]}Z"


def envelope(event: Event, *, run_id: str, seq: int, engine: str) -> dict[str, Any]:
    raw = event.raw_ref
    return {
        "protocol_version": PROTOCOL,
        "run_id": run_id,
        "seq": seq,
        "ts": instant(event.ts),
        "engine": engine,
        "type": event.type.value,
        "data": event.data,
        "meta": {"attempt": event.attempt},
        "raw_ref": raw
        and {"try": raw.try_number, "stream": raw.stream, "offset": raw.offset, "length": raw.length},
    }


def warning(code: str, message: str, *, now: datetime, attempt: int) -> Event:
    return Event(Type.WARNING, {"code": code, "message": message}, now, attempt)
