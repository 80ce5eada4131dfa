"""The HTTP API as one application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from turnkeeper import __version__
from turnkeeper.runtime.house import House
from turnkeeper.web import (
    answering,
    catalogue,
    events,
    files,
    jobs,
    journal,
    keys,
    page,
    problems,
    retention,
    secrets,
    service,
    session,
    uploads,
)
from turnkeeper.web.admission import Admission
from turnkeeper.web.calls import Route
from turnkeeper.web.door import PAGE_KEY, Door
from turnkeeper.web.guard import OPEN_PATHS
from turnkeeper.web.links import ANSWER
from turnkeeper.web.parts import PROBLEM, refusal
from turnkeeper.web.rules import find

EVERYWHERE = (403, 413, 414, 429, 431, 500)
"""What the guard refuses, and what nobody foresaw. Each route adds what only it may answer."""


class Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """As FastAPI derives it, with the refusals that follow from what a call is made of, and less what is not
        so: a 422, and refusals as plain JSON."""
        described = super().openapi()
        for path, operations in described["paths"].items():
            for method, operation in operations.items():
                operation["security"] = _security(path)
                # The template is a path that fits its own rule: braces are letters like others.
                ruling = find(method.upper(), path)
                operation["x-scopes"] = ruling.rule.names if ruling else []
                for status in (*EVERYWHERE, *_refusals(path, method, operation)):
                    operation["responses"].setdefault(str(status), refusal(status))
                operation["responses"].pop("422", None)
                for response in operation["responses"].values():
                    if PROBLEM in response.get("content", {}):
                        response["content"].pop("application/json", None)
        described["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": self.state.door.cookie_name},
            "page_key": {"type": "apiKey", "in": "header", "name": PAGE_KEY},
            "link": {"type": "http", "scheme": "bearer"},
        }
        for unused in ("HTTPValidationError", "ValidationError"):
            described["components"]["schemas"].pop(unused, None)
        return described


def _security(path: str) -> list[dict[str, list[str]]]:
    if path in OPEN_PATHS:
        return []
    return [{"link": []}] if path == ANSWER else [{"token": []}, {"cookie": [], "page_key": []}]


def _refusals(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[int]:
    if path not in OPEN_PATHS:
        yield 401
    if "parameters" in operation or "requestBody" in operation:
        yield from (400, 408)
    if "{" in path:
        yield 404
    if method != "get":
        yield from (409, 503)  # not now, or not on this disk


def make_app(
    house: House,
    door: Door,
    *,
    heartbeat_sec: float = events.HEARTBEAT_SEC,
    public_url: str | None = None,
) -> FastAPI:
    app = Api(
        title="Turnkeeper",
        version=__version__,
        description="Runs agent skills on agent CLIs, and asks a person when it matters.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
    )
    app.router.route_class = Route
    app.state.house = house
    app.state.door = door
    app.state.heartbeat_sec = heartbeat_sec
    app.state.public_url = public_url
    for module in (
        *(jobs, answering, uploads, events, files, catalogue),
        *(keys, secrets, journal, retention, service, session, page),
    ):
        # Each has its whole path. FastAPI would look for the route in every router that it includes, and then again.
        app.router.routes.extend(module.router.routes)
    app.add_middleware(Admission, house=house)
    app.mount(page.STATIC, GZipMiddleware(page.Files()))
    problems.install(app)
    return app
