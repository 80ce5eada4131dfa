"""The scripted model: it says the same in each protocol, fails as told, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.harness import PATIENCE, SKILLS, Json
from tests.live.model_server import CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, ModelServer
from turnkeeper.skills import schema

QUESTION = "Which colour should I use? Please answer with one word."
RESULT = {"__SKILL_DONE__": True, "answer": "42"}
COMMAND = {"type": "object", "required": ["command"], "properties": {"command": {"type": "string"}}}
PATHS = {
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
    "anthropic": "/v1/messages?beta=true",
}

each_protocol = pytest.mark.parametrize("protocol", PATHS)


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def http(models: ModelServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=models.url, timeout=PATIENCE, trust_env=False) as client:
        yield client


def body(protocol: str, prompt: str, result: str | None = None) -> Json:
    """What a CLI would send: the prompt, and the call and the result of a tool if there is one."""
    tool = {"name": "bash", "parameters": COMMAND}
    tools: dict[str, Json] = {
        "responses": {"type": "function"} | tool,
        "chat": {"type": "function", "function": tool},
        "gemini": {"functionDeclarations": [tool]},
        "anthropic": {"name": "bash", "input_schema": COMMAND},
    }
    parts = "parts" if protocol == "gemini" else "content"
    said: list[Json] = [{"role": "user", parts: [{"type": "text", "text": prompt}]}]
    said += [] if result is None else tool_use(protocol, result)
    place = {"responses": "input", "gemini": "contents"}.get(protocol, "messages")
    return {"model": "m", "stream": True, "tools": [tools[protocol]], place: said}


def tool_use(protocol: str, result: str) -> list[Json]:
    called: Json
    match protocol:
        case "responses":
            called = {"type": "function_call", "call_id": "1", "name": "bash", "arguments": "{}"}
            return [called, {"type": "function_call_output", "call_id": "1", "output": result}]
        case "chat":
            called = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
            return [{"role": "assistant", "tool_calls": [called]}, {"role": "tool", "content": result}]
        case "gemini":
            called = {"functionCall": {"name": "bash", "args": {}}}
            back: Json = {"functionResponse": {"name": "bash", "response": {"output": result}}}
            return [{"role": "model", "parts": [called]}, {"role": "user", "parts": [back]}]
    called = {"type": "tool_use", "id": "1", "name": "bash", "input": {}}
    back = {"type": "tool_result", "tool_use_id": "1", "content": result}
    return [{"role": "assistant", "content": [called]}, {"role": "user", "content": [back]}]


def ask(http: httpx.Client, protocol: str, prompt: str, result: str | None = None) -> list[Json]:
    answer = http.post(PATHS[protocol], json=body(protocol, prompt, result))
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def text(events: list[Json]) -> str:
    """The pieces of an answer; what has another shape is none."""
    said = ""
    for event in events:
        match event:
            case {"type": "response.output_text.delta", "delta": str(piece)}:
                said += piece
            case {"choices": [{"delta": {"content": str(piece)}}]} | {"delta": {"text": str(piece)}}:
                said += piece
            case {"candidates": [{"content": {"parts": [{"text": str(piece)}]}}]}:
                said += piece
    return said


def call(events: list[Json]) -> tuple[str, Any]:
    for event in events:
        match event:
            case {"type": "response.output_item.done", "item": {"name": name, "arguments": arguments}}:
                return name, json.loads(arguments)
            case {"choices": [{"delta": {"tool_calls": [{"function": function}]}}]}:
                return function["name"], json.loads(function["arguments"])
            case {"candidates": [{"content": {"parts": [{"functionCall": function}]}}]}:
                return function["name"], function["args"]
            case {"delta": {"partial_json": arguments}}:
                return "bash", json.loads(arguments)
    raise AssertionError(f"no tool is called in {events}")


def usage(events: list[Json]) -> tuple[int, int, int]:
    """Input, how much of it was cached, and output."""
    for event in events:
        match event:
            case {"response": {"usage": {"input_tokens": given} as used}}:
                return given, used["input_tokens_details"]["cached_tokens"], used["output_tokens"]
            case {"usage": {"prompt_tokens": given} as used}:
                return given, used["prompt_tokens_details"]["cached_tokens"], used["completion_tokens"]
            case {"usageMetadata": used}:
                cached = used["cachedContentTokenCount"]
                return used["promptTokenCount"], cached, used["candidatesTokenCount"]
            case {"message": {"usage": used}}:
                cached = used["cache_read_input_tokens"]
                return used["input_tokens"] + cached, cached, used["output_tokens"]
    raise AssertionError(f"nothing is counted in {events}")


@each_protocol
def test_an_answer_comes_in_pieces(http: httpx.Client, protocol: str) -> None:
    events = ask(http, protocol, "please [[ask]]")
    assert text(events) == QUESTION
    assert len([event for event in events if text([event])]) > 1
    assert usage(events) == (INPUT_TOKENS, CACHED_TOKENS, OUTPUT_TOKENS)


@each_protocol
def test_a_tool_is_called_before_the_answer(http: httpx.Client, protocol: str) -> None:
    assert call(ask(http, protocol, "[[tool]]")) == ("bash", {"command": "echo tool-ran-42"})
    assert json.loads(text(ask(http, protocol, "[[tool]]", "tool-ran-42"))) == RESULT
    assert call(ask(http, protocol, "[[shell:ls -l]]")) == ("bash", {"command": "ls -l"})
    assert text(ask(http, protocol, "[[shell:ls -l]]", "a.txt")) == "The tool said: a.txt"


@each_protocol
def test_it_fails_in_the_words_of_the_provider(http: httpx.Client, protocol: str) -> None:
    failed = {}
    for marker in ("status:401", "status:429", "status:503", "fail:quota", "fail:model", "fail:context"):
        answer = http.post(PATHS[protocol], json=body(protocol, f"[[{marker}]]"))
        failed[marker] = answer.status_code
        assert answer.json()["error"]["message"]
        assert ("retry-after" in answer.headers) == (marker == "status:429")
    quota = 400 if protocol == "anthropic" else 429
    assert list(failed.values()) == [401, 429, 503, quota, 404, 400]


@each_protocol
def test_a_hanging_answer_ends_when_the_client_leaves(
    models: ModelServer, http: httpx.Client, protocol: str
) -> None:
    with http.stream("POST", PATHS[protocol], json=body(protocol, "[[hang]]")) as answer:
        lines = answer.iter_lines()
        while "partial answer" not in next(lines):
            pass
        assert not models.idle(within=0)
    assert models.idle(within=PATIENCE)


def test_a_slow_answer_ends_too_when_the_client_leaves(models: ModelServer, http: httpx.Client) -> None:
    assert text(ask(http, "chat", "[[slow:0.01]]")) == "slow answer"
    with pytest.raises(httpx.ReadTimeout):
        http.post(PATHS["chat"], json=body("chat", "[[slow:3600]]"), timeout=0.1)
    assert models.idle(within=PATIENCE)


def test_a_dropped_answer_is_cut(http: httpx.Client) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        http.post(PATHS["chat"], json=body("chat", "[[drop]]"))


def test_closing_ends_what_still_hangs() -> None:
    with httpx.Client(timeout=PATIENCE, trust_env=False) as http:
        with ModelServer() as models:
            request = http.build_request("POST", models.url + PATHS["chat"], json=body("chat", "[[hang]]"))
            answer = http.send(request, stream=True)
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()
        with pytest.raises(httpx.ConnectError):
            http.get(models.url)


def test_the_log_holds_the_history(models: ModelServer, http: httpx.Client) -> None:
    for protocol in PATHS:
        ask(http, protocol, f"history of {protocol} [[echo]]", "it ran")
        [seen] = models.seen(containing=f"history of {protocol}")
        assert (seen.protocol, seen.model, seen.rule, seen.tools) == (protocol, "m", "echo", ("bash",))
        assert [role for role, _ in seen.conversation] == ["user", "call", "tool"]
        assert seen.conversation[-1] == ("tool", "it ran")
        assert seen.path == PATHS[protocol]
        assert seen.headers["content-type"] == "application/json"


def test_the_users_newest_marker_counts(http: httpx.Client) -> None:
    said = [
        ("system", "[[status:500]]"),
        ("user", "[[say:first]]"),
        ("user", "[[say:second]] [[say:third]]"),
        ("assistant", "[[status:500]]"),
        ("user", "an [[unknown]] word"),
        ("tool", "[[status:500]]"),
    ]
    messages = [{"role": role, "content": content} for role, content in said]
    answer = http.post(PATHS["chat"], json={"model": "m", "messages": messages}).json()
    assert answer["choices"][0]["message"]["content"] == "third"


def test_an_argument_may_be_quoted_as_in_a_prompt(http: httpx.Client) -> None:
    marker = '[[done:{"answer": "a \\"blue\\" one"}]]'
    wanted = {"__SKILL_DONE__": True, "answer": 'a "blue" one'}
    assert json.loads(text(ask(http, "chat", marker))) == wanted
    assert json.loads(text(ask(http, "chat", json.dumps({"task": marker})))) == wanted


def test_a_result_fits_the_skill(http: httpx.Client) -> None:
    wanted = json.loads((SKILLS / "answer/assets/output.schema.json").read_text())
    assert json.loads(text(ask(http, "chat", "[[done]]"))) == RESULT
    assert schema.errors(wanted, json.loads(text(ask(http, "chat", "[[object]]")))) == []


def test_a_marker_can_be_forced(models: ModelServer, http: httpx.Client) -> None:
    models.force("[[say:forced]]")
    assert text(ask(http, "chat", "[[ask]]")) == "forced"
    models.force(None)
    assert text(ask(http, "chat", "nothing to play")) == "ok"


def test_a_bad_argument_is_refused(http: httpx.Client) -> None:
    answer = http.post(PATHS["chat"], json=body("chat", "[[done:42]]"))
    assert (answer.status_code, answer.json()["error"]["message"][:27]) == (
        400,
        "bad argument of [[done]]: '",
    )


def test_json_of_a_schema_is_made_up(http: httpx.Client) -> None:
    """Gemini asks which model to take before it asks that model."""
    score = {"type": "integer", "minimum": 1}
    wanted = {"type": "object", "required": ["score"], "properties": {"score": score}}
    asked = body("gemini", "[[ask]]") | {"generationConfig": {"responseJsonSchema": wanted}, "tools": []}
    answer = http.post("/v1beta/models/m:generateContent", json=asked).json()
    assert answer["candidates"][0]["content"]["parts"] == [{"text": '{"score": 1}'}]
