"""Engines as resident agents: recordings of the real ones, played through the dialect of each.

A recording has both sides of a conversation, an object a line: what some client said (`send`) and what the agent said
(`recv`), with a scripted model behind it. Left out of them are the times, and the contents of lists that nobody here
reads: of commands, skills, models, modes and options. Paths were made neutral, also where they were cut in pieces.
`acp-agent` is an adapter that we do not use: it plays an agent of the operator's own.

`python -m tests.engines.test_residents` writes each `expected.json` again; read the diff.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.core.examples import NOW
from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.fcmp import Event, Type
from turnkeeper.core.permission import Decision, PermissionAsked
from turnkeeper.core.run import Handle, Mode, Permissions
from turnkeeper.core.turn import OPEN, Ended, Remark, SessionOpened, Transcript, TurnEvent
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.acp import AcpDialect
from turnkeeper.engines.agent import AcpAgent
from turnkeeper.engines.base import EngineConfig, TurnPlan
from turnkeeper.engines.claude import ClaudeEngine
from turnkeeper.engines.cli import CliEngine
from turnkeeper.engines.codex import CodexEngine
from turnkeeper.engines.gemini import GeminiEngine
from turnkeeper.engines.iflow import IflowEngine
from turnkeeper.engines.lines import Line
from turnkeeper.engines.opencode import OpencodeEngine
from turnkeeper.engines.qwen import QwenEngine

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"
OWN = EngineConfig(
    command=("agent",), asks=True, modes={Permissions.ALLOW: "full-access", Permissions.ASK: "read-only"}
)
AGENTS: dict[str, CliEngine] = {
    "codex": CodexEngine(EngineConfig(env=("CODEX_API_KEY=key",))),
    "claude": ClaudeEngine(EngineConfig()),
    "gemini": GeminiEngine(EngineConfig()),
    "qwen": QwenEngine(EngineConfig()),
    "opencode": OpencodeEngine(EngineConfig()),
    "iflow": IflowEngine(EngineConfig()),
    "agent": AcpAgent("agent", OWN),
}
OPENING = ("session/new", "session/load")
PROMPT = "session/prompt"
ASKING = ("ask-", "cancel-open")
"""Cases with a person in them."""

each_agent = pytest.mark.parametrize("name", AGENTS)


def a_plan(session: str | None = None, **more: Any) -> TurnPlan:
    folder = Path("/runs/1")
    return TurnPlan(
        profile=ProfileKind.STICKY,
        mode=Mode.INTERACTIVE,
        workspace=folder / "workspace",
        home=folder / "home",
        skill_dir=folder / "home" / "skill",
        session=Handle(session, loadable=True) if session else None,
        **more,
    )


def a_dialect(name: str, session: str | None = None, **more: Any) -> AcpDialect:
    dialect = AGENTS[name].dialect(a_plan(session, **more))
    assert isinstance(dialect, AcpDialect)
    return dialect


def line(message: Any) -> Line:
    data = json.dumps(message).encode()
    return Line(data, 0, len(data), truncated=False)


def parsed(said: bytes) -> list[dict[str, Any]]:
    return [json.loads(each) for each in said.splitlines()]


@cache
def recorded(name: str, case: str) -> tuple[dict[str, Any], ...]:
    text = (TRANSCRIPTS / f"acp-{name}" / f"{case}.ndjson").read_text(encoding="utf-8")
    return tuple(map(json.loads, text.splitlines()))


def cases(name: str) -> list[str]:
    return sorted(path.stem for path in (TRANSCRIPTS / f"acp-{name}").glob("*.ndjson"))


@dataclass
class Turn:
    transcript: Transcript = field(default_factory=lambda: Transcript(1))
    events: list[TurnEvent] = field(default_factory=list)
    logged: list[Event] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def take(self, event: TurnEvent) -> None:
        self.events.append(event)
        self.logged += self.transcript.take(event, NOW)

    def of(self, kind: Type) -> list[Any]:
        return [event.data for event in self.logged if event.type is kind]

    @property
    def tools(self) -> list[Any]:
        return self.of(Type.TOOL_CALL)

    @property
    def code(self) -> Code | None:
        failure = self.transcript.ended.failure if self.transcript.ended else None
        return failure.code if failure else None

    @property
    def asked(self) -> list[PermissionAsked]:
        return [event for event in self.events if isinstance(event, PermissionAsked)]


class Played:
    """A recording, heard by our client. The ids of its calls are those of the other client: here they are ours.

    What only our client calls is answered at once, as each of these agents does.
    """

    def __init__(self, name: str, case: str, words: str = "", **more: Any) -> None:
        """Words: what a person says with the first rejection. They take the place of the next prompt."""
        entries = recorded(name, case)
        self._words = words
        sent = [entry["msg"] for entry in entries if entry["dir"] == "send"]
        self._prompts = [each["params"]["prompt"][0]["text"] for each in sent if each.get("method") == PROMPT]
        self._methods = {each["id"]: each["method"] for each in sent if "method" in each and "id" in each}
        loads = (each["params"]["sessionId"] for each in sent if each.get("method") == "session/load")
        self.session, self.permissions = next(loads, None), more["permissions"]
        self.dialect = a_dialect(name, self.session, **more)
        self.said: list[dict[str, Any]] = []
        self.turns: list[Turn] = []
        self._open: dict[str, int | str] = {}
        self._keys: dict[int | str, str] = {}
        for entry in entries:
            (self._send if entry["dir"] == "send" else self._receive)(entry["msg"])

    @property
    def calls(self) -> list[str]:
        return [each["method"] for each in self.said if "method" in each]

    @property
    def answers(self) -> list[Any]:
        """To the agent's own calls: what was chosen, or the code by which one is refused."""
        answers = [each for each in self.said if "method" not in each]
        return [
            each["error"]["code"] if "error" in each else each["result"]["outcome"].get("optionId")
            for each in answers
        ]

    def _send(self, message: dict[str, Any]) -> None:
        match message:
            case {"method": "initialize"}:
                self._begin()
            case {"method": "session/prompt"} if PROMPT not in self._open:
                self._begin()
            case {"method": "session/cancel"}:
                self._say(self.dialect.cancel())
            case {"id": call, "result": {"outcome": outcome}} if call in self._keys:
                choice = outcome.get("optionId")
                kinds = {each.id: each.kind for each in self.turns[-1].asked[-1].choices}
                words, self._words = self._words, ""
                decision = Decision(choice, words, is_allowed=kinds.get(choice, "").startswith("allow"))
                self._say(self.dialect.answer(self._keys.pop(call), decision))

    def _receive(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self._hear(message)
            return
        call = self._open.pop(self._methods[message["id"]], None)
        if call is not None:
            self._hear(message | {"id": call})

    def _begin(self) -> None:
        self.turns.append(Turn())
        self._say(self.dialect.begin(self._prompts[len(self.turns) - 1] if self._prompts else ""))

    def _hear(self, message: dict[str, Any]) -> None:
        self.turns[-1].lines.append(line(message))
        heard = self.dialect.hear(self.turns[-1].lines[-1])
        assert heard is not None, message
        for event in heard.events:
            self.turns[-1].take(event)
            if isinstance(event, PermissionAsked):
                self._keys[message["id"]] = event.key
        self._say(heard.answer)

    def _say(self, said: bytes) -> None:
        for message in parsed(said):
            self.said.append(message)
            if "method" not in message or "id" not in message:
                continue
            self._open[message["method"]] = message["id"]
            if message["method"] not in self._methods.values():
                del self._open[message["method"]]
                self._hear({"jsonrpc": "2.0", "id": message["id"], "result": {}})


def played(name: str, case: str, **more: Any) -> Played:
    permissions = Permissions.ASK if case.startswith(ASKING) else Permissions.ALLOW
    more = {"permissions": permissions} | more
    return Played(name, case, **more)


def snapshot(found: Played) -> dict[str, Any]:
    return {"calls": found.calls, "answers": found.answers, "turns": list(map(_turn, found.turns))}


def _turn(turn: Turn) -> dict[str, Any]:
    said = turn.transcript
    opened = [event.handle for event in turn.events if isinstance(event, SessionOpened)]
    failure = said.ended.failure if said.ended else None
    told = {
        "opened": ["loadable" if handle.loadable else "not loadable" for handle in opened],
        "model": said.model,
        "messages": said.messages,
        "reasoning": "".join(event["text"] for event in turn.of(Type.REASONING)),
        "tools": [f"{tool['status']}: {tool['name']}" for tool in turn.tools],
        "asked": [f"{each.title} [{', '.join(choice.id for choice in each.choices)}]" for each in turn.asked],
        "usage": said.usage,
        "warnings": [[warning.code, warning.message] for warning in said.warnings],
        "closed": said.terminal.value,
        "failure": [failure.code.value, failure.message, failure.retry_after] if failure else None,
    }
    return {name: value for name, value in told.items() if value}


def expected(name: str) -> dict[str, Any]:
    return dict(json.loads((TRANSCRIPTS / f"acp-{name}" / "expected.json").read_text(encoding="utf-8")))


ALL = [(name, case) for name in AGENTS for case in cases(name)]


@pytest.mark.parametrize(("name", "case"), ALL)
def test_recorded_agents_are_understood(name: str, case: str) -> None:
    assert json.loads(json.dumps(snapshot(played(name, case)))) == expected(name)[case]


@each_agent
def test_every_recording_is_expected(name: str) -> None:
    assert list(expected(name)) == cases(name)


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, case in ALL if not case.startswith(ASKING)]
)
def test_a_turn_means_the_same_when_it_is_read_alone(name: str, case: str) -> None:
    """As the audit does: it has the lines of one turn, and what it would say goes nowhere."""
    found = played(name, case)
    for turn in found.turns:
        dialect = a_dialect(name, found.session, permissions=found.permissions)
        dialect.begin("")
        heard = [each for said in turn.lines if (each := dialect.hear(said))]
        assert [event for each in heard for event in each.events] == turn.events


# Before the first prompt

CALLS = {
    "codex": ["initialize", "authenticate", "session/new", "session/set_mode", "session/set_title"],
    "claude": ["initialize", "session/new", "session/set_mode"],
    "gemini": ["initialize", "session/new"],
    "qwen": ["initialize", "session/new"],
    "opencode": ["initialize", "session/new"],
    "agent": ["initialize", "session/new", "session/set_mode"],
}
MODES = {
    "codex": ("agent-full-access", "read-only", "read-only"),
    "claude": ("bypassPermissions", "default", "default"),
    "agent": ("full-access", "read-only", None),
}
"""For the permissions that a job may have: all, those that a person gives, none."""


@pytest.mark.parametrize("name", CALLS)
def test_what_is_said_before_the_first_prompt(name: str) -> None:
    calls = played(name, "two-turns").calls
    assert calls == [*CALLS[name], "session/prompt", "session/prompt"]


@pytest.mark.parametrize("name", [name for name in CALLS if "load" in cases(name)])
def test_a_loaded_session_is_set_up_like_a_new_one(name: str) -> None:
    """One that had all permissions may come back with them."""
    calls = [call.replace("session/new", "session/load") for call in CALLS[name]]
    assert played(name, "load").calls == [*calls, "session/prompt"]


def test_codex_is_told_to_use_a_key_only_if_there_is_one(tmp_path: Path) -> None:
    nobody = EngineConfig(env=("CODEX_API_KEY=", "OPENAI_API_KEY="), login_home=tmp_path)
    other = EngineConfig(env=("CODEX_API_KEY=", "OPENAI_API_KEY=key"), login_home=tmp_path)
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "auth.json").write_text("{}")
    for config, login in ((nobody, None), (other, "api-key")):
        assert CodexEngine(config).manners(a_plan()).login == login
    (told,) = [said for said in played("codex", "two-turns").said if said.get("method") == "authenticate"]
    assert told["params"] == {"methodId": "api-key"}


def test_codex_has_a_title_before_a_model_is_asked_for_one() -> None:
    (title,) = [
        said for said in played("codex", "two-turns").said if said.get("method") == "session/set_title"
    ]
    assert title["params"]["title"] == "turnkeeper"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("permissions", Permissions)
def test_mode(name: str, permissions: Permissions) -> None:
    said = played(name, "two-turns", permissions=permissions).said
    found = [each["params"]["modeId"] for each in said if each.get("method") == "session/set_mode"]
    modes = dict(zip(Permissions, MODES.get(name, (None, None, None)), strict=True))
    assert found == [mode for mode in [modes[permissions]] if mode]


CLAUDE = {
    "settingSources": ["user"],
    "strictMcpConfig": True,
    "disallowedTools": [
        *("AskUserQuestion", "EnterPlanMode", "ExitPlanMode"),
        *("CronCreate", "Monitor", "ScheduleWakeup", "Workflow"),
    ],
    "promptSuggestions": False,
    "title": "turnkeeper",
    "verbatimPrompts": True,
}


@pytest.mark.parametrize("case", ["two-turns", "load"])
@pytest.mark.parametrize("model", [None, "opus"])
def test_claude_is_told_its_options_with_each_session(case: str, model: str | None) -> None:
    """No settings of the workspace among them: these could send the key elsewhere."""
    (opening,) = [said for said in played("claude", case, model=model).said if said.get("method") in OPENING]
    options = CLAUDE | ({"model": model} if model else {})
    assert opening["params"]["_meta"] == {"claudeCode": {"options": options}}


@pytest.mark.parametrize("name", [name for name in CALLS if name != "claude"])
def test_others_are_told_nothing_of_their_own(name: str) -> None:
    (opening,) = [said for said in played(name, "two-turns").said if said.get("method") in OPENING]
    assert opening["params"] == {"cwd": "/runs/1/workspace", "mcpServers": []}


def test_only_an_agent_of_the_operator_is_told_its_model() -> None:
    """Ours know it from their command line, their settings or their environment."""
    for name in CALLS:
        calls = played(name, "two-turns", model="m-1").calls
        assert ("session/set_model" in calls) is (name == "agent")


# What is told

COUNTED = {"codex": 1251, "claude": 1251, "gemini": 1251, "qwen": 1251, "opencode": 1251}
"""Tokens of one answer of the scripted model: 1234 were read, 100 of them from the cache, 17 written, 3 of them
thoughts."""
NAMED = {"codex": "gpt-5.5", "claude": "claude-opus-5-5", "gemini": "gemini-2.5-flash"}


@pytest.mark.parametrize("name", CALLS)
def test_tokens_are_counted_once(name: str) -> None:
    """Of each turn by itself. opencode tells the last answer of a turn only, and the claude of the recordings had no
    title yet: it asked for one, beside each of its first prompts, and counts that."""
    if name == "claude":
        (only,) = played(name, "load").turns
        assert sum(only.transcript.usage.values()) == COUNTED[name]
        return
    first, second = played(name, "two-turns").turns
    assert first.transcript.usage == second.transcript.usage
    assert sum(first.transcript.usage.values()) == COUNTED.get(name, 0)
    totals = [sum(turn.transcript.usage.values()) for turn in played(name, "tool").turns if turn.tools]
    answers = 1 if name == "opencode" else 2
    assert set(totals) == {COUNTED.get(name, 0) * answers}


@pytest.mark.parametrize("name", CALLS)
def test_model(name: str) -> None:
    assert {turn.transcript.model for turn in played(name, "two-turns").turns} == {NAMED.get(name)}


@pytest.mark.parametrize("name", AGENTS)
def test_session_that_can_be_loaded(name: str) -> None:
    case = "session" if name == "iflow" else "two-turns"
    opened = [event for event in played(name, case).turns[0].events if isinstance(event, SessionOpened)]
    assert [each.handle.loadable for each in opened] == [name not in ("gemini", "iflow")]


@pytest.mark.parametrize("name", [name for name in CALLS if "load" in cases(name)])
def test_what_a_loaded_session_repeats_is_not_heard(name: str) -> None:
    (turn,) = played(name, "load").turns
    assert turn.transcript.messages == ["after load" if name in ("qwen", "opencode") else "again"]
    assert turn.tools == []
    assert turn.of(Type.REASONING) == []
    assert sum(turn.transcript.usage.values()) == COUNTED.get(name, 0)


@pytest.mark.parametrize("name", ["qwen", "opencode"])
def test_session_that_is_gone(name: str) -> None:
    (turn,) = played(name, "load-unknown").turns
    assert turn.code is Code.SESSION_LOST


TOOLS: dict[str, tuple[int, str, Any, Any]] = {
    "codex": (0, "failed", "echo hi; ls -la; sleep 0.6; echo err >&2; exit 3", "err\n"),
    "claude": (0, "failed", "echo hi; ls -la; echo err >&2; exit 3", "Exit code 3\nhi\n"),
    "gemini": (2, "completed", None, None),
    "qwen": (2, "completed", "echo out-of-tool > f1 && cat f1 && echo err >&2", "out-of-tool\nerr"),
    "opencode": (2, "completed", "echo out-of-tool > f1 && cat f1 && echo err >&2", "out-of-tool\nerr\n"),
}
"""The turn with a command, how that ended, what it was and what came out. gemini tells neither, but in its title."""


@pytest.mark.parametrize("name", TOOLS)
def test_tool(name: str) -> None:
    number, status, command, output = TOOLS[name]
    begun, over = played(name, "tool").turns[number].tools
    assert begun["status"] in OPEN
    assert over["call_id"] == begun["call_id"]
    assert over["status"] == status
    assert over.get("input", {}).get("command") == command
    found = over.get("output")
    found = found["output"] if isinstance(found, dict) else found
    assert (found or "").startswith(output or "")


def test_words_around_a_tool_are_two_messages() -> None:
    for name in TOOLS:
        turns = played(name, "tool").turns
        assert any(len(turn.transcript.messages) == 2 for turn in turns), name


# Permissions

REJECTS = {"codex": "cancel", "claude": "reject", "gemini": "cancel", "qwen": "cancel", "opencode": "reject"}
REJECTS["agent"] = "abort"
ALLOWS = {"codex": "allow_once", "claude": "allow-once", "gemini": "proceed_once", "qwen": "proceed_once"}
ALLOWS |= {"opencode": "once", "agent": "approved"}


@pytest.mark.parametrize("name", CALLS)
def test_asked(name: str) -> None:
    """With the command that it is about, where a person looks for it."""
    asked = played(name, "ask-allow").turns[0].asked[0]
    assert asked.title.startswith("touch ")
    kinds = {choice.id: choice.kind for choice in asked.choices}
    assert (kinds[ALLOWS[name]], kinds[REJECTS[name]]) == ("allow_once", "reject_once")
    command = "touch x" if name in ("codex", "claude", "agent") else "touch shellx && echo touched"
    shown = asked.tool["input"] or {}
    assert asked.title == command
    assert name == "gemini" or command in json.dumps(shown)


@pytest.mark.parametrize("name", CALLS)
def test_allowed_without_a_question(name: str) -> None:
    """For this once: what is allowed for ever some write into the workspace."""
    found = played(name, "ask-allow", permissions=Permissions.ALLOW)
    chosen = [answer for answer in found.answers if isinstance(answer, str)]
    assert chosen == [ALLOWS[name]] * 2
    assert not any(turn.asked for turn in found.turns)
    assert all(turn.transcript.ended == Ended() for turn in found.turns)


@pytest.mark.parametrize("name", CALLS)
def test_denied_without_a_question(name: str) -> None:
    """It is no failure, though some give up."""
    found = played(name, "ask-reject", permissions=Permissions.DENY)
    chosen = [answer for answer in found.answers if isinstance(answer, str)]
    assert chosen == [REJECTS[name]] * 2
    first = found.turns[0]
    assert not first.asked
    assert [warning.code for warning in first.transcript.warnings] == [Warn.PERMISSION_DENIED]
    assert first.transcript.ended == Ended()


@pytest.mark.parametrize("name", CALLS)
def test_words_instead_of_a_permission(name: str) -> None:
    """Whether the agent gives up or answers first: its next prompt is of the same turn, and adds to what was used."""
    plain, found = played(name, "ask-reject"), played(name, "ask-reject", words="/write it instead")
    assert len(found.turns) == len(plain.turns) - 1
    said = [each["params"]["prompt"][0]["text"] for each in found.said if each.get("method") == PROMPT]
    assert said[1] == "The reply is:\n/write it instead"
    first, second = (turn.transcript.usage for turn in plain.turns[:2])
    assert found.turns[0].transcript.usage == {
        counter: first[counter] + second.get(counter, 0) for counter in first
    }
    assert found.turns[0].transcript.ended == Ended()


@pytest.mark.parametrize("name", ["codex", "agent"])
def test_two_questions_at_once(name: str) -> None:
    """Each is answered by the id of its own request, in any order."""
    entries = recorded(name, "ask-two")
    requests = [entry["msg"] for entry in entries if entry["msg"].get("method", "").endswith("permission")]
    dialect = a_dialect(name, permissions=Permissions.ASK)
    dialect.begin("go")
    heard = [dialect.hear(line(request)) for request in requests]
    keys = [
        event.key for each in heard if each for event in each.events if isinstance(event, PermissionAsked)
    ]
    assert len(keys) == 2
    for key, request in reversed(list(zip(keys, requests, strict=True))):
        (answer,) = parsed(dialect.answer(key, Decision(ALLOWS[name], is_allowed=True)))
        assert answer["id"] == request["id"]
        assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": ALLOWS[name]}


@pytest.mark.parametrize("name", ["gemini", "qwen", "opencode"])
def test_cancel_with_an_open_question(name: str) -> None:
    """Its request is called off too: one of them waits for that."""
    found = played(name, "cancel-open-permission")
    (stop,) = [number for number, said in enumerate(found.said) if said.get("method") == "session/cancel"]
    assert found.said[stop + 1]["result"] == {"outcome": {"outcome": "cancelled"}}
    assert found.turns[1].transcript.messages == ["next ok"]


# Failures

CODES = {
    "error-400": Code.ENGINE_FAILED,
    "error-401": Code.ENGINE_AUTH_REQUIRED,
    "error-500": Code.ENGINE_FAILED,
    "error-context": Code.ENGINE_CONTEXT_EXHAUSTED,
    "error-drop": Code.ENGINE_FAILED,
    "error-model": Code.ENGINE_MODEL_UNKNOWN,
    "error-quota": Code.ENGINE_QUOTA_EXHAUSTED,
    "error-rate": Code.ENGINE_RATE_LIMITED,
    "no-key": Code.ENGINE_AUTH_REQUIRED,
}
SAME = ("qwen", "agent")
"""They say of a used-up quota what they say of a pause."""


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, case in ALL if case in CODES])
def test_failure(name: str, case: str) -> None:
    failed, *later = played(name, case).turns
    is_same = name in SAME and case == "error-quota"
    assert failed.code is (Code.ENGINE_RATE_LIMITED if is_same else CODES[case])
    assert all(turn.transcript.ended == Ended() for turn in later), "the process goes on"


TROUBLE = {
    "The model `gpt-5.5` does not exist or you do not have access to it.": Code.ENGINE_MODEL_UNKNOWN,
    '{"error": {"message": "This model\'s maximum context length is 128000 tokens.", "code": '
    '"context_length_exceeded"}}': Code.ENGINE_CONTEXT_EXHAUSTED,
    "Quota exceeded. Check your plan and billing details.": Code.ENGINE_QUOTA_EXHAUSTED,
    "exceeded retry limit, last status: 429 Too Many Requests": Code.ENGINE_RATE_LIMITED,
    "Missing environment variable: `CODEX_API_KEY`.": Code.ENGINE_AUTH_REQUIRED,
    "We’re currently experiencing high demand, which may cause temporary errors.": Code.ENGINE_FAILED,
    "unexpected status 529 <unknown status code>: scripted failure 529": Code.ENGINE_FAILED,
    "stream disconnected before completion: Transport error: network error": Code.ENGINE_FAILED,
    "": Code.ENGINE_FAILED,
}
GOOD: dict[str, Any] = {
    "stopReason": "end_turn",
    "usage": None,
    "_meta": {"quota": {"token_count": None, "model_usage": []}},
}


class Codex:
    """In its first turn."""

    def __init__(self) -> None:
        self.turn = Turn()
        self._dialect = a_dialect("codex")
        self._dialect.begin("go")
        results = {1: {"protocolVersion": 1}, "login": {}, 2: {"sessionId": "s"}, "mode": {}, "title": {}}
        for call, result in results.items():
            self.hear(id=call, result=result)

    def hear(self, **message: Any) -> None:
        heard = self._dialect.hear(line({"jsonrpc": "2.0", **message}))
        assert heard is not None
        for event in heard.events:
            self.turn.take(event)

    def update(self, **update: Any) -> None:
        self.hear(method="session/update", params={"sessionId": "s", "update": update})

    def status(self, kind: str) -> None:
        meta = {"codex": {"threadStatus": {"type": kind}}}
        self.update(sessionUpdate="session_info_update", _meta=meta)

    def say(self, text: str, **more: str) -> None:
        self.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}, **more)


@pytest.mark.parametrize(("words", "code"), list(TROUBLE.items()))
@pytest.mark.parametrize("is_told_first", [True, False])
def test_codex_ends_well_and_has_failed(words: str, code: Code, is_told_first: bool) -> None:
    codex = Codex()
    codex.say("partial answer", messageId="item_1")
    if is_told_first:
        codex.say(f"{words}\n\n")
    codex.status("systemError")
    if not is_told_first:
        codex.say(f"{words}\n\n")
    codex.hear(id=3, result=GOOD)
    assert codex.turn.code is code
    assert codex.turn.transcript.messages == ["partial answer"], "an error is no answer"


def test_codex_warns_aside() -> None:
    codex = Codex()
    codex.say("Config warning: Codex could not find bubblewrap on PATH.\n\n")
    codex.say("Warning: Model metadata for `m` not found.\n\n")
    codex.say("hello", messageId="item_1")
    codex.status("idle")
    codex.hear(id=3, result=GOOD)
    assert codex.turn.transcript.ended == Ended()
    assert codex.turn.transcript.messages == ["hello"]
    assert [event.code for event in codex.turn.events if isinstance(event, Remark)] == [
        Warn.ENGINE_REMARK
    ] * 2


def test_codex_that_overcame_its_trouble_has_not_failed() -> None:
    codex = Codex()
    codex.status("systemError")
    codex.say("stream disconnected\n\n")
    codex.status("active")
    codex.say("401 Unauthorized", messageId="item_2")
    codex.hear(id=3, result=GOOD)
    assert codex.turn.transcript.ended == Ended()
    assert codex.turn.transcript.messages == ["401 Unauthorized"]


def test_codex_forgets_its_trouble_in_the_next_turn() -> None:
    failed, recovered = played("codex", "error-400").turns
    assert failed.code is Code.ENGINE_FAILED
    assert recovered.transcript.ended == Ended()


ERRORS: list[tuple[str, dict[str, Any], Code]] = [
    ("codex", {"code": -32000, "message": "Authentication required"}, Code.ENGINE_AUTH_REQUIRED),
    ("claude", {"code": -32000, "message": "Authentication required"}, Code.ENGINE_AUTH_REQUIRED),
    (
        "claude",
        {
            "code": -32603,
            "message": "Internal error: There's an issue with the selected model (m). It may not exist.",
            "data": {"errorKind": "model_not_found"},
        },
        Code.ENGINE_MODEL_UNKNOWN,
    ),
    (
        "claude",
        {
            "code": -32603,
            "message": "Internal error: Prompt is too long · the request is ~213462 tokens (limit 200000)",
            "data": {"errorKind": "invalid_request"},
        },
        Code.ENGINE_CONTEXT_EXHAUSTED,
    ),
    (
        "claude",
        {
            "code": -32603,
            "message": "Internal error: API Error: 529 Overloaded. This is a server-side issue.",
            "data": {"errorKind": "server_error"},
        },
        Code.ENGINE_FAILED,
    ),
]
"""Measured, and not recorded."""


@pytest.mark.parametrize(("name", "error", "code"), ERRORS)
def test_error(name: str, error: dict[str, Any], code: Code) -> None:
    dialect = a_dialect(name)
    dialect.begin("go")
    heard = dialect.hear(line({"jsonrpc": "2.0", "id": 3, "error": error}))
    assert heard is not None
    (ended,) = heard.events
    assert isinstance(ended, Ended)
    assert ended.failure is not None
    assert ended.failure.code is code
    assert "Internal error" not in ended.failure.message


def test_qwen_asks_something_of_its_client_and_goes_on() -> None:
    """After its tools; it is refused, and does not mind."""
    found = played("qwen", "ask-allow")
    assert -32601 in found.answers
    assert all(turn.transcript.ended == Ended() for turn in found.turns)


def _write() -> None:
    for name in AGENTS:
        text = json.dumps(
            {case: snapshot(played(name, case)) for case in cases(name)}, indent=2, ensure_ascii=False
        )
        (TRANSCRIPTS / f"acp-{name}" / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
