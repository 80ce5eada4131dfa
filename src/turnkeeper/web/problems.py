"""Every refusal as `application/problem+json`. HTTP status codes are chosen here and nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import Scope

from turnkeeper.core.errors import MEANING, Code, TurnkeeperError

log = logging.getLogger(__name__)

RETRY_AFTER_SEC = 5
METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
MOST_ERRORS = 20
LONGEST_NAME = 100

STATUS: dict[Code, int] = {
    Code.UNAUTHORIZED: 401,
    Code.CODE_INVALID: 401,
    Code.KEY_EXPIRED: 401,
    Code.KEY_REVOKED: 401,
    Code.SCOPE_MISSING: 403,
    Code.NOT_ALLOWED_FOR_KEY: 403,
    Code.HOST_NOT_ALLOWED: 403,
    Code.ORIGIN_NOT_ALLOWED: 403,
    Code.LINK_NOT_FOR_THIS: 403,
    Code.SKILL_NOT_FOUND: 404,
    Code.ENGINE_NOT_FOUND: 404,
    Code.RUN_NOT_FOUND: 404,
    Code.FILE_NOT_FOUND: 404,
    Code.KEY_NOT_FOUND: 404,
    Code.SECRET_NOT_FOUND: 404,
    Code.NOT_FOUND: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.REQUEST_TIMEOUT: 408,
    Code.KEY_NAME_TAKEN: 409,
    Code.KEY_NOT_REVOCABLE: 409,
    Code.SECRET_NOT_GRANTED: 409,
    Code.RUN_NOT_WAITING: 409,
    Code.RUN_ENDING: 409,
    Code.RUN_NOT_ENDED: 409,
    Code.UPLOAD_NOT_EXPECTED: 409,
    Code.SKILL_VERSION_NOT_HIGHER: 409,
    Code.SKILL_NOT_MANAGED: 409,
    Code.INTERACTION_STALE: 409,
    Code.INTERACTION_ANSWERED: 409,
    Code.IDEMPOTENCY_KEY_REUSED: 409,
    Code.RESULT_NOT_AVAILABLE: 409,
    Code.ENGINE_NOT_READY: 409,
    Code.LINK_DEAD: 410,
    Code.LINK_EXPIRED: 410,
    Code.BODY_TOO_LARGE: 413,
    Code.URL_TOO_LONG: 414,
    Code.QUEUE_FULL: 429,
    Code.RATE_LIMITED: 429,
    Code.HEADERS_TOO_LARGE: 431,
    Code.INTERNAL_ERROR: 500,
    Code.STORAGE_UNAVAILABLE: 503,
    Code.SHUTTING_DOWN: 503,
    Code.STORAGE_LOW: 507,
}


def status_of(code: Code) -> int:
    """What is not listed is the client's request itself."""
    return STATUS.get(code, 400)


def problem(
    code: Code,
    message: str,
    facts: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    status = status_of(code)
    body = {
        **(facts or {}),
        "type": f"urn:turnkeeper:error:{code.value.lower()}",
        "title": MEANING[code],
        "status": status,
        "detail": message,
        "code": code.value,
        "error": {"code": code.value, "message": message},
    }
    sent = dict(headers or {})
    if status in (429, 503, 507):
        sent.setdefault("Retry-After", str(RETRY_AFTER_SEC))
    if status == 401:
        sent["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body, status, sent, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    app.add_exception_handler(TurnkeeperError, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _fault)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, TurnkeeperError)
    return problem(error.code, error.message, error.facts)


async def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    errors = [
        f"/{'/'.join(_short(part) for part in each['loc'])}: {each['msg']}" for each in found[:MOST_ERRORS]
    ]
    facts = {"errors": errors}
    unknown = [each["loc"][-1] for each in found if each["type"] == "extra_forbidden"]
    if unknown:
        return problem(Code.UNKNOWN_FIELD, unknown_fields(unknown), facts)
    return problem(Code.INVALID_REQUEST, _listed(errors, "; ", len(found)), facts)


def unknown_fields(names: Sequence[object]) -> str:
    return f"unknown field(s): {_listed([_short(name) for name in names[:MOST_ERRORS]], ', ', len(names))}"


def _listed(texts: Sequence[str], between: str, count: int) -> str:
    """A body of a few megabytes can have a hundred thousand errors; the answer stays readable."""
    more = count - MOST_ERRORS
    shown = between.join(texts[:MOST_ERRORS])
    return f"{shown}{between}and {more} more" if more > 0 else shown


def _short(part: object) -> str:
    """Where an error is, in the words of the request: those may be of any length."""
    text = str(part)
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 401:
        return problem(Code.UNAUTHORIZED, str(error.detail))
    if error.status_code == 404:
        return problem(Code.NOT_FOUND, f"there is nothing at {request.url.path}")
    if error.status_code == 405:
        message = f"{request.url.path} does not take {request.method}"
        return problem(Code.METHOD_NOT_ALLOWED, message, headers={"Allow": _allowed(request)})
    if error.status_code == 408:
        return problem(Code.REQUEST_TIMEOUT, str(error.detail), headers={"Connection": "close"})
    if error.status_code == 413:
        return problem(Code.BODY_TOO_LARGE, str(error.detail))
    return problem(Code.INVALID_REQUEST, str(error.detail))


async def _gone(request: Request, error: Exception) -> Response:
    """It hung up in the middle of its body: no fault of ours, and nobody is left to read this."""
    return problem(Code.INVALID_REQUEST, "the body ended before it was whole")


def _allowed(request: Request) -> str:
    """Every method of the path; the router only tells those of the first route that it found there."""
    asked: Scope = {"type": "http", "path": request.scope["path"]}
    return ", ".join(
        method
        for method in METHODS
        if any(route.matches({**asked, "method": method})[0] is Match.FULL for route in request.app.routes)
    )


async def _fault(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(Code.INTERNAL_ERROR, "a fault of ours; the service's log has the details")
