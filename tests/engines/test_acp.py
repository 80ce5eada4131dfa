"""Our side of the Agent Client Protocol: against the official library, and line by line.

What the real agents make of the protocol is in `test_residents.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.examples import NOW
from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.permission import Choice, Decision, PermissionAsked, PermissionWithdrawn
from turnkeeper.core.run import Failure, Handle, Mode, Permissions
from turnkeeper.core.turn import (
    Echo,
    Ended,
    Model,
    Reasoning,
    Remark,
    SessionOpened,
    TextDelta,
    ToolCall,
    Transcript,
    TurnEvent,
    Usage,
)
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.acp import MAX_TOOLS, PLAIN, AcpDialect, Manners
from turnkeeper.engines.acptold import MAX_PRINTED, MAX_TITLE, tokens
from turnkeeper.engines.base import Heard, TurnPlan
from turnkeeper.engines.codex import ResidentCodexDialect
from turnkeeper.engines.lines import Line
from turnkeeper.engines.process import Exit
from turnkeeper.engines.qwen import ResidentQwenDialect

AGENT = Path(__file__).parents[1] / "fakes" / "acp_agent.py"
WORKSPACE = Path("/runs/1/workspace")
SESSION = "session-1"
INITIALIZED = {"protocolVersion": 1}
LOADS = INITIALIZED | {"agentCapabilities": {"loadSession": True}}


def a_plan(workspace: Path = WORKSPACE, session: str | None = None, **more: Any) -> TurnPlan:
    return TurnPlan(
        profile=ProfileKind.STICKY,
        mode=Mode.INTERACTIVE,
        workspace=workspace,
        home=workspace,
        skill_dir=workspace,
        session=Handle(session, loadable=True) if session else None,
        **more,
    )


def line(message: Any) -> Line:
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Line(data, 0, len(data), truncated=False)


def words(events: list[TurnEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


# Against the official library


class Agent:
    """A live agent process and our dialect, talking until the turn is over."""

    def __init__(self, workspace: Path, session: str | None = None, **more: Any) -> None:
        self.dialect = AcpDialect(a_plan(workspace, session, **more))
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, str(AGENT)], cwd=workspace, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )

    def turn(self, prompt: str, answer: str = "") -> list[TurnEvent]:
        """Permissions that are asked for are decided by this answer."""
        assert self.process.stdout is not None
        events: list[TurnEvent] = []
        self._write(self.dialect.begin(prompt))
        while not any(isinstance(event, Ended) for event in events):
            heard = self.dialect.hear(line(self.process.stdout.readline().rstrip(b"\n")))
            assert heard is not None
            events += heard.events
            self._write(heard.answer)
            for event in heard.events:
                if isinstance(event, PermissionAsked):
                    decision = Decision(answer, is_allowed=answer == "yes")
                    self._write(self.dialect.answer(event.key, decision))
        return events

    def _write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.communicate(timeout=30)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path)
    yield agent
    agent.close()


def test_two_turns_with_an_agent_of_the_official_library(agent: Agent) -> None:
    first = agent.turn("hello")
    assert SessionOpened(Handle("session-1", loadable=True)) in first
    assert words(first) == "You said: hello"
    assert Usage({"input_tokens": 3, "output_tokens": 4}) in first
    assert first[-1] == Ended()
    second = agent.turn("again")
    assert words(second) == "You said: again"


def test_permission_is_given_and_a_tool_is_told_when_it_begins_and_when_it_is_over(agent: Agent) -> None:
    begun, over = [event for event in agent.turn("go") if isinstance(event, ToolCall)]
    assert (begun.name, begun.status, begun.output) == ("write a file", "pending", None)
    assert (over.name, over.status) == ("write a file", "completed")
    assert over.output["outcome"]["option_id"] == "yes"


@pytest.mark.parametrize(
    ("permissions", "answer", "chosen"),
    [(Permissions.ASK, "yes", "yes"), (Permissions.ASK, "no", "no"), (Permissions.DENY, "", "no")],
)
def test_permission_is_decided(tmp_path: Path, permissions: Permissions, answer: str, chosen: str) -> None:
    agent = Agent(tmp_path, permissions=permissions)
    try:
        events = agent.turn("go", answer)
        asked = [event for event in events if isinstance(event, PermissionAsked)]
        assert [each.title for each in asked] == (["write a file"] if answer else [])
        over = [event for event in events if isinstance(event, ToolCall)][-1]
        assert over.output["outcome"]["option_id"] == chosen
    finally:
        agent.close()


def test_a_loaded_session_does_not_repeat_old_words(agent: Agent, tmp_path: Path) -> None:
    agent.turn("hello")
    later = Agent(tmp_path, session="session-1")
    try:
        assert words(later.turn("more")) == "You said: more"
    finally:
        later.close()


def test_a_session_that_cannot_be_loaded_is_lost(tmp_path: Path) -> None:
    agent = Agent(tmp_path, session="never-was")
    try:
        (ended,) = [event for event in agent.turn("more") if isinstance(event, Ended)]
        assert ended.failure is not None
        assert ended.failure.code is Code.SESSION_LOST
    finally:
        agent.close()


# Line by line


class Client:
    """A dialect in a conversation whose other side the test makes up."""

    def __init__(
        self,
        manners: Manners = PLAIN,
        *,
        kind: type[AcpDialect] = AcpDialect,
        session: str | None = None,
        **more: Any,
    ) -> None:
        self.dialect = kind(a_plan(session=session, **more), manners)
        self.said: list[dict[str, Any]] = []

    def begin(self, prompt: str = "go") -> Client:
        self._say(self.dialect.begin(prompt))
        return self

    def opened(self, prompt: str = "go") -> Client:
        """Up to the first prompt."""
        self.begin(prompt)
        while self.last["method"] != "session/prompt":
            results = {"initialize": LOADS, "session/new": {"sessionId": SESSION}}
            self.result(results.get(self.last["method"], {}))
        return self

    def hear(self, message: Mapping[str, Any]) -> list[TurnEvent]:
        heard = self.dialect.hear(line({"jsonrpc": "2.0", **message}))
        assert heard is not None, message
        self._say(heard.answer)
        return list(heard.events)

    def result(self, result: Any) -> list[TurnEvent]:
        """Of what our client called last."""
        return self.hear({"id": self.calls[-1]["id"], "result": result})

    def error(self, **error: Any) -> Failure:
        (ended,) = self.hear({"id": self.calls[-1]["id"], "error": error})
        assert isinstance(ended, Ended)
        assert ended.failure is not None
        return ended.failure

    def update(self, told: str, **update: Any) -> list[TurnEvent]:
        params = {"sessionId": SESSION, "update": {"sessionUpdate": told, **update}}
        return self.hear({"method": "session/update", "params": params})

    def asked(self, call: int | str, options: Any = None, **tool: Any) -> list[TurnEvent]:
        options = OPTIONS if options is None else options
        params = {"sessionId": SESSION, "toolCall": tool, "options": options}
        return self.hear({"id": call, "method": "session/request_permission", "params": params})

    def answer(self, key: str, decision: Decision) -> dict[str, Any] | None:
        said = self.dialect.answer(key, decision)
        return dict(json.loads(said)) if said else None

    @property
    def last(self) -> dict[str, Any]:
        return self.said[-1]

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [said for said in self.said if "method" in said]

    @property
    def methods(self) -> list[str]:
        return [said["method"] for said in self.calls]

    def _say(self, said: bytes) -> None:
        assert not said or said.endswith(b"\n")
        self.said += map(json.loads, said.splitlines())


OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "once", "name": "Once", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
ALLOW, REJECT = Decision("once", is_allowed=True), Decision("no")


def outcome(call: int | str, choice: str | None) -> dict[str, Any]:
    chosen = {"outcome": "selected", "optionId": choice} if choice else {"outcome": "cancelled"}
    return {"jsonrpc": "2.0", "id": call, "result": {"outcome": chosen}}


class TestOpening:
    def test_in_the_least(self) -> None:
        client = Client().begin("hello")
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        assert client.last["params"]["clientCapabilities"] == capabilities
        assert client.result(INITIALIZED) == []
        assert client.last["method"] == "session/new"
        assert client.last["params"] == {"cwd": str(WORKSPACE), "mcpServers": []}
        assert client.result({"sessionId": SESSION}) == [SessionOpened(Handle(SESSION, loadable=False))]
        assert client.last == {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "session/prompt",
            "params": {"sessionId": SESSION, "prompt": [{"type": "text", "text": "hello"}]},
        }
        assert client.result({"stopReason": "end_turn"}) == [Ended()]
        assert client.begin("more").last["id"] == 4
        assert client.methods == ["initialize", "session/new", "session/prompt", "session/prompt"]

    def test_with_all_there_is(self) -> None:
        """One after another: the prompt comes when the session is as it should be."""
        meta = {"maker": {"quiet": True}}
        manners = Manners(
            login="api-key",
            modes={Permissions.ASK: "careful"},
            sets_model=True,
            title="turnkeeper",
            meta=meta,
        )
        client = Client(manners, model="m-1", permissions=Permissions.ASK).opened()
        assert [(each["method"].rpartition("/")[2], each["id"]) for each in client.calls] == [
            *(("initialize", 1), ("authenticate", "login"), ("new", 2), ("set_mode", "mode")),
            *(("set_model", "model"), ("set_title", "title"), ("prompt", 3)),
        ]
        _, login, new, *settings, _ = (each["params"] for each in client.calls)
        assert login == {"methodId": "api-key"}
        assert new["_meta"] == meta
        assert settings == [
            {"sessionId": SESSION, "modeId": "careful"},
            {"sessionId": SESSION, "modelId": "m-1"},
            {"sessionId": SESSION, "title": "turnkeeper"},
        ]

    def test_without_what_is_not_needed(self) -> None:
        """No mode for these permissions, no model in the job, or one that is told otherwise."""
        modes = {Permissions.DENY: "careful"}
        assert Client(Manners(modes=modes, sets_model=True)).opened().methods[2:] == ["session/prompt"]
        assert Client(model="m-1").opened().methods[2:] == ["session/prompt"]

    def test_of_a_session_that_is_loaded(self) -> None:
        """What it repeats is not heard; its settings are made again."""
        manners = Manners(modes={Permissions.ALLOW: "free"}, meta={"maker": 1})
        client = Client(manners, session="old-1").begin()
        client.result(LOADS)
        assert client.last["method"] == "session/load"
        assert client.last["params"] == {
            "cwd": str(WORKSPACE),
            "mcpServers": [],
            "_meta": {"maker": 1},
            "sessionId": "old-1",
        }
        assert client.update("user_message_chunk", content={"type": "text", "text": "hi"}) == []
        assert client.update("agent_message_chunk", content={"type": "text", "text": "hello"}) == []
        assert client.update("tool_call", toolCallId="1", status="completed") == []
        assert client.result({}) == [SessionOpened(Handle("old-1", loadable=True))]
        assert client.last["method"] == "session/set_mode"
        client.result({})
        again = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "again"}}
        heard = [
            client.hear({"method": "session/update", "params": {"sessionId": session, "update": again}})
            for session in ("another", "old-1")
        ]
        assert heard == [[], [TextDelta("again")]], "what another session says is none of ours"

    def test_session_that_is_saved_with_the_first_word(self) -> None:
        """Before that it could not be loaded: a run that is cut off then had no session."""
        for said in ({"content": {"type": "text", "text": "hi"}}, None):
            client = Client(Manners(saves_late=True)).begin()
            client.result(LOADS)
            assert client.result({"sessionId": SESSION}) == []
            if said:
                opened, _ = client.update("agent_message_chunk", **said)
            else:
                opened, _ = client.result({"stopReason": "end_turn"})
            assert isinstance(opened, SessionOpened)

    def test_answers_that_come_again(self) -> None:
        client = Client().opened()
        for call in (1, 2, "login", 0, -1):
            again = {"jsonrpc": "2.0", "id": call, "result": {"sessionId": "other", "protocolVersion": 1}}
            assert client.hear(again) == []
        assert client.methods == ["initialize", "session/new", "session/prompt"]

    @pytest.mark.parametrize(
        ("initialized", "loads", "loadable"),
        [
            (LOADS, True, True),
            (LOADS, False, False),
            (INITIALIZED | {"agentCapabilities": {"loadSession": False}}, True, False),
            (INITIALIZED | {"agentCapabilities": {"loadSession": "yes"}}, True, False),
            (INITIALIZED | {"agentCapabilities": None}, True, False),
            (INITIALIZED, True, False),
        ],
    )
    def test_whether_it_could_be_loaded(self, initialized: Any, loads: bool, loadable: bool) -> None:
        client = Client(Manners(loads=loads)).begin()
        client.result(initialized)
        assert client.result({"sessionId": SESSION}) == [SessionOpened(Handle(SESSION, loadable))]

    @pytest.mark.parametrize("result", [{"protocolVersion": 2}, {}, None])
    def test_agent_of_another_version(self, result: Any) -> None:
        client = Client().begin()
        version = result["protocolVersion"] if result else None
        words = f"the agent speaks version {version} of its protocol, not 1"
        assert client.result(result) == [Ended(Failure(Code.ENGINE_FAILED, words))]
        assert client.last["method"] == "initialize"

    @pytest.mark.parametrize(
        "result",
        [{}, None, [], {"sessionId": None}, {"sessionId": 7}, {"sessionId": ""}, {"sessionId": "x" * 2000}],
    )
    def test_agent_that_names_no_session(self, result: Any) -> None:
        client = Client().begin()
        client.result(INITIALIZED)
        failure = Failure(Code.ENGINE_FAILED, "the agent opened a session without an id")
        assert client.result(result) == [Ended(failure)]
        assert client.last["method"] == "session/new"
        assert client.dialect.cancel() == b""

    @pytest.mark.parametrize(
        "prompt", ["/x", "\ufeff/x", " /x", "\n\t/compact", "$x", "  $skill", "/", "$", "/x\nand more"]
    )
    def test_a_reply_is_no_command(self, prompt: str) -> None:
        client = Client().opened(prompt)
        assert client.last["params"]["prompt"] == [{"type": "text", "text": f"The reply is:\n{prompt}"}]

    @pytest.mark.parametrize("prompt", ["a/b", "5 $", "", "\n", "@file", "!ls", "hello\n/quit"])
    def test_other_words_are_left_as_they_are(self, prompt: str) -> None:
        assert Client().opened(prompt).last["params"]["prompt"] == [{"type": "text", "text": prompt}]


class TestRefusal:
    """Before the first prompt."""

    def refused(self, method: str, client: Client, **error: Any) -> Failure:
        client.begin()
        while client.last["method"] != method:
            client.result({**INITIALIZED, "sessionId": SESSION})
        failure = client.error(**error)
        assert client.last["method"] == method, "nothing is said after it"
        return failure

    def test_login(self) -> None:
        for method in ("initialize", "authenticate", "session/new"):
            failure = self.refused(method, Client(Manners(login="x")), code=-32000, message="Log in first")
            assert failure == Failure(Code.ENGINE_AUTH_REQUIRED, "Log in first")
        failure = self.refused("session/new", Client(), code=-32000)
        assert failure == Failure(Code.ENGINE_AUTH_REQUIRED, "the agent wants a login")

    def test_session_that_is_lost(self) -> None:
        client = Client(session="old-1")
        failure = self.refused("session/load", client, code=-32002, message="Resource not found")
        message = "the agent cannot load the session: Resource not found"
        assert failure == Failure(Code.SESSION_LOST, message)

    def test_session_that_is_there_and_may_not_be_loaded(self) -> None:
        """To begin another in its place would not help."""
        failure = self.refused("session/load", Client(session="old-1"), code=-32000, message="Log in first")
        assert failure.code is Code.ENGINE_AUTH_REQUIRED

    def test_model(self) -> None:
        client = Client(Manners(sets_model=True), model="m-1")
        failure = self.refused("session/set_model", client, code=-32602, message="Invalid params")
        assert failure == Failure(Code.ENGINE_MODEL_UNKNOWN, "m-1: Invalid params")
        client = Client(Manners(sets_model=True), model="m-1")
        failure = self.refused("session/set_model", client, code=-32000, message="Log in first")
        assert failure.code is Code.ENGINE_AUTH_REQUIRED

    def test_mode(self) -> None:
        """An agent that would not ask must not begin."""
        client = Client(Manners(modes={Permissions.ASK: "careful"}), permissions=Permissions.ASK)
        failure = self.refused("session/set_mode", client, code=-32602, message="no such mode")
        words = "the agent cannot be put into its mode careful: no such mode"
        assert failure == Failure(Code.ENGINE_FAILED, words)

    def test_title(self) -> None:
        """It is worth no turn."""
        client = Client(Manners(title="turnkeeper")).begin()
        while client.last["method"] != "session/set_title":
            client.result({**INITIALIZED, "sessionId": SESSION})
        assert client.hear({"id": "title", "error": {"code": -32601, "message": "Method not found"}}) == []
        assert client.last["method"] == "session/prompt"


class TestUpdates:
    def test_words_and_thoughts(self) -> None:
        client = Client().opened()
        text = {"type": "text", "text": "hello"}
        assert client.update("agent_message_chunk", content=text) == [TextDelta("hello")]
        assert client.update("agent_message_chunk", content=text, messageId="m1") == [
            TextDelta("hello", "m1")
        ]
        assert client.update("agent_message_chunk", content=text, messageId=7) == [TextDelta("hello")]
        assert client.update("agent_thought_chunk", content=text) == [Reasoning("hello")]
        assert client.update("user_message_chunk", content=text) == [Echo()]

    def test_what_says_nothing_about_the_turn(self) -> None:
        client = Client().opened()
        image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        for kind in (
            "plan",
            "available_commands_update",
            "current_mode_update",
            "usage_update",
            "new_in_2030",
        ):
            assert client.update(kind, used=5, size=10) == []
        assert client.update("agent_message_chunk", content=image) == []
        assert client.hear({"method": "_maker/status", "params": {"any": "thing"}}) == []
        assert client.hear({"method": "session/update", "params": {"update": None}}) == []

    def test_a_method_that_we_do_not_offer_is_refused(self) -> None:
        for method, call in (("fs/read_text_file", "7"), ("terminal/create", 0), ("maker/any", 1)):
            client = Client().opened()
            assert client.hear({"id": call, "method": method, "params": {}}) == []
            assert client.last["id"] == call
            assert client.last["error"]["code"] == -32601

    def test_noise_is_not_understood_and_hurts_nobody(self) -> None:
        dialect = Client().opened().dialect
        for noise in (b"Loading...", b"[1, 2]", b'{"jsonrpc": "1.0"}', b'{"jsonrpc": "2.0"', b'"text"'):
            assert dialect.hear(line(noise)) is None
        odd_ones: list[dict[str, Any]] = [
            {"id": None, "result": {}},
            {"id": 1.5},
            {"id": [], "method": 5},
            {},
        ]
        for odd in odd_ones:
            assert dialect.hear(line({"jsonrpc": "2.0", **odd})) is None
        assert dialect.hear(line(b"  ")) == Heard(())
        cut = json.dumps({"jsonrpc": "2.0", "id": 3, "result": {}}).encode()
        assert dialect.hear(Line(cut, 0, 10**9, truncated=True)) is None

    def test_what_is_printed_aside_counts_at_an_exit(self) -> None:
        dialect = Client().opened().dialect
        words = "Error: 401 Unauthorized"
        assert dialect.hear_stderr(line(words.encode())) is None
        (ended,) = dialect.finish(Exit(1, None), words)
        assert isinstance(ended, Ended)
        assert ended.failure == Failure(Code.ENGINE_AUTH_REQUIRED, words)
        for how in (Exit(0, None), Exit(None, 9)):
            assert dialect.finish(how, words) == []
        assert dialect.finish(Exit(1, None), "goodbye") == []


class TestTools:
    def test_told_when_it_begins_and_when_it_is_over(self) -> None:
        """Updates carry what changed; what did not is known."""
        client = Client().opened()
        told = {"title": "Terminal", "kind": "execute", "status": "pending", "rawInput": {}}
        assert client.update("tool_call", toolCallId="c1", **told) == [ToolCall("c1", "Terminal", "pending")]
        command = {"command": "ls"}
        assert client.update("tool_call_update", toolCallId="c1", title="ls", rawInput=command) == []
        assert client.update("tool_call_update", toolCallId="c1", status="in_progress", title=None) == []
        done = ToolCall("c1", "Terminal", "completed", command, "a\nb")
        assert client.update("tool_call_update", toolCallId="c1", status="completed", rawOutput="a\nb") == [
            done
        ]
        assert client.update("tool_call_update", toolCallId="c1", status="failed") == [], "it is over"

    @pytest.mark.parametrize(
        ("update", "name", "status"),
        [
            ({}, "tool", "pending"),
            ({"kind": "edit"}, "edit", "pending"),
            ({"name": "Bash", "title": "touch x", "kind": "execute"}, "Bash", "pending"),
            ({"title": "Write", "kind": "edit", "status": "completed"}, "Write", "completed"),
            ({"title": "x" * 5000, "status": "failed"}, "x" * (MAX_TITLE - 1) + "…", "failed"),
            ({"title": ["odd"], "status": {"odd": 1}}, "tool", "{'odd': 1}"),
        ],
    )
    def test_what_it_is_called(self, update: dict[str, Any], name: str, status: str) -> None:
        (told,) = Client().opened().update("tool_call_update", toolCallId="c1", **update)
        assert told == ToolCall("c1", name, status)

    @pytest.mark.parametrize(
        ("update", "output"),
        [
            ({"rawOutput": {"exit": 0}, "content": []}, {"exit": 0}),
            ({"rawOutput": False}, False),
            (
                {
                    "content": [
                        {"type": "content", "content": {"type": "text", "text": "one"}},
                        {"type": "diff", "path": "f", "newText": "x"},
                        {"type": "content", "content": {"type": "text", "text": "two"}},
                    ]
                },
                "one\ntwo",
            ),
            ({"content": "odd"}, None),
            ({"content": [7, {"content": 8}]}, None),
            ({}, None),
        ],
    )
    def test_what_came_out(self, update: dict[str, Any], output: Any) -> None:
        client = Client().opened()
        (told,) = client.update("tool_call", toolCallId="c1", status="completed", **update)
        assert told == ToolCall("c1", "tool", "completed", None, output)

    def test_what_was_printed_piece_by_piece(self) -> None:
        client = Client().opened()
        client.update("tool_call", toolCallId="c1", content=[{"type": "terminal", "terminalId": "c1"}])
        for data in ("one\n", "two\n", None, "x" * MAX_PRINTED):
            client.update(
                "tool_call_update", toolCallId="c1", _meta={"terminal_output_delta": {"data": data}}
            )
        (told,) = client.update("tool_call_update", toolCallId="c1", status="completed", _meta={"other": 1})
        assert isinstance(told, ToolCall)
        assert told.output == ("one\ntwo\n" + "x" * MAX_PRINTED)[:MAX_PRINTED]

    def test_what_a_permission_told_of_it_is_known(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0, toolCallId="c", title="touch x", rawInput={"command": "touch x"}, status="pending")
        assert client.update("tool_call_update", toolCallId="c", status="completed") == [
            ToolCall("c", "touch x", "completed", {"command": "touch x"})
        ]

    def test_output_is_what_came_out_in_the_end(self) -> None:
        shown = [{"type": "content", "content": {"type": "text", "text": "[in /work]"}}]
        (begun,) = Client().opened().update("tool_call", toolCallId="c", status="in_progress", content=shown)
        assert begun == ToolCall("c", "tool", "in_progress")

    def test_not_more_than_can_be_remembered(self) -> None:
        client = Client().opened()
        told = [client.update("tool_call", toolCallId=str(n)) for n in range(MAX_TOOLS + 10)]
        assert [len(each) for each in told] == [1] * (MAX_TOOLS + 10)
        kept = [client.update("tool_call_update", toolCallId=str(n), title="x") for n in (0, MAX_TOOLS + 1)]
        assert [len(each) for each in kept] == [0, 1], "the last are not put together"
        client.begin("more")
        assert len(client.update("tool_call", toolCallId="0")) == 1, "the next turn has its own"

    def test_what_is_over_is_forgotten(self) -> None:
        client = Client().opened()
        for number in range(3 * MAX_TOOLS):
            assert len(client.update("tool_call", toolCallId=str(number), status="completed")) == 1
            assert client.update("tool_call_update", toolCallId=str(number), status="failed") == []

    def test_all_of_a_long_command_is_shown_to_whoever_decides(self) -> None:
        command = "echo a; " * 200 + "touch evil"
        (asked,) = Client(permissions=Permissions.ASK).opened().asked(0, title=command, kind="execute")
        assert isinstance(asked, PermissionAsked)
        assert asked.title.endswith("…")
        assert asked.tool["title"] == command


class TestUsage:
    """A token is counted in one place only, whatever the agent counts where."""

    @pytest.mark.parametrize(
        ("counts", "found"),
        [
            # What is cached beside the input, and thoughts in the output.
            ((1134, 100, None, 17, 3, 1251), (1134, 100, 14, 3)),
            # What is cached in the input, and thoughts in the output.
            ((1234, 100, None, 17, 3, 1251), (1134, 100, 14, 3)),
            # Each by itself.
            ((1134, 100, None, 14, 3, 1251), (1134, 100, 14, 3)),
            # What is written to the cache was read anew.
            ((1000, 100, 134, 17, None, 1251), (1134, 100, 17, None)),
            ((1000, 100, 134, 14, 3, 1251), (1134, 100, 14, 3)),
            ((5, None, None, 7, None, 12), (5, None, 7, None)),
            ((5, None, None, 7, None, None), (5, None, 7, None)),
            ((0, 0, 0, 0, 0, 0), (0, 0, 0, 0)),
            ((-1, True, "x", 1.5, 2**64, 9), (None, None, None, None)),
        ],
    )
    def test_disjoint(self, counts: tuple[Any, ...], found: tuple[int | None, ...]) -> None:
        theirs = ("inputTokens", "cachedReadTokens", "cachedWriteTokens", "outputTokens", "thoughtTokens")
        told = dict(zip((*theirs, "totalTokens"), counts, strict=True))
        ours = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
        expected = {name: count for name, count in zip(ours, found, strict=True) if count is not None}
        assert tokens(told) == expected
        ended = Client().opened().result({"stopReason": "end_turn", "usage": told})
        assert ended == [*([Usage(expected)] if expected else []), Ended()]

    def test_by_model(self) -> None:
        """Where there is no `usage` beside it, what was used is told there too."""
        used = {"input_tokens": 5, "output_tokens": 7}
        quota = {"token_count": used, "model_usage": [{"model": "m-1", "token_count": used}]}
        result = {"stopReason": "end_turn", "_meta": {"quota": quota}}
        assert Client().opened().result(result) == [Model("m-1"), Usage(used), Ended()]
        both = result | {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}
        counted = Usage({"input_tokens": 1, "output_tokens": 2})
        assert Client().opened().result(both) == [Model("m-1"), counted, Ended()]

    @pytest.mark.parametrize(
        "result",
        [
            {"usage": None, "_meta": {"quota": {"token_count": None, "model_usage": []}}},
            {"usage": [], "_meta": {"quota": []}},
            {"_meta": {"quota": {"token_count": 5, "model_usage": [None]}}},
            {"_meta": {"quota": {"model_usage": [{"model": 5}]}}},
            {"_meta": None},
        ],
    )
    def test_none(self, result: dict[str, Any]) -> None:
        assert Client().opened().result({"stopReason": "end_turn", **result}) == [Ended()]

    def test_what_one_prompt_does_not_tell_is_not_forgotten(self) -> None:
        """A turn may have several."""
        client = Client(permissions=Permissions.ASK).opened()
        events: list[TurnEvent] = []
        for asked, thought in enumerate((3, None, 5), start=1):
            client.asked(asked)
            client.answer(str(asked), Decision("no", "try again"))
            counts = {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17, "thoughtTokens": thought}
            events += client.result({"stopReason": "end_turn", "usage": counts})
        assert events[-2:] == [
            Usage({"input_tokens": 30, "output_tokens": 13, "reasoning_tokens": 8}),
            Echo(),
        ]

    def test_of_one_turn(self) -> None:
        client = Client().opened()
        result = {"stopReason": "end_turn", "usage": {"inputTokens": 5, "outputTokens": 7}}
        first = client.result(result)
        assert client.begin("more").result(result) == first


class TestPermission:
    def test_given(self) -> None:
        """For this once, if that is offered: some write down what is allowed for ever."""
        client = Client().opened()
        assert client.asked(0, toolCallId="c1") == []
        assert client.last == outcome(0, "once")
        client.asked("uuid", [OPTIONS[2], OPTIONS[0]], toolCallId="c1")
        assert client.last == outcome("uuid", "always")

    def test_denied(self) -> None:
        client = Client(permissions=Permissions.DENY).opened()
        denied = Remark(Warn.PERMISSION_DENIED, "the agent was not permitted: rm x")
        assert client.asked(0, toolCallId="c1", title="rm x") == [denied]
        assert client.last == outcome(0, "no")
        assert client.result({"stopReason": "cancelled"}) == [Ended()], "it gave up, and may say so"

    def test_asked(self) -> None:
        """With what is known of the call, from before and from the request itself."""
        client = Client(permissions=Permissions.ASK).opened()
        where = [{"path": "/runs/1/workspace/x"}]
        client.update("tool_call", toolCallId="c1", title="Shell", kind="execute", locations=where)
        (asked,) = client.asked(0, toolCallId="c1", title="rm x", rawInput={"command": "rm x"})
        assert asked == PermissionAsked(
            "1",
            "rm x",
            (
                Choice("always", "Always", "allow_always"),
                Choice("once", "Once", "allow_once"),
                Choice("no", "No", "reject_once"),
            ),
            {"call_id": "c1", "kind": "execute", "input": {"command": "rm x"}, "locations": where},
        )
        assert client.last["method"] == "session/prompt", "a person answers"
        assert client.answer("1", ALLOW) == outcome(0, "once")

    def test_asked_without_any_input_shows_what_it_would_write(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        diff = [{"type": "diff", "path": "f.txt", "newText": "hello"}]
        (asked,) = client.asked(0, toolCallId="c1", kind="edit", content=diff)
        assert isinstance(asked, PermissionAsked)
        assert (asked.title, asked.tool["content"]) == ("edit", diff)

    @pytest.mark.parametrize("options", [[], "odd", [None, 5, {"name": "No id"}, {"optionId": 7}]])
    def test_without_choices_it_is_called_off(self, options: Any) -> None:
        for permissions in (Permissions.ALLOW, Permissions.DENY):
            client = Client(permissions=permissions).opened()
            client.asked(0, options)
            assert client.last == outcome(0, None)
        (asked,) = Client(permissions=Permissions.ASK).opened().asked(0, options)
        assert isinstance(asked, PermissionAsked)
        assert (asked.title, asked.choices) == ("to use a tool", ())

    def test_kinds_that_we_do_not_know_decide_nothing(self) -> None:
        options = [{"optionId": "x", "name": "Perhaps", "kind": "perhaps"}, {"optionId": "y"}]
        for permissions in (Permissions.ALLOW, Permissions.DENY):
            client = Client(permissions=permissions).opened()
            client.asked(0, options)
            assert client.last == outcome(0, None)
        (asked,) = Client(permissions=Permissions.ASK).opened().asked(0, options)
        assert isinstance(asked, PermissionAsked)
        assert asked.choices == (Choice("x", "Perhaps", "perhaps"), Choice("y", "y", ""))

    def test_two_at_once_in_any_order(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        keys = [
            event.key
            for call in (0, "b")
            for event in client.asked(call)
            if isinstance(event, PermissionAsked)
        ]
        assert keys == ["1", "2"]
        assert client.answer("2", REJECT) == outcome("b", "no")
        assert client.answer("1", ALLOW) == outcome(0, "once")

    def test_answered_once(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        assert client.answer("9", ALLOW) is None
        assert client.answer("1", REJECT) == outcome(0, "no")
        assert client.answer("1", ALLOW) is None

    def test_answer_that_comes_late(self) -> None:
        """The turn that asked is over."""
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        client.result({"stopReason": "end_turn"})
        client.begin("more")
        assert client.answer("1", ALLOW) is None

    def test_request_that_the_agent_takes_back(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        client.asked(1)
        taken_back = {"method": "$/cancel_request", "params": {"requestId": 0}}
        assert client.hear(taken_back) == [PermissionWithdrawn("1")]
        assert client.hear(taken_back) == []
        assert client.hear({"method": "$/cancel_request", "params": {"requestId": "other"}}) == []
        assert client.hear({"method": "$/cancel_request", "params": {}}) == []
        assert client.answer("1", ALLOW) is None
        assert client.answer("2", ALLOW) == outcome(1, "once")


class TestWords:
    """Of a person who says something instead of permitting."""

    SPENT: dict[str, Any] = {"usage": {"inputTokens": 5, "outputTokens": 7, "totalTokens": 12}}  # noqa: RUF012

    @pytest.mark.parametrize("reason", ["end_turn", "cancelled"])
    def test_are_the_next_prompt_of_the_same_turn(self, reason: str) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        assert client.answer("1", Decision("no", "use y instead")) == outcome(0, "no")
        spent = client.result({"stopReason": reason, **self.SPENT})
        assert spent == [Usage({"input_tokens": 5, "output_tokens": 7}), Echo()]
        assert (client.last["id"], client.last["method"]) == (4, "session/prompt")
        assert client.last["params"]["prompt"] == [{"type": "text", "text": "use y instead"}]
        both = Usage({"input_tokens": 10, "output_tokens": 14})
        assert client.result({"stopReason": "end_turn", **self.SPENT}) == [both, Ended()]

    def test_are_no_command(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        client.answer("1", Decision("no", "/help"))
        client.result({"stopReason": "end_turn"})
        assert client.last["params"]["prompt"][0]["text"] == "The reply is:\n/help"

    def test_are_heard_after_another_permission(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        client.answer("1", Decision("no", "use y instead"))
        client.asked(1)
        client.answer("2", ALLOW)
        client.result({"stopReason": "end_turn"})
        assert client.last["params"]["prompt"][0]["text"] == "use y instead"

    def test_are_of_no_use_after_a_failure(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        client.answer("1", Decision("no", "use y instead"))
        assert client.error(code=-32603, message="Internal error").code is Code.ENGINE_FAILED
        client.begin("again")
        assert client.result({"stopReason": "end_turn"}) == [Ended()], "the next turn has its own"

    def test_of_an_earlier_turn_are_forgotten(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        client.answer("1", REJECT)
        client.result({"stopReason": "cancelled"})
        client.begin("more")
        (ended,) = client.result({"stopReason": "cancelled"})
        assert isinstance(ended, Ended)
        assert ended.failure is not None, "nothing was refused in this one"


class TestEnd:
    @pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal"])
    def test_good(self, reason: str) -> None:
        assert Client().opened().result({"stopReason": reason}) == [Ended()]

    @pytest.mark.parametrize("reason", ["cancelled", "new_in_2030", None, 5])
    def test_bad(self, reason: Any) -> None:
        failure = Failure(Code.ENGINE_FAILED, f"the agent stopped its turn: {reason}")
        assert Client().opened().result({"stopReason": reason}) == [Ended(failure)]

    def test_an_answer_that_comes_twice_ends_one_turn(self) -> None:
        client = Client().opened()
        client.result({"stopReason": "end_turn"})
        client.begin("more")
        for late in ({"result": {"stopReason": "end_turn"}}, {"error": {"code": -32603, "message": "late"}}):
            assert client.hear({"id": 3, **late}) == []
        assert client.result({"stopReason": "end_turn"}) == [Ended()]

    def test_allowed_is_not_refused(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        client.answer("1", ALLOW)
        (ended,) = client.result({"stopReason": "cancelled"})
        assert isinstance(ended, Ended)
        assert ended.failure is not None

    def test_cancel_is_no_rejection(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        client.dialect.cancel()
        (ended,) = client.result({"stopReason": "cancelled"})
        assert isinstance(ended, Ended)
        assert ended.failure is not None

    def test_nothing_more_is_said_after_a_cancel(self) -> None:
        client = Client(permissions=Permissions.ASK).opened()
        client.asked(0)
        client.asked(1)
        client.answer("1", Decision("no", "use y"))
        client.dialect.cancel()
        client.result({"stopReason": "cancelled"})
        assert client.methods.count("session/prompt") == 1

    def test_answers_to_what_was_never_asked(self) -> None:
        client = Client().opened()
        for call in (99, 2**40, "mode", "nobody"):
            assert client.hear({"jsonrpc": "2.0", "id": call, "result": {"stopReason": "end_turn"}}) == []
        assert client.methods.count("session/prompt") == 1

    def test_error_that_is_told_as_a_text(self) -> None:
        said = "401 Incorrect API key provided"
        failure = Client().opened().error(code=-32603, message="Internal error", data=said)
        assert (failure.code, failure.message) == (Code.ENGINE_AUTH_REQUIRED, said)

    def test_cancel_answers_what_is_open(self) -> None:
        """Some agents wait for it."""
        client = Client(permissions=Permissions.ASK)
        assert client.dialect.cancel() == b""
        client.opened()
        stop = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}
        assert json.loads(client.dialect.cancel()) == stop
        for call in (0, 1, 2):
            client.asked(call)
        client.answer("2", ALLOW)
        said = [json.loads(each) for each in client.dialect.cancel().splitlines()]
        assert said == [stop, outcome(0, None), outcome(2, None)]
        assert client.answer("1", ALLOW) is None
        assert json.loads(client.dialect.cancel()) == stop

    @pytest.mark.parametrize(
        ("error", "code", "message"),
        [
            ({"code": -32000, "message": "Authentication required"}, Code.ENGINE_AUTH_REQUIRED, None),
            ({"code": 401, "message": "Who are you?"}, Code.ENGINE_AUTH_REQUIRED, None),
            ({"code": 429, "message": "Slow down"}, Code.ENGINE_RATE_LIMITED, None),
            ({"code": 429, "message": "You exhausted your daily quota"}, Code.ENGINE_QUOTA_EXHAUSTED, None),
            ({"code": 500, "message": "models/m-1 is not found for v1"}, Code.ENGINE_MODEL_UNKNOWN, None),
            ({"code": -32603, "message": "Internal error: Prompt is too long"}, None, "Prompt is too long"),
            (
                {"code": -32603, "message": "Internal error", "data": {"details": "401 Incorrect API key"}},
                Code.ENGINE_AUTH_REQUIRED,
                "401 Incorrect API key",
            ),
            (
                {"code": -32603, "message": "Sorry", "data": {"errorName": "ContextOverflowError"}},
                Code.ENGINE_CONTEXT_EXHAUSTED,
                None,
            ),
            (
                {"code": -32603, "message": "Sorry", "data": {"errorKind": "billing_error"}},
                Code.ENGINE_QUOTA_EXHAUSTED,
                None,
            ),
            (
                {"code": -32603, "message": "Sorry", "data": {"errorKind": "model_not_found"}},
                Code.ENGINE_MODEL_UNKNOWN,
                None,
            ),
            ({"code": -32603, "message": "Sorry", "data": {"code": "SESSION_LOST"}}, Code.SESSION_LOST, None),
            ({"code": -32603, "message": "Sorry", "data": {"code": "CANCELED"}}, Code.ENGINE_FAILED, None),
            ({"code": -32603, "message": "Sorry", "data": ["odd"]}, Code.ENGINE_FAILED, None),
        ],
    )
    def test_failure(self, error: dict[str, Any], code: Code | None, message: str | None) -> None:
        failure = Client().opened().error(**error)
        assert failure.code is (code or Code.ENGINE_CONTEXT_EXHAUSTED)
        assert failure.message == (message or error["message"])

    @pytest.mark.parametrize("error", [{}, {"code": None, "message": None}, {"message": ""}])
    def test_failure_without_words(self, error: dict[str, Any]) -> None:
        failure = Client().opened().error(**error)
        assert failure.code is Code.ENGINE_FAILED
        assert failure.message

    def test_words_of_the_assistant_are_no_failure(self) -> None:
        client = Client().opened()
        client.update("agent_message_chunk", content={"type": "text", "text": "Error: 401 Unauthorized"})
        assert client.result({"stopReason": "end_turn"}) == [Ended()]


# Whatever an agent says

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
ids = st.sampled_from([0, 1, 2, 3, 4, 5, -1, "login", "mode", "model", "title", "0", "", None, True, 1.0])


def shaped(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with some of these, or something else in their places."""
    return st.fixed_dictionaries({}, optional={name: part | values for name, part in parts.items()})


def one_of(*known: str) -> st.SearchStrategy[str]:
    return st.sampled_from(known)


contents = shaped(type=one_of("text", "content", "diff"), text=st.text(max_size=8), content=values)
counts = shaped(
    inputTokens=st.integers(),
    outputTokens=st.integers(),
    totalTokens=st.integers(),
    cachedReadTokens=st.integers(),
    thoughtTokens=st.integers(),
    token_count=shaped(input_tokens=st.integers()),
    model_usage=st.lists(shaped(model=st.text(max_size=8)), max_size=2),
)
metas = shaped(
    usage=counts,
    quota=counts,
    terminal_output_delta=shaped(data=st.text(max_size=8)),
    codex=shaped(threadStatus=shaped(type=one_of("active", "idle", "systemError"))),
)
tools = {
    "printed": values,
    "is_over": values,
    "toolCallId": one_of("c1", "c2"),
    "name": one_of("Bash"),
    "title": st.text(max_size=8),
    "kind": one_of("edit"),
    "status": one_of("pending", "in_progress", "completed", "failed"),
    "rawInput": values,
    "rawOutput": values,
    "content": st.lists(contents, max_size=2),
    "locations": values,
}
updates = shaped(
    sessionUpdate=one_of("agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "usage_update")
    | one_of("tool_call", "tool_call_update"),
    messageId=st.text(max_size=4),
    _meta=metas,
    **(tools | {"content": contents | tools["content"]}),
)
options = shaped(
    optionId=one_of("yes", "no"), name=st.text(max_size=4), kind=one_of("allow_once", "reject_once")
)
results = shaped(
    protocolVersion=st.just(1),
    agentCapabilities=shaped(loadSession=st.booleans()),
    sessionId=one_of(SESSION),
    stopReason=one_of("end_turn", "cancelled", "refusal"),
    usage=counts,
    _meta=metas,
)
errors = shaped(
    code=st.sampled_from([-32000, -32603, 401, 429, 500]),
    message=st.text(max_size=20),
    data=shaped(details=st.text(max_size=8), errorKind=st.text(max_size=8), code=one_of("SESSION_LOST", "x")),
)
messages = st.one_of(
    st.fixed_dictionaries({"id": ids, "result": results | values}),
    st.fixed_dictionaries({"id": ids, "error": errors | values}),
    shaped(method=st.just("session/update"), params=shaped(update=updates, sessionId=one_of(SESSION))),
    st.fixed_dictionaries(
        {
            "method": st.just("session/request_permission"),
            "id": ids,
            "params": shaped(toolCall=shaped(**tools), options=st.lists(options, max_size=3)) | values,
        }
    ),
    shaped(method=one_of("$/cancel_request", "fs/read_text_file"), id=ids, params=shaped(requestId=ids)),
    values,
)
REQUEST: dict[str, Any] = {"method": "session/request_permission", "id": 0, "params": {}}
acts = st.one_of(
    st.tuples(st.just("hear"), messages),
    st.tuples(st.just("bytes"), st.binary(max_size=40)),
    st.tuples(st.just("answer"), st.sampled_from(["1", "2", "3", "4"])),
    st.tuples(st.just("cancel"), st.none()),
    st.tuples(st.just("begin"), st.text(max_size=4)),
)


def _heard(dialect: AcpDialect, act: str, what: Any) -> tuple[list[TurnEvent], bytes]:
    match act:
        case "answer":
            return [], dialect.answer(what, Decision("no", "words" if what == "2" else ""))
        case "cancel":
            return [], dialect.cancel()
        case "begin":
            return [], dialect.begin(what)
        case "hear":
            message = {"jsonrpc": "2.0", **what} if isinstance(what, dict) else what
            heard = dialect.hear(line(message))
        case _:
            heard = dialect.hear(line(what))
    return (list(heard.events), heard.answer) if heard else ([], b"")


@pytest.mark.parametrize("kind", [AcpDialect, ResidentCodexDialect, ResidentQwenDialect])
@example(
    played=[("hear", REQUEST), ("begin", ""), ("hear", REQUEST)],
    is_open=False,
    permissions=Permissions.ASK,
    session=None,
)
@given(
    played=st.lists(acts, max_size=30),
    is_open=st.booleans(),
    permissions=st.sampled_from(Permissions),
    session=st.none() | st.just("old-1"),
)
def test_whatever_an_agent_says(
    kind: type[AcpDialect],
    played: list[tuple[str, Any]],
    is_open: bool,
    permissions: Permissions,
    session: str | None,
) -> None:
    """Nothing is raised, all that is said can be read, a turn ends once, and a request is answered once."""
    manners = Manners(login="key", modes={permissions: "m"}, sets_model=True, title="t", meta={"a": 1})
    client = Client(
        manners, kind=kind, permissions=permissions, model="m-1", session=None if is_open else session
    )
    client = client.opened() if is_open else client.begin()
    transcript = Transcript(1)
    asked: dict[tuple[int, str], int | str] = {}
    answered: list[int | str] = []
    turn = 1
    for act, what in played:
        events, said = _heard(client.dialect, act, what)
        if act == "begin":
            turn += 1
            transcript = Transcript(turn)
        was_over = transcript.ended
        for event in events:
            transcript.take(event, NOW)
            if isinstance(event, PermissionAsked):
                assert (turn, event.key) not in asked
                asked[turn, event.key] = what["id"]
        assert was_over is None or transcript.ended is was_over
        spoken = [json.loads(each) for each in said.splitlines()]
        assert all(each["jsonrpc"] == "2.0" for each in spoken)
        answers = [each["id"] for each in spoken if "method" not in each]
        assert act == "cancel" or len(answers) <= 1
        if act in ("answer", "cancel"):
            answered += answers
    assert Counter(answered) <= Counter(asked.values())
