"""What an error says of itself, whoever made it: its message, its HTTP status, its names, the pause it asks for.

Providers tell it as JSON, CLIs quote that inside words of their own, and some quote those again. What it all means
is left to `meaning`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

MAX_NESTED = 3
"""How often an error is looked for inside the words of another."""
MAX_TRIED = 8
"""Braces of a text at which an object might begin."""
MAX_LISTED = 20
MAX_PAUSE = 366 * 24 * 3600.0

_PHRASES = "|".join(re.escape(status.phrase) for status in HTTPStatus if status >= 400)
# A number alone is no status: what an exit code, a line or a count of files could be called as well is left alone.
_STATUS = re.compile(
    r"(?<!exit )\b(?:status(?: code)?|http(?:/\d(?:\.\d)?)?|api error)\W{1,3}([45]\d\d)\b"
    rf"|(?<!exit )\b(?:error|code)(?: code)?\W{{1,3}}([45]\d\d)(?=\s{{0,3}}(?:$|[^\w\s]|{_PHRASES}))"
    rf"|(?<![\w.])([45]\d\d) (?:{_PHRASES})\b",
    re.IGNORECASE,
)

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
_NUMBER = r"\d{1,9}(?:\.\d{1,12})?"
_AMOUNT = re.compile(rf"({_NUMBER})\s?({_UNIT})", re.IGNORECASE)
_AMOUNTS = re.compile(rf"(?:{_NUMBER}\s?{_UNIT}(?:,? and |,? )?){{1,5}}", re.IGNORECASE)
_PAUSE = re.compile(
    r"\b(?:try (?:\w{1,12} )?again|retry(?:ing)?|wait|resets?|retrydelay)\W{1,6}"
    rf"(?:(?:in|after|for|at least|about) ){{0,2}}({_AMOUNTS.pattern})",
    re.IGNORECASE,
)
_SECONDS = re.compile(
    rf"\b(?:retry[ _-]after(?:[ _-]sec(?:ond)?s)?|resets_in_seconds)\W{{1,4}}({_NUMBER})(?![\d:/.-]|\s?[a-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Told:
    message: str
    status: int | None = None
    kinds: frozenset[str] = frozenset()
    """The names that it has, `rate_limit_error` say, squeezed."""
    pause: float | None = None


def read(text: str, depth: int = 0) -> Told:
    """A text that is or quotes JSON is read as what is said inside."""
    error = _error_in(text) if depth < MAX_NESTED else None
    if error is None:
        return Told(text)
    inner = read(_words(error) or "", depth + 1)
    own = first(as_status(error.get(name)) for name in ("code", "status", "statusCode", "status_code"))
    kinds, pause = _details(error)
    return Told(inner.message, first([inner.status, own]), inner.kinds | kinds, first([inner.pause, pause]))


def squeezed(kind: str) -> str:
    """`rate_limit_error`, `RATE_LIMIT_ERROR` and `RateLimitError` are one name."""
    return re.sub(r"[^a-z0-9]", "", kind[:200].lower())


def as_status(value: object) -> int | None:
    """An HTTP status of an error, if it is one."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{3}", value):
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else None


def status_in(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1] or found[2] or found[3]) if found else None


def seconds(value: object) -> float | None:
    """Of a pause as a header or a field has it: `12`, `"12"`, `"34.5s"`."""
    if isinstance(value, str):
        words = value[:100].strip()
        if _AMOUNTS.fullmatch(words):
            return _sum(words)
        value = float(words) if re.fullmatch(_NUMBER, words) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= MAX_PAUSE else None  # type: ignore[operator,arg-type]


def pause_in(text: str) -> float | None:
    """As "try again in 1.5s" has it, or "retry after 12"."""
    found = _PAUSE.search(text)
    if found:
        return _sum(found[1])
    bare = _SECONDS.search(text)
    return seconds(bare[1]) if bare else None


def _sum(amounts: str) -> float | None:
    return seconds(sum(float(number) * _UNITS[_short(unit)] for number, unit in _AMOUNT.findall(amounts)))


def _short(unit: str) -> str:
    unit = unit.lower()
    return "ms" if unit == "ms" or unit.startswith("milli") else unit[0]


def first(found: Iterable[Any]) -> Any:
    """The first that is there at all."""
    return next((each for each in found if each is not None), None)


def _error_in(text: str) -> dict[str, Any] | None:
    """The first object in a text that has words for an error, with what is said about it around them."""
    start = -1
    for _ in range(MAX_TRIED):
        start = text.find("{", start + 1)
        if start < 0:
            return None
        try:
            value, _end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        error = _flat(value)
        if _words(error) is not None:
            return error
    return None


_DECODER = json.JSONDecoder()


def _flat(value: dict[str, Any]) -> dict[str, Any]:
    inside = value.get("error")
    if isinstance(inside, list):
        inside = first(each for each in inside if isinstance(each, dict))
    if isinstance(inside, str):
        return {"message": inside, **value}
    around = {name: each for name, each in value.items() if name != "error"}
    return around | inside if isinstance(inside, dict) else around


def _words(error: Mapping[str, Any]) -> str | None:
    found = [error.get(name) for name in ("message", "detail", "msg", "error_description")]
    words = next((each for each in found if isinstance(each, str) and each.strip()), None)
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    # OpenRouter's own words for an error of somebody behind it say nothing.
    return raw if isinstance(raw, str) and raw.strip() and words == "Provider returned error" else words


def _details(error: Mapping[str, Any]) -> tuple[frozenset[str], float | None]:
    """The names that it has, and how long to wait; Google keeps some of them in a list below."""
    details = error.get("details")
    below = _objects(details)
    named = [
        each.get(name) for each in (error, *below) for name in ("type", "code", "status", "reason", "name")
    ]
    named += [period for each in below for period in _periods(each)]
    pauses = [each.get("retryDelay") for each in below]
    pauses += [error.get("retry_after"), error.get("resets_in_seconds")]
    kinds = frozenset(squeezed(name) for name in named if isinstance(name, str))
    return kinds, first(map(seconds, pauses))


def _periods(detail: Mapping[str, Any]) -> Iterator[str]:
    """Of the quotas that it names, such as `GenerateRequestsPerDayPerProjectPerModel-FreeTier`."""
    metadata = detail.get("metadata")
    quotas = [each.get("quotaId") for each in _objects(detail.get("violations"))]
    quotas += [metadata.get("quota_limit")] if isinstance(metadata, dict) else []
    for quota in quotas:
        if isinstance(quota, str) and "PerDay" in quota:
            yield "per_day"
        elif isinstance(quota, str) and ("PerMinute" in quota or "PerSecond" in quota):
            yield "per_minute"


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value[:MAX_LISTED] if isinstance(each, dict)] if isinstance(value, list) else []
