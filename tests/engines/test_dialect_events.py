"""What single lines and exits mean in each dialect, where no recording shows them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.examples import NOW
from tests.engines.made_up import CLOSING, OPENING, SESSION, a_turn, code, told, whole
from tests.engines.recordings import NAMES, Played, a_dialect, a_plan, judged, play, snapshot
from turnkeeper.core.errors import Code
from turnkeeper.core.run import Mode
from turnkeeper.core.turn import Transcript, Usage
from turnkeeper.engines.codex import CodexDialect
from turnkeeper.engines.dialect import MAX_ID, SpreadObject
from turnkeeper.engines.lines import Line
from turnkeeper.engines.process import Exit


def item(kind: str, moment: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{moment}", "item": {"id": "item_1", "type": kind, **fields}}


def part(kind: str, part_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "sessionID": SESSION, "part": {"id": part_id, "messageID": "m1", **fields}}


# Every dialect

INIT = {"type": "system", "subtype": "init"}
NAMED_BY = {
    "codex": lambda name: a_turn("codex", [{"type": "thread.started", "thread_id": name}]),
    "claude": lambda name: a_turn("claude", [INIT | {"session_id": name}]),
    "gemini": lambda name: a_turn("gemini", [{"type": "init", "session_id": name}]),
    "opencode": lambda name: a_turn("opencode", [{"type": "step_start", "sessionID": name}]),
    "qwen": lambda name: a_turn("qwen", [INIT | {"session_id": name}]),
    "iflow": lambda name: a_turn("iflow", stderr=info(name)),
}


def info(session: object, **fields: Any) -> str:
    block = json.dumps({"session-id": session, **fields}, indent=2)
    return f"\n<Execution Info>\n{block}\n</Execution Info>\n"


@pytest.mark.parametrize("engine", NAMED_BY)
def test_a_session_is_named_by_a_sane_word(engine: str) -> None:
    for sane in ("01a1e1cb-7795", "ses_e1E3", "session:1.2", "7", "x" * 200):
        assert told(NAMED_BY[engine](sane))["session"] == sane
    for odd in (
        "--yolo",
        "-",
        "",
        "a b",
        "a/b",
        "../x",
        "a\n",
        "é",
        "$(x)",
        "x" * 201,
        7,
        None,
        ["a"],
        {"a": 1},
    ):
        assert told(NAMED_BY[engine](odd))["session"] is None


@pytest.mark.failure("R06")
@pytest.mark.parametrize("engine", NAMED_BY)
def test_a_resumed_session_that_says_nothing_is_lost(engine: str) -> None:
    silent = a_turn(engine, [b"", b"  "], session=SESSION, stderr="YOLO mode is enabled.\n")
    assert code(silent) is Code.SESSION_LOST
    assert judged(silent, play(silent), Mode.INTERACTIVE) == "failed SESSION_LOST"
    assert code(replace(silent, session=None)) is None
    assert code(a_turn(engine, session=SESSION, ended=-15)) is None


@pytest.mark.failure("M10")
@pytest.mark.parametrize("engine", NAMED_BY)
def test_a_resumed_session_that_comes_back_as_another_is_lost(engine: str) -> None:
    turn = replace(NAMED_BY[engine]("session-2"), session=SESSION)
    seen = told(turn)
    assert (seen["session"], seen["failure"][0]) == (SESSION, "SESSION_LOST")
    assert SESSION in seen["failure"][1]
    assert judged(turn, play(turn), Mode.INTERACTIVE) == "failed SESSION_LOST"
    # The one that was asked for, or none in particular.
    assert code(replace(turn, session="session-2")) is None
    assert code(replace(turn, session=None)) is None


@pytest.mark.failure("M10")
@pytest.mark.parametrize("engine", NAMED_BY)
@pytest.mark.parametrize("resumed", [None, SESSION])
def test_the_first_id_is_the_session(engine: str, resumed: str | None) -> None:
    first, second = NAMED_BY[engine](SESSION), NAMED_BY[engine]("session-2")
    stdout, stderr = first.stdout + second.stdout, first.stderr + second.stderr
    seen = told(replace(first, stdout=stdout, stderr=stderr, session=resumed))
    assert (seen["session"], seen["failure"]) == (SESSION, None)


@pytest.mark.failure("R01")
@pytest.mark.parametrize(
    ("engine", "ended", "stderr"),
    [
        (
            "codex",
            1,
            "Error: thread/resume: thread/resume failed: no rollout found for thread id x (code -32600)",
        ),
        ("codex", 1, "Error: thread/resume: thread/resume failed: rollout at /x.jsonl is empty"),
        (
            "gemini",
            42,
            'Error resuming session: Invalid session identifier "x".\n  Searched for sessions in /x.',
        ),
        ("gemini", 42, "Error resuming session: Unexpected end of JSON input"),
        ("opencode", 1, "Error: Session not found"),
        ("claude", 1, "No conversation found with session ID: x"),
        ("qwen", 1, "No saved session found with ID x. Run `qwen --resume` without an ID to choose one."),
    ],
)
def test_a_session_that_cannot_be_resumed_is_lost(engine: str, ended: int, stderr: str) -> None:
    turn = a_turn(engine, [b"a banner"], ended=ended, stderr=stderr, session=SESSION)
    assert code(turn) is Code.SESSION_LOST
    # Nobody asked for a session, or it was opened: then it is not the session that is missing.
    assert code(replace(turn, session=None)) is not Code.SESSION_LOST
    opened = a_turn(engine, OPENING[engine], ended=ended, stderr=stderr, session=SESSION)
    assert code(opened) is not Code.SESSION_LOST


@pytest.mark.failure("R02", "Q04", "S08")
@pytest.mark.parametrize(
    ("engine", "ended", "stderr", "expected"),
    [
        ("gemini", 41, "Error: Please set an Auth method", Code.ENGINE_AUTH_REQUIRED),
        ("gemini", 55, "", Code.ENGINE_TRUST_REQUIRED),
        ("claude", 1, "Error: 401 Unauthorized", Code.ENGINE_AUTH_REQUIRED),
        ("qwen", 1, "Unknown argument: resume", Code.ENGINE_ARGS_REJECTED),
        ("claude", 1, "", Code.SESSION_LOST),
    ],
)
def test_what_has_a_certain_name_is_not_a_broken_session(
    engine: str, ended: int, stderr: str, expected: Code
) -> None:
    """Words that only sound like a session are asked about last."""
    noise = "SyntaxError: Unterminated string in JSON at position 8191"
    turn = a_turn(engine, ended=ended, stderr=f"{noise}\n{stderr}\n", session=SESSION)
    assert code(turn) is expected


@pytest.mark.failure("R02")
@pytest.mark.parametrize("engine", ["claude", "qwen"])
def test_an_ordinary_failure_of_a_resumed_turn_keeps_its_result(engine: str) -> None:
    """A lost session would outweigh the marker and the valid output."""
    answer = {"type": "text", "text": '{"answer": "42", "__SKILL_DONE__": true}'}
    words = "Failed to parse JSON response from https://x.example/v1/chat/completions"
    failed = {"type": "result", "subtype": "error_during_execution", "is_error": True, "session_id": SESSION}
    said = {"type": "assistant", "session_id": SESSION, "message": {"id": "m1", "content": [answer]}}
    turn = a_turn(
        engine, [*OPENING[engine], said, failed | {"error": {"message": words}}], ended=1, session=SESSION
    )
    assert code(turn) is Code.ENGINE_FAILED
    assert judged(turn, play(turn), Mode.INTERACTIVE).startswith("succeeded")


def test_a_session_that_is_busy_is_not_lost() -> None:
    stderr = "Error: thread/resume: thread/resume failed: thread x already has an active writer (code -32600)"
    turn = a_turn("codex", ended=1, stderr=stderr, session=SESSION)
    assert judged(turn, play(turn), Mode.INTERACTIVE) == "failed ENGINE_FAILED"


@pytest.mark.failure("X01")
@pytest.mark.parametrize("engine", OPENING)
@pytest.mark.parametrize(
    "ended", [0, 1, 2, 42, 52, 53, 124, 126, 127, 130, 137, 141, 143, 255, -2, -9, -11, -15]
)
def test_an_exit_without_a_closing_event_is_never_success(engine: str, ended: int) -> None:
    turn = a_turn(engine, OPENING[engine], ended=ended, stderr="something odd")
    expected = "ENGINE_CRASHED" if ended < 0 else "ENGINE_FAILED"
    for mode in Mode:
        assert judged(turn, play(turn), mode) == f"failed {expected}"


@pytest.mark.failure("Q04")
@pytest.mark.parametrize("engine", OPENING)
def test_an_exit_that_names_the_login_is_typed(engine: str) -> None:
    turn = a_turn(engine, ended=1, stderr="Error: 401 Unauthorized\n    at x (y.js:1)")
    assert judged(turn, play(turn), Mode.AUTO) == "failed ENGINE_AUTH_REQUIRED"


WORDS = (
    "Please log in to the portal: 401 Unauthorized, authentication failed, quota exceeded, API key not valid."
)
SAID = {"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": WORDS}]}}
SAYING: dict[str, Any] = {
    "codex": item("agent_message", text=WORDS),
    "claude": SAID,
    "qwen": SAID,
    "gemini": {"type": "message", "role": "assistant", "content": WORDS, "delta": True},
    "opencode": part("text", "p1", text=WORDS),
}


@pytest.mark.failure("Q12")
@pytest.mark.parametrize("engine", SAYING)
def test_words_about_logins_are_only_words(engine: str) -> None:
    turn = a_turn(engine, [*OPENING[engine], SAYING[engine], *CLOSING[engine]])
    assert judged(turn, play(turn), Mode.INTERACTIVE) == "waiting_user"
    broken = a_turn(engine, [*OPENING[engine], SAYING[engine]], ended=1)
    assert judged(broken, play(broken), Mode.INTERACTIVE) == "failed ENGINE_FAILED"


@pytest.mark.failure("Q12")
def test_words_of_iflow_about_logins_are_only_words() -> None:
    turn = a_turn("iflow", [WORDS.encode()], stderr=info(SESSION))
    assert judged(turn, play(turn), Mode.INTERACTIVE) == "waiting_user"


@pytest.mark.failure("M07")
@pytest.mark.parametrize("engine", SAYING)
def test_nothing_counts_after_the_closing_event(engine: str) -> None:
    lines = [*OPENING[engine], *CLOSING[engine], SAYING[engine], {"type": "turn.failed"}, {"type": "error"}]
    seen = told(a_turn(engine, lines))
    assert (seen["messages"], seen["closed"]) == ([], "success")


# Codex


@pytest.mark.failure("M02")
def test_codex_gets_over_an_error() -> None:
    seen = whole(
        "codex", {"type": "error", "message": "Reconnecting... 1/5 (x)"}, {"type": "error", "message": "odd"}
    )
    assert seen["warnings"] == [["ENGINE_RETRYING", "Reconnecting... 1/5 (x)"], ["ENGINE_REMARK", "odd"]]
    assert seen["closed"] == "success"


@pytest.mark.failure("M03", "Q04")
def test_codex_tells_the_cause_before_the_end() -> None:
    cause = {"type": "error", "message": "unexpected status 401 Unauthorized"}
    broken = {"type": "turn.failed", "error": {"message": "stream disconnected before completion"}}
    seen = told(a_turn("codex", [*OPENING["codex"], cause, broken], ended=1))
    assert seen["failure"] == ["ENGINE_AUTH_REQUIRED", "stream disconnected before completion"]
    for unsaid in (
        {"type": "turn.failed"},
        {"type": "turn.failed", "error": {"message": None}},
        b"never said",
    ):
        seen = told(a_turn("codex", [*OPENING["codex"], cause, unsaid], ended=1))
        assert seen["failure"] == ["ENGINE_AUTH_REQUIRED", "unexpected status 401 Unauthorized"]


def test_codex_that_is_killed_did_not_end_by_its_error() -> None:
    cause = {"type": "error", "message": "unexpected status 401 Unauthorized"}
    turn = a_turn("codex", [*OPENING["codex"], cause], ended=-9)
    assert judged(turn, play(turn), Mode.AUTO) == "failed ENGINE_CRASHED"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            item(
                "mcp_tool_call",
                server="web",
                tool="fetch",
                arguments={"u": 1},
                result={"ok": 1},
                status="completed",
            ),
            {"name": "web.fetch", "status": "completed", "input": {"u": 1}, "output": {"ok": 1}},
        ),
        (
            item("mcp_tool_call", tool="fetch", result=None, error={"message": "no"}, status="failed"),
            {"name": "fetch", "status": "failed", "output": {"message": "no"}},
        ),
        (
            item("file_change", changes=[{"path": "a", "kind": "add"}], status="completed"),
            {"name": "file_change", "status": "completed", "input": [{"path": "a", "kind": "add"}]},
        ),
        (item("web_search", query="q"), {"name": "web_search", "status": "completed", "input": "q"}),
        (
            item("todo_list", "updated", items=[{"text": "a", "completed": False}]),
            {"name": "todo_list", "status": "in_progress", "input": [{"text": "a", "completed": False}]},
        ),
    ],
)
def test_codex_tools(line: Any, shown: dict[str, Any]) -> None:
    assert whole("codex", line)["tools"] == [{"call_id": "item_1", **shown}]


def test_codex_reasons_and_repeats_itself_when_whole() -> None:
    seen = whole(
        "codex",
        item("reasoning", text="hm"),
        item("agent_message", "started"),
        item("agent_message", "updated", text="Hel"),
        item("agent_message", text="Hello."),
    )
    assert (seen["reasoning"], seen["messages"]) == ([{"text": "hm"}], ["Hello."])
    assert seen["not_understood"] == []


def test_codex_counts_a_session_and_is_heard_to_count_a_turn() -> None:
    counts = {"input_tokens": 2468, "cached_input_tokens": 300, "output_tokens": 17, "odd": 1}
    closing = json.dumps({"type": "turn.completed", "usage": counts})
    used = {"input_tokens": 1134, "cached_tokens": 100, "output_tokens": 15, "reasoning_tokens": 5}

    def counted(session: str | None) -> Any:
        dialect = CodexDialect(a_plan(session, used=used))
        heard = dialect.hear(Line(closing.encode(), 0, len(closing), truncated=False))
        return [event.tokens for event in heard.events if isinstance(event, Usage)] if heard else None

    # Never less than nothing, should it have begun to count anew.
    assert counted(SESSION) == [{"input_tokens": 1034, "cached_tokens": 200, "output_tokens": 0}]
    # What was used in a session that is gone is not in the counts of a new one.
    assert counted(None) == [{"input_tokens": 2168, "cached_tokens": 300, "output_tokens": 17}]


# Gemini

STATS = {
    "models": {
        "a": {"tokens": {"prompt": 10, "candidates": 2, "total": 15, "cached": 4, "thoughts": 3, "tool": 0}},
        "b": {"tokens": {"prompt": 1, "candidates": 1, "total": 2}},
        "c": {"tokens": "odd"},
    }
}
ANSWER = {"session_id": SESSION, "response": 'Done: {"__SKILL_DONE__": true, "answer": 42}', "stats": STATS}


@pytest.mark.spec("TURN-13")
@pytest.mark.parametrize("indent", [None, 2])
def test_gemini_answers_in_one_object(indent: int | None) -> None:
    text = json.dumps(ANSWER, indent=indent).encode()
    for noise in (b"", b"Loaded cached credentials.\n", b'{\n"a banner in braces"\n'):
        turn = a_turn("gemini", [noise + text])
        seen = told(turn)
        assert seen["messages"] == [ANSWER["response"]]
        assert seen["not_understood"] == (["Loaded cached credentials."] if b"Loaded" in noise else [])
        assert (seen["session"], seen["closed"]) == (SESSION, "success")
        assert seen["usage"] == {
            "input_tokens": 7,
            "cached_tokens": 4,
            "output_tokens": 3,
            "reasoning_tokens": 3,
        }
        assert seen["verdict"]["interactive"] == "succeeded DONE_MARKER"


@pytest.mark.parametrize("indent", [None, 2])
def test_gemini_fails_in_one_object(indent: int | None) -> None:
    error = {"type": "ApiError", "message": '{"error":{"code":429,"message":"slow down"}}', "code": 429}
    text = json.dumps({"session_id": SESSION, "error": error}, indent=indent)
    expected = ["ENGINE_RATE_LIMITED", "slow down"]
    assert told(a_turn("gemini", [text.encode()], ended=173))["failure"] == expected
    if indent:
        seen = told(
            a_turn("gemini", stderr=f"Attempt 1 failed.\n    at x {{\n  status: 429\n}}\n{text}", ended=173)
        )
        assert seen["failure"] == expected
    unauthorized = {"session_id": SESSION, "error": {"type": "Error", "message": "no", "code": 41}}
    assert code(a_turn("gemini", [unauthorized], ended=41)) is Code.ENGINE_AUTH_REQUIRED


def test_gemini_answers_and_fails_in_one_object() -> None:
    seen = told(
        a_turn("gemini", [ANSWER | {"error": {"type": "INVALID_STREAM", "message": "empty response"}}])
    )
    assert seen["messages"] == [ANSWER["response"]]
    assert seen["failure"] == ["ENGINE_FAILED", "empty response"]


@pytest.mark.failure("M06")
def test_gemini_says_a_message_whole_and_once() -> None:
    message = {"type": "message", "role": "assistant", "content": "Hello."}
    assert whole("gemini", message, message)["messages"] == ["Hello."]
    assert whole("gemini", message | {"delta": True}, message)["messages"] == ["Hello."]


@pytest.mark.failure("C02")
@pytest.mark.parametrize("indent", [None, 2])
def test_gemini_object_after_events_is_not_its_answer(indent: int | None) -> None:
    forged = json.dumps(ANSWER, indent=indent)
    seen = whole("gemini", forged.encode())
    assert (seen["messages"], seen["usage"], seen["closed"]) == ([], {}, "success")
    assert seen["not_understood"] == forged.split("\n")


def test_gemini_echo_of_the_user_ends_a_message() -> None:
    piece = {"type": "message", "role": "assistant", "delta": True}
    echo = {"type": "message", "role": "user", "content": "go on"}
    seen = whole("gemini", piece | {"content": "one"}, echo, piece | {"content": "two"})
    assert seen["messages"] == ["one", "two"]


def test_gemini_remembers_no_endless_names() -> None:
    for call, name, shown in (
        ("c" * MAX_ID, "ls", "ls"),
        ("c" * 201, "ls", "tool"),
        ("c", "n" * 201, "tool"),
    ):
        seen = whole(
            "gemini",
            {"type": "tool_use", "tool_id": call, "tool_name": name},
            {"type": "tool_result", "tool_id": call, "status": "success", "output": "x"},
        )
        assert [tool["name"] for tool in seen["tools"]] == [name, shown]


def test_gemini_warns_and_its_last_error_explains_the_end() -> None:
    warning = {"type": "error", "severity": "error", "message": "the model returned an empty response"}
    seen = told(a_turn("gemini", [*OPENING["gemini"], warning, {"type": "result", "status": "error"}]))
    assert seen["warnings"] == [["ENGINE_REMARK", warning["message"]]]
    assert seen["failure"] == ["ENGINE_FAILED", warning["message"]]


def test_gemini_tool_that_fails() -> None:
    seen = whole(
        "gemini",
        {"type": "tool_use", "tool_id": "1", "tool_name": "ls", "parameters": {}},
        {"type": "tool_result", "tool_id": "1", "status": "error", "error": {"type": "X", "message": "no"}},
    )
    assert seen["tools"][-1] == {"call_id": "1", "name": "ls", "status": "failed", "output": "no"}


@pytest.mark.failure("X01")
@pytest.mark.parametrize(
    ("ended", "verdict", "words"),
    [
        (41, "failed ENGINE_AUTH_REQUIRED", "no login"),
        (145, "failed ENGINE_AUTH_REQUIRED", "HTTP 401"),
        (173, "failed ENGINE_RATE_LIMITED", "HTTP 429"),
        (55, "failed ENGINE_TRUST_REQUIRED", "does not trust"),
    ],
)
def test_gemini_exits(ended: int, verdict: str, words: str) -> None:
    turn = a_turn("gemini", ended=ended, stderr="YOLO mode is enabled.")
    played = play(turn)
    assert judged(turn, played, Mode.AUTO) == verdict
    assert words in snapshot(turn, played)["failure"][1]


def test_a_reply_to_gemini_is_no_command() -> None:
    dialect = a_dialect("gemini")
    assert dialect.begin("/quit") == b"\n/quit"
    assert dialect.begin("yes / no") == b"yes / no"


# iFlow


def iflow(*lines: bytes) -> Any:
    return told(a_turn("iflow", lines, stderr=info(SESSION)))["messages"]


def test_iflow_says_plain_text() -> None:
    assert iflow(b"", b"one", b"", b"  two", b"three", b" ", b"") == ["one\n\n  two\nthree"]
    assert iflow(b'{"a": 1}', b"[1, 2]", b"null") == ['{"a": 1}\n[1, 2]\nnull']
    assert iflow() == []


@pytest.mark.failure("Q12")
def test_iflow_line_that_is_not_over_is_the_assistants_too() -> None:
    """Else it would close the turn, with no failure to show for it."""
    question = b"Enter the authorization code: "
    assert not a_dialect("iflow").asks("stdout", question)
    assert a_dialect("iflow").asks("stderr", question)
    assert a_dialect("gemini").asks("stdout", question)


def test_iflow_notices_are_no_text() -> None:
    notice = b"Model glm-4.6 does not support thinking mode"
    assert iflow(b"[runtime] Loading", b"[loader] Loaded 1", notice, b"one", notice, b"two") == ["one\ntwo"]
    # In the middle of an answer it is a line that the assistant quotes.
    assert iflow(b"the log:", b"[runtime] Loading") == ["the log:\n[runtime] Loading"]
    quoted = b"It says: Model glm-4.6 does not support thinking mode"
    assert iflow(quoted) == [quoted.decode()]


def test_iflow_tells_session_and_usage_on_one_line_too() -> None:
    tokens = {"input": 3, "output": 2, "total": 5}
    line = f"<Execution Info>{json.dumps({'session-id': SESSION, 'tokenUsage': tokens})}</Execution Info>\n"
    seen = told(a_turn("iflow", [b"hi"], stderr=line))
    assert (seen["session"], seen["closed"]) == (SESSION, "success")
    assert seen["usage"] == {"input_tokens": 3, "output_tokens": 2}


def test_iflow_without_its_block_is_not_closed() -> None:
    for stderr in (
        "",
        info(SESSION).replace("\n}", ""),
        info(7),
        info(SESSION).replace("<Execution", "<Executed"),
    ):
        assert told(a_turn("iflow", [b"hi"], stderr=stderr))["closed"] == "none"
    assert told(a_turn("iflow", [b"hi"], stderr=info(SESSION), ended=1))["closed"] == "none"


@pytest.mark.failure("M10", "R01")
def test_iflow_replaces_a_session_silently() -> None:
    turn = a_turn("iflow", [b"hi"], stderr=info("session-2", tokenUsage={"input": 1}), session=SESSION)
    seen = told(turn)
    assert (seen["session"], seen["failure"][0]) == (SESSION, "SESSION_LOST")
    assert seen["usage"] == {"input_tokens": 1}
    assert told(replace(turn, session="session-2"))["closed"] == "success"


@pytest.mark.failure("X01")
def test_iflow_that_exits_badly_after_its_block_has_answered() -> None:
    """What it says on stderr then is of its shutdown, whatever it sounds like."""
    answer = b'{"__SKILL_DONE__": true, "answer": 42}'
    stderr = info(SESSION) + "Error: 401 Unauthorized, authentication failed\n"
    turn = a_turn("iflow", [answer], stderr=stderr, ended=1)
    assert told(turn)["failure"] is None
    verdict = judged(turn, play(turn), Mode.INTERACTIVE)
    assert verdict == "succeeded DONE_MARKER ENGINE_FAILED_AFTER_RESULT"
    assert judged(turn, play(turn), Mode.AUTO) == "failed ENGINE_FAILED"
    # Without its block it is the reason.
    turn = a_turn("iflow", [answer], stderr="Error: 401 Unauthorized\n", ended=1)
    assert judged(turn, play(turn), Mode.AUTO) == "failed ENGINE_AUTH_REQUIRED"


@pytest.mark.failure("B10")
@pytest.mark.parametrize(
    "foreign",
    ["(node:7) Warning: odd", "[DEP0040] DeprecationWarning: x", "Error: 7 {", "", "    at x (y.js:1:2)"],
)
def test_iflow_block_with_a_foreign_line_in_it_is_read(foreign: str) -> None:
    block = info(SESSION, tokenUsage={"input": 3, "cost": -1.5e-7}, flags=[True, None, [], {}, 'a "b"'])
    lines = block.splitlines(keepends=True)
    for at in range(len(lines) + 1):
        stderr = "".join([*lines[:at], f"{foreign}\n", *lines[at:]])
        seen = told(a_turn("iflow", [b"hi"], stderr=stderr))
        assert (seen["session"], seen["usage"], seen["closed"]) == (SESSION, {"input_tokens": 3}, "success")


def test_iflow_line_that_was_cut_is_no_word() -> None:
    """Its rest was not kept: what is left could say anything."""
    dialect = a_dialect("iflow")
    assert dialect.hear(Line(b"a very long l", 0, 9_000_000, truncated=True)) is None
    heard = dialect.hear(Line(b"hi", 0, 3, truncated=False))
    assert heard is not None
    assert [getattr(event, "text", None) for event in heard.events] == ["hi"]


# An object over many lines


def spread(*lines: bytes, max_size: int = 100, truncated: bytes | None = None) -> list[Any]:
    taken = SpreadObject(max_size)
    return [taken.take(Line(line, 0, len(line), truncated=line == truncated)) for line in lines]


def test_spread_object_is_given_with_its_last_line() -> None:
    whole_object = (b"{", b'  "a": 1', b"}")
    assert spread(b"noise", *whole_object, b"}") == [None, None, None, {"a": 1}, None]
    assert spread(b"{", b"noise", *whole_object)[-1] == {"a": 1}


def test_spread_object_with_a_line_that_was_cut_is_dropped() -> None:
    assert spread(b"{", b'"a": 1', b"}", truncated=b'"a": 1') == [None, None, None]
    assert spread(b"{", b'"a": 1', b"}", truncated=b"}") == [None, None, None]


@pytest.mark.parametrize("filling", [b" " * 9, b'"b": "234",', b""])
def test_spread_object_has_a_largest_size(filling: bytes) -> None:
    """Blank lines count as well: each of them is kept."""
    most = 200
    counted = len(filling.rstrip()) + 1
    fits = (most - len("{\n") - len('"a": 1\n') - len("}\n")) // counted
    lines = [b"{", *[filling] * fits, b'"a": 1', b"}"]
    found = spread(*lines, max_size=most)[-1]
    assert found is not None
    assert found["a"] == 1
    assert spread(b"{", filling, *lines[1:], max_size=most) == [None] * (len(lines) + 1)


# OpenCode

TOKENS = {"total": 50, "input": 20, "output": 7, "reasoning": 3, "cache": {"read": 15, "write": 5}}
SPENT = {"input_tokens": 25, "cached_tokens": 15, "output_tokens": 7, "reasoning_tokens": 3}
TOOL = part(
    "tool_use", "t1", callID="c1", tool="bash", state={"status": "error", "input": {"c": 1}, "error": "no"}
)


def test_opencode_texts_of_one_message_are_one() -> None:
    one, two = part("text", "p1", text="one"), part("text", "p2", text="two")
    assert whole("opencode", one, two)["messages"] == ["one\n\ntwo"]
    assert whole("opencode", one, part("reasoning", "r", text="hm"), two)["messages"] == ["one\n\ntwo"]
    assert whole("opencode", one, one, two, one)["messages"] == ["one\n\ntwo"]
    assert whole("opencode", one, TOOL, two)["messages"] == ["one", "two"]
    other = {"type": "text", "sessionID": SESSION, "part": {"id": "p2", "messageID": "m2", "text": "two"}}
    assert whole("opencode", one, other)["messages"] == ["one", "two"]


@pytest.mark.spec("TURN-13")
def test_opencode_marker_in_the_second_text_counts() -> None:
    seen = whole(
        "opencode", part("text", "p1", text="Done."), part("text", "p2", text='{"__SKILL_DONE__": true}')
    )
    assert seen["verdict"]["interactive"] == "succeeded DONE_MARKER"


def test_opencode_sums_its_steps_once_each() -> None:
    steps = [part("step_finish", f"s{n}", reason="tool-calls", tokens=TOKENS) for n in (1, 2, 2)]
    seen = whole("opencode", *steps)
    assert seen["usage"] == {name: 2 * count for name, count in SPENT.items()}
    cut_off = told(a_turn("opencode", [*OPENING["opencode"], steps[0]], ended=-15))
    assert cut_off["usage"] == SPENT


@pytest.mark.parametrize(
    ("tokens", "usage"),
    [
        ({"input": "many", "output": True, "cache": 7, "total": -1}, {}),
        ({"input": 3, "output": 0}, {"input_tokens": 3, "output_tokens": 0}),
        (TOKENS | {"reasoning": None}, {name: n for name, n in SPENT.items() if name != "reasoning_tokens"}),
    ],
)
def test_opencode_leaves_out_what_was_not_counted(tokens: Any, usage: dict[str, int]) -> None:
    assert whole("opencode", part("step_finish", "s1", reason="unknown", tokens=tokens))["usage"] == usage


@pytest.mark.parametrize(
    ("reason", "closed", "failure"),
    [
        ("stop", "success", None),
        ("tool-calls", "none", None),
        ("unknown", "success", None),  # by its exit
        ("length", "error", ["ENGINE_FAILED", "the model stopped early: length"]),
        ("content-filter", "success", None),  # a refusal is an answer
    ],
)
def test_opencode_stops(reason: str, closed: str, failure: Any) -> None:
    seen = told(a_turn("opencode", [*OPENING["opencode"], part("step_finish", "s1", reason=reason)]))
    assert (seen["closed"], seen["failure"]) == (closed, failure)


TOOL_STEP = [*OPENING["opencode"], TOOL, part("step_finish", "s1", reason="stop")]
NEXT_STEP = {"type": "step_start", "sessionID": SESSION, "part": {"id": "p5", "messageID": "m2"}}


def test_opencode_stop_after_a_tool_goes_on() -> None:
    answer = part("text", "p1", text='{"__SKILL_DONE__": true}')
    turn = a_turn("opencode", [*TOOL_STEP, NEXT_STEP, answer, *CLOSING["opencode"]])
    seen = told(turn)
    assert (seen["messages"], seen["closed"]) == (['{"__SKILL_DONE__": true}'], "success")
    assert seen["verdict"]["interactive"] == "succeeded DONE_MARKER"
    # The next step, without a tool, is closed by its own stop and not by the exit.
    assert told(replace(turn, how=replace(turn.how, exit=Exit(None, 9))))["closed"] == "success"


@pytest.mark.failure("M05")
def test_opencode_stop_after_a_tool_is_the_end_if_it_exits_well_there() -> None:
    assert told(a_turn("opencode", TOOL_STEP))["closed"] == "success"
    assert told(a_turn("opencode", [*TOOL_STEP, TOOL, TOOL_STEP[0]]))["closed"] == "success"  # told again
    for ended in (1, -9, -15):
        assert told(a_turn("opencode", TOOL_STEP, ended=ended))["closed"] == "none"
    # It went on, and broke off there.
    for begun in ([NEXT_STEP], [NEXT_STEP, part("text", "p1", text="half an ans")]):
        assert told(a_turn("opencode", [*TOOL_STEP, *begun]))["closed"] == "none"
    cut_off = [*OPENING["opencode"], TOOL, part("step_finish", "s1", reason="tool-calls")]
    assert told(a_turn("opencode", cut_off))["closed"] == "none"


def test_opencode_that_is_idle_is_done() -> None:
    done = {"type": "done", "sessionID": SESSION, "reason": "idle"}
    killed = a_turn("opencode", [*TOOL_STEP, done, part("text", "p1", text="late")], ended=-9)
    assert (told(killed)["closed"], told(killed)["messages"]) == ("success", [])
    failed = a_turn("opencode", [{"type": "error", "sessionID": SESSION, "error": {"message": "no"}}, done])
    assert told(failed)["failure"] == ["ENGINE_FAILED", "no"]
    assert whole("opencode", done)["closed"] == "success"
    assert told(a_turn("opencode", [done | {"reason": "odd"}]))["closed"] == "none"


def test_opencode_remembers_no_endless_ids() -> None:
    kept, endless = (part("text", "p" * size, text="one") for size in (MAX_ID, MAX_ID + 1))
    assert whole("opencode", kept, kept)["messages"] == ["one"]
    assert whole("opencode", endless, endless)["messages"] == ["one\n\none"]


@pytest.mark.failure("Q04", "Q07")
@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ({"name": "APIError", "data": {"message": "no", "statusCode": 401}}, ["ENGINE_AUTH_REQUIRED", "no"]),
        ({"name": "APIError", "data": {"message": "no", "statusCode": 429}}, ["ENGINE_RATE_LIMITED", "no"]),
        ({"name": "ProviderAuthError", "data": {"message": "no"}}, ["ENGINE_AUTH_REQUIRED", "no"]),
        ({"name": "MessageAbortedError"}, ["ENGINE_FAILED", "MessageAbortedError"]),
        ({"message": "no"}, ["ENGINE_FAILED", "no"]),
    ],
)
def test_opencode_errors(error: Any, failure: list[str]) -> None:
    turn = a_turn("opencode", [{"type": "error", "sessionID": SESSION, "error": error}], ended=1)
    assert told(turn)["failure"] == failure
    assert judged(turn, play(turn), Mode.INTERACTIVE) == f"failed {failure[0]}"


def test_opencode_tool_that_fails() -> None:
    assert whole("opencode", TOOL)["tools"] == [
        {"call_id": "c1", "name": "bash", "status": "failed", "input": {"c": 1}, "output": "no"}
    ]


@pytest.mark.failure("M10")
def test_opencode_keeps_the_session_that_it_named_first() -> None:
    other = part("text", "p1", text="hi") | {"sessionID": "ses_2"}
    assert whole("opencode", other)["session"] == SESSION


# Any object at all

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
TYPES = [
    *("thread.started", "turn.started", "item.started", "item.updated", "item.completed"),
    *("turn.completed", "turn.failed", "error", "init", "message", "tool_use", "tool_result", "result"),
    *("step_start", "step_finish", "text", "reasoning", "done"),
    *("system", "assistant", "user", "stream_event"),
]
FIELDS = [
    *("thread_id", "item", "message", "usage", "error", "session_id", "role", "content", "delta"),
    *("tool_id", "tool_name", "parameters", "status", "output", "stats", "response", "sessionID"),
    *("part", "models", "tokens", "id", "text", "messageID", "callID", "tool", "state", "reason"),
    *("data", "name", "statusCode", "code", "command", "aggregated_output", "server", "arguments"),
    *("result", "synthetic", "session-id", "tokenUsage", "subtype", "is_error"),
    *("parent_tool_use_id", "tool_use_id", "thinking", "input", "event", "errors"),
    *("api_error_status", "api_error_type", "is_api_error_message", "permission_denials", "model"),
    *("model_usage_since_last_result", "output_tokens_details", "attempt", "max_retries"),
    "error_status",
]
KINDS = st.sampled_from(
    [
        *("agent_message", "reasoning", "command_execution", "mcp_tool_call", "error", "user", "assistant"),
        *("text", "thinking", "tool_use", "tool_result"),
    ]
)
WORDS_OF_ENGINES = KINDS | st.sampled_from(
    ["success", "error", "stop", "tool-calls", "init", "api_retry", SESSION]
)


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    known = st.dictionaries(st.sampled_from(FIELDS), values, max_size=5)
    return st.builds(
        lambda fields, kind: fields | kind, known, st.just({}) | KINDS.map(lambda kind: {"type": kind})
    )


nested = objects(json_values | WORDS_OF_ENGINES)
blocks = st.builds(lambda found: {"id": "m", "content": found}, st.lists(nested | json_values, max_size=3))
events = st.builds(
    lambda kind, fields, message: {
        "type": kind,
        **{k: v for k, v in (fields | message).items() if k != "type"},
    },
    st.sampled_from(TYPES),
    objects(json_values | WORDS_OF_ENGINES | nested),
    st.just({}) | blocks.map(lambda message: {"message": message}),
)
turns = st.lists(events | objects(json_values | nested) | json_values, max_size=8)


@pytest.mark.failure("M01", "B13")
@pytest.mark.parametrize("engine", NAMES)
@given(lines=turns, resumes=st.booleans(), ended=st.sampled_from([0, 1, 41, 42, -9]))
def test_nothing_that_is_json_breaks_a_dialect(
    engine: str, lines: list[Any], resumes: bool, ended: int
) -> None:
    dialect = a_dialect(engine, SESSION if resumes else None)
    played = Played(Transcript(1))
    for value in lines:
        for indent in (None, 2):
            for text in json.dumps(value, indent=indent).split("\n"):
                line = Line(text.encode(), 0, len(text), truncated=False)
                for heard in (dialect.hear(line), dialect.hear_stderr(line)):
                    for event in heard.events if heard else ():
                        played.events += played.transcript.take(event, NOW)
    for event in dialect.finish(Exit(ended, None) if ended >= 0 else Exit(None, -ended), "Error: odd"):
        played.transcript.take(event, NOW)
    for message in played.transcript.messages:
        message.encode()
    assert all(0 <= count < 2**63 for count in played.transcript.usage.values())
