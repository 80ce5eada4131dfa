"""What an engine's error means: typed where that is sure, and never from words that only sound like it."""

from __future__ import annotations

import json

import pytest

from turnkeeper.core.errors import Code
from turnkeeper.engines import meaning

AUTH, QUOTA, FAILED = Code.ENGINE_AUTH_REQUIRED, Code.ENGINE_QUOTA_EXCEEDED, Code.ENGINE_FAILED


@pytest.mark.parametrize(
    "text",
    [
        "unexpected status 401 Unauthorized: Missing bearer or basic authentication in header, url: http://x/v1",
        "unexpected status 403 Forbidden: your plan has no access to this model",
        "Missing environment variable: `OPENAI_API_KEY`.",
        "Your access token could not be refreshed because your refresh token was already used.",
        "Your session has ended. Please log out and sign in again.",
        "Not logged in · Please run /login",
        "Error: not logged in. Run `codex login` first.",
        "Incorrect API key provided: sk-***.",
        "invalid x-api-key",
        "OAuth token has expired. Please obtain a new token.",
        "Please set an Auth method: invalid auth method selected",
        "you must specify the GEMINI_API_KEY environment variable",
        "No auth credentials found",
        '{"error": {"message": "bad key", "type": "invalid_request_error", "code": "invalid_api_key"}}',
        '{"type":"error","error":{"type":"authentication_error","message":"no"}}',
        '[API Error: {"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]',
        '[API Error: {"error":{"code":403,"message":"denied","status":"PERMISSION_DENIED"}}]',
    ],
)
def test_a_login_is_missing_or_refused(text: str) -> None:
    assert meaning.failure(text).code is AUTH


@pytest.mark.parametrize(
    "text",
    [
        "exceeded retry limit, last status: 429 Too Many Requests, request id: 1",
        "You've hit your usage limit. Visit https://x/usage to purchase more credits or try again at 3:28 PM.",
        "Quota exceeded. Check your plan and billing details.",
        "Your credit balance is too low to access the API.",
        "HTTP 402: Insufficient credits",
        '{"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": null}}',
        '[API Error: {"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}]',
        '{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}',
    ],
)
def test_the_provider_gives_no_more(text: str) -> None:
    assert meaning.failure(text).code is QUOTA


@pytest.mark.parametrize(
    "text",
    [
        "stream disconnected before completion: error sending request",
        "We’re currently experiencing high demand, which may cause temporary errors.",
        "exceeded retry limit, last status: 500 Internal Server Error",
        "write /data/quota.json: disk quota exceeded",
        "EACCES: permission denied, open '/root/x'",
        "cannot parse line 401 of the log in portal.html",
        "model not found: gpt-0",
        "Error: ENOENT: no such file or directory, open '/workspace/src/login/page.tsx'",
        "Error: Cannot find module './authentication'",
        "The request was refused by our policy: it asks how to get around authentication on a website.",
        "Error: EDQUOT: quota exceeded, write",
        "Invalid schema for function 'get_quota': schema must be an object",
        "Error: exit code: 429",
        '{"error": {"code": 503, "message": "try again, or check your rate limit and authentication"}}',
        '{"error": {"message": 7}}',
        '{"error": ["odd"]}',
        '{"oops": ' + "[" * 100_000,
        "{" * 1000,
        "}{",
        "",
    ],
)
def test_anything_else_is_a_failure(text: str) -> None:
    assert meaning.failure(text).code is FAILED


def test_a_status_beside_the_text_decides() -> None:
    for status, code in ((401, AUTH), (403, AUTH), (402, QUOTA), (429, QUOTA), (500, FAILED), (400, FAILED)):
        assert meaning.failure("scripted failure", status=status).code is code
    assert meaning.failure("rate limit", status=500).code is FAILED
    assert meaning.failure("rate limit", status="odd").code is QUOTA
    assert meaning.failure("no", kind="ProviderAuthError").code is AUTH


@pytest.mark.failure("M03")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"error": {"message": "scripted failure", "code": null}}', "scripted failure"),
        ('unexpected status 400 Bad Request: {"error": {"message": "too long"}}, url: http://x', "too long"),
        ('{"detail": "Unsupported parameter"}', "Unsupported parameter"),
        ('{"error": "plain words"}', "plain words"),
        (json.dumps({"error": {"message": json.dumps({"error": {"message": "inside"}})}}), "inside"),
        ("  plain words \n", "plain words"),
        ('a set {"a": 1} is no error', 'a set {"a": 1} is no error'),
        ("", meaning.WORDLESS),
        ("x" * 5000, "x" * meaning.MAX_MESSAGE),
    ],
)
def test_a_person_reads_the_message_inside(text: str, shown: str) -> None:
    assert meaning.failure(text).message == shown


def test_of_stderr_only_error_lines_count_and_the_last_is_the_reason() -> None:
    stderr = (
        "warning: authentication is not configured\n"
        "Error: 429 Too Many Requests\n"
        "Error: 401 Unauthorized\n"
        "Error executing tool fetch: 402 Payment Required\n"
        "Error shutting down SDK: TypeError: odd\n"
        "    at login (file.js:1)\n"
    )
    found = meaning.of_stderr(stderr)
    assert found is not None
    assert (found.code, found.message) == (AUTH, "Error: 401 Unauthorized")
    assert meaning.of_stderr("please log in\nError: no such file\n") is None
    assert meaning.of_stderr("") is None
