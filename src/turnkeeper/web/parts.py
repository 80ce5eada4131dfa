"""What every route needs: the house it works in, and the errors it may answer with."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request

from turnkeeper.core.access import Caller
from turnkeeper.runtime.house import House
from turnkeeper.store.base import Within
from turnkeeper.web.door import CALLER, Door
from turnkeeper.web.schemas import Problem


def _house(request: Request) -> House:
    house: House = request.app.state.house
    return house


def _door(request: Request) -> Door:
    door: Door = request.app.state.door
    return door


def _caller(request: Request) -> Caller:
    """As the guard found it out; not for routes that are open to strangers."""
    caller: Caller = request.scope[CALLER]
    return caller


def _by(request: Request) -> str:
    return _caller(request).by


HouseOf = Annotated[House, Depends(_house)]
DoorOf = Annotated[Door, Depends(_door)]
CallerOf = Annotated[Caller, Depends(_caller)]
By = Annotated[str, Depends(_by)]
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
