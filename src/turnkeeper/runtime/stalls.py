"""Why we ended a turn, in words a person can act on: which limit it was, and what was going on then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure, Handle, Timeouts
from turnkeeper.core.turn import Transcript
from turnkeeper.engines.meter import Excess
from turnkeeper.engines.watch import LOOK_SEC, Limit

log = logging.getLogger(__name__)

SILENT = {
    Limit.FIRST_BYTE: "the engine printed nothing of its turn for {limit:g} s, and nothing of it worked",
    Limit.IDLE: "the engine fell silent for {limit:g} s in the middle of its turn, and nothing of it worked",
}
MAX_WORDS = 300
MAX_CONNECTIONS = 5


class Connected(Protocol):
    async def connections(self) -> list[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Of the processes, when the limit was reached."""

    alive: Sequence[str] = ()
    connections: Sequence[str] = ()
    resumed: Handle | None = None
    """The session that the process was started to resume, if it has not said a word since."""
    hint: str = ""
    """What it may have waited for, by the words that were the last."""


async def look(process: Connected) -> list[str]:
    """What cannot be seen is no evidence; the turn ends all the same."""
    try:
        return await asyncio.wait_for(process.connections(), LOOK_SEC)
    except Exception as error:  # noqa: BLE001 (no descriptor, no thread, a hanging kernel)
        log.warning("the connections of an engine cannot be looked at: %r", error)
        return []


def silent(limit: Limit, told: Transcript, timeouts: Timeouts, seen: Seen, stderr: str) -> Failure:
    message = SILENT[limit].format(limit=getattr(timeouts, f"{limit.value}_sec"))
    resuming = (
        f"; it was started to resume session {seen.resumed.session_id}, and did not" if seen.resumed else ""
    )
    there = f"; alive were: {', '.join(seen.alive)}" if seen.alive else ""
    may = f"; {seen.hint}" if seen.hint else ""
    parts = (resuming, _tools(told), _retries(told), there, _connected(seen.connections), may)
    return Failure(Code.ENGINE_STALLED, f"{message}{''.join(parts)}", None, stderr or None)


def too_long(told: Transcript, timeouts: Timeouts, stderr: str) -> Failure:
    message = f"the turn took longer than {timeouts.turn_sec:g} s"
    return Failure(Code.TURN_TIMEOUT, f"{message}{_tools(told)}{_retries(told)}", None, stderr or None)


def exceeding(excess: Excess, told: Transcript, stderr: str) -> Failure:
    message = f"the engine and its tools had {excess.words}; {excess.setting} is the limit"
    return Failure(Code.ENGINE_LIMIT_EXCEEDED, f"{message}{_tools(told)}", None, stderr or None)


def repeating(told: Transcript, stderr: str) -> Failure:
    error = told.same_error
    message = f"the tool {error.tool} failed {error.count} times in a row with the same words: {_short(error.words)}"
    return Failure(Code.ENGINE_STALLED, message, None, stderr or None)


def _tools(told: Transcript) -> str:
    tools = ", ".join(sorted(set(told.open_tools.values())))
    return f"; it waited for its tool {tools}" if tools else ""


def _retries(told: Transcript) -> str:
    if not told.retries:
        return ""
    times = "once" if told.retries == 1 else f"{told.retries} times"
    return f"; it had tried its model again {times}, last because: {_short(told.last_retry)}"


def _connected(connections: Sequence[str]) -> str:
    shown = list(connections[:MAX_CONNECTIONS])
    more = len(connections) - len(shown)
    listed = "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
    return f"; it had {listed}" if listed else ""


def _short(words: str) -> str:
    text = " ".join(words.split())
    return text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]}…"
