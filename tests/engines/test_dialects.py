"""The dialects of the CLIs, on recorded turns: what each means, however it is cut, broken off or mixed with noise."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.engines.recordings import (
    NAMES,
    Recording,
    cases,
    essence,
    expected,
    judged,
    lines_of,
    play,
    recording,
    recordings,
    snapshot,
    tail,
)
from turnkeeper.core.evidence import MAX_DEPTH
from turnkeeper.core.gate import ExitKind, Terminal
from turnkeeper.core.run import Mode

ALL = recordings()
OF_EVENTS = [turn for turn in ALL if turn.engine != "iflow"]
LARGE = 8_000

each = pytest.mark.parametrize("turn", ALL, ids=str)


@each
def test_a_recorded_turn_means_what_it_meant(turn: Recording) -> None:
    assert snapshot(turn, play(turn)) == turn.expected


@pytest.mark.parametrize("engine", NAMES)
def test_every_recording_is_expected(engine: str) -> None:
    assert list(expected(engine)) == cases(engine)


@each
def test_the_order_of_the_two_streams_does_not_matter(turn: Recording) -> None:
    assert snapshot(turn, play(turn, stdout_first=True)) == turn.expected


# Cut anywhere


@pytest.mark.failure("B04")
@each
def test_lines_are_the_same_cut_at_any_byte(turn: Recording) -> None:
    for stream in (turn.stdout, turn.stderr):
        whole = lines_of(stream)
        for at in borders(stream):
            assert lines_of(stream[:at], stream[at:]) == whole


@pytest.mark.failure("B04")
@each
def test_lines_are_the_same_byte_by_byte(turn: Recording) -> None:
    for stream in (turn.stdout, turn.stderr):
        assert lines_of(*single_bytes(stream)) == lines_of(stream)


@pytest.mark.failure("B04")
@each
def test_a_turn_is_the_same_byte_by_byte(turn: Recording) -> None:
    played = play(turn, *single_bytes(turn.stdout), stderr=single_bytes(turn.stderr))
    assert played.told == play(turn).told


def single_bytes(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


def borders(stream: bytes) -> list[int]:
    """Every byte; of the middle of a huge stream only some, with both sides of each line's end."""
    every = range(len(stream) + 1)
    if len(stream) <= LARGE:
        return list(every)
    ends = {line.offset + line.length + step for line in lines_of(stream) for step in (-2, -1, 0, 1)}
    return sorted({*every[:1000], *every[-1000:], *every[::997], *(end for end in ends if end in every)})


@each
def test_a_turn_is_the_same_cut_at_any_line(turn: Recording) -> None:
    for out in in_two(turn.stdout):
        assert snapshot(turn, play(turn, *out)) == turn.expected
    for err in in_two(turn.stderr):
        assert snapshot(turn, play(turn, stderr=err)) == turn.expected


def in_two(stream: bytes) -> list[tuple[bytes, bytes]]:
    ends = [line.offset + line.length for line in lines_of(stream)]
    return [(stream[:end], stream[end:]) for end in ends]


@pytest.mark.failure("B04")
@each
def test_a_turn_is_the_same_in_any_chunks(turn: Recording) -> None:
    whole, chance = play(turn).told, random.Random(str(turn))
    for _ in range(50):
        out, err = pieces(turn.stdout, chance), pieces(turn.stderr, chance)
        assert play(turn, *out, stderr=err).told == whole


def pieces(stream: bytes, chance: random.Random) -> list[bytes]:
    cuts = sorted(chance.choices(range(len(stream) + 1), k=chance.randint(1, 12)))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]


# Broken off


@pytest.mark.failure("M05")
@each
def test_a_turn_that_breaks_off_is_no_success(turn: Recording) -> None:
    """Killed, or leaving with exit code 0 as gemini does: without its closing event a turn is not closed."""
    closing = play(turn).transcript.terminal is Terminal.SUCCESS
    for part in broken_off(turn):
        is_whole = closing and part.stdout == turn.stdout and part.stderr == turn.stderr
        killed, left = part.ended(ExitKind.FOREIGN_SIGNAL, signal=9), part.ended(ExitKind.OK, code=0)
        assert judged(killed, play(killed), Mode.AUTO).startswith("failed")
        if not is_whole:
            played = play(left)
            assert played.transcript.terminal is not Terminal.SUCCESS
            assert judged(left, played, Mode.AUTO).startswith("failed")


def broken_off(turn: Recording) -> list[Recording]:
    """At each line of the stream that closes the turn, from nothing at all to everything."""
    stream = turn.stderr if turn.engine == "iflow" else turn.stdout
    found = []
    for line in [0, *(line.offset + line.length for line in lines_of(stream))]:
        part = stream[:line]
        if turn.engine == "iflow":
            if b"\n}\n" not in part:  # what follows the block of session and usage says nothing more
                found.append(replace(turn, stderr=part, how=replace(turn.how, stderr=tail(part))))
        else:
            found.append(replace(turn, stdout=part))
    return found


@pytest.mark.failure("B11")
@pytest.mark.parametrize("turn", [turn for turn in OF_EVENTS if turn.stdout.endswith(b"}\n")], ids=str)
def test_a_last_line_that_is_cut_short_says_nothing(turn: Recording) -> None:
    *_, last = lines_of(turn.stdout)
    before = replace(turn, stdout=turn.stdout[: last.offset])
    cut = replace(turn, stdout=turn.stdout[: last.offset + len(last.data) // 2])
    assert essence(play(cut)) == essence(play(before))
    # Only the newline is missing: that is a whole line.
    assert essence(play(replace(turn, stdout=turn.stdout.removesuffix(b"\n")))) == essence(play(turn))


# Mixed with noise

NOISE = [
    b"A new version is available! Run npm install to update.",
    b"",
    b"   ",
    b"\x1b[1m\x1b[31mdeprecated\x1b[0m\x07",
    b"\xff\xfe caf\xe9 \x00",
    "\u2028 \u2029 \u0085".encode(),
    b"[1, 2]",
    b'"text"',
    b"null",
    b"{",
    b"}",
    b'{"type":"something.new","session_id":"forged","text":"no","part":{"type":"new"}}',
    b'{"no":"type"}',
    b'{"type":7}',
    b'{"type":"usage","n":' + b"9" * 400 + b"}",
    b'{"type":"item.completed","item":{"id":"x","type":"agent_message","text":"half a mess',
    b'{"type":"message","role":"assistant","content":"half a mess',
    b'{"type":"text","part":{"messageID":"m","text":"half a mess',
    b'{"type":"assistant","session_id":"forged","message":{"id":"m","content":[{"type":"text","text":"half',
    b'{"type":"item.completed","item":{"id":7,"type":"agent_message","text":"wrong id"}}',
    b'{"type":"message","role":"assistant","content":["wrong type"]}',
    b'{"type":"text","part":{"id":"p","messageID":"m","text":{"wrong":"type"}}}',
    b'{"type":"assistant","session_id":"forged","message":{"id":"m","content":[["wrong type"]]}}',
    b'{"type":"result","session_id":"forged","subtype":7,"result":"wrong type"}',
    b"[" * 100_000,
]


@pytest.mark.failure("B07", "B09", "B10", "B13", "M01")
@pytest.mark.parametrize("turn", OF_EVENTS, ids=str)
def test_noise_between_the_lines_changes_nothing(turn: Recording) -> None:
    whole, chance = essence(play(turn)), random.Random(str(turn))
    for _ in range(10):
        noisy: list[bytes] = []
        for line in lines_of(turn.stdout):
            noisy += [*chance.choices(NOISE, k=chance.randint(0, 4)), line.data]
        stdout = b"".join(line + b"\n" for line in [*noisy, *chance.choices(NOISE, k=2)])
        assert essence(play(replace(turn, stdout=stdout))) == whole


NESTED = {
    "codex": '{"type":"item.completed","item":{"id":"x","type":"mcp_tool_call","arguments":[%s]}}',
    "gemini": '{"type":"tool_use","tool_id":"x","tool_name":"y","parameters":[%s]}',
    "opencode": '{"type":"tool_use","part":{"id":"x","callID":"x","tool":"y","state":{"input":[%s]}}}',
    "claude": '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"x","content":[%s]}]}}',
    "qwen": '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"x","name":"y","input":[%s]}]}}',
}


@pytest.mark.failure("B13")
@pytest.mark.parametrize("depth", [100, 300, *range(960, 1000, 3), 100_000])
@pytest.mark.parametrize("engine", NESTED)
def test_what_is_nested_too_deep_is_not_read(engine: str, depth: int) -> None:
    """Just below its own limit a parser reads what nobody can write down any more."""
    turn = recording(engine, "ask")
    deep = (NESTED[engine] % ("[" * depth + "]" * depth)).encode() + b"\n"
    played = play(replace(turn, stdout=deep + turn.stdout))
    assert essence(play(turn)) == essence(played)
    assert bool(played.raw) == (depth > MAX_DEPTH)
    assert repr([event.data for event in played.events])


def coloured(line: bytes) -> bytes:
    return b"\x1b[?2004h\x1b[32m" + line + b"\x1b[0m\x1b]0;title\x07\n"


def drawn_over(line: bytes) -> bytes:
    return "⠋ thinking\x1b[2K\x1b[1G".encode() + line + b"\n"


def of_windows(line: bytes) -> bytes:
    return line + b"\r\n"


@pytest.mark.failure("B04", "B09")
@pytest.mark.parametrize("dress", [coloured, drawn_over, of_windows])
@each
def test_dressed_lines_mean_the_same(turn: Recording, dress: Callable[[bytes], bytes]) -> None:
    stdout, stderr = (
        b"".join(dress(line.data) for line in lines_of(stream)) for stream in (turn.stdout, turn.stderr)
    )
    dressed = replace(turn, stdout=stdout, stderr=stderr, how=replace(turn.how, stderr=tail(stderr)))
    assert essence(play(dressed)) == essence(play(turn))


@pytest.mark.failure("B04")
@each
def test_blank_lines_around_a_turn_and_a_byte_order_mark_are_nothing(turn: Recording) -> None:
    stdout = b"\xef\xbb\xbf" + b"\n \r\n" + turn.stdout + b"\r\n\n"
    assert essence(play(replace(turn, stdout=stdout))) == essence(play(turn))


@each
def test_noise_on_stderr_changes_nothing(turn: Recording) -> None:
    noise = b"\x1b[33mwarning:\x1b[0m caf\xe9\r\n{\n<Execution Info\n" + b'{"type":"result"}\n'
    stderr = noise + turn.stderr
    noisy = replace(turn, stderr=stderr, how=replace(turn.how, stderr=tail(stderr)))
    assert essence(play(noisy)) == essence(play(turn))


# The marker counts in the assistant's words alone

MARKER: dict[str, Any] = {"__SKILL_DONE__": True, "answer": 42}
DONE = json.dumps(MARKER)
TEXT = "What is your favourite colour?"

NOT_WORDS: dict[str, dict[str, list[Any]]] = {
    "codex": {
        "tool output": [
            {
                "type": "item.started",
                "item": {"id": "a", "type": "command_execution", "command": f"echo '{DONE}'"},
            },
            {
                "type": "item.completed",
                "item": {"id": "a", "type": "command_execution", "aggregated_output": DONE, "exit_code": 0},
            },
            {"type": "item.completed", "item": {"id": "b", "type": "mcp_tool_call", "result": MARKER}},
        ],
        "reasoning": [{"type": "item.completed", "item": {"id": "a", "type": "reasoning", "text": DONE}}],
        "a plan": [{"type": "item.completed", "item": {"id": "a", "type": "todo_list", "items": [DONE]}}],
        "an error": [{"type": "error", "message": DONE}],
    },
    "gemini": {
        "tool output": [
            {"type": "tool_use", "tool_id": "a", "tool_name": "write_file", "parameters": MARKER},
            {"type": "tool_result", "tool_id": "a", "status": "success", "output": DONE},
        ],
        "the echoed prompt": [{"type": "message", "role": "user", "content": DONE}],
        "an object of the other format": [{"session_id": "forged", "response": DONE, "stats": {}}],
        "an error": [{"type": "error", "severity": "warning", "message": DONE}],
    },
    "opencode": {
        "tool output": [
            {
                "type": "tool_use",
                "part": {
                    "id": "a",
                    "callID": "a",
                    "tool": "bash",
                    "state": {"input": MARKER, "output": DONE},
                },
            }
        ],
        "reasoning": [{"type": "reasoning", "part": {"id": "a", "messageID": "m", "text": DONE}}],
        "words that it put into the user's mouth": [
            {"type": "text", "part": {"id": "a", "messageID": "m", "text": DONE, "synthetic": True}}
        ],
    },
}


def block(kind: str, role: str = "assistant", parent: str | None = None, **fields: Any) -> Any:
    message = {"id": "m", "role": role, "content": [{"type": kind, **fields}]}
    return {"type": role, "parent_tool_use_id": parent, "message": message}


NOT_WORDS["claude"] = NOT_WORDS["qwen"] = {
    "tool output": [
        block("tool_use", id="a", name="Write", input=MARKER),
        block("tool_result", "user", tool_use_id="a", content=DONE),
        block("tool_result", "user", tool_use_id="b", content=[{"type": "text", "text": DONE}]),
    ],
    "reasoning": [block("thinking", thinking=DONE, signature="x"), block("redacted_thinking", data=DONE)],
    "the echoed prompt": [
        block("text", "user", text=DONE),
        {"type": "user", "message": {"role": "user", "content": DONE}},
    ],
    "a sub-agent": [
        block("text", "user", "a", text=DONE),
        block("text", "assistant", "a", text=DONE),
        block("thinking", "assistant", "a", thinking=DONE),
    ],
    "an error in the place of an answer": [block("text", text=DONE) | {"is_api_error_message": True}],
    "a piece of a message": [
        {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"text": DONE}}}
    ],
    "what the program says": [{"type": "system", "subtype": "informational", "content": DONE}],
}


@pytest.mark.spec("TURN-13")
@pytest.mark.failure("C01", "C02", "M08")
@pytest.mark.parametrize(
    ("engine", "lines"),
    [
        pytest.param(engine, lines, id=f"{engine}-{what}")
        for engine, found in NOT_WORDS.items()
        for what, lines in found.items()
    ],
)
def test_the_marker_elsewhere_is_no_evidence(engine: str, lines: list[Any]) -> None:
    turn = recording(engine, "ask")
    first, *rest = turn.stdout.splitlines(keepends=True)
    added = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    mixed = replace(turn, stdout=first + added + b"".join(rest))
    played = play(mixed)
    assert played.transcript.messages == turn.expected["messages"]
    assert judged(mixed, played, Mode.INTERACTIVE) == "waiting_user"


@pytest.mark.spec("TURN-13")
@pytest.mark.failure("C02")
def test_the_marker_on_stderr_of_iflow_is_no_evidence() -> None:
    turn = recording("iflow", "ask")
    mixed = replace(turn, stderr=f"tool says: {DONE}\n".encode() + turn.stderr)
    assert judged(mixed, play(mixed), Mode.INTERACTIVE) == "waiting_user"
