"""What routes share: the parts of their paths, and the errors that they may answer with."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from turnkeeper.core.access import Caller
from turnkeeper.store.base import Within
from turnkeeper.web.schemas import Problem

RunId = Annotated[str, Path(min_length=1, max_length=64)]


PROBLEM = "application/problem+json"


def within(caller: Caller) -> Within:
    """The runs that are there for them."""
    return Within(caller.skills, caller.engines)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's entry for each status a route may refuse with."""
    return {status: refusal(status) | {"model": Problem} for status in statuses}


def refusal(status: int) -> dict[str, Any]:
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    headers = {
        name: {"required": True, "schema": schema} for name, schema in _HEADERS.get(status, {}).items()
    }
    described = {"description": _TITLES[status], "content": content}
    return described | {"headers": headers} if headers else described


_TITLES = {
    400: "The request is not acceptable as it is",
    401: "The token or key is missing, wrong or not good any more",
    403: "Host or Origin is not allowed, or the key is not good for this",
    404: "There is no such thing",
    408: "The request did not become whole in time",
    409: "The run, the skill or the key is not in a state for this",
    410: "The link is dead or expired",
    413: "The body is too large",
    414: "The address is too long",
    429: "The queue is full, or too much was asked in too short a time",
    431: "The headers are too large",
    500: "A fault of the service",
    503: "The service cannot take the call now",
    507: "The disk is almost full, and no new work is taken",
}
_RETRY_AFTER = {"Retry-After": {"type": "integer", "minimum": 1}}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"type": "string"}},
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
    507: _RETRY_AFTER,
}
