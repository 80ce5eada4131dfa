"""What an engine's own error means: a login, a quota, or just a failure.

Only error messages of the engine come in here, never words of the assistant: "please log in to the portal" is an
answer. What is no prose decides first: an HTTP status, the provider's word for the error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure

MAX_MESSAGE = 2000
"""Characters of an error that are shown: some quote the whole request."""
MAX_READ = 64 * 1024
MAX_NESTED = 3
"""A provider's error is often quoted inside another one, as text."""
WORDLESS = "the engine reported an error and said nothing about it; see the logs"

BY_STATUS = {
    401: Code.ENGINE_AUTH_REQUIRED,
    402: Code.ENGINE_QUOTA_EXCEEDED,
    403: Code.ENGINE_AUTH_REQUIRED,
    429: Code.ENGINE_QUOTA_EXCEEDED,
}

_QUOTA = re.compile(
    r"(?<!disk )(?<![/\w])quota(?! exceeded, \w+)|rate[ _-]?limit|usage[ _]limit|too many requests"
    r"|resource[ _]exhausted|payment required"
    r"|insufficient[ _](?:credit|fund|balance)|credit balance|out of credits|billing[ _](?:hard[ _])?limit",
    re.IGNORECASE,
)
_AUTH = re.compile(
    r"unauthori[sz]ed|403 forbidden|unauthenticated|not authenticated|permission_denied|providerauth"
    r"|(?<![./\w])authentication[ _](?:error|failed|required|token|credential|method|in header)|authenticationerror"
    r"|(?:invalid|incorrect|missing|expired|no|unknown)[ _`'\"]{1,2}(?:\w+ )?(?:x-)?api[ _-]?key"
    r"|api[ _-]?key[`'\"]?(?: is)?[ _](?:not valid|not found|not set|missing|invalid|expired|required)"
    r"|missing environment variable:? `?\w*(?:key|token)"
    r"|not logged in|log ?in (?:again|first|required)|please (?:log ?in|sign in)\b|sign in again|\w+ login`"
    r"|(?:run|use|type) `?/login\b|invalid auth|no auth credentials|(?:specify|set) (?:the )?\w*api_key"
    r"|(?:access|refresh|bearer|oauth) token\b.{0,40}(?:expired|invalid|revoked|used|refreshed)",
    re.IGNORECASE,
)
_STATUS = re.compile(r"\b(?<!exit )(?:status|http|error|code)(?: code)?\W{1,3}([45]\d\d)\b", re.IGNORECASE)
# A failed tool is no failed engine, whatever it said.
_ERROR_LINE = re.compile(r"\W*(?!error executing tool)(?:\w+ )?\w*error\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Told:
    message: str
    status: int | None = None
    kind: str = ""
    """The provider's word for it, `rate_limit_error` say."""


def failure(text: str, *, status: object = None, kind: str = "") -> Failure:
    """Of an error as the engine told it. A text that is or quotes JSON is shown as the message inside."""
    told = _read(text[:MAX_READ])
    message = told.message.strip()[:MAX_MESSAGE] or WORDLESS
    found = as_status(status) or told.status or _status_in(text[:MAX_READ])
    if found is not None and found >= 500:
        return Failure(Code.ENGINE_FAILED, message)
    code = BY_STATUS.get(found or 0) or _by_words(f"{kind} {told.kind} {message}")
    return Failure(code, message)


def of_stderr(stderr: str) -> Failure | None:
    """The last error line that names a login or a quota; other words are better shown whole."""
    for line in reversed(stderr.splitlines()):
        if _ERROR_LINE.match(line):
            found = failure(line)
            if found.code is not Code.ENGINE_FAILED:
                return found
    return None


def as_status(value: object) -> int | None:
    """An HTTP status of an error, if it is one."""
    return value if isinstance(value, int) and 400 <= value < 600 else None


def _by_words(text: str) -> Code:
    if _QUOTA.search(text):
        return Code.ENGINE_QUOTA_EXCEEDED
    return Code.ENGINE_AUTH_REQUIRED if _AUTH.search(text) else Code.ENGINE_FAILED


def _status_in(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _read(text: str, depth: int = 0) -> _Told:
    quoted = _object_in(text) if depth < MAX_NESTED else None
    if quoted is None:
        return _Told(text)
    error = quoted.get("error", quoted)
    if isinstance(error, str):
        return _Told(error)
    if not isinstance(error, dict):
        return _Told(text)
    message = error.get("message", error.get("detail"))
    if not isinstance(message, str) or not message:
        return _Told(text)
    inner = _read(message, depth + 1)
    kinds = [str(error[name]) for name in ("type", "code", "status") if isinstance(error.get(name), str)]
    return _Told(inner.message, inner.status or as_status(error.get("code")), " ".join([*kinds, inner.kind]))


def _object_in(text: str) -> dict[str, Any] | None:
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        value = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
