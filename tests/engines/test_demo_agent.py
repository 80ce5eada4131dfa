"""The demo agent as the service meets it: a real process, given a job and a prompt, read from its pipes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import acp
import pytest
import yaml
from acp.client import ClientSideConnection
from acp.schema import AllowedOutcome, DeniedOutcome, PermissionOption, ToolCallUpdate

from turnkeeper.engines import demo as demo_engine
from turnkeeper.engines.demo_agent import jsontext, steps
from turnkeeper.engines.demo_agent.script import Job, TurnFailed

ENGINES = Path(__file__).parents[2] / "src" / "turnkeeper" / "engines"
AGENT = ENGINES / "demo_agent"
BUILT_IN = demo_engine.built_in()
PATIENCE = 20  # seconds; only a broken agent, or a machine on its knees, gets there

Step = dict[str, Any]


def script(*turns: Sequence[Step], **options: Any) -> dict[str, Any]:
    return {"description": "A script of a test.", "turns": turns, **options}


def built_in(name: str) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(BUILT_IN[name].read_text()))


@dataclass(frozen=True)
class Outcome:
    exit_code: int
    stdout: bytes
    stderr: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(row) for row in self.stdout.splitlines()]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def session(self) -> str:
        assert self.kinds[0] == "session.started"
        return cast(str, self.events[0]["session_id"])

    @property
    def messages(self) -> list[str]:
        return [event["text"] for event in self.events if event["type"] == "message"]

    @property
    def error(self) -> dict[str, str]:
        assert self.kinds[-1] == "turn.failed"
        return cast(dict[str, str], self.events[-1]["error"])


class Demo:
    """A run's home and workspace, and the processes started in them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        (self.home / ".demo").mkdir(parents=True)
        self.started: list[tuple[subprocess.Popen[bytes], threading.Timer]] = []
        self.env = {"HOME": str(self.home), "MARK": "of this run"}

    def job(self, played: dict[str, Any], **values: dict[str, Any]) -> None:
        (self.home / ".demo" / "job.json").write_text(json.dumps({"script": played, **values}))

    @property
    def sessions(self) -> Path:
        return self.home / ".demo" / "sessions"

    def start(self, *arguments: str, stdout: Any = subprocess.PIPE) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(AGENT), *arguments],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            cwd=self.workspace,
            env=self.env,
        )
        # Whoever waits for a line of a process that says nothing gets end of file in the end.
        patience = threading.Timer(PATIENCE, process.kill)
        patience.start()
        self.started.append((process, patience))
        return process

    def turn(self, prompt: str = "go on", *arguments: str) -> Outcome:
        """Play a whole turn."""
        process = self.start(*arguments)
        stdout, stderr = process.communicate(prompt.encode(), timeout=PATIENCE)
        return Outcome(process.returncode, stdout, stderr.decode())

    def resume(self, session: str, reply: str) -> Outcome:
        return self.turn(reply, "--resume", session)

    def begin(self, prompt: str = "go on", *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a turn, and leave it alone."""
        process = self.start(*arguments, **options)
        assert process.stdin
        process.stdin.write(prompt.encode())
        process.stdin.close()
        process.stdin = None  # else communicate() would look at it
        return process

    def until(self, name: str) -> Path:
        """Wait for a file of the workspace."""
        deadline = time.monotonic() + PATIENCE
        while not (self.workspace / name).exists():
            assert time.monotonic() < deadline, f"{name} never came"
            time.sleep(0.002)
        return self.workspace / name

    def touch(self, name: str) -> None:
        (self.workspace / name).touch()

    def end(self) -> None:
        for process, patience in self.started:
            patience.cancel()
            patience.join()
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    demo = Demo(tmp_path)
    yield demo
    demo.end()


# The command line


def test_version(demo: Demo) -> None:
    assert demo.turn("", "--version") == Outcome(0, b"demo 1.0.0\n", "")


def test_it_starts_as_a_file_too(demo: Demo) -> None:
    demo.job(built_in("done"))
    command = [sys.executable, "-I", "-S", str(AGENT / "__main__.py")]
    done = subprocess.run(command, input=b"go on", capture_output=True, env=demo.env, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"turn.completed" in done.stdout


@pytest.mark.parametrize("arguments", [["--resume"], ["--acp", "x"], ["--model", "best"], ["hello"]])
def test_an_unexpected_argument_is_refused(demo: Demo, arguments: list[str]) -> None:
    demo.job(built_in("done"))
    outcome = demo.turn("", *arguments)
    assert (outcome.exit_code, outcome.stdout) == (2, b"")
    assert outcome.stderr.startswith("usage: demo_agent")


@pytest.mark.parametrize("job", [None, "{", "[]", '{"script": 1}', '{"script": {}, "input": 1}'])
def test_without_a_job_it_says_so(demo: Demo, job: str | None) -> None:
    if job is not None:
        (demo.home / ".demo" / "job.json").write_text(job)
    outcome = demo.turn()
    assert (outcome.exit_code, outcome.stdout) == (2, b"")
    assert "no job to play" in outcome.stderr


@pytest.mark.failure("V01")
def test_without_a_prompt_no_turn_is_begun(demo: Demo) -> None:
    """Its service died right after it had started it: the session waits for the words that were to come."""
    demo.job(script([{"say": "Which colour?"}], [{"result": {"answer": "{{reply}}"}}]))
    assert demo.turn("") == Outcome(2, b"", "no prompt on stdin\n")
    session = demo.turn().session
    assert demo.resume(session, "") == Outcome(2, b"", "no prompt on stdin\n")
    assert '"blue"' in demo.resume(session, "blue").messages[0]


@pytest.mark.parametrize("session", ["demo-0123", "", "../../job", "."])
def test_an_unknown_session_is_plain_text_on_stderr(demo: Demo, session: str) -> None:
    demo.job(built_in("ask"))
    assert demo.resume(session, "blue") == Outcome(3, b"", f"session not found: {session}\n")


# Turns and sessions


def test_one_turn(demo: Demo) -> None:
    demo.job(built_in("done"))
    outcome = demo.turn("Make a banner.")
    started, message, completed = outcome.events
    assert outcome.exit_code == 0
    assert started == {"type": "session.started", "session_id": outcome.session, "resumed": False}
    assert outcome.session.startswith("demo-")
    assert message["message_id"] == "m1"
    assert json.loads(message["text"]) == {"__SKILL_DONE__": True, "answer": "42"}
    assert completed["usage"] == {"input_tokens": 4, "output_tokens": 11}


def test_an_interview_of_several_turns(demo: Demo) -> None:
    demo.job(
        script(
            [{"say": "Which colour?"}],
            [{"say": "{{reply}}, good. Which words?"}],
            [{"result": {"banner": "{{replies.2}} in {{replies.1}}", "last": ["{{reply}}"]}}],
        )
    )
    first = demo.turn("Make a banner.")
    second = demo.resume(first.session, 'a "deep"\nblue é')
    third = demo.resume(first.session, "Hello {{input.x}}")
    assert first.messages == ["Which colour?"]
    assert second.messages == ['a "deep"\nblue é, good. Which words?']
    assert second.events[0] == {"type": "session.started", "session_id": first.session, "resumed": True}
    assert json.loads(third.messages[0]) == {
        "__SKILL_DONE__": True,
        "banner": 'Hello {{input.x}} in a "deep"\nblue é',
        "last": ["Hello {{input.x}}"],
    }


def test_messages_of_a_session_have_different_ids(demo: Demo) -> None:
    demo.job(script([{"say": "one"}, {"stream": ["t", "wo"], "every_sec": 0}], [{"say": "three"}]))
    first = demo.turn()
    second = demo.resume(first.session, "go on")
    assert [event["message_id"] for event in first.events if "message_id" in event] == [
        "m1",
        "m2",
        "m2",
        "m2",
    ]
    assert second.events[1]["message_id"] == "m3"


def test_inputs_and_parameters_are_rendered(demo: Demo) -> None:
    demo.job(
        script([{"say": "{{input.title}} {{ parameter.size }} {{input.tags}} {{input.a.b}} {a}} {{b"}]),
        input={"title": "T", "tags": ["é", 1], "a.b": None},
        parameter={"size": 3},
    )
    assert demo.turn().messages == ['T 3 ["é", 1] null {a}} {{b']


@pytest.mark.parametrize("name", ["input.y", "inputs.x", "input", "replies.1", "replies.0", "reply.1", ""])
def test_an_unknown_placeholder_is_a_mistake_of_the_script(demo: Demo, name: str) -> None:
    demo.job(script([{"say": "never said: {{" + name + "}}"}]), input={"x": "1"})
    outcome = demo.turn()
    assert (outcome.exit_code, outcome.error["code"], outcome.messages) == (64, "SCRIPT_INVALID", [])
    assert name in outcome.error["message"]


@pytest.mark.parametrize(
    "step",
    [
        {"dance": True},
        {},
        "say",
        {"say": "a", "think": "b"},
        {"say": 1},
        {"say": "a", "fenced": True},
        {"stream": [1]},
        {"sleep": -1},
        {"sleep": True},
        {"hang": False},
        {"tool": {"input": {}}},
        {"permission": True},
        {"permission": []},
        {"permission": {"title": "no tool"}},
        {"permission": {"tool": "shell", "colour": "blue"}},
        {"permission": [{"tool": "shell"}, {"tool": 1}]},
        {"permission": {"tool": "shell", "options": []}},
        {"permission": {"tool": "shell", "options": [{"optionId": "a", "name": "A"}]}},
        {"permission": {"tool": "shell", "options": [{"optionId": "a", "name": "A", "kind": "allow"}]}},
        {"permission": {"tool": "shell", "allowed_for_sec": -1}},
        {"permission": {"tool": "shell"}, "allowed_for_sec": 1},
        {"permission": {"tool": "{{permission}}"}},
        {"usage": {"total": 1}},
        {"ask": {"prompt": "?", "colour": "blue"}},
        {"crash": "NOTHING"},
        {"touch": "no/such/folder/file"},
    ],
    ids=json.dumps,
)
def test_an_unknown_step_is_a_mistake_of_the_script(demo: Demo, step: Any) -> None:
    demo.job(script([step]))
    outcome = demo.turn()
    assert (outcome.exit_code, outcome.error["code"]) == (64, "SCRIPT_INVALID")
    assert outcome.kinds == ["session.started", "turn.failed"]


def test_a_mistake_in_the_last_turn_shows_in_the_first(demo: Demo) -> None:
    demo.job(script([{"say": "hello"}], [{"say": "hello"}, {"dance": True}]))
    assert "turn 2, step 2" in demo.turn().error["message"]


@pytest.mark.parametrize(
    "extra", [{"name": "x"}, {"loadable": "no"}, {"repeat_last": 1}, {"turns": [{}]}], ids=str
)
def test_a_script_with_another_shape_is_a_mistake(demo: Demo, extra: dict[str, Any]) -> None:
    demo.job(script() | extra)
    assert demo.turn().error["code"] == "SCRIPT_INVALID"


def test_a_script_that_is_over_says_so(demo: Demo) -> None:
    demo.job(built_in("done"))
    outcome = demo.resume(demo.turn().session, "more?")
    assert (outcome.exit_code, outcome.error["code"]) == (64, "SCRIPT_EXHAUSTED")


def test_the_last_turn_can_be_repeated(demo: Demo) -> None:
    demo.job(built_in("ask_forever"))
    session = demo.turn().session
    for reply in ("blue", "green", "red"):
        assert reply in demo.resume(session, reply).messages[0]


def test_a_turn_that_was_cut_off_keeps_its_first_reply(demo: Demo) -> None:
    demo.job(
        script(
            [{"say": "Which colour?"}],
            [
                {"record": "log"},
                {"touch": "started"},
                {"wait_for": "go"},
                {"result": {"answer": "{{reply}}"}},
            ],
        )
    )
    session = demo.turn().session
    cut_off = demo.begin("blue", "--resume", session)
    demo.until("started")
    cut_off.kill()
    cut_off.wait(PATIENCE)

    demo.touch("go")
    again = demo.resume(session, "You were cut off, continue.")
    assert json.loads(again.messages[0])["answer"] == "blue"
    first, second = map(json.loads, (demo.workspace / "log").read_text().splitlines())
    assert first == {
        "pid": cut_off.pid,
        "turn": 1,
        "reply": "blue",
        "prompt": "blue",
        "argv": ["--resume", session],
    }
    assert (second["turn"], second["reply"], second["prompt"]) == (1, "blue", "You were cut off, continue.")


def test_a_session_is_on_disk_when_its_id_is_told(demo: Demo) -> None:
    demo.job(script([{"hang": True}]))
    process = demo.begin("hello")
    assert process.stdout
    session = json.loads(process.stdout.readline())["session_id"]
    saved = json.loads((demo.sessions / f"{session}.json").read_text())
    assert (saved["completed"], saved["turns"][0]["reply"]) == (0, "hello")


def test_a_completed_turn_is_on_disk_when_it_is_told(demo: Demo) -> None:
    demo.job(script([{"say": "hi"}, {"linger": 600}]))
    process = demo.begin("hello")
    assert process.stdout
    while b"turn.completed" not in process.stdout.readline():
        assert process.poll() is None
    (file,) = demo.sessions.iterdir()
    saved = json.loads(file.read_text())
    assert saved["completed"] == 1
    assert saved["turns"] == [{"reply": "hello", "said": [{"id": "m1", "text": "hi"}]}]
    assert process.poll() is None  # it lingers


# Steps


def test_streaming_thinking_tools_and_usage(demo: Demo) -> None:
    tool = {"name": "shell", "input": {"command": "cat {{reply}}"}, "output": "of {{reply}}"}
    demo.job(
        script(
            [
                {"think": "hm, {{reply}}"},
                {"tool": tool},
                {"stream": ["a{{reply}}", "b"], "every_sec": 0.001},
                {"usage": {"output_tokens": 5}},
            ]
        )
    )
    assert demo.turn("x").events[1:] == [
        {"type": "reasoning", "text": "hm, x"},
        {
            "type": "tool",
            "call_id": "t1",
            "name": "shell",
            "input": {"command": "cat x"},
            "output": "of x",
            "status": "completed",
        },
        {"type": "message.delta", "message_id": "m1", "text": "ax"},
        {"type": "message.delta", "message_id": "m1", "text": "b"},
        {"type": "message", "message_id": "m1", "text": "axb"},
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 5}},
    ]


TOUCH: Step = {"tool": "shell", "title": "touch note.txt", "input": {"command": "touch {{reply}}"}}
FETCH: Step = {"tool": "fetch", "input": {"url": "https://example.org/"}}
NO = {"optionId": "no", "name": "No", "kind": "reject_once"}
YES = {"optionId": "yes", "name": "Yes", "kind": "allow_always"}


def test_headless_a_permission_is_as_if_allowed(demo: Demo) -> None:
    asked = [TOUCH, FETCH | {"options": [NO, YES]}, FETCH | {"options": [NO], "allowed_for_sec": 600}]
    demo.job(script([{"permission": asked}, {"say": "{{permission}}"}]))
    outcome = demo.turn("x")
    assert outcome.messages == ["allow,yes,cancelled"]
    assert outcome.events[1] == {
        "type": "tool",
        "call_id": "t1",
        "name": "shell",
        "input": {"command": "touch x"},
        "output": "",
        "status": "completed",
    }
    assert [
        (event["call_id"], event["name"], event["output"], event["status"]) for event in outcome.events[2:4]
    ] == [("t2", "fetch", "", "completed"), ("t3", "fetch", "rejected", "failed")]


def test_a_permission_is_known_in_the_turn_that_asked(demo: Demo) -> None:
    demo.job(script([{"permission": TOUCH}, {"say": "{{permission}}"}], [{"say": "{{permission}}"}]))
    first = demo.turn()
    assert first.messages == ["allow"]
    assert "{{permission}}" in demo.resume(first.session, "go on").error["message"]


def test_an_ask_block_is_valid_yaml_whatever_it_holds(demo: Demo) -> None:
    asked = {
        "prompt": 'A "colour":\n- one\x7f or\u2028 two {x} \U0001f600?',
        "kind": "choose_one",
        "options": [{"label": "Blue: dark", "value": "blue"}, {"label": "#1", "value": 1}],
        "ui_hints": {"widget": "radio", "empty": {}},
        "context": None,
        "default_decision_policy": "take 'blue'",
    }
    demo.job(script([{"ask": asked}]))
    (message,) = demo.turn().messages
    words, _, rest = message.partition("\n\n<ASK_USER_YAML>\n")
    block, _, after = rest.partition("\n</ASK_USER_YAML>")
    assert (words, after) == (asked["prompt"], "")
    assert yaml.safe_load(block) == {"interaction_id": 1, **asked}


def test_results_with_and_without_marker_and_fence(demo: Demo) -> None:
    demo.job(
        script([{"result": {"a": 1}, "done": False}, {"result": {"a": {"b": ["{{reply}}"]}}, "fenced": True}])
    )
    plain, fenced = demo.turn("x").messages
    assert json.loads(plain) == {"a": 1}
    before, _, rest = fenced.partition("\n\n```json\n")
    assert before == "Here is the result."
    assert json.loads(rest.removesuffix("\n```")) == {"__SKILL_DONE__": True, "a": {"b": ["x"]}}


def test_files_are_written_inside_the_workspace_only(demo: Demo) -> None:
    demo.job(script([{"write_file": {"path": "out/{{reply}}.md", "text": "# {{reply}}"}}]))
    assert demo.turn("report").exit_code == 0
    assert (demo.workspace / "out" / "report.md").read_text() == "# report"
    assert demo.turn("../../escape").error["code"] == "SCRIPT_INVALID"
    assert not (demo.workspace.parent / "escape.md").exists()
    (demo.workspace / "away").symlink_to(demo.home)
    assert demo.turn("../away/escape").error["code"] == "SCRIPT_INVALID"


ABOUT = "{{file.name}}: {{file.lines}}, {{file.words}}, “{{file.first_line}}”"


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (b"\n## The {{reply}} report\n\nAll is  well.\n", "4, 7, “The {{reply}} report”"),
        (b"\xef\xbb\xbfOne line, C#", "1, 3, “One line, C#”"),
        (b"\xff\xfe\r\n", "1, 1, “\ufffd\ufffd”"),
        (b"", "0, 0, “”"),
        (b"x" * 1000, f"1, 1, “{'x' * 200}”"),
    ],
    ids=["markdown", "with a byte order mark", "not UTF-8", "empty", "one long line"],
)
def test_a_file_is_read_and_told_about(demo: Demo, held: bytes, said: str) -> None:
    (demo.workspace / "uploads").mkdir()
    (demo.workspace / "uploads" / "report.md").write_bytes(held)
    demo.job(
        script([{"read_file": "{{input.document}}"}, {"say": ABOUT}]), input={"document": "uploads/report.md"}
    )
    assert demo.turn().messages == [f"report.md: {said}"]


@pytest.mark.parametrize("path", ["report.md", "../secret", "link", "."])
def test_a_file_is_read_inside_the_workspace_only(demo: Demo, path: str) -> None:
    secret = demo.workspace.parent / "secret"
    secret.write_text("hidden")
    (demo.workspace / "link").symlink_to(secret)
    demo.job(script([{"read_file": path}, {"say": ABOUT}]))
    outcome = demo.turn()
    assert (outcome.exit_code, outcome.error["code"], outcome.messages) == (64, "SCRIPT_INVALID", [])


def test_a_file_is_known_in_the_turn_that_read_it(demo: Demo) -> None:
    (demo.workspace / "report.md").write_text("Hello")
    demo.job(script([{"read_file": "report.md"}, {"say": ABOUT}], [{"say": ABOUT}]))
    first = demo.turn()
    assert first.messages == ["report.md: 1, 1, “Hello”"]
    assert "file.name" in demo.resume(first.session, "go on").error["message"]


def test_half_a_surrogate_pair_survives_the_trip(demo: Demo) -> None:
    demo.job(script([{"say": "\ud83d!"}]))
    assert demo.turn().messages == ["\ud83d!"]


# Mishaps


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(demo: Demo, number: signal.Signals) -> None:
    demo.job(script([{"touch": "started"}, {"hang": True}]))
    process = demo.begin()
    demo.until("started")
    process.send_signal(number)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, stderr) == (-number, b"")


def test_signals_can_be_ignored(demo: Demo) -> None:
    demo.job(
        script([{"ignore_signals": True}, {"touch": "started"}, {"wait_for": "go"}, {"say": "still here"}])
    )
    process = demo.begin()
    demo.until("started")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    demo.touch("go")
    stdout, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, b"still here" in stdout) == (0, True)


@pytest.mark.parametrize(
    ("step", "exit_code"), [({"exit": 7}, 7), ({"crash": "SEGV"}, -11), ({"crash": "KILL"}, -9)]
)
def test_it_can_die_without_a_word(demo: Demo, step: Step, exit_code: int) -> None:
    demo.job(script([{"say": "hello"}, step]))
    outcome = demo.turn()
    assert (outcome.exit_code, outcome.kinds) == (exit_code, ["session.started", "message"])


def test_the_terminal_event_can_be_missing(demo: Demo) -> None:
    demo.job(built_in("no_terminal"))
    outcome = demo.turn()
    assert (outcome.exit_code, outcome.kinds) == (0, ["session.started", "message"])


def test_it_can_fail(demo: Demo) -> None:
    demo.job(script([{"fail": {"code": "ENGINE_AUTH_REQUIRED", "message": "{{reply}}, log in"}}]))
    outcome = demo.turn("Ann")
    assert outcome.exit_code == 1
    assert outcome.error == {"code": "ENGINE_AUTH_REQUIRED", "message": "Ann, log in"}


def test_it_can_speak_out_of_turn(demo: Demo) -> None:
    demo.job(script([{"stderr": "warning: {{reply}}"}, {"raw": "not {json}"}]))
    outcome = demo.turn("é")
    assert outcome.stderr == "warning: é\n"
    assert outcome.stdout.splitlines()[1] == b"not {json}"


@pytest.mark.parametrize(("line_bytes", "lines"), [(200, 15_000), (0, 1), (3_000_001, 1), (1, 3_000_000)])
def test_it_can_flood(demo: Demo, line_bytes: int, lines: int) -> None:
    demo.job(script([{"flood": {"bytes": 3_000_000, "line_bytes": line_bytes}}, {"say": "done"}]))
    outcome = demo.turn()
    started, _, rest = outcome.stdout.partition(b"\n")
    noise, message, completed = rest[:3_000_000], *rest[3_000_000:].splitlines()
    assert (outcome.exit_code, noise.count(b"\n"), noise[-1:]) == (0, lines, b"\n")
    assert [json.loads(row)["type"] for row in (started, message, completed)] == [
        "session.started",
        "message",
        "turn.completed",
    ]


@pytest.mark.parametrize("where", ["kept", "option", "key"])
def test_it_can_leave_a_child_behind(demo: Demo, where: str) -> None:
    child: Step = {"seconds": 600, "pid_file": "child.pid"}
    step: Step = {"setsid_child": child | ({"scrub_env": True} if where == "key" else {})}
    demo.job(script([step | ({"scrub_env": True} if where == "option" else {}), {"say": "done"}]))
    with (demo.workspace / "out").open("wb") as out:
        process = demo.begin(stdout=out)
        assert process.wait(PATIENCE) == 0
    pid = int(demo.until("child.pid").read_text())
    try:
        assert os.getsid(pid) not in (os.getsid(0), process.pid)
        assert (Path("/proc") / str(pid) / "fd" / "1").readlink() == demo.workspace / "out"
        environment = (Path("/proc") / str(pid) / "environ").read_bytes()
        assert (b"MARK=of this run" in environment) is (where == "kept")
    finally:
        os.kill(pid, signal.SIGKILL)


# The built-in scripts


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_script_is_valid_and_described(name: str) -> None:
    played = built_in(name)
    assert played["description"].endswith(".")
    assert "\n" not in played["description"]
    assert ("failures" in played) or not name.startswith("chaos/")
    job = Job(played, {})
    steps.check(job.turns())
    steps.check_before(job.before())


@pytest.mark.parametrize(
    ("name", "replies", "result"),
    [
        ("ask", ["blue"], {"__SKILL_DONE__": True, "answer": "blue"}),
        ("ask_block", ["blue"], {"__SKILL_DONE__": True, "answer": "blue"}),
        ("ask_malformed", ["blue"], {"__SKILL_DONE__": True, "answer": "blue"}),
        ("auto_done", [], {"answer": "42"}),
        ("invalid_output", [], {"__SKILL_DONE__": True, "answer": 7}),
        ("invalid_no_marker", [], {"answer": 7}),
        ("invalid_no_marker", ["seven"], {"__SKILL_DONE__": True, "answer": "seven"}),
        ("permission", [], {"__SKILL_DONE__": True, "answer": "allow"}),
        ("permissions", [], {"__SKILL_DONE__": True, "answer": "allow,allow"}),
        ("tool_echo", ["blue"], {"__SKILL_DONE__": True, "answer": "blue"}),
        ("unloadable", ["blue", "Hello"], {"__SKILL_DONE__": True, "answer": "Hello on blue"}),
    ],
)
def test_a_built_in_interview(demo: Demo, name: str, replies: list[str], result: object) -> None:
    demo.job(built_in(name))
    outcome = demo.turn("Make a banner.")
    for reply in replies:
        assert "__SKILL_DONE__" not in "".join(outcome.messages)
        outcome = demo.resume(outcome.session, reply)
    assert json.loads(outcome.messages[-1]) == result


def test_the_malformed_block_is_no_yaml(demo: Demo) -> None:
    demo.job(built_in("ask_malformed"))
    (message,) = demo.turn().messages
    with pytest.raises(yaml.YAMLError):
        yaml.safe_load(message.partition("<ASK_USER_YAML>")[2].partition("</ASK_USER_YAML>")[0])


def test_the_interrupt_script_meets_a_moment(demo: Demo) -> None:
    demo.job(built_in("interrupt"), parameter={"started": "here", "go": str(demo.workspace / "go")})
    process = demo.begin()
    demo.until("here")
    assert process.poll() is None
    demo.touch("go")
    stdout, _ = process.communicate(timeout=PATIENCE)
    assert b"turn.completed" in stdout


# JSON without `json`


@pytest.mark.parametrize(
    "text", ['{"a": [1, -2.5e3, "é\\u0001\\"\\ud83d", null, true, {}]}', " 1\n", '"x"', "[NaN]"]
)
def test_our_json_is_the_real_one(text: str) -> None:
    (loads, dumps), (real_loads, real_dumps) = jsontext._borrowed(), jsontext._public()
    assert dumps(loads(text)) == real_dumps(real_loads(text))


@pytest.mark.parametrize("text", ["", "{", "[1,]", "1 2", "nul", '"\n"', "{'a': 1}"])
def test_our_json_refuses_what_the_real_one_refuses(text: str) -> None:
    for loads, _ in (jsontext._borrowed(), jsontext._public()):
        with pytest.raises(ValueError):  # noqa: PT011  (the words differ, the kind does not)
            loads(text)


# ACP, spoken by the official library


@dataclass(frozen=True)
class Asked:
    session: str
    call: ToolCallUpdate
    options: list[PermissionOption]
    answer: asyncio.Future[AllowedOutcome | DeniedOutcome]

    def select(self, option: str) -> None:
        self.answer.set_result(AllowedOutcome(outcome="selected", option_id=option))

    def cancel(self) -> None:
        self.answer.set_result(DeniedOutcome(outcome="cancelled"))


class Client:
    """Remembers what the agent told it; `heard` is set again and again. A test answers what is `asked`."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.heard = asyncio.Event()
        self.asked: asyncio.Queue[Asked] = asyncio.Queue()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> acp.RequestPermissionResponse:
        asked = Asked(session_id, tool_call, options, asyncio.get_running_loop().create_future())
        self.asked.put_nowait(asked)
        return acp.RequestPermissionResponse(outcome=await asked.answer)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.model_dump(by_alias=True, exclude_none=True) | {"sessionId": session_id})
        self.heard.set()

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(update["sessionUpdate"], update["content"]["text"]) for update in self.updates]


@asynccontextmanager
async def connected(demo: Demo) -> AsyncIterator[tuple[ClientSideConnection, Client]]:
    client = Client()
    command = [sys.executable, "-I", "-S", str(AGENT), "--acp"]
    async with acp.spawn_agent_process(
        cast(Any, client), *command, env=demo.env, cwd=demo.workspace, transport_kwargs={"stderr": None}
    ) as (connection, process):
        async with asyncio.timeout(PATIENCE):
            yield connection, client
            await connection.close()
    assert process.returncode == 0  # the library closed stdin, and that was enough


async def test_acp_two_prompts_in_one_process(demo: Demo) -> None:
    demo.job(
        script(
            [{"record": "log"}, {"say": "Which colour?"}], [{"record": "log"}, {"result": {"a": "{{reply}}"}}]
        )
    )
    async with connected(demo) as (agent, client):
        hello = await agent.initialize(protocol_version=1)
        assert hello.protocol_version == 1
        assert hello.agent_info
        assert (hello.agent_info.name, hello.agent_info.version) == ("demo", "1.0.0")
        assert hello.agent_capabilities
        assert hello.agent_capabilities.load_session is True
        assert hello.auth_methods == []
        session = (await agent.new_session(cwd=str(demo.workspace))).session_id
        await agent.set_session_mode(session_id=session, mode_id="anything")

        first = await agent.prompt(
            session_id=session, prompt=[acp.text_block("Make a"), acp.text_block("banner.")]
        )
        assert first.stop_reason == "end_turn"
        assert first.usage
        assert (first.usage.input_tokens, first.usage.output_tokens, first.usage.total_tokens) == (4, 4, 8)
        second = await agent.prompt(session_id=session, prompt=[acp.text_block("blue")])
        assert second.stop_reason == "end_turn"
    assert client.told == [
        ("agent_message_chunk", "Which colour?"),
        ("agent_message_chunk", '{"__SKILL_DONE__": true, "a": "blue"}'),
    ]
    assert [update["messageId"] for update in client.updates] == ["m1", "m2"]
    log = [json.loads(row) for row in (demo.workspace / "log").read_text().splitlines()]
    assert log[0]["pid"] == log[1]["pid"]
    assert [entry["reply"] for entry in log] == ["Make a\nbanner.", "blue"]


async def test_acp_streams_thoughts_and_tools(demo: Demo) -> None:
    demo.job(
        script(
            [
                {"think": "hm"},
                {"tool": {"name": "shell", "input": {"command": "ls"}, "output": "x"}},
                {"stream": ["a", "b"], "every_sec": 0},
            ]
        )
    )
    async with connected(demo) as (agent, client):
        session = (await agent.new_session(cwd=str(demo.workspace))).session_id
        await agent.prompt(session_id=session, prompt=[acp.text_block("go")])
    thought, call, finished, *chunks = client.updates
    assert (thought["sessionUpdate"], thought["content"]["text"]) == ("agent_thought_chunk", "hm")
    assert (call["sessionUpdate"], call["title"], call["kind"]) == ("tool_call", "shell", "execute")
    assert (call["status"], call["rawInput"]) == ("in_progress", {"command": "ls"})
    assert (finished["sessionUpdate"], finished["status"]) == ("tool_call_update", "completed")
    assert finished["toolCallId"] == call["toolCallId"]
    assert finished["content"][0]["content"]["text"] == "x"
    assert [(chunk["content"]["text"], chunk["messageId"]) for chunk in chunks] == [("a", "m1"), ("b", "m1")]


async def test_acp_cancel_in_the_middle(demo: Demo) -> None:
    demo.job(
        script(
            [{"say": "working on {{reply}}"}, {"wait_for": "go"}, {"say": "finished"}], [{"say": "next turn"}]
        )
    )
    async with connected(demo) as (agent, client):
        session = (await agent.new_session(cwd=str(demo.workspace))).session_id
        prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("blue")]))
        await client.heard.wait()
        await agent.cancel(session_id=session)
        assert (await prompt).stop_reason == "cancelled"

        demo.touch("go")  # the turn was not completed, so it is played again, with the reply it had
        again = await agent.prompt(session_id=session, prompt=[acp.text_block("continue")])
        assert again.stop_reason == "end_turn"
        await agent.cancel(session_id=session)  # nothing to cancel: the next turn must not suffer
        assert (
            await agent.prompt(session_id=session, prompt=[acp.text_block("x")])
        ).stop_reason == "end_turn"
    assert [text for _, text in client.told] == [
        "working on blue",
        "working on blue",
        "finished",
        "next turn",
    ]


async def test_acp_asks_for_a_permission(demo: Demo) -> None:
    demo.job(script([{"permission": TOUCH}, {"result": {"answer": "{{permission}}"}}]))
    async with connected(demo) as (agent, client):
        session = (await agent.new_session(cwd=str(demo.workspace))).session_id
        prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("x")]))
        asked = await client.asked.get()
        assert (asked.session, asked.call.title, asked.call.kind) == (session, "touch note.txt", "execute")
        assert (asked.call.status, asked.call.raw_input) == ("pending", {"command": "touch x"})
        assert [(option.option_id, option.name, option.kind) for option in asked.options] == [
            ("allow", "Allow once", "allow_once"),
            ("always", "Always allow", "allow_always"),
            ("reject", "Reject", "reject_once"),
        ]
        asked.select("allow")
        assert (await prompt).stop_reason == "end_turn"
    call, finished, message = client.updates
    assert (call["sessionUpdate"], call["title"], call["kind"]) == ("tool_call", "touch note.txt", "execute")
    assert (call["status"], call["rawInput"]) == ("pending", {"command": "touch x"})
    assert (finished["sessionUpdate"], finished["status"]) == ("tool_call_update", "completed")
    assert asked.call.tool_call_id == call["toolCallId"] == finished["toolCallId"]
    assert json.loads(message["content"]["text"])["answer"] == "allow"


@pytest.mark.parametrize(
    ("option", "told", "status"),
    [
        ("always", "always", "completed"),
        ("reject", "reject", "failed"),
        (None, "cancelled", "failed"),
    ],
)
async def test_acp_a_permission_has_an_outcome(
    demo: Demo, option: str | None, told: str, status: str
) -> None:
    demo.job(built_in("permission"))
    async with connected(demo) as (agent, client):
        session = (await agent.new_session(cwd=str(demo.workspace))).session_id
        prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("go")]))
        asked = await client.asked.get()
        asked.select(option) if option else asked.cancel()
        assert (await prompt).stop_reason == "end_turn"
    _, finished, message = client.updates
    assert finished["status"] == status
    content = finished.get("content", [])
    assert [part["content"]["text"] for part in content] == (["rejected"] if status == "failed" else [])
    assert json.loads(message["content"]["text"])["answer"] == told


async def test_acp_permissions_asked_together_are_answered_in_any_order(demo: Demo) -> None:
    demo.job(built_in("permissions"))
    async with connected(demo) as (agent, client):
        session = (await agent.new_session(cwd=str(demo.workspace))).session_id
        prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("go")]))
        first, second = await client.asked.get(), await client.asked.get()
        assert (first.call.title, second.call.title) == ("touch note.txt", "Fetch https://example.org/")
        assert len(client.updates) == 2
        client.heard.clear()
        second.select("reject")
        await client.heard.wait()  # told, while the other is still open
        first.select("allow")
        assert (await prompt).stop_reason == "end_turn"
    assert [(update["toolCallId"], update["status"]) for update in client.updates[:-1]] == [
        ("t1", "pending"),
        ("t2", "pending"),
        ("t2", "failed"),
        ("t1", "completed"),
    ]
    assert json.loads(client.updates[-1]["content"]["text"])["answer"] == "allow,reject"


async def test_acp_cancel_with_an_open_permission(demo: Demo) -> None:
    demo.job(built_in("permission"))
    async with connected(demo) as (agent, client):
        session = (await agent.new_session(cwd=str(demo.workspace))).session_id
        prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("go")]))
        asked = await client.asked.get()
        await agent.cancel(session_id=session)
        asked.cancel()
        assert (await prompt).stop_reason == "cancelled"

        prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("again")]))
        asked = await client.asked.get()  # the turn is played again, and asks again
        asked.select("allow")
        assert (await prompt).stop_reason == "end_turn"
    assert [update.get("status") for update in client.updates] == ["pending", "pending", "completed", None]


async def test_acp_load_in_a_new_process(demo: Demo) -> None:
    demo.job(
        script([{"say": "Which colour?"}, {"say": "Please."}], [{"say": "{{reply}}!"}], [{"say": "again"}])
    )
    async with connected(demo) as (agent, _):
        session = (await agent.new_session(cwd=str(demo.workspace))).session_id
        await agent.prompt(session_id=session, prompt=[acp.text_block("Make a banner.")])
    async with connected(demo) as (agent, client):
        await agent.load_session(cwd=str(demo.workspace), session_id=session)
        assert {update["sessionId"] for update in client.updates} == {session}
        await agent.prompt(session_id=session, prompt=[acp.text_block("blue")])
    assert client.told == [
        ("user_message_chunk", "Make a banner."),
        ("agent_message_chunk", "Which colour?"),
        ("agent_message_chunk", "Please."),
        ("agent_message_chunk", "blue!"),
    ]
    assert [update["messageId"] for update in client.updates] == ["u1", "m1", "m2", "m3"]
    assert demo.resume(session, "headless").messages == ["again"]  # the same sessions, whatever the voice


async def test_acp_failures_leave_the_process_alive(demo: Demo) -> None:
    demo.job(script([{"say": "hi"}, {"fail": {"code": "ENGINE_QUOTA_EXHAUSTED", "message": "too much"}}]))
    async with connected(demo) as (agent, _):
        session = (await agent.new_session(cwd=str(demo.workspace))).session_id
        for _ in range(2):
            with pytest.raises(acp.RequestError, match="too much") as failure:
                await agent.prompt(session_id=session, prompt=[acp.text_block("go")])
            assert (failure.value.code, failure.value.data) == (-32603, {"code": "ENGINE_QUOTA_EXHAUSTED"})
        with pytest.raises(acp.RequestError) as unknown:
            await agent.load_session(cwd=str(demo.workspace), session_id="demo-0")
        assert unknown.value.code == -32002
        with pytest.raises(acp.RequestError) as unknown:
            await agent.prompt(session_id="demo-0", prompt=[acp.text_block("go")])
        assert unknown.value.code == -32002
        with pytest.raises(acp.RequestError) as wrong:
            await agent.new_session(cwd="not/absolute")
        assert wrong.value.code == -32602


async def test_acp_unloadable(demo: Demo) -> None:
    demo.job(built_in("unloadable"))
    async with connected(demo) as (agent, _):
        hello = await agent.initialize(protocol_version=1)
        assert hello.agent_capabilities
        assert hello.agent_capabilities.load_session is False
        session = (await agent.new_session(cwd=str(demo.workspace))).session_id
        with pytest.raises(acp.RequestError) as refused:
            await agent.load_session(cwd=str(demo.workspace), session_id=session)
        assert refused.value.code == -32601


# ACP, by hand, where the library is too polite


class Wire:
    def __init__(self, demo: Demo) -> None:
        self.process = demo.start("--acp")
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def send(self, method: str, request_id: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(message | ({"id": request_id} if request_id is not None else {}))

    def write(self, message: dict[str, Any]) -> None:
        self.stdin.write(json.dumps(message).encode() + b"\n")
        self.stdin.flush()

    def select(self, request: str, option: str) -> None:
        outcome = {"outcome": "selected", "optionId": option}
        self.write({"jsonrpc": "2.0", "id": request, "result": {"outcome": outcome}})

    def read(self) -> dict[str, Any]:
        return cast(dict[str, Any], json.loads(self.stdout.readline()))

    def prompt(self, demo: Demo, text: str = "go") -> str:
        """Open a session and send its first prompt, as request 2."""
        self.send("session/new", 1, cwd=str(demo.workspace), mcpServers=[])
        session = cast(str, self.read()["result"]["sessionId"])
        self.send("session/prompt", 2, sessionId=session, prompt=[{"type": "text", "text": text}])
        return session

    def open_permission(self) -> str:
        """Read the next request for permission, and return its id."""
        assert self.read()["params"]["update"]["sessionUpdate"] == "tool_call"
        asked = self.read()
        assert asked["method"] == "session/request_permission"
        return cast(str, asked["id"])


def test_acp_answers_nonsense(demo: Demo) -> None:
    demo.job(built_in("done"))
    requests = [
        b"{nonsense",
        b"[]",
        b'"\xff"',
        b"",
        b'{"jsonrpc": "2.0", "id": 1, "method": "session/dance"}',
        b'{"jsonrpc": "2.0", "method": "no/answer/wanted"}',
        b'{"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": [1]}',
        b'{"jsonrpc": "2.0", "id": "three", "method": "initialize", "params": {"protocolVersion": 99}}',
    ]
    process = demo.start("--acp")
    stdout, stderr = process.communicate(b"\n".join(requests), timeout=PATIENCE)
    answers = [json.loads(row) for row in stdout.splitlines()]
    assert [(answer["id"], answer.get("error", {}).get("code")) for answer in answers] == [
        (None, -32700),
        (None, -32600),
        (None, -32700),
        (1, -32601),
        (2, -32602),
        ("three", None),
    ]
    assert answers[-1]["result"]["protocolVersion"] == 1
    assert (process.returncode, stderr) == (0, b"")


def test_acp_cancel_right_behind_the_prompt(demo: Demo) -> None:
    demo.job(script([{"hang": True}]))
    wire = Wire(demo)
    session = wire.prompt(demo)
    wire.send("session/cancel", sessionId=session)
    assert wire.read() == {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled"}}


def test_acp_answers_while_it_plays(demo: Demo) -> None:
    demo.job(script([{"touch": "started"}, {"hang": True}]))
    wire = Wire(demo)
    session = wire.prompt(demo)
    demo.until("started")
    wire.send("session/set_mode", 3, sessionId=session, modeId="x")
    assert wire.read() == {"jsonrpc": "2.0", "id": 3, "result": {}}


def test_acp_a_permission_on_the_wire(demo: Demo) -> None:
    demo.job(script([{"permission": TOUCH | {"options": [NO, YES]}}]))
    wire = Wire(demo)
    session = wire.prompt(demo, "x")
    call = {
        "toolCallId": "t1",
        "title": "touch note.txt",
        "kind": "execute",
        "status": "pending",
        "rawInput": {"command": "touch x"},
    }
    update = {"sessionId": session, "update": {"sessionUpdate": "tool_call", **call}}
    assert wire.read() == {"jsonrpc": "2.0", "method": "session/update", "params": update}
    assert wire.read() == {
        "jsonrpc": "2.0",
        "id": "p1",
        "method": "session/request_permission",
        "params": {"sessionId": session, "toolCall": call, "options": [NO, YES]},
    }
    wire.select("p1", "no")
    assert wire.read()["params"]["update"] == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t1",
        "status": "failed",
        "content": [{"type": "content", "content": {"type": "text", "text": "rejected"}}],
    }
    assert wire.read()["id"] == 2


def test_acp_permissions_are_all_open_before_one_is_waited_for(demo: Demo) -> None:
    demo.job(script([{"permission": [TOUCH, FETCH, TOUCH]}, {"say": "{{permission}}"}]))
    wire = Wire(demo)
    wire.prompt(demo)
    assert [wire.read().get("id") for _ in range(6)] == [None, "p1", None, "p2", None, "p3"]
    for request, option, call in (("p3", "reject", "t3"), ("p1", "always", "t1"), ("p2", "allow", "t2")):
        wire.select(request, option)
        assert wire.read()["params"]["update"]["toolCallId"] == call
    assert wire.read()["params"]["update"]["content"]["text"] == "always,allow,reject"


def test_acp_a_permission_refused_with_an_error(demo: Demo) -> None:
    demo.job(script([{"permission": TOUCH}, {"say": "{{permission}}"}]))
    wire = Wire(demo)
    wire.prompt(demo)
    wire.open_permission()
    wire.write({"jsonrpc": "2.0", "id": "p1", "error": {"code": -32601, "message": "not offered"}})
    assert wire.read()["params"]["update"]["status"] == "failed"
    assert wire.read()["params"]["update"]["content"]["text"] == "cancelled"


@pytest.mark.parametrize(
    "result",
    [{"outcome": {"outcome": "selected", "optionId": "maybe"}}, {"outcome": "allow"}, None],
    ids=json.dumps,
)
def test_acp_an_answer_that_was_not_offered_fails_the_turn(demo: Demo, result: Any) -> None:
    demo.job(built_in("permission"))
    wire = Wire(demo)
    wire.prompt(demo)
    wire.open_permission()
    wire.write({"jsonrpc": "2.0", "id": "p1", "result": result})
    failed = wire.read()
    assert (failed["id"], failed["error"]["data"]) == (2, {"code": "ANSWER_INVALID"})
    assert "touch note.txt" in failed["error"]["message"]


def test_acp_cancel_does_not_wait_for_the_answer(demo: Demo) -> None:
    demo.job(script([{"permission": [TOUCH, FETCH]}, {"say": "{{permission}}"}]))
    wire = Wire(demo)
    session = wire.prompt(demo)
    wire.open_permission()
    wire.open_permission()
    wire.select("p1", "allow")
    assert wire.read()["params"]["update"]["status"] == "completed"
    wire.send("session/cancel", sessionId=session)
    assert wire.read() == {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled"}}

    wire.select("p2", "allow")  # too late: it is not taken for an answer to a request of the next prompt
    wire.send("session/prompt", 3, sessionId=session, prompt=[{"type": "text", "text": "again"}])
    assert [wire.open_permission(), wire.open_permission()] == ["p3", "p4"]
    wire.select("p3", "reject")
    wire.select("p4", "always")
    assert [wire.read()["params"]["update"]["status"] for _ in range(2)] == ["failed", "completed"]
    assert wire.read()["params"]["update"]["content"]["text"] == "reject,always"


def test_acp_gives_a_permission_up(demo: Demo) -> None:
    hasty = TOUCH | {"allowed_for_sec": 0.05}
    demo.job(script([{"permission": [FETCH, hasty]}, {"say": "{{permission}}"}]))
    wire = Wire(demo)
    wire.prompt(demo)
    wire.open_permission()
    wire.open_permission()
    given_up = wire.read()["params"]["update"]
    assert (given_up["toolCallId"], given_up["status"]) == ("t2", "failed")
    wire.select("p2", "allow")  # too late
    wire.select("p1", "allow")
    assert wire.read()["params"]["update"]["status"] == "completed"
    assert wire.read()["params"]["update"]["content"]["text"] == "allow,cancelled"
    assert wire.read()["result"]["stopReason"] == "end_turn"


def test_acp_a_permission_that_is_answered_in_time(demo: Demo) -> None:
    demo.job(script([{"permission": TOUCH | {"allowed_for_sec": 1e300}}, {"say": "{{permission}}"}]))
    wire = Wire(demo)
    wire.prompt(demo)
    wire.open_permission()
    wire.select("p1", "allow")
    assert wire.read()["params"]["update"]["status"] == "completed"
    assert wire.read()["params"]["update"]["content"]["text"] == "allow"


def test_acp_ends_when_stdin_is_closed_with_an_open_permission(demo: Demo) -> None:
    demo.job(built_in("permission"))
    wire = Wire(demo)
    wire.prompt(demo)
    wire.open_permission()
    wire.stdin.close()
    assert wire.process.wait(PATIENCE) == 0
    assert wire.stdout.read() == b""


@pytest.mark.parametrize(
    "steps", [[{"hang": True}], [{"flood": {"bytes": 10_000_000}}]], ids=["hang", "unread"]
)
def test_acp_ends_when_stdin_is_closed(demo: Demo, steps: list[Step]) -> None:
    demo.job(script([{"touch": "started"}, *steps]))
    wire = Wire(demo)
    wire.prompt(demo)
    demo.until("started")
    wire.stdin.close()
    assert wire.process.wait(PATIENCE) == 0


def test_acp_can_linger_when_stdin_is_closed(demo: Demo) -> None:
    demo.job(script([{"linger": 0.2}]))
    wire = Wire(demo)
    wire.prompt(demo)
    assert wire.read()["result"]["stopReason"] == "end_turn"
    closed_at = time.monotonic()
    wire.stdin.close()
    assert wire.process.wait(PATIENCE) == 0
    assert time.monotonic() - closed_at >= 0.2


def test_acp_stubborn_when_stdin_is_closed(demo: Demo) -> None:
    demo.job(script([{"ignore_signals": True}, {"touch": "started"}, {"wait_for": "go"}, {"say": "done"}]))
    wire = Wire(demo)
    wire.prompt(demo)
    demo.until("started")
    wire.stdin.close()
    wire.process.terminate()
    demo.touch("go")
    assert wire.read()["params"]["update"]["content"]["text"] == "done"
    assert wire.read()["result"]["stopReason"] == "end_turn"
    assert wire.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("step", "exit_code"), [({"exit": 7}, 7), ({"crash": "SEGV"}, -11), ({"no_terminal": True}, 0)]
)
def test_acp_can_die_without_an_answer(demo: Demo, step: Step, exit_code: int) -> None:
    demo.job(script([step]))
    wire = Wire(demo)
    wire.prompt(demo)
    assert wire.process.wait(PATIENCE) == exit_code
    assert wire.stdout.read() == b""


def test_acp_a_signal_ends_it(demo: Demo) -> None:
    demo.job(built_in("hang"))
    wire = Wire(demo)
    wire.prompt(demo)
    assert wire.read()["method"] == "session/update"
    wire.process.terminate()
    assert wire.process.wait(PATIENCE) == -signal.SIGTERM


def test_check_names_the_place() -> None:
    with pytest.raises(TurnFailed, match="turn 1, step 1: 'say' cannot be 1"):
        steps.check([[{"say": 1}]])


# What happens to its bytes


def test_it_prints_exactly_what_it_is_told(demo: Demo) -> None:
    writes: list[Step] = [
        {"write": {"text": "a"}, "times": 3},
        {"write": {"base64": "/wA="}},
        {"write": {"text": "{{parameter.words}}\n"}},
        {"write": {"text": "aside\n"}, "to": "stderr", "times": 2},
        {"write": {"text": "never"}, "times": 0},
    ]
    demo.job(script(writes), parameter={"words": "b"})
    outcome = demo.turn()
    assert b"\naaa\xff\x00b\n{" in outcome.stdout
    assert outcome.stderr == "aside\naside\n"


def test_what_is_no_base64_is_a_mistake_of_the_script(demo: Demo) -> None:
    demo.job(script([{"write": {"base64": "not that"}}]))
    assert demo.turn().error["code"] == "SCRIPT_INVALID"


def test_lines_can_be_fused_spread_and_ended_otherwise(demo: Demo) -> None:
    demo.job(
        script(
            [
                {"event": [{"a": "{{reply}}"}, {"b": 2}]},
                {"event": {"c": [3]}, "spread": True},
                {"line_end": "\r\n"},
                {"pieces": 2},
                {"say": "Grüße"},
                {"line_end": ""},
            ]
        )
    )
    stdout = demo.turn("hello").stdout
    assert b'\n{"a": "hello"}{"b": 2}\n{\n  "c": [\n    3\n  ]\n}\n{"type": "message"' in stdout
    assert 'Grüße"}\r\n'.encode() in stdout
    assert stdout.endswith(b"}}")


def test_what_is_held_back_comes_when_it_leaves(demo: Demo) -> None:
    demo.job(script([{"hold": True}, {"say": "held"}, {"touch": "said"}, {"wait_for": "go"}, {"exit": 5}]))
    process = demo.begin()
    demo.until("said")
    assert process.stdout
    assert b"session.started" in process.stdout.readline()
    demo.touch("go")
    rest, _ = process.communicate(timeout=PATIENCE)
    assert json.loads(rest)["text"] == "held"
    assert process.returncode == 5


def test_a_stream_can_be_closed_while_it_works_on(demo: Demo) -> None:
    demo.job(script([{"close": "stdout"}, {"say": "unheard"}, {"work": 0.1}, {"touch": "worked"}]))
    outcome = demo.turn()
    assert outcome.kinds == ["session.started"]
    assert outcome.exit_code == 0
    assert (demo.workspace / "worked").exists()


def test_the_session_can_be_named_late_or_never(demo: Demo) -> None:
    demo.job(script([{"say": "first"}, {"tell_session": True}], announced=False))
    assert demo.turn().kinds == ["message", "session.started", "turn.completed"]
    demo.job(script([{"say": "first"}], announced=False))
    assert demo.turn().kinds == ["message", "turn.completed"]


def test_steps_before_the_protocol(demo: Demo) -> None:
    demo.job(script([{"say": "hello"}], before=[{"write": {"text": "a banner\n"}}, {"touch": "begun"}]))
    first = demo.turn()
    assert first.stdout.startswith(b'a banner\n{"type": "session.started"')
    demo.job(script([{"say": "hello"}], before=[{"exit": 4}]))
    assert (demo.turn().exit_code, demo.turn().stdout) == (4, b"")
    process = demo.start("--acp")
    assert process.communicate(timeout=PATIENCE)[0] == b""
    assert process.returncode == 4


@pytest.mark.parametrize("before", [[{"say": "too early"}], [{"nothing": 1}], [7], "exit"])
def test_a_step_that_comes_too_early_is_a_mistake_of_the_script(demo: Demo, before: Any) -> None:
    demo.job(script([{"say": "hello"}], before=before))
    assert demo.turn().error["code"] == "SCRIPT_INVALID"
    process = demo.start("--acp")
    _, said = process.communicate(timeout=PATIENCE)
    assert b"before" in said
    assert process.returncode == 64


@pytest.mark.parametrize("failures", [[], "B01", ["b01"], ["B1"], ["B001"], [1]])
def test_ids_of_failures_are_checked(demo: Demo, failures: Any) -> None:
    demo.job(script([{"say": "hello"}], failures=failures))
    assert demo.turn().error["code"] == "SCRIPT_INVALID"


def test_a_tool_may_still_be_at_work(demo: Demo) -> None:
    demo.job(script([{"tool": {"name": "shell", "status": "in_progress"}}]))
    assert [event["status"] for event in demo.turn().events if event["type"] == "tool"] == ["in_progress"]


def test_a_flood_can_go_to_stderr(demo: Demo) -> None:
    demo.job(script([{"flood": {"bytes": 3000, "line_bytes": 100}, "to": "stderr"}]))
    outcome = demo.turn()
    assert len(outcome.stderr) == 3000
    assert outcome.kinds == ["session.started", "turn.completed"]


def test_a_link_can_be_made(demo: Demo) -> None:
    demo.job(script([{"link": {"path": "report.md", "to": "/nowhere"}}]))
    assert demo.turn().exit_code == 0
    assert (demo.workspace / "report.md").readlink() == Path("/nowhere")
