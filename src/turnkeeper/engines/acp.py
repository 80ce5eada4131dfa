"""The Agent Client Protocol, spoken to a resident agent over stdio: JSON-RPC 2.0, one object a line.

The client side of the protocol is six calls; hearing them as lines keeps one parser for the live process and for
the audit of its stored bytes. The ids of our calls are fixed, so stored answers tell what they answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure, Handle
from turnkeeper.core.turn import (
    TYPED,
    Echo,
    Ended,
    Reasoning,
    SessionOpened,
    TextDelta,
    ToolCall,
    TurnEvent,
    Usage,
)
from turnkeeper.engines.base import Heard, TurnPlan, read_object
from turnkeeper.engines.lines import Line
from turnkeeper.engines.process import Exit

PROTOCOL_VERSION = 1
INITIALIZE, OPEN_SESSION, FIRST_PROMPT = 1, 2, 3
AUTH_REQUIRED, METHOD_NOT_FOUND = -32000, -32601

_TOKENS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedReadTokens": "cached_tokens",
}
_DONE = ("completed", "failed")

_encode = msgspec.json.Encoder().encode


class AcpDialect:
    keeps_stdin = True

    def __init__(self, plan: TurnPlan) -> None:
        self._plan = plan
        self._session_id: str | None = None
        self._loadable = False
        self._is_opening = False
        self._prompt = ""
        self._next_id = FIRST_PROMPT
        self._tools: dict[str, dict[str, Any]] = {}

    def begin(self, prompt: str) -> bytes:
        self._prompt = prompt
        self._tools.clear()
        if self._session_id is not None:
            return self._send_prompt()
        # Some agents reject an initialize without explicit capabilities.
        return _request(
            INITIALIZE,
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientCapabilities": {
                    "fs": {"readTextFile": False, "writeTextFile": False},
                    "terminal": False,
                },
                "clientInfo": {"name": "turnkeeper", "version": "1"},
            },
        )

    def hear(self, line: Line) -> Heard | None:
        if not line.data.strip():
            return Heard(())
        said = read_object(line)
        if said is None or said.get("jsonrpc") != "2.0":
            return None
        match said:
            case {"method": "session/update", "params": {"update": dict(update)}}:
                # While a session is being loaded the agent repeats what was said before.
                return Heard(()) if self._is_opening else Heard(self._update(update))
            case {"method": str(method), "id": int() | str() as call}:
                return Heard((), self._answer(method, call, said.get("params")))
            case {"method": str()}:
                return Heard(())
            case {"id": int(call)}:
                return self._response(call, said)
            case _:
                return None

    def hear_stderr(self, line: Line) -> Heard | None:
        return None

    def finish(self, ended: Exit, stderr: str) -> Sequence[TurnEvent]:
        return []

    def cancel(self) -> bytes:
        if self._session_id is None:
            return b""
        return _line(
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self._session_id}}
        )

    def _response(self, call: int, said: dict[str, Any]) -> Heard:
        error = said.get("error")
        if isinstance(error, dict):
            return Heard([Ended(self._failure(call, error))])
        result = said.get("result")
        result = result if isinstance(result, dict) else {}
        if call == INITIALIZE:
            return self._initialized(result)
        if call == OPEN_SESSION:
            return self._opened(result)
        return Heard([*_usage(result), Ended(_stopped(result.get("stopReason")))])

    def _initialized(self, result: dict[str, Any]) -> Heard:
        self._is_opening = True
        capabilities = result.get("agentCapabilities")
        self._loadable = isinstance(capabilities, dict) and capabilities.get("loadSession") is True
        params: dict[str, Any] = {"cwd": str(self._plan.workspace), "mcpServers": []}
        if self._plan.session is None:
            return Heard((), _request(OPEN_SESSION, "session/new", params))
        params["sessionId"] = self._plan.session.session_id
        return Heard((), _request(OPEN_SESSION, "session/load", params))

    def _opened(self, result: dict[str, Any]) -> Heard:
        self._is_opening = False
        known = self._plan.session.session_id if self._plan.session else None
        session_id = result.get("sessionId", known)
        if not isinstance(session_id, str):
            return Heard([Ended(Failure(Code.ENGINE_FAILED, "the agent opened a session without an id"))])
        self._session_id = session_id
        return Heard([SessionOpened(Handle(session_id, self._loadable))], self._send_prompt())

    def _send_prompt(self) -> bytes:
        call, self._next_id = self._next_id, self._next_id + 1
        prompt = [{"type": "text", "text": self._prompt}]
        return _request(call, "session/prompt", {"sessionId": self._session_id, "prompt": prompt})

    def _failure(self, call: int, error: dict[str, Any]) -> Failure:
        message = str(error.get("message", "the agent answered with an error"))
        if error.get("code") == AUTH_REQUIRED:
            return Failure(Code.ENGINE_AUTH_REQUIRED, message)
        if call == OPEN_SESSION and self._plan.session is not None:
            return Failure(Code.SESSION_LOST, f"the agent cannot load the session: {message}")
        data = error.get("data")
        named = Code.__members__.get(str(data.get("code"))) if isinstance(data, dict) else None
        return Failure(named if named in TYPED else Code.ENGINE_FAILED, message)

    def _update(self, update: dict[str, Any]) -> Sequence[TurnEvent]:
        match update:
            case {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": str(text)}}:
                message = update.get("messageId")
                return [TextDelta(text, message if isinstance(message, str) else None)]
            case {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": str(text)}}:
                return [Reasoning(text)]
            case {"sessionUpdate": "tool_call" | "tool_call_update", "toolCallId": str(call)}:
                return self._tool(call, update)
            case {"sessionUpdate": "user_message_chunk"}:
                return [Echo()]
            case _:
                return []

    def _tool(self, call: str, update: dict[str, Any]) -> Sequence[TurnEvent]:
        """Updates carry only what changed; a call is told once, when it is over."""
        known = self._tools.setdefault(call, {})
        known.update({key: value for key, value in update.items() if value is not None})
        status = str(known.get("status", "pending"))
        if status not in _DONE:
            return []
        del self._tools[call]
        name = str(known.get("title") or known.get("kind") or "tool")
        return [ToolCall(call, name, status, known.get("rawInput"), _tool_output(known))]

    def _answer(self, method: str, call: int | str, params: Any) -> bytes:
        if method == "session/request_permission" and isinstance(params, dict):
            return _line({"jsonrpc": "2.0", "id": call, "result": {"outcome": _allow(params.get("options"))}})
        error = {"code": METHOD_NOT_FOUND, "message": f"{method} is not offered by this client"}
        return _line({"jsonrpc": "2.0", "id": call, "error": error})


def _allow(options: Any) -> dict[str, str]:
    """The specification's automatic flags approve everything; so does the resident transport."""
    offered = [option for option in options if isinstance(option, dict)] if isinstance(options, list) else []
    for kind in ("allow_always", "allow_once"):
        for option in offered:
            if option.get("kind") == kind:
                return {"outcome": "selected", "optionId": str(option.get("optionId"))}
    return {"outcome": "cancelled"}


def _usage(result: Mapping[str, Any]) -> list[TurnEvent]:
    usage = result.get("usage")
    if not isinstance(usage, dict):
        return []
    return [
        Usage({ours: usage[theirs] for theirs, ours in _TOKENS.items() if isinstance(usage.get(theirs), int)})
    ]


def _stopped(reason: object) -> Failure | None:
    if reason in ("end_turn", "max_turn_requests", "max_tokens", "refusal"):
        return None
    return Failure(Code.ENGINE_FAILED, f"the agent stopped its turn: {reason}")


def _tool_output(known: Mapping[str, Any]) -> Any:
    if known.get("rawOutput") is not None:
        return known["rawOutput"]
    content = known.get("content")
    parts = content if isinstance(content, list) else []
    texts = [
        part["content"].get("text", "") for part in parts if isinstance(part, dict) and "content" in part
    ]
    return "\n".join(str(text) for text in texts) or None


def _request(call: int, method: str, params: dict[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "id": call, "method": method, "params": params})


def _line(message: dict[str, Any]) -> bytes:
    return _encode(message) + b"\n"
