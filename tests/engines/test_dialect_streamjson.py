"""What single lines mean in the language of claude and qwen, where no recording shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engines.made_up import CLOSING, OPENING, SESSION, a_turn, code, told, whole
from tests.engines.recordings import a_dialect, a_plan, judged, lines_of, play
from turnkeeper.core.errors import Code
from turnkeeper.core.run import Mode
from turnkeeper.core.turn import Remark, Usage
from turnkeeper.engines.dialect import MAX_ID
from turnkeeper.engines.lines import Line
from turnkeeper.engines.qwen import QwenDialect
from turnkeeper.engines.streamjson import MAX_NAMES

both = pytest.mark.parametrize("engine", ["claude", "qwen"])


def says(*blocks: Any, message: Any = "m1", **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": message, "content": list(blocks)}, **more}


def hears(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": list(blocks)}, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": SESSION} | fields


def failed(*lines: Any, engine: str = "claude", session: str | None = None) -> Any:
    return told(a_turn(engine, [*OPENING[engine], *lines], ended=1, session=session))["failure"]


CALL = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
BACK = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
SUB = {"parent_tool_use_id": "c1"}


# Who speaks


@both
def test_texts_of_one_message_are_one(engine: str) -> None:
    one, two = says(text("one")), says(text("two"))
    assert whole(engine, one, two)["messages"] == ["one\n\ntwo"]
    assert whole(engine, says(text("one"), text("two")))["messages"] == ["one\n\ntwo"]
    thought = says({"type": "thinking", "thinking": "hm", "signature": ""})
    assert whole(engine, one, thought, two)["messages"] == ["one\n\ntwo"]
    assert whole(engine, one, says(CALL), two)["messages"] == ["one", "two"]
    assert whole(engine, one, hears(text("go on")), two)["messages"] == ["one", "two"]
    assert whole(engine, one, says(text("two"), message="m2"))["messages"] == ["one", "two"]
    assert whole(engine, says(text("")), one, says(text("")))["messages"] == ["one"]


@both
@pytest.mark.parametrize("name", [None, 7, "m" * (MAX_ID + 1)])
def test_a_message_without_a_name_is_whole(engine: str, name: Any) -> None:
    seen = whole(engine, says(text("one"), message=name), says(text("two"), message=name))
    assert seen["messages"] == ["one", "two"]


@pytest.mark.spec("TURN-13")
@both
def test_the_marker_in_the_second_text_counts(engine: str) -> None:
    seen = whole(engine, says(text("Done."), text('{"__SKILL_DONE__": true}')))
    assert seen["verdict"]["interactive"] == "succeeded DONE_MARKER"


@pytest.mark.failure("M06")
@both
def test_the_result_repeats_the_last_text(engine: str) -> None:
    """claude repeats the last block of it."""
    for again in ("Hello.", "two", "something else", ""):
        lines = [*OPENING[engine], says(text("Hello."), text("two")), result(result=again)]
        assert told(a_turn(engine, lines))["messages"] == ["Hello.\n\ntwo"]


@both
def test_a_result_without_any_text_before_it_is_the_answer(engine: str) -> None:
    seen = told(a_turn(engine, [*OPENING[engine], says(CALL), hears(BACK), result(result="Hello.")]))
    assert (seen["messages"], seen["closed"]) == (["Hello."], "success")
    assert told(a_turn(engine, [*OPENING[engine], result(result=["Hello."])]))["messages"] == []
    assert told(a_turn(engine, [*OPENING[engine], result(result="")]))["messages"] == []


@both
def test_tools(engine: str) -> None:
    shown = {"call_id": "c1", "name": "Bash"}
    begun = shown | {"status": "in_progress", "input": {"command": "ls"}}
    assert whole(engine, says(CALL))["tools"] == [begun]
    for back, status, output in (
        (BACK, "completed", "x"),
        (BACK | {"is_error": False}, "completed", "x"),
        (BACK | {"is_error": True, "content": "no"}, "failed", "no"),
        (BACK | {"content": [text("x")]}, "completed", [text("x")]),
        (BACK | {"content": None}, "completed", None),
    ):
        ended = shown | {"status": status} | ({} if output is None else {"output": output})
        assert whole(engine, says(CALL), hears(back))["tools"] == [begun, ended]


@both
def test_no_endless_names_are_remembered(engine: str) -> None:
    for call, name, shown in (
        ("c" * MAX_ID, "ls", "ls"),
        ("c" * 201, "ls", "tool"),
        ("c", "n" * 201, "tool"),
    ):
        seen = whole(
            engine,
            says({"type": "tool_use", "id": call, "name": name}),
            hears({"type": "tool_result", "tool_use_id": call}),
        )
        assert [tool["name"] for tool in seen["tools"]] == [name, shown]


@pytest.mark.failure("M08")
@both
def test_a_sub_agent_is_not_the_assistant(engine: str) -> None:
    """What it says is for the agent that asked; what it does is done here."""
    inner = {"type": "tool_use", "id": "c2", "name": "Read", "input": {}}
    seen = whole(
        engine,
        says(text("I ask another.")),
        says(CALL),
        hears(text("look around"), **SUB),
        says({"type": "thinking", "thinking": "hm"}, text("I look."), inner, message="m2", **SUB),
        hears({"type": "tool_result", "tool_use_id": "c2", "content": "y"}, **SUB),
        hears(BACK),
        says(text("It looked."), message="m3"),
    )
    assert (seen["messages"], seen["reasoning"]) == (["I ask another.", "It looked."], [])
    assert [tool["call_id"] for tool in seen["tools"]] == ["c1", "c2", "c2", "c1"]
    assert seen["not_understood"] == []


@both
def test_what_a_sub_agent_is_told_ends_no_message(engine: str) -> None:
    seen = whole(engine, says(text("one")), hears(text("look around"), **SUB), says(text("two")))
    assert seen["messages"] == ["one\n\ntwo"]


@both
@pytest.mark.parametrize(
    "line",
    [
        {"type": "system", "subtype": "status", "status": "requesting"},
        {"type": "system", "subtype": "compact_boundary"},
        {"type": "system", "subtype": "something_new", "text": "no"},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}},
        {"type": "stream_event", "event": {"type": "message_start", "message": {"content": []}}},
        {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"text": "Hel"}}},
        says(),
        says({"type": "redacted_thinking", "data": "x"}),
        says({"type": "thinking", "thinking": "", "signature": "x"}),
    ],
)
def test_lines_that_say_nothing(engine: str, line: Any) -> None:
    seen = whole(engine, line)
    assert (seen["messages"], seen["reasoning"], seen["warnings"]) == ([], [], [])
    assert (seen["not_understood"], seen["closed"]) == ([], "success")


@pytest.mark.failure("M01")
@both
@pytest.mark.parametrize(
    "line",
    [
        {"type": "something_new", "text": "no"},
        {"type": "system"},
        {"type": "system", "subtype": 7},
        {"type": "stream_event", "event": "odd"},
        {"type": "assistant"},
        {"type": "assistant", "message": "odd"},
        {"type": "assistant", "message": {"content": "odd"}},
        says("odd"),
        says({"type": "text", "text": 7}, {"type": "image"}),
        says({"type": "tool_use", "id": 7, "name": "Bash"}),
        {"type": "user", "message": {"content": 7}},
        hears("odd"),
        hears({"no": "type"}),
        {"type": "result"},
        {"type": "result", "subtype": None, "is_error": False},
    ],
)
def test_lines_of_another_shape_are_not_understood(engine: str, line: Any) -> None:
    turn = a_turn(engine, [*OPENING[engine], line | {"session_id": "forged"}, *CLOSING[engine]])
    seen = told(turn)
    assert (seen["session"], seen["messages"], seen["closed"]) == (SESSION, [], "success")
    assert [json.loads(raw) for raw in seen["not_understood"]] == [line | {"session_id": "forged"}]
    # Nor do they name a session.
    assert told(a_turn(engine, [line | {"session_id": "forged"}]))["session"] is None


@both
def test_a_block_that_is_known_is_heard_among_others(engine: str) -> None:
    seen = whole(engine, says("odd", text("one"), {"type": "image"}))
    assert (seen["messages"], seen["not_understood"]) == (["one"], [])


@both
def test_the_model_is_the_one_that_it_begins_with(engine: str) -> None:
    """A message names the same one otherwise: an alias by its date, and a made-up one for an error."""
    for found, name in (("opus", "opus"), ("", None), (7, None), ("m" * (MAX_ID + 1), None)):
        init = {"type": "system", "subtype": "init", "session_id": SESSION, "model": found}
        spoken = says(text("one"))
        spoken["message"]["model"] = "<synthetic>"
        seen = told(a_turn(engine, [init, spoken, *CLOSING[engine]]))
        assert (seen["model"], seen["warnings"]) == (name, [])


@pytest.mark.failure("Q03")
@both
@pytest.mark.parametrize(
    ("began", "spoke", "is_same"),
    [
        ("opus-4", "opus-4-20250514", True),
        ("opus-4@20250514", "opus-4", True),
        ("opus-4[1m]", "opus-4-20250514", False),
        ("opus-4", "opus-4-20250514[1m]", True),
        ("opus-4-latest", "opus-4", True),
        ("qwen3-coder", "qwen3-coder-flash", False),
        ("gemini-2.5-flash", "gemini-2.5-flash-lite", False),
        ("gpt-4", "gpt-4.1", False),
        ("gpt-5.4", "gpt-4.5", False),
        ("model-v1", "model-v10", False),
        ("claude-sonnet-4-5", "claude-haiku-4-5", False),
        ("anthropic/claude-opus-4.5", "anthropic/claude-4.5-sonnet-20250929", False),
        (
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "us.anthropic.claude-haiku-4-5-20251001-v1:0",
            False,
        ),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929", True),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5", True),
        ("anthropic/claude-sonnet-4.5", "anthropic/claude-4.5-sonnet-20250929", True),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5-20250929", True),
        ("gpt-5", "gpt-5-2025-08-07", True),
        ("qwen3-coder-plus-2025-07-22", "qwen3-coder-plus", True),
    ],
)
def test_a_smaller_model_is_another(engine: str, began: str, spoke: str, is_same: bool) -> None:
    init = {"type": "system", "subtype": "init", "session_id": SESSION, "model": began}
    spoken = says(text("one"))
    spoken["message"]["model"] = spoke
    seen = told(a_turn(engine, [init, spoken, *CLOSING[engine]]))
    assert (seen["model"] == began and not seen["warnings"]) is is_same


@pytest.mark.failure("Q03")
@both
def test_endless_names_of_models_are_compared_in_no_time(engine: str) -> None:
    init = {"type": "system", "subtype": "init", "session_id": SESSION, "model": "m"}
    spoken = says(text("one"))
    spoken["message"]["model"] = "-v1" * 100_000 + "x"
    seen = told(a_turn(engine, [init, spoken, *CLOSING[engine]]))
    assert (seen["model"], seen["warnings"]) == ("m", [])


@pytest.mark.failure("G10")
@both
def test_tool_servers_that_are_not_there_are_named(engine: str) -> None:
    """However many are there before them. One that is still being connected is no failed one."""
    servers = [{"name": f"fine{n}", "status": "connected"} for n in range(MAX_NAMES)]
    servers += [{"name": "slow", "status": "pending"}, {"name": "weather", "status": "failed"}]
    init = {"type": "system", "subtype": "init", "session_id": SESSION, "model": "m"}
    dialect = a_dialect(engine)
    for listed, words in ((servers, ["weather (failed)"]), (servers[:-1], [])):
        [line] = lines_of(json.dumps(init | {"mcp_servers": listed}).encode())
        heard = dialect.hear(line)
        assert heard is not None
        found = [event.message for event in heard.events if isinstance(event, Remark)]
        assert found == [f"these tool servers are not there: {each}" for each in words]


@both
def test_a_reply_is_no_command(engine: str) -> None:
    dialect = a_dialect(engine)
    assert dialect.begin("/quit") == b"\n/quit"
    assert dialect.begin("yes / no") == b"yes / no"


# How it ends


@pytest.mark.failure("M03")
@both
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"is_error": True, "result": "no"}, "no"),
        ({"is_error": True, "subtype": "error_during_execution", "errors": ["no", 7, "way"]}, "no\nway"),
        ({"is_error": True, "subtype": "error_during_execution", "error": {"message": "no"}}, "no"),
        ({"is_error": True, "subtype": "error_during_execution", "error": "no"}, "no"),
        ({"is_error": True, "error": {"message": ""}, "errors": [], "result": "no"}, "no"),
        ({"is_error": False, "subtype": "error_max_turns"}, "error_max_turns"),
        ({"is_error": "odd", "subtype": "error_max_turns", "errors": [7]}, "error_max_turns"),
        ({"is_error": True}, "the engine reported an error and said nothing about it; see the logs"),
        ({"is_error": True, "result": 7, "error": 7, "errors": 7}, None),
    ],
)
def test_a_result_that_is_an_error_fails_whatever_it_is_called(
    engine: str, fields: dict[str, Any], words: str | None
) -> None:
    turn = a_turn(engine, [*OPENING[engine], says(text("Shall I?")), result(**fields)], ended=1)
    seen = told(turn)
    assert (seen["closed"], seen["failure"][0]) == ("error", "ENGINE_FAILED")
    assert words is None or seen["failure"][1] == words
    for mode in Mode:
        assert judged(turn, play(turn), mode) == "failed ENGINE_FAILED"


@pytest.mark.failure("M03")
@both
def test_an_error_that_exits_well_is_an_error(engine: str) -> None:
    turn = a_turn(engine, [*OPENING[engine], says(text("no")), result(is_error=True, result="no")])
    assert judged(turn, play(turn), Mode.INTERACTIVE) == "failed ENGINE_FAILED"


@pytest.mark.failure("Q01", "Q04", "Q07")
@both
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"api_error_status": 401}, "ENGINE_AUTH_REQUIRED"),
        ({"api_error_status": 429}, "ENGINE_RATE_LIMITED"),
        ({"api_error_status": 500, "result": "401 Unauthorized"}, "ENGINE_FAILED"),
        ({"api_error_type": "authentication_error"}, "ENGINE_AUTH_REQUIRED"),
        ({"api_error_status": "odd", "api_error_type": 7}, "ENGINE_FAILED"),
        ({"result": "prompt is too long: 300000 tokens > 200000 maximum"}, "ENGINE_CONTEXT_EXHAUSTED"),
        ({"result": "Not logged in · Please run /login"}, "ENGINE_AUTH_REQUIRED"),
    ],
)
def test_errors(engine: str, fields: dict[str, Any], expected: str) -> None:
    (found, *_) = failed(result(**{"is_error": True, "result": "no"} | fields), engine=engine)
    assert found == expected


@pytest.mark.failure("Q04")
def test_the_word_of_claude_for_its_error_counts() -> None:
    """It stands in the line that takes the place of an answer, and the result says the rest."""
    spoken = says(text("no"), error="authentication_failed", is_api_error_message=True)
    ended = result(is_error=True, result="no")
    assert failed(spoken, ended) == ["ENGINE_AUTH_REQUIRED", "no"]
    # A sub-agent's trouble is not why the turn failed, and an odd word says nothing.
    assert failed(spoken | SUB, ended) == ["ENGINE_FAILED", "no"]
    assert failed(spoken | {"error": {"type": "authentication_failed"}}, ended) == ["ENGINE_FAILED", "no"]
    assert told(a_turn("claude", [*OPENING["claude"], spoken, ended], ended=1))["messages"] == []


@pytest.mark.failure("M02")
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"attempt": 3, "max_retries": 10, "error_status": 529, "error": "overloaded"},
            "a call to the model failed (HTTP 529); retry 3 of 10",
        ),
        (
            {"attempt": 1, "max_retries": 10, "error_status": None, "error": "unknown"},
            "a call to the model failed (unknown); retry 1 of 10",
        ),
        ({"attempt": "1", "error_status": "529", "error": 7}, "a call to the model failed"),
        ({"subtype": "retry", "data": {"reason": "retry"}}, "a call to the model failed"),
    ],
)
@both
def test_it_tries_again(engine: str, fields: dict[str, Any], words: str) -> None:
    seen = whole(engine, {"type": "system", "subtype": "api_retry"} | fields)
    assert (seen["warnings"], seen["closed"]) == ([["ENGINE_RETRYING", words]], "success")


NOW = "2026-11-16T16:08:13.500Z"
RESETS = 1794845300
"""Six seconds and a half later."""


@pytest.mark.failure("Q07")
@pytest.mark.parametrize(
    ("timestamp", "resets", "pause"),
    [
        (NOW, RESETS, [6.5]),
        (NOW, RESETS - 3600, []),
        (NOW, str(RESETS), []),
        (NOW, 2**63, []),
        (NOW, None, []),
        ("yesterday", RESETS, []),
        (None, RESETS, []),
        ("0001-01-01T00:00:00+23:59", RESETS, []),
    ],
)
def test_claude_says_when_a_limit_is_over(timestamp: Any, resets: Any, pause: list[float]) -> None:
    params = {"rate_limit_info": {"resetsAt": resets, "rateLimitType": "five_hour"}}
    spoken = says(text("no"), is_api_error_message=True, timestamp=timestamp, api_error_params=params)
    ended = result(is_error=True, result="no", api_error_status=429, api_error="usage_limit_reached")
    assert failed(spoken, ended) == ["ENGINE_QUOTA_EXHAUSTED", "no", *pause]


@both
def test_tools_that_were_denied_are_named(engine: str) -> None:
    def warned(denials: Any) -> Any:
        ended = result(permission_denials=denials)
        return told(a_turn(engine, [*OPENING[engine], ended]))["warnings"]

    denials = [{"tool_name": "Write"}, {"tool_name": "Bash"}, {"tool_name": "Write"}, {"tool_name": 7}, "odd"]
    assert warned(denials) == [["PERMISSION_DENIED", "these tools were denied: Bash, Write"]]
    for nothing in ([], None, "odd", {"tool_name": "Write"}, [{"tool_name": "n" * 201}]):
        assert warned(nothing) == []
    ((_, many),) = warned([{"tool_name": f"tool{n:03}"} for n in range(500)])
    assert many.endswith("tool018, tool019")


# Sessions


@both
def test_any_line_names_the_session(engine: str) -> None:
    for line in (says(text("x")), hears(BACK), {"type": "stream_event", "event": {}}, result()):
        assert told(a_turn(engine, [line | {"session_id": SESSION}]))["session"] == SESSION


@pytest.mark.failure("R01")
def test_claude_says_in_its_result_that_a_session_is_gone() -> None:
    words = "No conversation found with session ID: session-1"
    gone = result(subtype="error_during_execution", is_error=True, errors=[words])
    turn = a_turn("claude", [gone], ended=1, stderr=words, session=SESSION)
    assert told(turn)["failure"] == ["SESSION_LOST", words]
    assert judged(turn, play(turn), Mode.INTERACTIVE) == "failed SESSION_LOST"
    # Nobody asked for one.
    assert code(a_turn("claude", [gone], ended=1, stderr=words)) is Code.ENGINE_FAILED


@pytest.mark.failure("M10", "Q04")
@both
def test_an_error_before_any_session_is_not_a_lost_one(engine: str) -> None:
    """qwen without a key makes up an id for the line that says so."""
    words = "Missing API key for OpenAI-compatible auth."
    line = result(
        session_id="another", subtype="error_during_execution", is_error=True, error={"message": words}
    )
    seen = told(a_turn(engine, [line], ended=1, session=SESSION))
    assert (seen["session"], seen["failure"]) == (SESSION, ["ENGINE_AUTH_REQUIRED", words])
    assert told(a_turn(engine, [line], ended=1))["session"] is None


# Usage

MODELS = {
    "opus": {
        "inputTokens": 10,
        "cacheCreationInputTokens": 5,
        "cacheReadInputTokens": 100,
        "outputTokens": 17,
        "thinkingTokens": 3,
    },
    "haiku": {"inputTokens": 1, "outputTokens": 2, "costUSD": 0.1},
    "odd": "odd",
}
OWN = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 5,
    "cache_read_input_tokens": 100,
    "output_tokens": 17,
    "output_tokens_details": {"thinking_tokens": 3},
}


@pytest.mark.parametrize(
    ("fields", "usage"),
    [
        (
            {
                "model_usage_since_last_result": MODELS,
                "usage": OWN,
                "modelUsage": {"opus": {"inputTokens": 9000}},
            },
            {"input_tokens": 16, "cached_tokens": 100, "output_tokens": 16, "reasoning_tokens": 3},
        ),
        (
            {"usage": OWN},
            {"input_tokens": 15, "cached_tokens": 100, "output_tokens": 14, "reasoning_tokens": 3},
        ),
        (
            {"usage": OWN | {"output_tokens_details": None}, "model_usage_since_last_result": {}},
            {"input_tokens": 15, "cached_tokens": 100, "output_tokens": 17},
        ),
        ({"usage": {"input_tokens": 3}}, {"input_tokens": 3}),
        ({"usage": {"input_tokens": "many", "output_tokens": True, "cache_read_input_tokens": -1}}, {}),
        ({"usage": [1], "model_usage_since_last_result": [1]}, {}),
        ({}, {}),
    ],
)
def test_claude_counts(fields: dict[str, Any], usage: dict[str, int]) -> None:
    """Its own calls are without those of its sub-agents; all of them are told by model."""
    for ended in (result(**fields), result(is_error=True, **fields)):
        assert told(a_turn("claude", [*OPENING["claude"], ended]))["usage"] == usage


COUNTED = {"input_tokens": 2468, "output_tokens": 34, "cache_read_input_tokens": 200, "total_tokens": 2502}


def test_qwen_counts_a_session_and_is_heard_to_count_a_turn() -> None:
    line = json.dumps(result(usage=COUNTED)).encode()
    used = {"input_tokens": 1134, "cached_tokens": 100, "output_tokens": 20, "reasoning_tokens": 20}

    def counted(session: str | None) -> Any:
        heard = QwenDialect(a_plan(session, used=used)).hear(Line(line, 0, len(line), truncated=False))
        return [event.tokens for event in heard.events if isinstance(event, Usage)] if heard else None

    # Never less than nothing, should it have begun to count anew.
    assert counted(SESSION) == [{"input_tokens": 1134, "cached_tokens": 100, "output_tokens": 0}]
    # What was used in a session that is gone is not in the counts of a new one.
    assert counted(None) == [{"input_tokens": 2268, "cached_tokens": 200, "output_tokens": 34}]


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"input_tokens": 3, "output_tokens": 2}, {"input_tokens": 3, "output_tokens": 2}),
        ({"input_tokens": "many", "output_tokens": True, "cache_read_input_tokens": -1}, {}),
        ([1], {}),
        (None, {}),
    ],
)
def test_qwen_leaves_out_what_it_did_not_count(counts: Any, usage: dict[str, int]) -> None:
    assert told(a_turn("qwen", [*OPENING["qwen"], result(usage=counts)]))["usage"] == usage
