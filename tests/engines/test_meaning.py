"""What an engine's error means: typed where that is sure, and never from words that only sound like it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure
from turnkeeper.engines import meaning
from turnkeeper.engines.told import MAX_PAUSE, pause_in, seconds

AUTH, QUOTA, RATE = Code.ENGINE_AUTH_REQUIRED, Code.ENGINE_QUOTA_EXHAUSTED, Code.ENGINE_RATE_LIMITED
MODEL, CONTEXT, FAILED = Code.ENGINE_MODEL_UNKNOWN, Code.ENGINE_CONTEXT_EXHAUSTED, Code.ENGINE_FAILED


def openai(message: str, kind: str | None = "invalid_request_error", code: str | None = None) -> str:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})


def anthropic(kind: str, message: str) -> str:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})


def google(code: int, message: str, status: str, *details: dict[str, Any]) -> str:
    error = {"code": code, "message": message, "status": status, "details": list(details)}
    return json.dumps({"error": error}, indent=2)


def quota(period: str) -> dict[str, Any]:
    kind = "type.googleapis.com/google.rpc.QuotaFailure"
    metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    violation = {"quotaMetric": metric, "quotaId": f"GenerateRequests{period}PerProjectPerModel-FreeTier"}
    return {"@type": kind, "violations": [violation]}


def reason(name: str, **metadata: str) -> dict[str, Any]:
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    return {"@type": kind, "reason": name, "domain": "googleapis.com", "metadata": metadata}


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
GOOGLE_QUOTA = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this "
    "error, head to: https://ai.google.dev/gemini-api/docs/rate-limits."
)
TPM = (
    "Rate limit reached for gpt-5.5 in organization org-x on tokens per min (TPM): Limit 30000, Used 28000, "
    "Requested 2750. Please try again in {}. Visit https://platform.openai.com/account/rate-limits to learn more."
)
RPD = "Rate limit reached for gpt-5.5 in organization x on requests per day (RPD): Limit 2. Please try again in {}."
AZURE = (
    "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-02-01 have exceeded token "
    "rate limit of your current OpenAI S0 pricing tier. Please retry after 26 seconds."
)
CLOUD_CODE = (
    "Quota exceeded for quota metric 'Gemini 2.5 Pro Requests' and limit 'Gemini 2.5 Pro Requests per day per user per "
    "tier' of service 'cloudcode-pa.googleapis.com' for consumer 'project_number:1'."
)
VERTEX = "Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_minute_per_project with model: x."


def case(name: str, text: str, code: Code, pause: float | None = None, **more: Any) -> Any:
    return pytest.param(text, code, pause, more, id=name)


# Bodies of providers, as they are or as a CLI quotes them

BODIES = [
    # OpenAI
    case("openai-bad-key", openai("Incorrect API key provided: sk-***.", code="invalid_api_key"), AUTH),
    case("openai-no-key", openai("You didn't provide an API key.", None), AUTH, status=401),
    case("openai-tpm", openai(TPM.format("1.5s"), "tokens", "rate_limit_exceeded"), RATE, 1.5),
    case("openai-tpm-ms", openai(TPM.format("6ms"), "tokens", "rate_limit_exceeded"), RATE, 0.006),
    case("openai-rpd", openai(RPD.format("7m12s"), "requests", "rate_limit_exceeded"), RATE, 432.0),
    case("openai-rpd-in-words", RPD.format("8.64s"), RATE, 8.64),
    case("openai-quota", openai(GOOGLE_QUOTA, "insufficient_quota", "insufficient_quota"), QUOTA, status=429),
    case(
        "openai-hard-limit",
        openai("Billing hard limit has been reached", code="billing_hard_limit_reached"),
        QUOTA,
    ),
    case("openai-not-active", openai("Your account is not active.", "billing_not_active"), QUOTA, status=429),
    case(
        "openai-model",
        openai("The model `gpt-0` does not exist or you do not have access to it.", code="model_not_found"),
        MODEL,
        status=404,
    ),
    case("openai-model-in-words", "The model `gpt-0` does not exist or you do not have access to it.", MODEL),
    case("openai-model-barred", openai("You are not allowed to sample from this model"), MODEL, status=403),
    case("openai-country", openai("Country, region, or territory not supported"), FAILED, status=403),
    case(
        "openai-context",
        openai(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 250123."
        ),
        CONTEXT,
    ),
    case("openai-responses-context", openai("Too much.", code="context_length_exceeded"), CONTEXT),
    case("openai-500", openai("The server had an error.", "server_error"), FAILED, status=500),
    case(
        "openai-overloaded", openai("That model is currently overloaded.", "server_error"), FAILED, status=503
    ),
    case("openai-slow-down", openai("Rate limit exceeded", "slow_down"), FAILED),
    case("chatgpt-plan", '{"error":{"type":"usage_not_included","message":"Upgrade to Plus"}}', QUOTA),
    case(
        "chatgpt-usage",
        '{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus",'
        '"resets_at":1777936568,"resets_in_seconds":13872},"status_code":429}',
        QUOTA,
        13872.0,
    ),
    case(
        "chatgpt-model", "The 'gpt-0' model is not supported when using Codex with a ChatGPT account.", MODEL
    ),
    # Anthropic
    case("anthropic-key", anthropic("authentication_error", "invalid x-api-key"), AUTH),
    case("anthropic-403", anthropic("permission_error", "Your API key does not have permission."), AUTH),
    case("anthropic-429", anthropic("rate_limit_error", "This request would exceed your rate limit."), RATE),
    case(
        "anthropic-5-hours",
        "You've hit your 5-hour limit · resets 3pm",
        QUOTA,
        status=429,
        kind="rate_limit_error",
    ),
    case("anthropic-limit", "You've hit your limit · resets 3pm (UTC)", QUOTA, status=429, kind="rate_limit"),
    case(
        "anthropic-credit",
        anthropic("invalid_request_error", "Your credit balance is too low to access it."),
        QUOTA,
    ),
    case(
        "anthropic-spend",
        anthropic("invalid_request_error", "You have reached your specified API usage limits."),
        QUOTA,
    ),
    case("anthropic-402", anthropic("billing_error", "Please check your payment."), QUOTA, status=402),
    case("anthropic-model", anthropic("not_found_error", "model: claude-nope"), MODEL, status=404),
    case("anthropic-404", anthropic("not_found_error", "Not found"), FAILED, status=404),
    case(
        "anthropic-long",
        anthropic("invalid_request_error", "prompt is too long: 208732 tokens > 200000"),
        CONTEXT,
    ),
    case(
        "anthropic-limit-of-context",
        anthropic(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
        ),
        CONTEXT,
    ),
    case(
        "anthropic-large",
        anthropic("request_too_large", "Request exceeds the maximum size"),
        FAILED,
        status=413,
    ),
    case("anthropic-529", anthropic("overloaded_error", "Overloaded"), FAILED, status=529),
    case("anthropic-overloaded", anthropic("overloaded_error", "Overloaded"), FAILED),
    # Google
    case(
        "google-key", google(400, "API key not valid.", "INVALID_ARGUMENT", reason("API_KEY_INVALID")), AUTH
    ),
    case("google-key-by-reason", google(400, "Bad.", "INVALID_ARGUMENT", reason("API_KEY_INVALID")), AUTH),
    case("google-401", google(401, "Request had invalid credentials.", "UNAUTHENTICATED"), AUTH),
    case("google-403", google(403, "API has not been used in project 1 before.", "PERMISSION_DENIED"), AUTH),
    case(
        "google-minute",
        google(429, GOOGLE_QUOTA, "RESOURCE_EXHAUSTED", quota("PerMinute"), RETRY),
        RATE,
        34.0,
    ),
    case("google-day", google(429, GOOGLE_QUOTA, "RESOURCE_EXHAUSTED", quota("PerDay"), RETRY), QUOTA, 34.0),
    case("google-unnamed", google(429, GOOGLE_QUOTA, "RESOURCE_EXHAUSTED"), QUOTA),
    case(
        "google-code-assist",
        google(429, CLOUD_CODE, "RESOURCE_EXHAUSTED", reason("RATE_LIMIT_EXCEEDED")),
        RATE,
    ),
    case(
        "google-code-assist-day",
        google(
            429,
            CLOUD_CODE,
            "RESOURCE_EXHAUSTED",
            reason("RATE_LIMIT_EXCEEDED", quota_limit="Gemini25ProRequestsPerDay"),
        ),
        QUOTA,
    ),
    case("google-code-assist-in-words", CLOUD_CODE, QUOTA),
    case("google-vertex", google(429, VERTEX, "RESOURCE_EXHAUSTED"), RATE),
    case(
        "google-busy",
        google(429, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED"),
        RATE,
    ),
    case(
        "google-model",
        google(
            404, "models/gemini-nope is not found for API version v1beta, or is not supported.", "NOT_FOUND"
        ),
        MODEL,
    ),
    case("google-404", google(404, "Requested entity was not found.", "NOT_FOUND"), FAILED),
    case(
        "google-context",
        google(
            400,
            "The input token count (1200345) exceeds the maximum number of tokens allowed.",
            "INVALID_ARGUMENT",
        ),
        CONTEXT,
    ),
    case(
        "google-place",
        google(400, "User location is not supported for the API use.", "FAILED_PRECONDITION"),
        FAILED,
    ),
    case(
        "google-503", google(503, "The model is overloaded. Please try again later.", "UNAVAILABLE"), FAILED
    ),
    case("google-list", f"[{google(401, 'no', 'UNAUTHENTICATED')}]", AUTH),
    case(
        "google-in-google",
        json.dumps(
            {"error": {"message": google(429, "No.", "RESOURCE_EXHAUSTED"), "status": "Too Many Requests"}}
        ),
        RATE,
    ),
    # OpenRouter
    case("openrouter-key", '{"error":{"message":"No auth credentials found","code":401}}', AUTH),
    case("openrouter-user", '{"error":{"message":"User not found.","code":401}}', AUTH),
    case("openrouter-credits", '{"error":{"message":"Insufficient credits. Add more.","code":402}}', QUOTA),
    case(
        "openrouter-day",
        '{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model '
        'requests per day","code":429,"metadata":{"headers":{"X-RateLimit-Remaining":"0"}}}}',
        QUOTA,
    ),
    case(
        "openrouter-minute",
        '{"error":{"message":"Rate limit exceeded: free-models-per-min.","code":429}}',
        RATE,
    ),
    case(
        "openrouter-behind",
        '{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"x/y is temporarily rate-limited '
        'upstream. Please retry shortly.","provider_name":"Y"}}}',
        RATE,
    ),
    case("openrouter-model", '{"error":{"message":"x/nope is not a valid model ID","code":400}}', MODEL),
    case("openrouter-withdrawn", '{"error":{"message":"No endpoints found for x/nope.","code":404}}', MODEL),
    case(
        "openrouter-tools",
        '{"error":{"message":"No endpoints found that support tool use.","code":404}}',
        FAILED,
    ),
    case("openrouter-flagged", '{"error":{"message":"Your input was flagged","code":403}}', FAILED),
    # Azure, AWS and others
    case("azure-429", json.dumps({"error": {"code": "429", "message": AZURE}}), RATE, 26.0),
    case(
        "azure-gateway",
        '{"statusCode":429,"message":"Rate limit is exceeded. Try again in 2 seconds."}',
        RATE,
        2.0,
    ),
    case("azure-401", '{"statusCode":401,"message":"Access denied due to invalid subscription key."}', AUTH),
    case(
        "azure-firewall", '{"error":{"code":"403","message":"Access denied due to Firewall rules."}}', FAILED
    ),
    case(
        "azure-deployment",
        '{"error":{"code":"DeploymentNotFound","message":"It does not exist."}}',
        MODEL,
        status=404,
    ),
    case("azure-filter", openai("The response was filtered.", None, "content_filter"), FAILED, status=400),
    case("aws-throttled", "ThrottlingException: Too many requests, please wait before trying again.", RATE),
    case("aws-expired", "The security token included in the request is expired", AUTH),
    case("aws-long", "Input is too long for requested model.", CONTEXT),
    case("aws-model", "The provided model identifier is invalid.", MODEL),
    case("deepseek-model", openai("Model Not Exist"), MODEL),
    case("deepseek-balance", openai("Insufficient Balance", "unknown_error"), QUOTA, status=402),
    case("groq-gone", openai("The model `x-1` has been decommissioned.", code="model_decommissioned"), MODEL),
    case("mistral-model", '{"object":"error","message":"Invalid model: nope","type":"invalid_model"}', MODEL),
    case(
        "xai-context",
        openai("This model's maximum prompt length is 131072 but the request has 537812."),
        CONTEXT,
    ),
    case(
        "cerebras-context",
        "Please reduce the length of the messages or completion. Current length is 6.",
        CONTEXT,
    ),
    case("dashscope-context", openai("Range of input length should be [1, 98304]"), CONTEXT),
    case("dashscope-arrears", openai("Access denied.", None, "Arrearage"), QUOTA, status=400),
    case("moonshot-quota", openai("Suspended.", "exceeded_current_quota_error"), QUOTA, status=429),
    case("ollama-model", 'model "nope:latest" not found, try pulling it first', MODEL),
    case(
        "zen-credits", '{"type":"error","error":{"type":"CreditsError","message":"No."}}', QUOTA, status=401
    ),
    case("zen-free", '{"type":"FreeUsageLimitError","message":"Rate limit exceeded."}', QUOTA, status=429),
    case("iflow-key", '{"status":"434","msg":"Invalid apiKey","body":null}', AUTH),
]


@pytest.mark.failure("Q01", "Q04", "Q07", "Q08", "Q11")
@pytest.mark.parametrize(("text", "code", "pause", "more"), BODIES)
def test_a_provider_answers(text: str, code: Code, pause: float | None, more: dict[str, Any]) -> None:
    found = meaning.failure(text, **more)
    assert (found.code, found.retry_after) == (code, pause)
    if more.get("status", 0) not in (401, 402, 429):
        quoted = meaning.failure(f"[API Error: {text}]", **more)
        assert quoted.code is code
        assert found.message in quoted.message


# Words of the CLIs

WORDS = {
    AUTH: [
        "unexpected status 401 Unauthorized: Missing bearer or basic authentication in header, url: http://x/v1",
        "Missing environment variable: `OPENAI_API_KEY`.",
        "Your access token could not be refreshed because your refresh token was already used.",
        "Your session has ended. Please log out and sign in again.",
        "Not logged in · Please run /login",
        "Login expired · Please run /login",
        "Your session has expired. Please reauthenticate.",
        "Failed to authenticate: OAuth session expired and could not be refreshed",
        "the token is gone, please re-run `codex login`",
        "Error: not logged in. Run `codex login` first.",
        "Incorrect API key provided: sk-***.",
        "Invalid API key · Fix external API key",
        "invalid x-api-key",
        "OAuth token has expired. Please obtain a new token.",
        "Please set an Auth method: invalid auth method selected",
        "you must specify the GEMINI_API_KEY environment variable",
        "Missing API key for OpenAI-compatible auth. Set settings.security.auth.apiKey.",
        "No auth type is selected. Please configure an auth type before running in non-interactive mode.",
        "Qwen OAuth free tier was discontinued on 2026-04-15. Run /auth to switch to another provider.",
        "Manual authorization is required but the current session is non-interactive.",
        "Failed to authenticate. API Error: 403 Your API key does not have permission to use the resource.",
        "ProviderNoProvidersError: No providers are available",
        "FatalAuthenticationError: no",
        "HTTP/1.1 401",
        "Error code: 401 - {'error': 'python'}",
        "[API Error: 401 User not found.]",
    ],
    QUOTA: [
        "You've hit your usage limit. Visit https://x/usage to purchase more credits or try again at 3:28 PM.",
        "Quota exceeded. Check your plan and billing details.",
        "Credit balance is too low",
        "HTTP 402: Insufficient credits",
        "Claude AI usage limit reached|1760000000",
        "[API Error: You have exhausted your daily quota on this model.]",
        "You have exhausted your capacity on this model. Your quota will reset after 3h12m5s.",
        "TerminalQuotaError: no more",
        "Error: 429 You exceeded your current quota",
    ],
    RATE: [
        "exceeded retry limit, last status: 429 Too Many Requests, request id: 1",
        "API Error: Request rejected (429) · This request would exceed your organization's rate limit of 30,000 tokens",
        "RetryableQuotaError: You exceeded your current quota",
        "[GoogleGenerativeAI Error]: Error fetching from https://x: [429 Too Many Requests] no",
        "We have been rate limited by the provider",
    ],
    MODEL: [
        "model not found: gpt-0",
        "ProviderModelNotFoundError: Model not found: openai/gpt-0. Did you mean: gpt-1?",
        "[API Error: models/gemini-nope is not found for API version v1beta]",
        "There's an issue with the selected model (claude-nope). It may not exist or you may not have access to it.",
        "unexpected status 403 Forbidden: your plan has no access to this model",
        "Unknown model gpt-0",
    ],
    CONTEXT: [
        "Codex ran out of room in the model's context window. Start a new thread or clear earlier history.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "Prompt is too long · the request is ~213456 tokens (limit 200000)",
        "Session token limit exceeded: 40000 tokens > 32000 limit.",
    ],
}


@pytest.mark.failure("Q01", "Q04", "Q07", "Q08", "Q11")
@pytest.mark.parametrize(("text", "code"), [(text, code) for code, texts in WORDS.items() for text in texts])
def test_a_cli_says_it_in_words(text: str, code: Code) -> None:
    assert meaning.failure(text).code is code


@pytest.mark.failure("Q12")
@pytest.mark.parametrize(
    "text",
    [
        "stream disconnected before completion: error sending request",
        "We’re currently experiencing high demand, which may cause temporary errors.",
        "exceeded retry limit, last status: 500 Internal Server Error",
        "unexpected status 503 Service Unavailable: too many requests, check your API key",
        "API Error: 529 Overloaded. This is a server-side issue, usually temporary.",
        "write /data/quota.json: disk quota exceeded",
        "Error: EDQUOT: quota exceeded, write",
        "EACCES: permission denied, open '/root/x'",
        "cannot parse line 401 of the log in portal.html",
        "Error: 402 files were changed and not committed",
        "Error: exit code: 429",
        "the command failed with exit status 401",
        "Error: ENOENT: no such file or directory, open '/workspace/src/login/page.tsx'",
        "Error: ENOENT: no such file or directory, open '/workspace/src/rate-limit exceeded.ts'",
        "Error: Cannot find module './authentication'",
        "The request was refused by our policy: it asks how to get around authentication on a website.",
        "Please tell the user to log in to the portal and to check the plan",
        "Invalid schema for function 'get_quota': schema must be an object",
        "Invalid schema for function 'get_rate_limit': schema must be an object",
        "Model metadata for `gpt-0` not found. Defaulting to fallback metadata.",
        "Model provider `own` not found",
        "Unknown model error",
        "the context of this window is too long a story",
        "unexpected status 403 Forbidden: <html>Attention Required! Cloudflare</html>",
        "unexpected status 404 Not Found: url http://127.0.0.1/v1/model",
        "Cannot connect to API: Unable to connect. Is the computer able to access the url?",
        "[API Error: exception TypeError: fetch failed sending request]",
        "MessageOutputLengthError",
        '{"error": {"code": 503, "message": "try again, or check your rate limit and authentication"}}',
        '{"error": {"message": 7}}',
        '{"error": ["odd"]}',
        '{"error": null, "message": null}',
        '{"oops": ' + "[" * 100_000,
        "{" * 1000,
        "}{",
        "",
    ],
)
def test_anything_else_is_a_failure(text: str) -> None:
    found = meaning.failure(text)
    assert (found.code, found.retry_after) == (FAILED, None)


def test_what_is_structured_decides_before_the_words() -> None:
    for status, code in ((401, AUTH), (402, QUOTA), (429, RATE), (400, FAILED), (403, FAILED), (500, FAILED)):
        assert meaning.failure("scripted failure", status=status).code is code
    assert meaning.failure("rate limit exceeded", status=500).code is FAILED
    assert meaning.failure("rate limit exceeded", status=401).code is AUTH
    assert meaning.failure("rate limit exceeded", status="odd").code is RATE
    assert meaning.failure("no", status="429").code is RATE
    assert meaning.failure("no", kind="ProviderAuthError").code is AUTH
    assert meaning.failure("rate limit exceeded", kind="overloaded_error").code is FAILED
    assert meaning.failure("error 429", kind="invalid_request_error insufficient_quota").code is QUOTA
    # 403 is a login's only where the words are about one.
    assert meaning.failure("your token lacks the scope", status=403).code is AUTH
    assert meaning.failure("the model is blocked in your country", status=403).code is FAILED
    # What the provider answered counts beside the words of the CLI.
    assert (
        meaning.failure("Too Many Requests", status=429, body=openai("no", code="insufficient_quota")).code
        is QUOTA
    )
    assert (
        meaning.failure("Not Found", status=404, body=anthropic("not_found_error", "model: x")).code is FAILED
    )
    assert (
        meaning.failure("model: x", status=404, body=anthropic("not_found_error", "model: x")).code is MODEL
    )


# The pause


@pytest.mark.failure("Q01")
@pytest.mark.parametrize(
    ("words", "pause"),
    [
        ("Please try again in 1.5s.", 1.5),
        ("try again in 20 seconds", 20.0),
        ("Please try again in 6ms", 0.006),
        ("try again in 2m30s", 150.0),
        ("Try again in 5 days 3 hours 28 minutes.", 5 * 86400 + 3 * 3600 + 28 * 60.0),
        ("try again in 1 hour and 5 minutes", 3900.0),
        ("Please retry in 34.074824224s.", 34.074824224),
        ("Please retry after 26 seconds.", 26.0),
        ("retry after 12", 12.0),
        ("Retry-After: 12", 12.0),
        ('"retry_after": 3.5}', 3.5),
        ('"retryDelay": "34s"', 34.0),
        ("Your quota will reset after 3h12m5s.", 11525.0),
        ("please wait 2 minutes", 120.0),
        ("wait for about 30 seconds", 30.0),
        ("try again at 3:28 PM", None),
        ("retry after 12:30", None),
        ("Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("Retrying 3 of 5", None),
        ("try again later", None),
        ("resets 3pm", None),
        ("try again in 5 dollars", None),
        (f"try again in {10**8} days", None),
    ],
)
def test_a_pause_is_read_from_words(words: str, pause: float | None) -> None:
    assert pause_in(words) == pytest.approx(pause)
    assert meaning.failure(words, status=429).retry_after == pytest.approx(pause)
    assert meaning.failure(words, status=400).retry_after is None


def test_a_pause_is_read_from_a_header() -> None:
    for value, pause in ((12, 12.0), ("12", 12.0), (" 0.5 ", 0.5), ("34s", 34.0), (0, 0.0), ("1m 5s", 65.0)):
        assert seconds(value) == pause
    odd: list[Any] = [None, True, -1, float("nan"), float("inf"), 10**400, "soon", "", [], "Wed, 21 Oct 2026"]
    for value in [*odd, MAX_PAUSE + 1]:
        assert seconds(value) is None
    assert meaning.failure("try again in 7s", status=429, retry_after="3").retry_after == 3.0
    assert meaning.failure("try again in 7s", status=429, retry_after="soon").retry_after == 7.0


# What is shown, and what is kept


@pytest.mark.failure("M03")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"error": {"message": "scripted failure", "code": null}}', "scripted failure"),
        (
            'unexpected status 400 Bad Request: {"error": {"message": "too much"}}, url: http://x/{y}',
            "too much",
        ),
        ('{"detail": "Unsupported parameter"}', "Unsupported parameter"),
        ('{"error": "plain words"}', "plain words"),
        ('{"error": "short", "message": "longer words"}', "longer words"),
        ('{"error": [{"message": "in a list"}]}', "in a list"),
        ('of {"a": 1} came {"error": {"message": "no"}}', "no"),
        (json.dumps({"error": {"message": json.dumps({"error": {"message": "inside"}})}}), "inside"),
        (
            '{"error":{"message":"Provider returned error","metadata":{"raw":"{\\"error\\":\\"busy\\"}"}}}',
            "busy",
        ),
    ],
)
def test_a_person_reads_the_message_inside_and_finds_the_rest_as_evidence(text: str, shown: str) -> None:
    found = meaning.failure(text)
    assert (found.message, found.evidence) == (shown, text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("  plain words \n", "plain words"),
        ('a set {"a": 1} is no error', 'a set {"a": 1} is no error'),
        ("", meaning.WORDLESS),
        (" \n", meaning.WORDLESS),
        ("x" * 5000, "x" * meaning.MAX_MESSAGE),
    ],
)
def test_words_that_are_the_message_are_not_kept_twice(text: str, shown: str) -> None:
    assert meaning.failure(text) == Failure(FAILED, shown)


def test_evidence_is_bounded() -> None:
    long = openai("no", "x" * 5000)
    found = meaning.failure(long)
    assert (found.message, found.evidence) == ("no", long[: meaning.MAX_MESSAGE])
    told = meaning.failure("words of the CLI", body='{"error": {"message": "words of the provider"}}')
    assert (told.message, told.evidence) == (
        "words of the CLI",
        '{"error": {"message": "words of the provider"}}',
    )


# The end of stderr


def test_of_stderr_only_error_lines_count_and_the_last_is_the_reason() -> None:
    stderr = (
        "warning: authentication is not configured\n"
        "Error: 429 Too Many Requests\n"
        "Error: 401 Unauthorized\n"
        "Error executing tool fetch: 402 Payment Required\n"
        "MCP ERROR (docs): 402 Payment Required\n"
        "Error during discovery for MCP server 'x': 429 Too Many Requests\n"
        "Error in hook: 429 Too Many Requests\n"
        "2026-11-16T15:54:16Z ERROR codex_core::tools::router: error=429 Too Many Requests\n"
        "Error shutting down SDK: TypeError: odd\n"
        "    at login (file.js:1)\n"
    )
    found = meaning.of_stderr(stderr)
    assert found is not None
    assert (found.code, found.message) == (AUTH, "Error: 401 Unauthorized")
    assert meaning.of_stderr("please log in\nError: no such file\n") is None
    assert meaning.of_stderr("") is None


def test_an_exit_code_is_told_in_the_engines_words_if_they_are_about_the_same() -> None:
    known = Failure(AUTH, "no login (exit code 41)")
    stderr = (
        "YOLO mode is enabled.\nyou must specify the GEMINI_API_KEY environment variable\nError: 429 Too Many"
    )
    found = meaning.explained(known, stderr)
    assert found == Failure(AUTH, "you must specify the GEMINI_API_KEY environment variable", None, stderr)
    assert meaning.explained(known, "YOLO\n") == Failure(AUTH, known.message, None, "YOLO")
    assert meaning.explained(known, "") == known


# Anything at all

PIECES = st.sampled_from(
    [
        *(
            "{",
            "}",
            '{"error":',
            '"message":',
            '"code":429',
            "[",
            "]",
            '"',
            "\\",
            ",",
            "\n",
            " ",
            "\ud800",
            "٣",
            "²",
        ),
        *(
            "try again in ",
            "retry after ",
            "9" * 20,
            "1.5s",
            "5 days",
            "status 401",
            "model ",
            "quota exceeded",
        ),
        *(
            "no_",
            "a" * 40,
            "api_key",
            " login`",
            "rate limit",
            "per day",
            "token ",
            "`",
            "'",
            ".",
            "- ",
            "https://",
        ),
    ]
)
texts = st.text() | st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "message",
                    "code",
                    "status",
                    "details",
                    "metadata",
                    "raw",
                    "retryDelay",
                    "violations",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    text=texts | values.map(json.dumps),
    status=values,
    kind=texts,
    body=texts | values.map(json.dumps),
    pause=values,
)
def test_no_words_break_it(text: str, status: Any, kind: str, body: str, pause: Any) -> None:
    found = meaning.failure(text, status=status, kind=kind, body=body, retry_after=pause)
    assert found.message.strip()
    assert len(found.message) <= meaning.MAX_MESSAGE
    assert found.evidence is None or 0 < len(found.evidence) <= meaning.MAX_MESSAGE
    assert found.evidence != found.message
    assert found.retry_after is None or 0 <= found.retry_after <= MAX_PAUSE
    stderr = meaning.of_stderr(text)
    assert stderr is None or stderr.code is not FAILED
    assert meaning.explained(Failure(AUTH, "known"), text).message


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "a",
            "a ",
            "_",
            "no_",
            "no api ",
            "{",
            '{"',
            '{"error":',
            "[",
            "'",
            "`a",
            "401 ",
            "error ",
            "model a-",
            "9",
        ),
        *(
            "model: ",
            "exceeded your a ",
            "access token ",
            "context length ",
            "1s ",
            "try again in 1s",
            "https://",
            "\n",
        ),
        *(
            "hit your a-a ",
            "missing environment variable a",
            "free tier ",
            "input token count ",
            "x login",
            "retry ",
        ),
    ],
)
def test_hostile_words_are_read_in_no_time(piece: str) -> None:
    text = piece * (meaning.MAX_READ // len(piece))
    began = time.process_time()
    for each in (text, f"Error: {text}", f'{{"error": {{"message": "{text}'):
        meaning.failure(each, body=f"a {each}", kind=each)
        meaning.of_stderr(each)
    assert time.process_time() - began < 5
