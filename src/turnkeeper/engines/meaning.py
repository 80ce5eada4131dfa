"""What an engine's own error means: a login, a quota, a pause, a model, a full context, or just a failure.

Only error messages of the engine come in here, never words of the assistant: "please log in to the portal" is an
answer. What is no prose decides first: an HTTP status, the provider's name for the error. Where neither that nor
the words are certain it is a failure, and the words are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure
from turnkeeper.engines.told import as_status, first, pause_in, read, seconds, squeezed, status_in

MAX_MESSAGE = 2000
"""Characters of an error that are shown: some quote the whole request."""
MAX_READ = 64 * 1024
WORDLESS = "the engine reported an error and said nothing about it; see the logs"

BY_STATUS = {
    401: Code.ENGINE_AUTH_REQUIRED,
    402: Code.ENGINE_QUOTA_EXHAUSTED,
    429: Code.ENGINE_RATE_LIMITED,
}
PROXY_LOGIN = 407
"""Not the engine's: its own words speak of authentication too."""
"""What a status says by itself. A 403 may be about a key, a country or a firewall; a 404 about anything."""


def _known(names: str) -> frozenset[str]:
    return frozenset(map(squeezed, names.split()))


# The names of OpenAI, Anthropic, Google, Azure, AWS, OpenRouter and those who copy them, and of the CLIs. The first
# row that knows one decides: a used-up quota is told as a kind of rate limit too.
BY_KIND: Mapping[Code, frozenset[str]] = {
    Code.ENGINE_QUOTA_EXHAUSTED: _known(
        "insufficient_quota quota_exceeded quota_exhausted exceeded_current_quota_error per_day"
        " billing_error billing_hard_limit_reached billing_not_active payment_required Arrearage"
        " insufficient_credits insufficient_balance usage_limit_reached usage_limit_exceeded usage_not_included"
        " TerminalQuotaError AllocationQuota.FreeTierOnly INSUFFICIENT_G1_CREDITS_BALANCE"
        " CreditsError MonthlyLimitError FreeUsageLimitError SubscriptionUsageLimitError"
    ),
    Code.ENGINE_AUTH_REQUIRED: _known(
        "authentication_error authentication_failed invalid_api_key API_KEY_INVALID UNAUTHENTICATED"
        " unauthorized unauthorized_error invalid_authentication_error incorrect_api_key_error"
        " permission_error PERMISSION_DENIED account_deactivated deactivated_workspace"
        " token_expired token_revoked token_invalidated refresh_token_reused ExpiredTokenException"
        " FatalAuthenticationError ProviderAuthError ProviderNoProvidersError oauth_org_not_allowed"
        " VALIDATION_REQUIRED ValidationRequiredError"
    ),
    Code.ENGINE_MODEL_UNKNOWN: _known(
        "model_not_found invalid_model unknown_model model_decommissioned DeploymentNotFound"
        " ModelNotFoundError ProviderModelNotFoundError"
    ),
    Code.ENGINE_CONTEXT_EXHAUSTED: _known(
        "context_length_exceeded context_window_exceeded context_window_will_overflow ContextOverflowError"
    ),
    Code.ENGINE_RATE_LIMITED: _known(
        "rate_limit_exceeded rate_limit_reached_error rate_limited per_minute RetryableQuotaError"
    ),
}
_PACED = _known(
    "rate_limit rate_limit_error too_many_requests RESOURCE_EXHAUSTED Throttling ThrottlingException"
)
"""Said of a pause and of a used-up quota alike, as 429 is."""
_OF_THE_PROVIDER = _known("overloaded_error server_error server_is_overloaded slow_down")
"""Its own trouble, whatever the words remind of."""
_NOT_FOUND = _known("not_found_error NOT_FOUND")

# Where the CLIs write such a name before their words. Other names than these are not theirs alone.
_NAME = re.compile(
    r"\b(TerminalQuotaError|RetryableQuotaError|ModelNotFoundError|FatalAuthenticationError|ProviderAuthError"
    r"|ProviderModelNotFoundError|ProviderNoProvidersError|ContextOverflowError): "
)


def _any(*phrases: str) -> re.Pattern[str]:
    """No phrase may take its time on hostile words: whatever repeats has a most."""
    return re.compile("|".join(phrases), re.IGNORECASE)


_A_MODEL = r"(?:[`'\"][^`'\"\n]{1,100}[`'\"]|[\w.:@]{0,60}[-/\d][\w./:@-]{0,100})"
_MODEL = _any(
    r"\bmodel[ _]not[ _](?:found|exist)\b",
    r"\bunknown model\b(?! (?:error|output|response))",
    r"\bno such model\b",
    r"\binvalid model (?:name|id|identifier)\b|\binvalid model ?[:=]|\bmodel identifier is invalid\b",
    r"\bis not a valid model\b",
    r"\bmodels/[\w.@:-]{1,100} is not (?:found|supported)\b",
    rf"\bmodel:? {_A_MODEL} (?:does not exist|(?:is |was )?not found|is not supported|is not a valid)\b",
    rf"\bmodel:? {_A_MODEL} has been (?:deprecated|decommissioned|retired)\b",
    r"[`'\"][\w./:@-]{1,100}[`'\"] model is not supported\b",
    r"\b(?:(?:do not|don['’]t) have|has no) access to (?:the|this) model\b",
    r"\bnot allowed to sample from this model\b",
    r"\bno endpoints found for \S",
    r"\bissue with the selected model\b",
)
_NAMED_MODEL = re.compile(r"model: [\w./:@-]{1,200}")
"""All that Anthropic says where something was not found."""

_CONTEXT = _any(
    r"\bmaximum (?:context|prompt|input) length\b",
    r"\b(?:prompt|input) (?:is )?too long\b",
    r"\binput token count\b[^.\n]{0,60}\bexceeds\b",
    r"\brange of input length should be\b",
    r"\breduce the length of the (?:messages|input|prompt)\b",
    r"\bexceeds the maximum number of (?:input )?tokens\b",
    r"\bsession token limit exceeded\b",
    r"\b(?:exceed(?:s|ed)?|ran out of room in|too (?:long|large) for|(?:larg|great)er than)"
    r"\b[^.\n]{0,60}\bcontext (?:window|length|limit|size)\b",
    r"\bcontext[ _](?:window|length|limit|size)\b[^.\n]{0,40}\b(?:exceeded|overflow(?:s|ed)?|is full)\b",
    r"\bcontext_length_exceeded\b",
)

_PLAN = r"(?:usage|plan|account|credit|subscription|premium|billing|spend(?:ing)?|session|5-hour|daily|weekly|monthly)"
_QUOTA = _any(
    r"\binsufficient[ _](?:quota|credits?|funds?|balance)\b|\bout of credits\b|\bcredit balance\b",
    r"\bpayment required\b|\bbilling[ _](?:hard[ _])?limit\b",
    rf"\b{_PLAN} limits? (?:is |was |has been |have been )?(?:reached|exceeded|hit)\b",
    rf"\b(?:hit|reached|exceeded|exhausted) (?:your|the) (?:[\w-]{{1,20}} ){{0,3}}?{_PLAN} (?:limits?|quota)\b",
    r"\bhit your limit\b",
    r"\b(?:exceeded|exhausted) your (?:current )?(?:quota|capacity)\b",
    # A disk has a quota too.
    r"(?<!disk )(?<![/\w'\"-])quota (?:is |was |has been )?(?:exceeded|exhausted|used up)\b(?!, \w)",
    r"\bfree[- ]tier\b[^.\n]{0,60}\b(?:exhausted|exceeded|used up)\b",
)
_RATE = _any(
    r"(?<![\w./'\"-])rate[ _-]?limits? (?:is |was |has been )?(?:reached|exceeded|hit|error)\b",
    r"\brate[ -]limited\b",
    r"\b(?:hit|reached|exceed(?:s|ed)?) (?:your|the|a|our) (?:[\w'’-]{1,20} ){0,4}?rate[ -]limits?\b",
    r"\btoo many requests\b|\brequest was throttled\b",
    r"\bresource (?:has been )?exhausted\b|\bresource_exhausted\b",
)
_EACH_MINUTE = _any(r"per[ _-]?(?:minute|min|second|sec)(?![a-z])", r"\b[RT]PM\b")
_EACH_DAY = _any(r"per[ _-]?day(?![a-z])", r"\bdaily\b")
_SLIDES = _any(r"\brate limit reached for\b")
"""OpenAI's words: its limits of a day are no day long."""

_AUTH = _any(
    r"\bunauthori[sz]ed\b|\bunauthenticated\b|\bnot authenticated\b|\bpermission_denied\b",
    r"(?<![./\w])authentication[ _](?:error|failed|required|token|credential|method|in header)\b",
    r"\b(?:invalid|incorrect|missing|expired|no|unknown)[ _`'\"]{1,2}(?:\w{1,30} )?(?:x-)?api[ _-]?key\b",
    r"\bapi[ _-]?key[`'\"]?(?: is)?[ _](?:not valid|not found|not set|missing|invalid|expired|required)\b",
    r"\bmissing environment variable:? `?\w{0,60}(?:key|token)\b",
    r"\b(?:specify|set) (?:the )?[`'\"]?\w{0,40}api_key\b",
    r"\bnot logged in\b|\blog ?in (?:again|first|required)\b|\bplease (?:log ?in|sign in)\b|\bsign in again\b",
    r"\b\w{1,30} login`|\b(?:run|use|type) `?/(?:login|auth)\b",
    r"\binvalid auth\b|\bno auth (?:credentials|type)\b|\bset an auth method\b",
    r"\b(?:access|refresh|bearer|oauth|security) token\b.{0,40}\b(?:expired|invalid|revoked|used|refreshed)\b",
    r"\bplease reauthenticate\b|\boauth session (?:has )?expired\b",
    r"\b(?:manual authorization|authentication consent)\b[^.\n]{0,60}\b(?:is required|could not be obtained)\b",
)
_OF_THE_LOGIN = _any(
    r"\b(?:api[ _-]?key|token|credentials?|log(?:ged)? ?in|sign(?:ed)? in|authenticat(?:e|ed|ion))\b",
    r"\b(?:account|subscription|permissions?|membership|licen[cs]e)\b",
)
"""What a 403 is about, if it is about whoever asks."""

_ERROR_LINE = re.compile(r"\W{0,20}(?:\w{1,30} )?\w{0,60}error\b", re.IGNORECASE)
# A failed tool is no failed engine, whatever it said; nor is a server of tools, a hook, an extension.
_OF_OTHERS = _any(r"\b(?:tools?|mcp|hooks?|extensions?|plugins?|telemetry|updates?)\b")
_MAX_LEAD = 120
"""Characters of a line in which it says whose error it is."""

MISUSED = re.compile(
    # clap
    r"^error: (?:unexpected argument|unrecognized (?:option|subcommand)|invalid value|a value is required"
    r"|the following required arguments|the argument '|the subcommand|equal sign is needed)"
    # commander
    r"|^error: (?:unknown (?:option|command)|option '[^'\n]{1,200}' argument|missing required argument|required option"
    r"|too many arguments|command-argument value)"
    # yargs
    r"|^Unknown (?:argument|option|command)s?: |^Not enough (?:non-option )?arguments|^Too many non-option arguments"
    r"|^Missing (?:required|dependent) arguments?:|^Invalid values:|^Arguments? .{1,100} mutually exclusive"
    # node itself
    r"|^[^\s:]{1,200}: bad option: "
)
"""How the parsers of command lines refuse an argument."""


def failure(
    text: str, *, status: object = None, kind: str = "", body: str = "", retry_after: object = None
) -> Failure:
    """Of an error as the engine told it. A text that is or quotes JSON is shown as the message inside.

    `body` is the provider's answer, where the engine hands it on beside words of its own.
    """
    text, body = text[:MAX_READ], body[:MAX_READ]
    told, behind = read(text), read(body)
    mine, theirs = _shown(told.message), _shown(behind.message)
    message = mine or theirs or WORDLESS
    names = frozenset(map(squeezed, [*kind[:MAX_MESSAGE].split(), *_NAME.findall(text)]))
    words = mine if theirs in ("", mine) else f"{mine}\n{theirs}"
    found = first([as_status(status), told.status, behind.status, status_in(text)])
    code = _code(found, told.kinds | behind.kinds | names, words)
    pause = None
    if code in (Code.ENGINE_RATE_LIMITED, Code.ENGINE_QUOTA_EXHAUSTED):
        pause = first([seconds(retry_after), told.pause, behind.pause, pause_in(text), pause_in(body)])
    return Failure(code, message, pause, evidence(body or text, message))


def evidence(words: str, message: str) -> str | None:
    """The words as they were said, if that is not the message already."""
    kept = _shown(words)
    return kept if kept and kept != message else None


def of_stderr(stderr: str) -> Failure | None:
    """The last error line with a meaning of its own; other words are better shown whole."""
    found = (failure(line) for line in _own_lines(stderr) if _ERROR_LINE.match(line))
    return next((each for each in found if each.code is not Code.ENGINE_FAILED), None)


def explained(known: Failure, stderr: str) -> Failure:
    """A failure that an exit code names, in the engine's own words if a line of them is about the same."""
    found = (failure(line) for line in _own_lines(stderr))
    message = next((each.message for each in found if each.code is known.code), known.message)
    return Failure(known.code, message, known.retry_after, evidence(stderr, message))


def _own_lines(stderr: str) -> Iterator[str]:
    """Last line first."""
    lines = reversed(stderr[-MAX_READ:].splitlines())
    return (line for line in lines if not _OF_OTHERS.search(line[:_MAX_LEAD]))


def _shown(words: str) -> str:
    return words.strip()[:MAX_MESSAGE].strip()


def _code(status: int | None, kinds: frozenset[str], words: str) -> Code:
    if status is not None and (status >= 500 or status == PROXY_LOGIN):
        return Code.ENGINE_FAILED
    by_kind = next((code for code, known in BY_KIND.items() if known & kinds), None)
    if by_kind is not None:
        return by_kind
    if status == 429 or _PACED & kinds:
        return _paced(words)
    if status in BY_STATUS:
        return BY_STATUS[status]
    if _OF_THE_PROVIDER & kinds:
        return Code.ENGINE_FAILED
    if (status == 404 or _NOT_FOUND & kinds) and _NAMED_MODEL.fullmatch(words):
        return Code.ENGINE_MODEL_UNKNOWN
    by_words = _by_words(words)
    if status == 403 and by_words is Code.ENGINE_FAILED and _OF_THE_LOGIN.search(words):
        return Code.ENGINE_AUTH_REQUIRED
    return by_words


def _by_words(words: str) -> Code:
    if _CONTEXT.search(words):
        return Code.ENGINE_CONTEXT_EXHAUSTED
    if _MODEL.search(words):
        return Code.ENGINE_MODEL_UNKNOWN
    if _QUOTA.search(words) or _RATE.search(words):
        return _paced(words)
    return Code.ENGINE_AUTH_REQUIRED if _AUTH.search(words) else Code.ENGINE_FAILED


def _paced(words: str) -> Code:
    """Google calls every limit a quota: one of a minute is over in a minute."""
    each_day = _EACH_DAY.search(words)
    if _SLIDES.search(words) or (_EACH_MINUTE.search(words) and not each_day):
        return Code.ENGINE_RATE_LIMITED
    return Code.ENGINE_QUOTA_EXHAUSTED if each_day or _QUOTA.search(words) else Code.ENGINE_RATE_LIMITED
