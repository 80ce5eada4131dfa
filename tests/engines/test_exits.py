"""How a turn fails, from its last lines and its exit: as the CLIs were recorded, and where they only seem to fail."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.examples import a_job, running
from tests.engines.recordings import (
    CONTRACT,
    NAMES,
    Recording,
    a_dialect,
    judged,
    lines_of,
    play,
    snapshot,
    tail,
)
from turnkeeper.core.errors import Code
from turnkeeper.core.gate import ExitKind, Fail
from turnkeeper.core.run import Failure, Mode
from turnkeeper.core.turn import Ended
from turnkeeper.engines.lines import Line
from turnkeeper.engines.logins import MAX_READ, TO_DO, Prompts
from turnkeeper.engines.process import Exit
from turnkeeper.runtime import judging
from turnkeeper.runtime.judging import HowEnded

AUTH, QUOTA, RATE = Code.ENGINE_AUTH_REQUIRED, Code.ENGINE_QUOTA_EXHAUSTED, Code.ENGINE_RATE_LIMITED
MODEL, CONTEXT, FAILED = Code.ENGINE_MODEL_UNKNOWN, Code.ENGINE_CONTEXT_EXHAUSTED, Code.ENGINE_FAILED
ARGS, TRUST, LOST = Code.ENGINE_ARGS_REJECTED, Code.ENGINE_TRUST_REQUIRED, Code.SESSION_LOST

SESSION = "session-1"
OPENING: dict[str, list[Any]] = {
    "codex": [{"type": "thread.started", "thread_id": SESSION}, {"type": "turn.started"}],
    "claude": [{"type": "system", "subtype": "init", "session_id": SESSION}],
    "gemini": [{"type": "init", "session_id": SESSION, "model": "m"}],
    "qwen": [{"type": "system", "subtype": "init", "session_id": SESSION}],
    "opencode": [{"type": "step_start", "sessionID": SESSION, "part": {"id": "p0", "messageID": "m0"}}],
    "iflow": [],
}
CLOSING: dict[str, list[Any]] = {
    "codex": [{"type": "turn.completed"}],
    "claude": [{"type": "result", "subtype": "success", "is_error": False, "session_id": SESSION}],
    "gemini": [{"type": "result", "status": "success"}],
    "qwen": [{"type": "result", "subtype": "success", "is_error": False, "session_id": SESSION}],
    "opencode": [{"type": "step_finish", "sessionID": SESSION, "part": {"id": "p9", "reason": "stop"}}],
}
INFO = f'<Execution Info>{{"session-id": "{SESSION}"}}</Execution Info>\n'
each_engine = pytest.mark.parametrize("engine", NAMES)


def a_turn(
    engine: str, lines: Sequence[Any] = (), *, stderr: str = "", ended: int = 1, session: str | None = None
) -> Recording:
    """Lines are objects, or text as it is; a negative end is a signal."""
    stdout = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    kind = ExitKind.FOREIGN_SIGNAL if ended < 0 else ExitKind.NONZERO if ended else ExitKind.OK
    exited = Exit(None, -ended) if ended < 0 else Exit(ended, None)
    how = HowEnded(kind=kind, exit=exited, stderr=tail(stderr.encode()))
    return Recording(engine, "made up", stdout.encode(), stderr.encode(), how, session)


def failure(turn: Recording) -> Failure | None:
    """The same in whatever order the two streams were heard."""
    one, other = play(turn), play(turn, stdout_first=True)
    assert snapshot(turn, one) == snapshot(turn, other)
    assert one.transcript.ended == other.transcript.ended
    return one.transcript.ended.failure if one.transcript.ended else None


def code(turn: Recording) -> Code | None:
    found = failure(turn)
    return found.code if found else None


def verdict(turn: Recording) -> Failure:
    run = running(replace(a_job(), contract=CONTRACT, mode=Mode.INTERACTIVE))
    found = judging.judge(run, play(turn).transcript, turn.how).verdict
    assert isinstance(found, Fail)
    return found.failure


# As they were recorded


def codex(message: str, *before: str) -> list[Any]:
    errors = [{"type": "error", "message": each} for each in (*before, message)]
    return [*OPENING["codex"], *errors, {"type": "turn.failed", "error": {"message": message}}]


def gemini(message: str) -> list[Any]:
    error = {"type": "unknown", "message": message}
    return [*OPENING["gemini"], {"type": "result", "status": "error", "error": error, "stats": {}}]


def claude(words: str, error: str, status: int | None = None, kind: str | None = None) -> list[Any]:
    told = {
        "session_id": SESSION,
        "parent_tool_use_id": None,
        "api_error_status": status,
        "api_error_type": kind,
    }
    content = [{"type": "text", "text": words}]
    shown = {"type": "assistant", "message": {"id": "m", "content": content}, "error": error, **told}
    result = {"type": "result", "subtype": "success", "is_error": True, "result": words, **told}
    return [*OPENING["claude"], {**shown, "is_api_error_message": True}, result]


def qwen(message: str) -> list[Any]:
    result = {"type": "result", "subtype": "error_during_execution", "is_error": True, "session_id": SESSION}
    return [*OPENING["qwen"], {**result, "error": {"message": message}}]


def opencode(name: str, message: str, status: int | None = None, **data: Any) -> list[Any]:
    told = {"message": message, **({"statusCode": status, "isRetryable": False} if status else {}), **data}
    return [{"type": "error", "sessionID": SESSION, "error": {"name": name, "data": told}}]


URL = "url: http://127.0.0.1:8080/v1/responses"
NO_BEARER = f"unexpected status 401 Unauthorized: Missing bearer or basic authentication in header, {URL}"
TPM = "Rate limit reached for gpt-5.5 on tokens per min (TPM): Limit 30000, Used 28000. Please try again in 1.5s."
UNKNOWN = "The model `gpt-nope` does not exist or you do not have access to it."
GOOGLE_429 = (
    "[API Error: You exceeded your current quota, please check your plan and billing details. For more information on "
    "this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. \n* Quota exceeded for metric: generative"
    "language.googleapis.com/generate_content_free_tier_requests, limit: 10\nPlease retry in 34.074824224s.\nSuggested "
    "retry after 34s.]\nPlease wait and try again later. To increase your limits, request a quota increase through AI "
    "Studio, or switch to another /auth method"
)
GOOGLE_DAY = (
    "[API Error: You have exhausted your daily quota on this model.]\nPlease wait and try again later. To increase "
    "your limits, request a quota increase through AI Studio, or switch to another /auth method"
)
GOOGLE_KEY = (
    '[API Error: {"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_'
    'ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}]'
)
OPENAI_429 = json.dumps(
    {"error": {"message": TPM, "type": "tokens", "param": None, "code": "rate_limit_exceeded"}}
)
MISUSED = {
    "codex": (
        2,
        "error: unexpected argument '--no-such-flag' found\n\n  tip: to pass it as a value\n\nUsage: codex exec\n",
    ),
    "claude": (1, "error: unknown option '--no-such-flag'\n"),
    # The line is out of the tail of stderr when the help after it is over.
    "gemini": (
        1,
        "Unknown arguments: such-flag, suchFlag\nUsage: gemini [options]\n" + "  -o, --output-format\n" * 45,
    ),
    "qwen": (
        1,
        "Unknown arguments: such-flag, suchFlag\nUsage: qwen [options]\n" + "      --exclude-tools\n" * 80,
    ),
    "opencode": (
        1,
        "opencode run [message..]\n\nrun opencode with a message\n\nPositionals:\n" + "  --share\n" * 30,
    ),
    "iflow": (1, "Unknown argument: such-flag\n"),
}
LOGGED = "timestamp=2026-11-16T15:59:07Z level=ERROR run=4b65f0fe message=failed ref=err_aec8c11b error={} cause=x\n"
SERVER = opencode(
    "UnknownError", "Unexpected server error. Check server logs for details.", ref="err_aec8c11b"
)


def recorded(
    engine: str,
    case: str,
    lines: list[Any],
    expected: Code,
    words: str,
    *,
    pause: float | None = None,
    **how: Any,
) -> Any:
    return pytest.param(a_turn(engine, lines, **how), expected, words, pause, id=f"{engine}-{case}")


NO_KEY = "When using Gemini API, you must specify the GEMINI_API_KEY environment variable."
BY_HAND = "Manual authorization is required but the current session is non-interactive."
NO_LOGIN = f"Error authenticating: FatalAuthenticationError: {BY_HAND}\n    at x (y.js:1)\n{BY_HAND}\n"
NOT_STARTED = f"YOLO mode is enabled.\n{NO_KEY}\nUpdate your environment and try again!\n"
CLOSED = "stream disconnected before completion: stream closed before response.completed"
USED_UP = "You’ve hit your usage limit. Upgrade to Pro (https://x.example), or try again at 5:08 PM."
NO_ROOM = "Codex ran out of room in the model's context window. Start a new thread or clear earlier history."
TOO_LONG = (
    '{"error": {"message": "Too much.", "type": "invalid_request_error", "code": "context_length_exceeded"}}'
)
FIVE_HOURS = "You've hit your 5-hour limit · resets 5:08pm (UTC)"
HEADERS = {"retry-after": "2", "retry-after-ms": "1500"}
NO_PROVIDERS = '"ProviderNoProvidersError: No providers are available"'
GONE = '"ProviderModelNotFoundError: Model not found: openai/gpt-5.5. Did you mean: gpt-5.5-pro?"'

RECORDED = [
    recorded("codex", "no_login", codex(NO_BEARER, f"Reconnecting... 5/5 ({NO_BEARER})"), AUTH, NO_BEARER),
    recorded("codex", "login_expired", codex(CLOSED, f"Reconnecting... 5/5 ({CLOSED})"), FAILED, CLOSED),
    recorded("codex", "http401", codex("unexpected status 401 Unauthorized: Incorrect API key"), AUTH, "key"),
    recorded(
        "codex", "http403", codex("unexpected status 403 Forbidden: <html></html>"), FAILED, "Forbidden"
    ),
    recorded(
        "codex", "http429", codex("exceeded retry limit, last status: 429 Too Many Requests"), RATE, "429"
    ),
    recorded("codex", "http429_stream", codex(f"rate limit exceeded: {TPM}"), RATE, TPM, pause=1.5),
    recorded("codex", "quota", codex("Quota exceeded. Check your plan and billing details."), QUOTA, "Quota"),
    recorded("codex", "usage_limit", codex(USED_UP), QUOTA, USED_UP),
    recorded("codex", "model_unknown", codex(UNKNOWN), MODEL, UNKNOWN),
    recorded("codex", "context", codex(TOO_LONG), CONTEXT, "Too much."),
    recorded("codex", "context_stream", codex(NO_ROOM), CONTEXT, NO_ROOM),
    recorded("codex", "http500", codex("We’re currently experiencing high demand."), FAILED, "high demand"),
    recorded("codex", "overloaded", codex("unexpected status 503 Service Unavailable: busy"), FAILED, "busy"),
    recorded("codex", "drop", codex("stream disconnected before completion: odd"), FAILED, "disconnected"),
    recorded("codex", "refused", codex("Connection failed: error sending request"), FAILED, "Connection"),
    recorded("claude", "no_login", claude("Not logged in · Please run /login", "unknown"), AUTH, "/login"),
    recorded("claude", "http401", claude("Fix external API key", "authentication_failed", 401), AUTH, "Fix"),
    recorded("claude", "http403", claude("No permission.", "unknown", 403, "permission_error"), AUTH, "No"),
    recorded(
        "claude", "http429", claude("rejected (429)", "rate_limit", 429, "rate_limit_error"), RATE, "429"
    ),
    recorded(
        "claude", "usage_limit", claude(FIVE_HOURS, "rate_limit", 429, "rate_limit_error"), QUOTA, "5-hour"
    ),
    recorded("claude", "quota", claude("Credit balance is too low", "billing_error", 400), QUOTA, "Credit"),
    recorded("claude", "model_unknown", claude("An issue.", "model_not_found", 404), MODEL, "An issue."),
    recorded("claude", "context", claude("Prompt is too long", "invalid_request", 400), CONTEXT, "too long"),
    recorded(
        "claude", "overloaded", claude("API Error: 529 Overloaded.", "server_error", 529), FAILED, "529"
    ),
    recorded("claude", "refused", claude("API Error: Connection refused", "server_error"), FAILED, "refused"),
    recorded("gemini", "no_login_oauth", [], AUTH, BY_HAND, stderr=NO_LOGIN, ended=41),
    recorded("gemini", "no_login", [], AUTH, NO_KEY, stderr=NOT_STARTED, ended=41),
    recorded("gemini", "bad_key", gemini(GOOGLE_KEY), AUTH, "API key not valid. Please pass", ended=144),
    recorded("gemini", "http429", gemini(GOOGLE_429), RATE, "retry in 34", pause=34.074824224, ended=173),
    recorded("gemini", "quota", gemini(GOOGLE_DAY), QUOTA, "daily quota", ended=173),
    recorded(
        "gemini", "model_unknown", gemini("[API Error: models/x is not found for API]"), MODEL, "models/x"
    ),
    recorded(
        "gemini",
        "overloaded",
        gemini("[API Error: The model is overloaded.]"),
        FAILED,
        "overloaded",
        ended=247,
    ),
    recorded("gemini", "drop", gemini("[API Error: terminated]"), FAILED, "terminated"),
    recorded(
        "qwen", "no_login", qwen("Missing API key for OpenAI-compatible auth."), AUTH, "Missing API key"
    ),
    recorded(
        "qwen", "no_auth_type", qwen("No auth type is selected. Please configure one."), AUTH, "auth type"
    ),
    recorded(
        "qwen", "http401", qwen("[API Error: 401 Incorrect API key provided: sk-x.]"), AUTH, "Incorrect"
    ),
    recorded("qwen", "model_unknown", qwen(f"[API Error: 404 {UNKNOWN}]"), MODEL, UNKNOWN),
    recorded(
        "qwen", "context", qwen("[API Error: 400 This model's maximum context length is 1]"), CONTEXT, "400"
    ),
    recorded("qwen", "drop", qwen("[API Error: terminated (cause: UND_ERR_SOCKET)]"), FAILED, "terminated"),
    recorded("opencode", "http401", opencode("APIError", "Incorrect API key.", 401), AUTH, "Incorrect"),
    recorded(
        "opencode",
        "http403",
        opencode("APIError", "not allowed to sample from this model", 403),
        MODEL,
        "not",
    ),
    recorded(
        "opencode", "http429", opencode("APIError", TPM, 429, responseHeaders=HEADERS), RATE, TPM, pause=1.5
    ),
    recorded("opencode", "model_unknown", opencode("APIError", UNKNOWN, 404), MODEL, UNKNOWN),
    recorded("opencode", "context", opencode("ContextOverflowError", "Too long."), CONTEXT, "Too long."),
    recorded("opencode", "server", SERVER, FAILED, "Unexpected server error"),
    recorded("opencode", "no_login", SERVER, AUTH, "No providers", stderr=LOGGED.format(NO_PROVIDERS)),
    recorded("opencode", "no_model", SERVER, MODEL, "Model not found", stderr=LOGGED.format(GONE)),
]


@pytest.mark.failure("M03", "M04", "Q01", "Q04", "Q07", "Q08", "Q11")
@pytest.mark.parametrize(("turn", "expected", "words", "pause"), RECORDED)
def test_a_recorded_failure_has_its_code_its_words_and_its_pause(
    turn: Recording, expected: Code, words: str, pause: float | None
) -> None:
    found = failure(turn)
    assert found is not None
    assert (found.code, found.retry_after) == (expected, pause)
    assert words in found.message
    # An error is a failed turn, and no question.
    for mode in Mode:
        assert judged(turn, play(turn), mode) == f"failed {expected}"
    assert verdict(turn) == found


def test_the_providers_answer_is_the_evidence() -> None:
    found = failure(a_turn("opencode", opencode("APIError", TPM, 429, responseBody=OPENAI_429)))
    assert found is not None
    assert (found.message, found.evidence) == (TPM, OPENAI_429)
    found = failure(a_turn("gemini", gemini(GOOGLE_KEY), ended=144))
    assert found is not None
    assert (found.message, found.evidence) == ("API key not valid. Please pass a valid API key.", GOOGLE_KEY)


@pytest.mark.parametrize(
    "data", [{"responseBody": 7}, {"responseHeaders": []}, {"responseHeaders": {"retry-after": {}}}]
)
def test_opencode_details_of_another_kind_are_left_out(data: dict[str, Any]) -> None:
    assert failure(a_turn("opencode", opencode("APIError", "no", 429, **data))) == Failure(RATE, "no")


# The command line


@pytest.mark.failure("S08")
@each_engine
def test_an_argument_that_is_refused_is_typed(engine: str) -> None:
    ended, stderr = MISUSED[engine]
    turn = a_turn(engine, stderr=f"WARNING: odd\n{stderr}", ended=ended)
    found = failure(turn)
    assert found is not None
    assert found.code is ARGS
    assert stderr.splitlines()[0] in found.message
    assert found.evidence == turn.how.stderr.strip()
    for other in (2, 9, 141, 255):
        assert code(a_turn(engine, stderr=stderr, ended=other)) is ARGS
    # A resumed session is not lost for it.
    assert code(replace(turn, session=SESSION)) is ARGS


@pytest.mark.failure("S08")
@each_engine
def test_the_same_words_later_or_with_a_good_exit_are_not(engine: str) -> None:
    ended, stderr = MISUSED[engine]
    spoken = a_turn(engine, OPENING[engine] or ["hi"], stderr=stderr, ended=ended)
    assert code(spoken) is None
    assert verdict(spoken).code is FAILED
    assert code(a_turn(engine, stderr=stderr, ended=0)) is None
    assert code(a_turn(engine, stderr=stderr, ended=-13)) is None
    quoted = "".join(f"> {line}\n" for line in stderr.splitlines())
    assert code(a_turn(engine, stderr=quoted, ended=ended)) is None


@pytest.mark.failure("G02")
def test_a_workspace_that_is_not_trusted_is_typed() -> None:
    words = "Not inside a trusted directory and --skip-git-repo-check was not specified."
    assert failure(a_turn("codex", stderr=f"{words}\n")) == Failure(TRUST, words)
    assert code(a_turn("codex", OPENING["codex"], stderr=words)) is None
    found = failure(a_turn("gemini", stderr="Gemini CLI is not running in a trusted directory.", ended=55))
    assert found is not None
    assert (found.code, found.evidence) == (TRUST, "Gemini CLI is not running in a trusted directory.")
    assert "does not trust" in found.message


# The exit


@pytest.mark.failure("X01", "Q04")
@each_engine
def test_an_exit_is_only_as_typed_as_the_last_error_is(engine: str) -> None:
    stderr = "Error: 401 Unauthorized\n    at x (y.js:1)"
    assert code(a_turn(engine, OPENING[engine], stderr=stderr)) is AUTH
    # The gate knows what to do with the rest.
    assert code(a_turn(engine, OPENING[engine], stderr=stderr, ended=0)) is None
    for signal in (-2, -9, -11, -15):
        assert code(a_turn(engine, OPENING[engine], stderr=stderr, ended=signal)) is None
    for ended in (1, 2, 42, 52, 53, 124, 126, 127, 130, 137, 141, 143, 255):
        assert code(a_turn(engine, OPENING[engine], stderr="something odd", ended=ended)) is None


@each_engine
def test_a_failure_without_words_shows_the_end_of_stderr(engine: str) -> None:
    stderr = "".join(f"line {n}\n" for n in range(100))
    found = verdict(a_turn(engine, OPENING[engine], stderr=stderr, ended=3))
    assert found.code is FAILED
    assert "exit code 3" in found.message
    assert "line 98\nline 99" in found.message
    assert "line 50\n" not in found.message


@pytest.mark.failure("Q12")
@each_engine
@pytest.mark.parametrize(
    "line",
    [
        "Error executing tool fetch: Request failed with status code 401",
        "MCP ERROR (docs): Streamable HTTP error: 401 Unauthorized",
        "Error during discovery for MCP server 'docs': 429 Too Many Requests",
        "2026-11-16T15:54:16.29Z ERROR codex_core::tools::router: error=exec_command failed: 401 Unauthorized",
        "(node:7) Warning: authentication failed",
        "curl: (22) The requested URL returned error: 401",
    ],
)
def test_the_failure_of_a_tool_is_not_the_engines(engine: str, line: str) -> None:
    assert code(a_turn(engine, OPENING[engine], stderr=f"{line}\n")) is None


@pytest.mark.failure("X01")
@pytest.mark.parametrize(
    ("ended", "stderr", "expected", "words"),
    [
        (41, "YOLO mode is enabled.", AUTH, "no login"),
        (41, "Please set an Auth method in your settings.json", AUTH, "set an Auth method"),
        (41, "Error: 429 Too Many Requests", AUTH, "no login"),
        (55, "Error: 401 Unauthorized", TRUST, "does not trust"),
        (145, "YOLO mode is enabled.", AUTH, "HTTP 401"),
        (146, "", QUOTA, "HTTP 402"),
        (173, "YOLO mode is enabled.", RATE, "HTTP 429"),
        (173, "Error when talking to Gemini API x.json TerminalQuotaError: no more", QUOTA, "no more"),
        (
            173,
            "Error when talking to Gemini API x.json RetryableQuotaError: exceeded your current quota",
            RATE,
            "quota",
        ),
    ],
)
def test_exits_of_gemini(ended: int, stderr: str, expected: Code, words: str) -> None:
    found = failure(a_turn("gemini", stderr=stderr, ended=ended))
    assert found is not None
    assert found.code is expected
    assert words in found.message


@pytest.mark.parametrize("ended", [144, 147, 148, 244, 247, 17])
def test_a_status_that_says_nothing_by_itself_is_no_more_as_an_exit(ended: int) -> None:
    assert code(a_turn("gemini", OPENING["gemini"], ended=ended)) is None


@pytest.mark.failure("R06")
@each_engine
def test_a_resumed_session_that_says_nothing_is_lost(engine: str) -> None:
    silent = a_turn(engine, ["", "  "], ended=0, session=SESSION)
    assert code(silent) is LOST
    first = failure(replace(silent, session=None))
    assert first is not None
    assert (first.code, "printed nothing at all" in first.message) == (FAILED, True)


# Codex


@pytest.mark.failure("M02")
def test_codex_retries_are_no_failure() -> None:
    lines = [*OPENING["codex"], *codex("x", f"Reconnecting... 5/5 ({NO_BEARER})")[2:3], *CLOSING["codex"]]
    turn = a_turn("codex", lines, ended=0)
    assert snapshot(turn, play(turn))["warnings"] == [
        ["ENGINE_RETRYING", f"Reconnecting... 5/5 ({NO_BEARER})"]
    ]
    assert code(turn) is None


@pytest.mark.failure("M03", "Q04")
@pytest.mark.parametrize(
    ("cause", "expected", "pause"),
    [(NO_BEARER, AUTH, None), (TPM, RATE, 1.5), ("error sending request", FAILED, None)],
)
def test_codex_cause_is_named_by_its_last_retry(cause: str, expected: Code, pause: float | None) -> None:
    broken = "stream disconnected before completion"
    found = failure(
        a_turn("codex", codex(broken, "Reconnecting... 1/5 (429)", f"Reconnecting... 5/5 ({cause})"))
    )
    kept = cause if expected is not FAILED else None
    assert found == Failure(expected, broken, pause, kept)
    # It did not even get to tell that it failed.
    cut = codex(broken, f"Reconnecting... 5/5 ({cause})")[:-2]
    assert code(a_turn("codex", cut)) is expected
    assert code(a_turn("codex", cut, ended=-9)) is None


def test_codex_retry_that_worked_is_no_cause() -> None:
    said = {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "hi"}}
    note = {
        "type": "item.completed",
        "item": {"id": "i", "type": "error", "message": "Falling back to HTTPS."},
    }
    opening, retry, *end = codex("odd", f"Reconnecting... 1/5 ({NO_BEARER})")[1:]
    assert code(a_turn("codex", [opening, retry, said, *end])) is FAILED
    assert code(a_turn("codex", [opening, retry, note, *end])) is AUTH


@pytest.mark.parametrize(
    "message",
    ["Reconnecting...", "Reconnecting... 5/5 (", "Reconnecting (401 Unauthorized", "Reconnecting" * 9],
)
def test_codex_retry_of_another_form_breaks_nothing(message: str) -> None:
    assert code(a_turn("codex", codex("odd", message))) in (FAILED, AUTH)


# OpenCode


def test_opencode_error_of_its_server_is_explained_by_its_log() -> None:
    logged = LOGGED.format(r'"AI_APICallError: the key \"x\" is an invalid API key"')
    others = LOGGED.replace("err_aec8c11b", "err_other").format('"ProviderAuthError: no"')
    found = failure(a_turn("opencode", SERVER, stderr=others + logged + others))
    assert found is not None
    assert (found.code, found.message) == (AUTH, 'AI_APICallError: the key "x" is an invalid API key')
    assert code(a_turn("opencode", SERVER, stderr=others)) is FAILED
    # Whatever came after it, and however the process ended.
    for ended in (0, 1, -9):
        turn = a_turn(
            "opencode", [*SERVER, *OPENING["opencode"], *CLOSING["opencode"]], stderr=logged, ended=ended
        )
        assert code(replace(turn, stdout=turn.stdout.splitlines(keepends=True)[0])) is AUTH
    heard = a_dialect("opencode").hear(lines_of(json.dumps(SERVER[0]).encode())[0])
    assert heard is not None
    assert heard.is_last


# Somebody to log in

GEMINI_URL = (
    "https://accounts.google.com/o/oauth2/v2/auth?redirect_uri=https%3A%2F%2Fcodeassist.google.com%2Fauthcode"
)
QWEN_URL = "https://chat.qwen.ai/authorize?user_code=ABCD-1234&client=qwen-code"
ASKING = {
    "gemini by hand": ["Please visit the following URL to authorize the application:", "", GEMINI_URL, ""],
    "gemini by browser": [
        "",
        "Attempting to open authentication page in your browser.",
        "Otherwise navigate to:",
        "",
    ],
    "gemini url": ["Otherwise navigate to:", "", GEMINI_URL, ""],
    "gemini code": ["Enter the authorization code: "],
    "gemini consent": ["Opening authentication page in your browser. Do you want to continue? [Y/n]: "],
    "qwen": [
        "Qwen OAuth Device Authorization",
        "Please visit the following URL in your browser to authorize:",
        QWEN_URL,
    ],
    "qwen box": ["| Please visit the following URL in your browser to authorize:       |"],
    "codex": [
        "If your browser did not open, navigate to this URL to authenticate:",
        "",
        "https://auth.openai.com/x",
    ],
    "codex device": [
        "1. Open this link in your browser and sign in to your account",
        "   https://auth.openai.com/codex/device",
    ],
    "codex code": ["2. Enter this one-time code (expires in 15 minutes)", "   ABCD-1234"],
    "claude": ["Browser didn't open? Visit:", "https://claude.ai/oauth/authorize?code=true&client_id=1"],
    "claude login": ["Opening browser to sign in…"],
    "claude link": ["If the browser didn't open, visit: https://claude.com/cai/oauth/authorize?code=true"],
    "claude code": ["Paste code here if prompted > "],
    "opencode": ["●  Go to: https://github.com/login/device"],
    "opencode code": ["Paste the authorization code here: "],
    "in a browser": ["Open the following URL in your browser:", "https://x.example/oauth2/start?state=1"],
    "azure": [
        "To sign in, use a web browser to open the page https://microsoft.com/devicelogin and enter the code ABC."
    ],
    "coloured": [
        "\x1b[1mPlease open \x1b[34mhttps://x.example/oauth/authorize?client_id=1\x1b[0m in your browser"
    ],
}
NOT_ASKING = [
    "please log in to the portal",
    "Not logged in",
    "Please visit https://chatgpt.com/settings/usage to purchase more credits",
    "For help with logins visit https://docs.example.com/oauth/login",
    "Learn more: open https://example.com/login",
    "visit https://example.com/docs/oauth",
    "open https://github.com/x/y/issues/7/login",
    "Failed to open https://x.example/oauth/authorize",
    "Open the file /workspace/login/device.py",
    "open http://localhost:3000/loginform",
    GEMINI_URL,
    "Please open the following URL in your browser to view the documentation:",
    "Enter your name",
    "Enter the code of the project",
    '{"text": "Please visit https://x.example/oauth/authorize"}',
    '  "response": "Please visit https://x.example/oauth/authorize",',
    "'Please visit https://x.example/oauth/authorize'",
    "[INFO] visit https://x.example/oauth/authorize",
    "",
]


@pytest.mark.failure("G04", "G05")
@pytest.mark.parametrize("engine", [name for name in NAMES if name != "iflow"])
@pytest.mark.parametrize("lines", ASKING.values(), ids=list(ASKING))
def test_a_cli_that_asks_for_a_login_has_failed_at_once(engine: str, lines: list[str]) -> None:
    """On either stream, and while it still waits for an answer."""
    dialect, aside = a_dialect(engine), a_dialect(engine)
    heard = [dialect.hear(line) for line in lines_of("\n".join(lines).encode())]
    ended = [event for each in heard if each for event in each.events if isinstance(event, Ended)]
    assert ended
    assert ended[0].failure is not None
    assert (ended[0].failure.code, ended[0].failure.message) == (AUTH, TO_DO)
    assert ended[0].failure.evidence
    beside = [aside.hear_stderr(line) for line in lines_of("\n".join(lines).encode())]
    assert any(each.is_last for each in beside if each)
    # We end it; it leaves by itself; it leaves as if all were well.
    for exit_code in (-15, 1, 0, 41):
        assert code(a_turn(engine, stderr="\n".join(lines), ended=exit_code)) is AUTH
        assert code(a_turn(engine, lines, ended=exit_code)) is AUTH


ABOUT_THE_START = (TRUST, Code.ENGINE_NOT_READY)
BEGINNING = {
    "trust": ["Do you trust the files in this folder?"],
    "update": ["Update available! 1.0 -> 1.1", "Press any key to stop the dev server"],
}


@pytest.mark.failure("G02", "G08")
@pytest.mark.parametrize("engine", [name for name in NAMES if name != "iflow"])
@pytest.mark.parametrize("lines", BEGINNING.values(), ids=list(BEGINNING))
def test_a_question_about_the_start_counts_before_the_turn_has_begun(engine: str, lines: list[str]) -> None:
    """Later it is a tool of the agent that prints it. The stored bytes have no order, and say the same."""
    stderr = "\n".join(lines)
    fresh, begun = a_dialect(engine), a_dialect(engine)
    for line in OPENING[engine]:
        begun.hear(*lines_of(json.dumps(line).encode()))
    for dialect, is_over in ((fresh, True), (begun, False)):
        assert dialect.asks("stderr", " ".join(lines).encode()) is is_over
        heard = [dialect.hear_stderr(line) for line in lines_of(stderr.encode())]
        assert any(each.is_last for each in heard if each) is is_over
    for exit_code in (-15, 1, 0):
        assert code(a_turn(engine, stderr=stderr, ended=exit_code)) in ABOUT_THE_START
        later = a_turn(engine, [*OPENING[engine], *CLOSING[engine]], stderr=stderr, ended=exit_code)
        assert code(later) not in ABOUT_THE_START
        assert code(a_turn(engine, OPENING[engine], stderr=stderr, ended=exit_code)) not in ABOUT_THE_START
    assert code(a_turn(engine, OPENING[engine], stderr="\n".join([*lines, *LOGIN_WORDS]), ended=-15)) is AUTH


@pytest.mark.failure("Q12")
@each_engine
def test_what_is_no_question_for_a_login_is_left_alone(engine: str) -> None:
    for line in NOT_ASKING:
        dialect = a_dialect(engine)
        [read] = lines_of(line.encode()) or [Line(b"", 0, 1, truncated=False)]
        assert dialect.hear_stderr(read) is None
        heard = dialect.hear(read)
        assert heard is None or not any(isinstance(event, Ended) for event in heard.events)
    for lines in (
        ["Otherwise navigate to:", "something else", GEMINI_URL],
        [GEMINI_URL, "Otherwise navigate to:"],
    ):
        assert code(a_turn(engine, stderr="\n".join(lines), ended=1)) is None


LOGIN_WORDS = [
    "Please visit the following URL to authorize the application:",
    GEMINI_URL,
    "Enter the authorization code:",
]
SAYING: dict[str, Any] = {
    "codex": lambda text: {
        "type": "item.completed",
        "item": {"id": "i", "type": "agent_message", "text": text},
    },
    "claude": lambda text: {
        "type": "assistant",
        "session_id": SESSION,
        "message": {"id": "m", "content": [{"type": "text", "text": text}]},
    },
    "gemini": lambda text: {"type": "message", "role": "assistant", "content": text, "delta": True},
    "opencode": lambda text: {
        "type": "text",
        "sessionID": SESSION,
        "part": {"id": "p1", "messageID": "m1", "text": text},
    },
}
SAYING["qwen"] = SAYING["claude"]


@pytest.mark.failure("Q12")
@pytest.mark.parametrize("engine", SAYING)
def test_the_assistant_may_speak_of_logins(engine: str) -> None:
    words = "\n".join(
        [*LOGIN_WORDS, "Error: 401 Unauthorized, quota exceeded, rate limit exceeded, model not found"]
    )
    turn = a_turn(engine, [*OPENING[engine], SAYING[engine](words), *CLOSING[engine]], ended=0)
    assert judged(turn, play(turn), Mode.INTERACTIVE) == "waiting_user"
    broken = a_turn(engine, [*OPENING[engine], SAYING[engine](words)])
    assert verdict(broken).code is FAILED
    # A tool that prints past the CLI is no CLI that starts.
    printed = a_turn(engine, [*OPENING[engine], *LOGIN_WORDS, *CLOSING[engine]], ended=0)
    assert judged(printed, play(printed), Mode.INTERACTIVE) == "waiting_user"


@pytest.mark.failure("Q12")
def test_the_words_of_iflow_are_the_assistants() -> None:
    turn = a_turn("iflow", LOGIN_WORDS, stderr=INFO, ended=0)
    assert judged(turn, play(turn), Mode.INTERACTIVE) == "waiting_user"
    assert play(turn).transcript.messages == ["\n".join(LOGIN_WORDS)]
    asked = "\n".join(LOGIN_WORDS)
    assert code(a_turn("iflow", stderr=asked, ended=-15)) is AUTH
    assert code(a_turn("iflow", ["hi"], stderr=f"{asked}\n{INFO}", ended=0)) is None


@pytest.mark.parametrize("engine", SAYING)
def test_a_question_on_stderr_is_none_if_the_turn_was_closed_all_the_same(engine: str) -> None:
    lines = [*OPENING[engine], SAYING[engine]("hi"), *CLOSING[engine]]
    turn = a_turn(engine, lines, stderr="\n".join(LOGIN_WORDS), ended=0)
    assert code(turn) is None
    assert judged(turn, play(turn), Mode.INTERACTIVE) == "waiting_user"
    assert code(replace(turn, stdout=b"")) is AUTH


def test_a_question_is_looked_for_in_the_beginning_of_a_line_only() -> None:
    prompts = Prompts()
    [late] = lines_of((" " * 5 * MAX_READ + LOGIN_WORDS[0]).encode())
    assert prompts.hear(late) is None
    [early] = lines_of((LOGIN_WORDS[2] + "x" * 10 * MAX_READ).encode())
    asked = prompts.hear(early)
    assert asked is not None
    assert len(asked.evidence or "") <= MAX_READ


# Anything at all

PIECES = st.sampled_from(
    [
        *(
            "Error: ",
            "error: unexpected argument",
            "Unknown arguments: ",
            "401 Unauthorized",
            "visit ",
            "open ",
            "go to ",
        ),
        *(
            "https://x/oauth/authorize",
            "enter the authorization code",
            "opencode run [message..]",
            'ref=err_1 error="',
        ),
        *(
            "\n",
            "\r",
            "\x1b[2K",
            "\ufffd",
            "{",
            "}",
            '"',
            "\\",
            " ",
            "Reconnecting... 1/5 (",
            "<Execution Info>",
        ),
    ]
)
noise = st.lists(PIECES | st.text(max_size=6), max_size=25).map("".join)


@each_engine
@given(
    stdout=noise, stderr=noise, ended=st.sampled_from([0, 1, 2, 41, 55, 173, 255, -9]), resumes=st.booleans()
)
def test_no_noise_breaks_a_dialect(engine: str, stdout: str, stderr: str, ended: int, resumes: bool) -> None:
    turn = a_turn(engine, [stdout], stderr=stderr, ended=ended, session=SESSION if resumes else None)
    one, other = play(turn), play(turn, stdout_first=True)
    assert one.transcript.ended == other.transcript.ended
    found = one.transcript.ended.failure if one.transcript.ended else None
    assert found is None or (found.message.strip() and len(found.evidence or "") <= 2000)


@pytest.mark.parametrize(
    "piece", ["open ", "visit https://", "/doc", "https://x/", "enter the ", ": ", "Visit: ", "a", " "]
)
def test_hostile_lines_are_heard_in_no_time(piece: str) -> None:
    dialect = a_dialect("opencode")
    [line] = lines_of((piece * 100_000).encode())
    began = time.process_time()
    for _ in range(20):
        dialect.hear(line)
        dialect.hear_stderr(line)
    assert time.process_time() - began < 5
