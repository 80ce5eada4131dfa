"""What Claude Code and Qwen Code have in common: the lines of `--output-format stream-json`.

Every line is an envelope that says who speaks: the assistant, the user (which is where tools answer), or the CLI
itself. Blocks of content come in it, and one `result` closes the turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.run import Failure
from turnkeeper.core.turn import Echo, Ended, Reasoning, Remark, Text, TextDelta, ToolCall, TurnEvent
from turnkeeper.engines import meaning
from turnkeeper.engines.base import TurnPlan
from turnkeeper.engines.dialect import MAX_ID, CliDialect, is_count, named

MAX_NAMES = 20
"""Tools that are named in one remark."""
_NOT_THERE = ("failed", "needs-auth", "timeout", "disconnected", "error")
"""Of a server of tools. One that is `pending` is connected while the agent works."""
_PROVIDER = re.compile(r"(?:.*/)?(?:[a-z]+(?:-[a-z]+)*\.(?=[a-z]))*", re.DOTALL)
"""What a gateway has before the name of a model: `anthropic/`, `us.anthropic.`; the dot of a version has digits."""
_SAME = re.compile(
    r"(?P<name>.*?)(?P<more>(?:[-@]\d{6,8}|-\d{4}-\d\d-\d\d|-v\d+(?::\d+)?|-latest|\[\w+\])*)", re.DOTALL
)
"""What a name may have behind it and mean the same model: its date, its edition, the size of its context."""
_VERSION = re.compile(r"(?<![^-])(\d+)-(?=\d+(?:-|$))")
OWN_WORDS = "<synthetic>"
"""The model of a message that no model wrote."""


class StreamJsonDialect(CliDialect):
    """Subclasses know how their CLI counts, and how it says that it does not know a session."""

    takes_commands = True
    unasked: ClassVar[str] = ""
    """What it calls the mode in which its agent asks nobody: the one that it was started in."""

    def __init__(self, plan: TurnPlan) -> None:
        super().__init__(plan)
        self._message: str | None = None
        """The one that is open: a tool closes it, and so does a text of another."""
        self._has_said = False
        self._known_model = ""
        self._tools: dict[str, str] = {}
        self._complaint: Mapping[str, Any] = {}
        """The error that it could not get over, with its own word for it."""

    def counted(self, result: Mapping[str, Any]) -> list[TurnEvent]:
        """Of this turn alone, from the line that closes it."""
        raise NotImplementedError

    def events(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        events = self._event(said)
        session = said.get("session_id")
        # An error may end the turn before there is a session: the id in its line is then of none.
        if events is None or not isinstance(session, str) or _is_error(said):
            return events
        return [*self.opened(session), *events]

    def _event(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        match said:
            case {"type": "system", "subtype": "init"}:
                return [
                    *self._model(said.get("model")),
                    *self._mode(said),
                    *_servers(said.get("mcp_servers")),
                ]
            case {"type": "system", "subtype": "api_retry" | "retry"}:
                return [Remark(Warn.ENGINE_RETRYING, _retry(said))]
            case {"type": "system", "subtype": str()}:
                return self._mode(said)
            case {"type": "stream_event", "event": dict()}:
                return []  # how it gets on; pieces of a message come again when it is whole
            case {"type": "rate_limit_event" | "tool_progress"}:
                return []
            case {"type": "assistant", "is_api_error_message": True}:
                self._complaint = said if _is_own(said) else self._complaint
                return []  # in the place of an answer; the result says it again
            case {"type": "assistant", "message": {"content": list(blocks)} as message}:
                name, is_own = message.get("id"), _is_own(said)
                events = _all(self._assistant(block, name, is_own=is_own) for block in blocks)
                return events and [*(self._model(message.get("model")) if is_own else ()), *events]
            case {"type": "user", "message": {"content": str()}}:
                return self._echo(is_own=_is_own(said))
            case {"type": "user", "message": {"content": list(blocks)}}:
                return _all(self._user(block, is_own=_is_own(said)) for block in blocks)
            case {"type": "result", "subtype": str()}:
                return self._result(said)
            case _:
                return None

    def _mode(self, said: Mapping[str, Any]) -> list[TurnEvent]:
        found = _word(said.get("permissionMode")) or _word(said.get("permission_mode"))
        if found in ("", self.unasked):
            return []
        words = f"it was started in the mode {self.unasked}, and says that it is in {found}"
        return [Remark(Warn.APPROVAL_MODE_DOWNGRADED, words)]

    def _model(self, name: object) -> list[TurnEvent]:
        """A fallback to another model shows in the messages alone. Words of the CLI itself have none."""
        known, new = self._known_model, name if isinstance(name, str) else ""
        if not new or new == OWN_WORDS or _is_same(known, new):
            return []
        self._known_model = new[:MAX_ID]
        return named(new)

    def _assistant(self, block: Any, message: object, *, is_own: bool) -> Sequence[TurnEvent] | None:
        """What a sub-agent says is for the agent that asked it; the tools that it uses are used here."""
        match block:
            case {"type": "text", "text": str(text)}:
                return [self._text(message, text)] if is_own and text else []
            case {"type": "thinking", "thinking": str(text)}:
                return [Reasoning(text)] if is_own and text else []
            case {"type": "redacted_thinking"}:
                return []
            case {"type": "tool_use", "id": str(call), "name": str(name)}:
                self._message = None
                if max(len(call), len(name)) <= MAX_ID:
                    self._tools[call] = name
                return [ToolCall(call, name, "in_progress", block.get("input"))]
            case _:
                return None

    def _user(self, block: Any, *, is_own: bool) -> Sequence[TurnEvent] | None:
        match block:
            case {"type": "tool_result", "tool_use_id": str(call)}:
                self._message = None
                status = "failed" if block.get("is_error") is True else "completed"
                return [ToolCall(call, self._tools.pop(call, "tool"), status, None, block.get("content"))]
            case {"type": str()}:
                return self._echo(is_own=is_own)
            case _:
                return None

    def _echo(self, *, is_own: bool) -> list[TurnEvent]:
        """What a sub-agent is told is said to nobody here."""
        if not is_own:
            return []
        self._message = None
        return [Echo()]

    def _text(self, message: object, text: str) -> TurnEvent:
        """Several texts of one message are its paragraphs, each on a line of its own."""
        self._has_said = True
        if not isinstance(message, str) or len(message) > MAX_ID:
            self._message = None
            return Text(text)
        opening = "\n\n" if message == self._message else ""
        self._message = message
        return TextDelta(opening + text, message)

    def _result(self, said: Mapping[str, Any]) -> list[TurnEvent]:
        before = [*_denied(said.get("permission_denials")), *self.counted(said)]
        if _is_error(said):
            return [*before, Ended(self._failed(said))]
        answer = said.get("result")
        if isinstance(answer, str) and answer and not self._has_said:  # else it repeats the last text
            before.insert(0, Text(answer))
        return [*before, Ended()]

    def _failed(self, said: Mapping[str, Any]) -> Failure:
        words = _words(said)
        if self._resumed is not None and self.lost is not None and self.lost.search(words):
            return Failure(Code.SESSION_LOST, words.strip())
        kinds = (said.get("api_error_type"), said.get("api_error"), self._complaint.get("error"))
        return meaning.failure(
            words,
            status=said.get("api_error_status"),
            kind=" ".join(_word(kind) for kind in kinds),
            retry_after=_pause(self._complaint),
        )


def _is_same(one: str, other: str) -> bool:
    """A smaller model may have the name of the larger one and a word behind it: that is another."""
    if not one or max(len(one), len(other)) > MAX_ID:
        return False
    (words, more), (other_words, other_more) = _parts(one), _parts(other)
    short, long = sorted((more, other_more), key=len)
    rest = long.removeprefix(short)
    # A number does not go on behind another: `-v1` is not `-v10`.
    return words == other_words and long.startswith(short) and not rest[:1].isdigit()


def _parts(name: str) -> tuple[list[str], str]:
    """Its words in any order, since to others `claude-4.5-sonnet` is `claude-sonnet-4-5`, and what stands behind."""
    bare = _PROVIDER.sub("", name, count=1)
    found = _SAME.fullmatch(bare)
    assert found is not None  # the first part takes anything
    return sorted(_VERSION.sub(r"\1.", found["name"]).split("-")), found["more"].replace("@", "-")


def _is_own(said: Mapping[str, Any]) -> bool:
    """Of the agent itself. Its sub-agents speak under the tool call that started them."""
    return said.get("parent_tool_use_id") is None


def _is_error(said: Mapping[str, Any]) -> bool:
    """`subtype` alone does not tell: an error of the provider is a `success` with `is_error`."""
    return said.get("type") == "result" and (said.get("is_error") is True or said.get("subtype") != "success")


def _words(result: Mapping[str, Any]) -> str:
    """Where the error is told, in this order; else the kind of the end is all there is to say."""
    match result:
        case {"error": {"message": str(words)}} | {"error": str(words)} if words:
            return words
        case {"errors": [*errors]} if any(isinstance(each, str) for each in errors):
            return "\n".join(each for each in errors if isinstance(each, str))
        case {"result": str(words)} if words:
            return words
        case {"subtype": str(words)} if words != "success":
            return words
        case _:
            return ""


def _pause(complaint: Mapping[str, Any]) -> float | None:
    """Until a limit is over, by the clock of whoever tells: we have none here."""
    match complaint:
        case {"timestamp": str(now), "api_error_params": {"rate_limit_info": {"resetsAt": int(then)}}}:
            try:
                return round(then - datetime.fromisoformat(now).timestamp(), 3)
            except (ValueError, OverflowError):
                return None
        case _:
            return None


def _retry(said: Mapping[str, Any]) -> str:
    attempt, most, status = (said.get(name) for name in ("attempt", "max_retries", "error_status"))
    why = f"HTTP {status}" if is_count(status) else _word(said.get("error"))
    which = f"; retry {attempt} of {most}" if is_count(attempt) and is_count(most) else ""
    return f"a call to the model failed{f' ({why})' if why else ''}{which}"


def _servers(listed: object) -> list[TurnEvent]:
    """Of tools: those that are not there when the turn begins."""
    found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    told = [(_word(each.get("name")), _word(each.get("status"))) for each in found]
    gone = [f"{name} ({status})" for name, status in told if name and status in _NOT_THERE]
    named = ", ".join(gone[:MAX_NAMES])
    return [Remark(Warn.TOOL_SERVER_FAILED, f"these tool servers are not there: {named}")] if named else []


def _denied(denials: object) -> list[TurnEvent]:
    listed = denials if isinstance(denials, list) else []
    found = (_word(each.get("tool_name")) for each in listed if isinstance(each, dict))
    names = ", ".join(sorted({name for name in found if name})[:MAX_NAMES])
    return [Remark(Warn.PERMISSION_DENIED, f"these tools were denied: {names}")] if names else []


def _word(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_ID else ""


def _all(found: Iterable[Sequence[TurnEvent] | None]) -> list[TurnEvent] | None:
    """Of the blocks of one line; None if there were some, and not one was understood."""
    told = list(found)
    known = [events for events in told if events is not None]
    return None if told and not known else [event for events in known for event in events]
