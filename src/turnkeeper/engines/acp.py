"""The Agent Client Protocol, spoken to a resident agent over stdio: JSON-RPC 2.0, one object a line.

A client needs few calls; hearing the answers as lines keeps one parser for the live process and for the audit of its
stored bytes. The ids of our calls are fixed, so stored answers tell what they answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from turnkeeper.core import permission
from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.permission import Decision, PermissionAsked, PermissionWithdrawn
from turnkeeper.core.run import Failure, Handle, Permissions
from turnkeeper.core.turn import (
    TYPED,
    Echo,
    Ended,
    Reasoning,
    Remark,
    SessionOpened,
    TextDelta,
    ToolCall,
    TurnEvent,
)
from turnkeeper.engines import acptold, broken, gates, meaning
from turnkeeper.engines.acptold import Tool, shortened
from turnkeeper.engines.base import Heard, TurnPlan, together
from turnkeeper.engines.dialect import usage
from turnkeeper.engines.lines import Line, plain
from turnkeeper.engines.objects import Objects
from turnkeeper.engines.process import Exit

PROTOCOL_VERSION = 1
INITIALIZE, OPEN_SESSION, FIRST_PROMPT = 1, 2, 3
LOGIN, MODE, MODEL, TITLE = "login", "mode", "model", "title"
METHOD_NOT_FOUND = -32601
MAX_ID = 1000
MAX_TOOLS = 1000
"""Calls of a turn that are remembered until they are over."""

_encode = msgspec.json.Encoder().encode
_ASKS = re.compile(r"elicit|question|input|(?:^|[/_.])ask", re.IGNORECASE)
"""Calls of an agent's that want something of a person, such as a form for a tool of its; there is none for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """What differs between agents that all speak the protocol."""

    login: str | None = None
    """How it is to log in, where it wants to be told: one of its `authMethods`."""
    modes: Mapping[Permissions, str] = field(default_factory=dict)
    """The mode that its session is put into, where another than its own is needed."""
    sets_model: bool = False
    """It takes the model by `session/set_model`, and not as a word of its command line."""
    loads: bool = True
    """False: it says that it can load a session, and does not always."""
    saves_late: bool = False
    """Its session can be loaded when it has begun to answer, and not before."""
    title: str | None = None
    """Of its session: without one, some ask a model for it."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Of the call that opens a session: settings of its own."""


PLAIN = Manners()


class AcpDialect:
    keeps_stdin = True

    def __init__(self, plan: TurnPlan, manners: Manners = PLAIN) -> None:
        self._plan = plan
        self._manners = manners
        self._objects = Objects()
        self._session_id: str | None = None
        self._loadable = False
        self._is_opening = False
        self._prompt = ""
        self._next_id = FIRST_PROMPT
        self._setup: Iterator[bytes] = iter(())
        """What is still to be said before the first prompt."""
        self._awaited: int | str | None = None
        """The call of ours that is still to be answered."""
        self._named: list[TurnEvent] = []
        """The session, as long as it is not to be relied on."""
        self._tools: dict[str, Tool] = {}
        self._over: set[str] = set()
        self._requests: dict[str, int | str] = {}
        """Permissions that are still to be answered: the ids of the agent's calls."""
        self._asked = 0
        self._used: dict[str, int] = {}
        self._misuse: str | None = None
        self._is_understood = False
        self._has_rejected = False
        self._words = ""
        """Of a person who rejected: what the agent hears when it has given up."""

    def begin(self, prompt: str) -> bytes:
        self._prompt, self._words = prompt, ""
        self._tools.clear()
        self._over.clear()
        self._requests.clear()
        self._asked = 0
        self._has_rejected = False
        self._used = {}
        if self._session_id is not None:
            return self._send_prompt()
        # Some agents reject an initialize without explicit capabilities.
        return self._call(
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
        if line.is_blank:
            return Heard(())
        heard = [self._hear(said) for said in self._objects.read(line)]
        return together([each for each in heard if each is not None])

    def _hear(self, said: dict[str, Any]) -> Heard | None:
        if said.get("jsonrpc") != "2.0":
            return None
        self._is_understood = True
        match said:
            case {"method": "session/update", "params": {"update": dict(update)} as params}:
                return Heard(self._updated(params.get("sessionId"), update))
            case {"method": str(method), "id": int() | str() as call}:
                return self._called(method, call, said.get("params"))
            case {"method": "$/cancel_request", "params": {"requestId": int() | str() as call}}:
                return Heard(self._withdraw(call))
            case {"method": str()}:
                return Heard(())
            case {"id": int() | str() as call} if not isinstance(call, bool):
                return self._response(call, said)
            case _:
                return None

    def _withdraw(self, call: int | str) -> Sequence[TurnEvent]:
        gone = [key for key, known in self._requests.items() if known == call]
        return [PermissionWithdrawn(key) for key in gone if self._requests.pop(key, None) is not None]

    def hear_stderr(self, line: Line) -> Heard | None:
        text = plain(line.data[:MAX_ID]).strip()
        if self._misuse is None and meaning.MISUSED.search(text):
            self._misuse = text
        told = gates.heard(line)
        return Heard([told]) if told else None

    def asks(self, stream: str, start: bytes) -> bool:
        return False  # it is spoken to over a protocol, and asks by that

    def hint(self, words: Sequence[str], *, has_begun: bool) -> str:
        return gates.hint(words, "" if has_begun else gates.BY_HAND)

    def finish(self, ended: Exit, stderr: str) -> Sequence[TurnEvent]:
        if not ended.code:
            return []
        failure = (gates.refused(stderr) if not self._is_understood else None) or meaning.of_stderr(stderr)
        if self._misuse is not None and not self._is_understood:
            words = f"the agent does not take the arguments that it was started with: {self._misuse}"
            failure = Failure(Code.ENGINE_ARGS_REJECTED, words, None, meaning.evidence(stderr, words))
        return [Ended(failure)] if failure else []

    def _updated(self, session_id: object, update: dict[str, Any]) -> Sequence[TurnEvent]:
        """While a session is being loaded the agent repeats what was said before; others are none of ours."""
        known = self._session_id or (self._plan.session.session_id if self._plan.session else session_id)
        if self._is_opening or session_id != known:
            return []
        return [*self._name(), *self.update(update)]

    def _name(self) -> list[TurnEvent]:
        named, self._named = self._named, []
        return named

    def cancel(self) -> bytes:
        """With the permissions that are still open: their answers are of no use any more."""
        if self._session_id is None:
            return b""
        stop = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self._session_id}}
        self._words = ""
        return _line(stop) + self._call_off()[1]

    def _call_off(self) -> tuple[list[TurnEvent], bytes]:
        """Every request that is open."""
        open_requests, self._requests = self._requests, {}
        gone: list[TurnEvent] = [PermissionWithdrawn(key) for key in open_requests]
        return gone, b"".join(_outcome(call, Decision(None)) for call in open_requests.values())

    def answer(self, key: str, decision: Decision) -> bytes:
        call = self._requests.pop(key, None)
        if call is None:
            return b""  # the turn that asked is over
        self._words = "\n\n".join(words for words in (self._words, decision.words) if words)
        self._has_rejected = self._has_rejected or not decision.is_allowed
        return _outcome(call, decision)

    # The agent's answers

    def _response(self, call: int | str, said: dict[str, Any]) -> Heard:
        if self._is_stray(call):
            return Heard(())
        error = said.get("error")
        if isinstance(error, dict) and call != TITLE:
            return Heard([*self._name(), Ended(self._failure(call, error))])
        result = said.get("result")
        result = result if isinstance(result, dict) else {}
        if call == INITIALIZE:
            return self._initialized(result)
        if call == LOGIN:
            return self._open_session()
        if call == OPEN_SESSION:
            return self._opened(result)
        if isinstance(call, str):
            return Heard((), self._go_on())
        self._next_id = call + 1
        return self._prompted(result)

    def _is_stray(self, call: int | str) -> bool:
        """An answer to what is over, or was never asked. Of a turn that is read again alone, any prompt may be."""
        is_alone = self._session_id is None and isinstance(call, int) and call >= self._next_id
        return call != self._awaited and not is_alone

    def _initialized(self, result: dict[str, Any]) -> Heard:
        version, capabilities = result.get("protocolVersion"), result.get("agentCapabilities")
        if version != PROTOCOL_VERSION:
            words = (
                f"the agent speaks version {shortened(str(version))} of its protocol, not {PROTOCOL_VERSION}"
            )
            return Heard([Ended(Failure(Code.ENGINE_FAILED, words))])
        can_load = isinstance(capabilities, dict) and capabilities.get("loadSession") is True
        self._loadable = can_load and self._manners.loads
        if self._manners.login is None:
            return self._open_session()
        return Heard((), self._call(LOGIN, "authenticate", {"methodId": self._manners.login}))

    def _open_session(self) -> Heard:
        self._is_opening = True
        params: dict[str, Any] = {"cwd": str(self._plan.workspace), "mcpServers": []}
        if self._manners.meta:
            params["_meta"] = dict(self._manners.meta)
        if self._plan.session is None:
            return Heard((), self._call(OPEN_SESSION, "session/new", params))
        params["sessionId"] = self._plan.session.session_id
        return Heard((), self._call(OPEN_SESSION, "session/load", params))

    def _opened(self, result: dict[str, Any]) -> Heard:
        known = self._plan.session.session_id if self._plan.session else None
        session_id = result.get("sessionId") or known
        if known is not None and session_id != known:
            gone = f"the agent was asked to load session {known} and opened another"
            return Heard([Ended(Failure(Code.SESSION_LOST, gone))])
        if not isinstance(session_id, str) or not 0 < len(session_id) <= MAX_ID:
            return Heard([Ended(Failure(Code.ENGINE_FAILED, "the agent opened a session without an id"))])
        self._session_id = session_id
        self._setup = self._settings(session_id)
        self._named = [SessionOpened(Handle(session_id, self._loadable))]
        # One that is loaded is saved: it goes on with what it has.
        is_saved = known is not None or not self._manners.saves_late
        return Heard(self._name() if is_saved else (), self._go_on())

    def _settings(self, session_id: str) -> Iterator[bytes]:
        """Also of a session that was loaded: few remember them, and one that does may remember too much."""
        manners, plan = self._manners, self._plan
        chosen = {
            MODE: ("session/set_mode", {"modeId": manners.modes.get(plan.permissions)}),
            MODEL: ("session/set_model", {"modelId": plan.model if manners.sets_model else None}),
            TITLE: ("session/set_title", {"title": manners.title}),
        }
        for call, (method, params) in chosen.items():
            if None not in params.values():
                yield self._call(call, method, {"sessionId": session_id, **params})

    def _go_on(self) -> bytes:
        return next(self._setup, b"") or self._send_prompt()

    def _send_prompt(self) -> bytes:
        self._is_opening = False  # a change of its mode makes one speak
        call, self._next_id = self._next_id, self._next_id + 1
        prompt = [{"type": "text", "text": acptold.as_words(self._prompt)}]
        return self._call(call, "session/prompt", {"sessionId": self._session_id, "prompt": prompt})

    def _call(self, call: int | str, method: str, params: dict[str, Any]) -> bytes:
        self._awaited = call
        return _line({"jsonrpc": "2.0", "id": call, "method": method, "params": params})

    def _prompted(self, result: dict[str, Any]) -> Heard:
        """A person who said something instead of permitting is heard now, in the same turn."""
        told = [*self._name(), *self.asides(), *acptold.model(result), *self.count(self.spent(result))]
        failure = self.stopped(result)
        if self._words and failure is None:
            self._prompt, self._words = self._words, ""
            # What the prompt before it still asked for, it does not need any more.
            gone, called_off = self._call_off()
            return Heard([*told, *gone, Echo()], called_off + self._send_prompt())
        return Heard([*told, Ended(failure)])

    def count(self, found: Mapping[str, int]) -> list[TurnEvent]:
        """Some tell of each call to the model; and a turn may have more than one prompt."""
        if not found:
            return []
        self._used |= {name: self._used.get(name, 0) + count for name, count in found.items()}
        return usage(**self._used)

    def _failure(self, call: int | str, error: dict[str, Any]) -> Failure:
        failure = self.failure(error)
        if self._plan.session is not None:
            failure = broken.as_lost(failure)
        if call == OPEN_SESSION and self._plan.session is not None and failure.code not in TYPED:
            return Failure(Code.SESSION_LOST, f"the agent cannot load the session: {failure.message}")
        if call == MODEL and failure.code not in TYPED:
            return Failure(Code.ENGINE_MODEL_UNKNOWN, f"{self._plan.model}: {failure.message}")
        if call == MODE:
            mode = self._manners.modes.get(self._plan.permissions)
            return replace(
                failure, message=f"the agent cannot be put into its mode {mode}: {failure.message}"
            )
        return failure

    # What agents tell in their own ways

    def failure(self, error: Mapping[str, Any]) -> Failure:
        return acptold.failure(error)

    def stopped(self, result: Mapping[str, Any]) -> Failure | None:
        """An agent that was refused what it needs may call its turn off: that is no failure of its."""
        reason = result.get("stopReason")
        if reason in ("end_turn", "max_turn_requests", "max_tokens", "refusal"):
            return None
        if reason == "cancelled" and self._has_rejected:
            return None
        return Failure(Code.ENGINE_FAILED, f"the agent stopped its turn: {shortened(str(reason))}")

    def spent(self, result: Mapping[str, Any]) -> Mapping[str, int]:
        """By one prompt."""
        return acptold.spent(result)

    def asides(self) -> Sequence[TurnEvent]:
        """What it told beside the turn, when that ends."""
        return []

    def update(self, update: dict[str, Any]) -> Sequence[TurnEvent]:
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
        """Updates carry only what changed; a call is told when it begins and when it is over."""
        if call in self._over or len(call) > MAX_ID:
            return []
        tool = self._known(call)
        tool.learn(update)
        if tool.is_over:
            self._tools.pop(call, None)
            if len(self._over) >= MAX_TOOLS:
                self._over.clear()
            self._over.add(call)
        elif tool.is_told:
            return []
        tool.is_told = True
        return [ToolCall(call, tool.name, tool.status, tool.input, tool.output)]

    def _known(self, call: str) -> Tool:
        """Of very many at once, the last are not put together."""
        if len(self._tools) >= MAX_TOOLS:
            return self._tools.get(call, Tool())
        return self._tools.setdefault(call, Tool())

    # The agent's calls

    def _called(self, method: str, call: int | str, params: Any) -> Heard:
        if method == "session/request_permission" and isinstance(params, dict):
            return self._request_permission(call, params)
        error = {"code": METHOD_NOT_FOUND, "message": f"{method} is not offered by this client"}
        words = f"the agent asked by {shortened(method)}, and nobody could answer"
        told = [Remark(Warn.ENGINE_REMARK, words)] if _ASKS.search(method) else []
        return Heard(told, _line({"jsonrpc": "2.0", "id": call, "error": error}))

    def _request_permission(self, call: int | str, params: dict[str, Any]) -> Heard:
        told = params.get("toolCall")
        told = told if isinstance(told, dict) else {}
        tool = self._known(str(told.get("toolCallId"))[:MAX_ID])
        tool.learn({name: value for name, value in told.items() if name != "status"})
        title = tool.title or "to use a tool"
        choices = acptold.choices(params.get("options"))
        match self._plan.permissions:
            case Permissions.ALLOW:
                return Heard((), _outcome(call, permission.allowed(choices)))
            case Permissions.DENY:
                self._has_rejected = True
                denied = Remark(Warn.PERMISSION_DENIED, f"the agent was not permitted: {title}")
                return Heard([denied], _outcome(call, permission.rejected(choices)))
            case Permissions.ASK:
                self._asked += 1
                key = str(self._asked)
                self._requests[key] = call
                return Heard([PermissionAsked(key, title, choices, tool.about)])


def _outcome(call: int | str, decision: Decision) -> bytes:
    chosen = {"outcome": "selected", "optionId": decision.choice}
    outcome = {"outcome": "cancelled"} if decision.choice is None else chosen
    return _line({"jsonrpc": "2.0", "id": call, "result": {"outcome": outcome}})


def _line(message: dict[str, Any]) -> bytes:
    return _encode(message) + b"\n"
