"""A call as its route sees it: held to its rule, with the house that it is made in and who makes it.

These are looked up in the call itself. As dependencies of FastAPI, each would be worked out anew for each call, which
takes longer than most calls need for what they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Scope

from turnkeeper.core.access import Caller
from turnkeeper.core.errors import InvalidRequest, ScopeMissing
from turnkeeper.runtime.house import House
from turnkeeper.web.bodies import LARGE, parsed, says_json
from turnkeeper.web.door import CALLER, Door

RULED = "turnkeeper.ruled"
"""In the scope of a request: method and template of the rule that it was held to."""


class Call(Request):
    @property
    def house(self) -> House:
        house: House = self.app.state.house
        return house

    @property
    def door(self) -> Door:
        door: Door = self.app.state.door
        return door

    @property
    def caller(self) -> Caller:
        """As the guard found it out; not for routes that are open to strangers."""
        caller: Caller = self.scope[CALLER]
        return caller

    @property
    def by(self) -> str:
        return self.caller.by

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            self._json = parsed(body) if len(body) <= LARGE else await asyncio.to_thread(parsed, body)
        return self._json


Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Route(APIRoute):
    """Of every call that is held to a rule. What has come here by another rule, or by none, is refused."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def ruled(request: Request) -> Response:
            _require_rule(request.scope, self.path)
            return await handle(Call(request.scope, request.receive))

        return ruled


class JsonRoute(Route):
    """Whose body, if it takes one, is JSON and says so."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            if self.body_field is not None and not says_json(request.headers.get("content-type", "")):
                raise InvalidRequest("send the body as JSON, with Content-Type: application/json")
            return await handle(request)

        return checked


def _require_rule(scope: Scope, template: str) -> None:
    """A new route needs a line in `rules.py`."""
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    if scope.get(RULED) != (method, template):
        raise ScopeMissing(f"{scope['method']} {scope['path']} has no rule, so nobody may call it")
