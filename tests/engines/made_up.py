"""Turns that nobody recorded: lines of our own making, played through a dialect and told like recorded ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.engines.recordings import Recording, play, snapshot
from turnkeeper.core.errors import Code
from turnkeeper.core.gate import ExitKind
from turnkeeper.engines.process import Exit
from turnkeeper.runtime.judging import HowEnded

SESSION = "session-1"
_INIT = {"type": "system", "subtype": "init", "session_id": SESSION, "model": "m"}
_RESULT = {"type": "result", "subtype": "success", "is_error": False, "session_id": SESSION}

OPENING: dict[str, list[Any]] = {
    "codex": [{"type": "thread.started", "thread_id": SESSION}, {"type": "turn.started"}],
    "claude": [_INIT],
    "gemini": [{"type": "init", "session_id": SESSION, "model": "m"}],
    "opencode": [{"type": "step_start", "sessionID": SESSION, "part": {"id": "p0", "messageID": "m0"}}],
    "qwen": [_INIT],
    "iflow": [],
}
CLOSING: dict[str, list[Any]] = {
    "codex": [{"type": "turn.completed", "usage": {"input_tokens": 1}}],
    "claude": [_RESULT],
    "gemini": [{"type": "result", "status": "success", "stats": {}}],
    "opencode": [{"type": "step_finish", "sessionID": SESSION, "part": {"id": "p9", "reason": "stop"}}],
    "qwen": [_RESULT],
    "iflow": [],
}


def a_turn(
    engine: str, lines: Sequence[Any] = (), *, stderr: str = "", ended: int = 0, session: str | None = None
) -> Recording:
    """Lines are objects, or bytes as they are; a negative end is a signal."""
    stdout = b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
    )
    kind = ExitKind.FOREIGN_SIGNAL if ended < 0 else ExitKind.NONZERO if ended else ExitKind.OK
    exited = Exit(None, -ended) if ended < 0 else Exit(ended, None)
    how = HowEnded(kind=kind, exit=exited, stderr=stderr)
    return Recording(engine, "made up", stdout, stderr.encode(), how, session)


def told(turn: Recording) -> dict[str, Any]:
    return snapshot(turn, play(turn))


def whole(engine: str, *lines: Any) -> dict[str, Any]:
    """A turn with these lines in it that closes well."""
    return told(a_turn(engine, [*OPENING[engine], *lines, *CLOSING[engine]]))


def code(turn: Recording) -> Code | None:
    failure = told(turn)["failure"]
    return Code(failure[0]) if failure else None
