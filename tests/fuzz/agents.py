"""What an agent says: the marker, the result in its words, its questions, and the events of each CLI."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from tests.core.examples import NOW
from tests.engines.recordings import Recording, judged, play, recording, tail
from tests.fuzz.streams import chunks
from turnkeeper.core.asking import BASELINE_PROMPT, pending_view, question
from turnkeeper.core.blocks import ask_blocks
from turnkeeper.core.errors import Warn
from turnkeeper.core.evidence import (
    MARKER_KEY,
    MAX_DEPTH,
    Ladder,
    is_deep,
    marker_in,
    read_claim,
    text_without_marker,
)
from turnkeeper.core.run import Interaction, Mode, Question
from turnkeeper.skills.yamltext import load_yaml

RESULTS = (
    b'"__SKILL_DONE__": true', b'\\"__SKILL_DONE__\\": true', b'\\\\\\"__SKILL_DONE__\\\\\\": true',
    b"__SKILL_DONE__", b'{"__SKILL_DONE__": true, "a": 1}', b"```json\n", b"\n```\n", b"~~~", b"{", b"}", b"[",
    b"]", b'"', b"\\", b'\\"', b"\\n", b": true", b"true", b"\x1e", b"<ASK_USER_YAML>", b"</ASK_USER_YAML>",
    b"\\ud83d\\ude00", b"\\ud800", b"1e999",
)  # fmt: skip
QUESTIONS = (
    b"<ASK_USER_YAML>", b"</ASK_USER_YAML>", b"```ask_user_yaml\n", b"\n```\n", b"interaction_id: 1\n",
    b"prompt: Which?\n", b"kind: choose_one\n", b"options:\n- a\n- {label: b, value: 2}\n",
    b"ui_hints: {a: b}\n", b"ask_user:\n  ", b"context: x\n", b"requested_schema: {type: object}\n", b"- ",
    b"? ", b"!!set", b"!!binary", b"!!timestamp", b"&a", b"*a", b"<<: ", b".nan", b".inf", b"1e400",
    b'"\\ud800"', b"2001-01-01", b"0x1_0", b"1:2:3", b"|\n", b"\t",
)  # fmt: skip
EVENTS = (
    b"\n", b"{", b"}", b'"', b"\\", b"null", b"true", b"-1", b"1e999", b"NaN", b"[]", b"{}", b'"type":',
    b'"text":', b'"session_id":', b'"usage":', b'"error":', b'"is_error":true', b'"item":', b'"message":',
    b'"content":', b'"part":', b'\\"__SKILL_DONE__\\": true', b'"\\ud800"', b"\x1b[2K", b"9" * 400, b"[" * 300,
    b'"result":', b'"status":', b'"id":7',
)  # fmt: skip
BETWEEN = "\x1e"
"""Between two messages of an input."""


def check_marker(data: bytes) -> None:
    """By its grammar and nothing else; one that is escaped once more is found once more, and then no more."""
    text = data.decode("utf-8", "replace")
    assert (marker_in(text) is not None) == _has_marker(text)
    if "\\" not in text and all(char in " \t\r\n" for char in text if char.isspace()):
        once = json.dumps(text, ensure_ascii=False)[1:-1]
        assert (marker_in(once) is not None) == _has_marker(text)
        assert marker_in(json.dumps(once, ensure_ascii=False)[1:-1]) is None


def _has_marker(text: str) -> bool:
    """The grammar once more, a character at a time."""
    for quote in ('"', '\\"'):
        name = f"{quote}{MARKER_KEY}{quote}"
        at = text.find(name)
        while at >= 0:
            is_bare = at == 0 or text[at - 1] != "\\"
            if is_bare and _is_true(text, at + len(name)):
                return True
            at = text.find(name, at + 1)
    return False


def _is_true(text: str, at: int) -> bool:
    at = _past_blanks(text, at)
    if text[at : at + 1] != ":":
        return False
    at = _past_blanks(text, at + 1)
    following = text[at + 4 : at + 5]
    return text[at : at + 4] == "true" and not (
        following.isascii() and (following.isalnum() or following == "_")
    )


def _past_blanks(text: str, at: int) -> int:
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text[at : at + 2] in ("\\n", "\\r", "\\t"):
            at += 2
        else:
            break
    return at


def check_candidate(data: bytes) -> None:
    """The last message with the marker counts, else the last one; a candidate can be stored."""
    messages = data.decode("utf-8", "replace").split(BETWEEN)
    claim = read_claim(messages)
    marked = [text for text in messages if _has_marker(text)]
    assert claim.marker == bool(marked)
    assert claim.marker_in_last == _has_marker(messages[-1])
    assert read_claim(messages) == claim
    # What was said before the message that counts changes nothing.
    chosen = marked[-1] if marked else messages[-1]
    assert replace(read_claim([chosen]), marker_in_last=claim.marker_in_last) == claim
    assert (claim.candidate is None) == (claim.rung is Ladder.NONE)
    assert claim.marker or claim.rung is not Ladder.BALANCED
    assert len(text_without_marker(claim.text)) <= len(claim.text)
    if claim.candidate is None:
        assert not _is_whole(chosen) or claim.marker
        return
    assert not is_deep(claim.candidate), MAX_DEPTH
    stored = json.dumps(claim.candidate, allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(stored) == claim.candidate
    if claim.rung is Ladder.FENCED:
        assert "```" in claim.text or "~~~" in claim.text


def _is_whole(text: str) -> bool:
    """One object that anybody would read."""
    try:
        value = json.loads(text, parse_constant=lambda name: 1 / 0)
        stored = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, ZeroDivisionError, RecursionError):
        return False
    return isinstance(value, dict) and len(stored) < 1_000_000 and not is_deep(value)


def check_ask(data: bytes) -> None:
    """There is always a question that can be stored; of a block that cannot be used nothing remains but a warning."""
    text = data.decode("utf-8", "replace")
    asked, warnings = question([text], load_yaml)
    assert question([text], load_yaml) == (asked, warnings)
    assert asked.prompt.strip()
    assert asked.source in ("backend", "ask_user")
    assert {warning.code for warning in warnings} <= {Warn.ASK_BLOCK_INVALID, Warn.QUESTION_EMPTY}
    assert all(len(warning.message) < 10_000 for warning in warnings)
    blocks = ask_blocks(text)
    is_broken = Warn.ASK_BLOCK_INVALID in [warning.code for warning in warnings]
    assert (asked.source == "ask_user") == (bool(blocks) and not is_broken)
    if asked.source == "backend":
        assert asked == Question(prompt=asked.prompt)
    if not blocks:
        assert asked.prompt == (text.strip() or BASELINE_PROMPT)
    view = pending_view(
        Interaction(run_id="r", interaction_id=1, attempt_number=1, question=asked, asked_at=NOW)
    )
    assert view["interaction_id"] == 1
    stored = json.dumps(view, allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(msgspec.json.encode(view)) == json.loads(stored)
    for option in view.get("options", ()):
        assert isinstance(option["label"], str)


def dialect_check(engine: str) -> Callable[[bytes], None]:
    """Whatever a CLI prints: told the same at any cut, judged the same again, and all of it can be stored."""

    def check(data: bytes) -> None:
        turn = _printed(engine, data)
        once = play(turn)
        again = play(turn, *_pieces(turn.stdout), stderr=_pieces(turn.stderr))
        assert again.told == once.told
        for event in once.events:
            _check_storable(event.data)
        for mode in Mode:
            verdict = judged(turn, once, mode)
            assert verdict == judged(turn, again, mode)
            assert mode is Mode.INTERACTIVE or verdict != "waiting_user"

    return check


@cache
def _a_turn(engine: str) -> Recording:
    return recording(engine, "ask")


def _printed(engine: str, data: bytes) -> Recording:
    """iFlow says on stderr what the others say on stdout; its input has a part for each."""
    stdout, _, stderr = data.partition(BETWEEN.encode())
    turn = _a_turn(engine)
    return replace(turn, stdout=stdout, stderr=stderr, how=replace(turn.how, stderr=tail(stderr)))


def _pieces(stream: bytes) -> list[bytes]:
    return chunks(stream) or [b""]


def _check_storable(data: Any) -> None:
    stored = msgspec.json.encode(data)
    json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    assert len(stored) < 8 * 1024 * 1024
