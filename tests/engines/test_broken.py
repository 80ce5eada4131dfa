"""Words of a session that cannot be used, and words that only sound like it."""

from __future__ import annotations

import time

import pytest

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure
from turnkeeper.engines import broken

TOLD = [
    "rollout at /home/agent/.codex/sessions/2026/rollout-1.jsonl is empty",
    "Failed to parse session file /home/agent/x",
    "Unable to read /home/agent/.gemini/tmp/1/chats/session-2026-11-16.json: Unexpected token",
    "could not open '/home/agent/.claude/projects/-workspace/0a1b.jsonl'",
    "Cannot load chat history file",
    "Error: session data is corrupted",
    "the transcript log of this run seems truncated",
    "Corrupted conversation store, giving up",
    "Invalid checkpoint data",
    "Failed to load session: Unexpected end of JSON input",
    "failed to deserialize rollout: EOF while parsing a value at line 3",
    "database is locked",
    "SQLITE_CORRUPT: database disk image is malformed",
    "messages.4: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.",
]
OF_A_START = [
    "SyntaxError: Unterminated string in JSON at position 8191",
    "Unexpected end of JSON input",
]
NOT_TOLD = [
    "API Error: 400 litellm.BadRequestError: deepseek-chat: parameter 'temperature' is invalid",
    "Failed to parse JSON response from https://x.example/v1/chat/completions",
    "Failed to parse response of https://x.example/v1/sessions/7.json",
    "POST /v1/chat/completions returned 502: upstream response was invalid",
    "InternalServerError: chat completion response was empty",
    "thread 'main' panicked at src/http.rs:12: header value is invalid",
    "TypeError: Cannot read properties of undefined (reading 'session')",
    "TypeError: Cannot read properties of undefined (reading 'session file')",
    "TypeError: Cannot read property 'conversation data' of null",
    'Failed to open connection to "session" message bus: Unable to autolaunch a dbus-daemon',
    "Error: stream disconnected: unexpected end of file",
    "SyntaxError: Unexpected token '<', \"<html>\" is not valid JSON",
    "SyntaxError: Unexpected token < in JSON at position 0",
    "Failed to parse /home/agent/.config/opencode/opencode.json",
    "Failed to resume session: fetch failed",
    "Invalid session. Please log in again",
    "invalid session token",
    "Invalid thread count",
    "the conversation was empty",
    "Cannot open /workspace/chat/history: no such file",
]


def as_lost(words: str, code: Code = Code.ENGINE_FAILED) -> Code:
    return broken.as_lost(Failure(code, words)).code


@pytest.mark.failure("R02", "R03", "R04")
@pytest.mark.parametrize("words", TOLD)
def test_a_session_that_cannot_be_used(words: str) -> None:
    assert as_lost(words) is Code.SESSION_LOST
    assert broken.line_in(f"starting\n{words}\n") == words
    assert broken.as_lost(Failure(Code.ENGINE_FAILED, "no", None, words)).code is Code.SESSION_LOST
    assert as_lost(words, Code.ENGINE_RATE_LIMITED) is Code.ENGINE_RATE_LIMITED


@pytest.mark.failure("R02")
@pytest.mark.parametrize("words", OF_A_START)
def test_a_text_that_ends_in_the_middle_is_the_session_only_before_it_is_open(words: str) -> None:
    assert broken.line_in(words) == words
    assert as_lost(words) is Code.ENGINE_FAILED


@pytest.mark.failure("R02")
@pytest.mark.parametrize("words", NOT_TOLD)
def test_what_only_sounds_like_it(words: str) -> None:
    """A lost session outweighs even a valid result: it must be certain."""
    assert as_lost(words) is Code.ENGINE_FAILED
    assert broken.line_in(words) is None


@pytest.mark.parametrize(
    "piece", ["session ", "session", "'session/", "failed to load ", "session file ", "/chat.js", "="]
)
def test_hostile_words_take_no_time(piece: str) -> None:
    words = (piece * broken.MAX_READ)[: broken.MAX_READ]
    begun = time.process_time()
    broken.line_in(words)
    as_lost(words)
    assert time.process_time() - begun < 1
