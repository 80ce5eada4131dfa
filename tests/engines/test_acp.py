"""Our side of the Agent Client Protocol: against the official library, and against recorded real agents."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure, Handle, Mode
from turnkeeper.core.turn import Ended, SessionOpened, TextDelta, ToolCall, TurnEvent, Usage
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.acp import AcpDialect
from turnkeeper.engines.base import TurnPlan
from turnkeeper.engines.lines import Line

AGENT = Path(__file__).parents[1] / "fakes" / "acp_agent.py"
TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"
QUESTION = "Which colour should I use? Please answer with one word."


def plan(workspace: Path, session: str | None = None) -> TurnPlan:
    return TurnPlan(
        profile=ProfileKind.STICKY,
        mode=Mode.INTERACTIVE,
        workspace=workspace,
        home=workspace,
        skill_dir=workspace,
        session=Handle(session, loadable=True) if session else None,
    )


def line(message: Any) -> Line:
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Line(data, 0, len(data), truncated=False)


class Agent:
    """A live agent process and our dialect, talking until the turn is over."""

    def __init__(self, workspace: Path, session: str | None = None) -> None:
        self.dialect = AcpDialect(plan(workspace, session))
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, str(AGENT)], cwd=workspace, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )

    def turn(self, prompt: str) -> list[TurnEvent]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        events: list[TurnEvent] = []
        self._write(self.dialect.begin(prompt))
        while not any(isinstance(event, Ended) for event in events):
            heard = self.dialect.hear(line(self.process.stdout.readline().rstrip(b"\n")))
            assert heard is not None
            events += heard.events
            self._write(heard.answer)
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


def words(events: list[TurnEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_two_turns_with_an_agent_of_the_official_library(agent: Agent) -> None:
    first = agent.turn("hello")
    assert SessionOpened(Handle("session-1", loadable=True)) in first
    assert words(first) == "You said: hello"
    assert Usage({"input_tokens": 3, "output_tokens": 4}) in first
    assert first[-1] == Ended()
    second = agent.turn("again")
    assert words(second) == "You said: again"


def test_permission_is_given_and_a_tool_is_told_once_when_it_is_over(agent: Agent) -> None:
    (tool,) = [event for event in agent.turn("go") if isinstance(event, ToolCall)]
    assert (tool.name, tool.status) == ("write a file", "completed")
    assert tool.output["outcome"]["option_id"] == "yes"


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


def recorded(agent: str) -> Iterator[list[Any]]:
    """What the agent said in each turn of its first process, with the ids our client would have used."""
    said: list[Any] = []
    for text in (TRANSCRIPTS / agent / "session.ndjson").read_text().splitlines():
        entry = json.loads(text)
        if "msg" not in entry:
            continue
        message = entry["msg"]
        if entry["dir"] == "client->agent":
            if message.get("method") == "initialize" and said:
                return
            continue
        if "method" not in message:
            message = message | {"id": message["id"] + 1}
        said.append(message)
        if "method" not in message and message["id"] > 2:
            yield said
            said = []


def heard(dialect: AcpDialect, messages: list[Any]) -> list[TurnEvent]:
    found: list[TurnEvent] = []
    dialect.begin("prompt")
    for message in messages:
        events = dialect.hear(line(message))
        assert events is not None, message
        found += events.events
    return found


@pytest.mark.parametrize("agent", sorted(path.name for path in TRANSCRIPTS.glob("acp-*")))
def test_recorded_agents_are_understood(agent: str, tmp_path: Path) -> None:
    dialect = AcpDialect(plan(tmp_path))
    turns = [heard(dialect, messages) for messages in recorded(agent)]
    asked, answered, tooled, cancelled = turns[:4]
    assert any(isinstance(event, SessionOpened) and event.handle.loadable for event in asked)
    assert QUESTION in words(asked)
    assert asked[-1] == answered[-1] == tooled[-1] == Ended()
    assert [event.status for event in tooled if isinstance(event, ToolCall)] == ["completed"]
    assert "tool-ran-42" not in words(asked)
    stopped = cancelled[-1]
    assert isinstance(stopped, Ended)
    assert stopped.failure == Failure(Code.ENGINE_FAILED, "the agent stopped its turn: cancelled")


def test_noise_is_not_understood_and_hurts_nobody(tmp_path: Path) -> None:
    dialect = AcpDialect(plan(tmp_path))
    dialect.begin("prompt")
    for noise in (b"Loading...", b"[1, 2]", b'{"jsonrpc": "1.0"}', b'{"jsonrpc": "2.0"', b'"text"'):
        assert dialect.hear(line(noise)) is None
    quiet = dialect.hear(line(b"  "))
    assert quiet is not None
    assert not quiet.events


def test_a_method_that_we_do_not_offer_is_refused(tmp_path: Path) -> None:
    dialect = AcpDialect(plan(tmp_path))
    answer = dialect.hear(line({"jsonrpc": "2.0", "id": "7", "method": "fs/read_text_file", "params": {}}))
    assert answer is not None
    assert json.loads(answer.answer)["error"]["code"] == -32601
