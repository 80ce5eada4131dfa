"""The HTTP API as one application."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from turnkeeper import __version__
from turnkeeper.runtime.house import House
from turnkeeper.web import catalogue, events, files, jobs, problems, service
from turnkeeper.web.guard import OPEN_PATHS
from turnkeeper.web.parts import PROBLEM
from turnkeeper.web.parts import problems as documented

EVERYWHERE = documented(400, 401, 403, 404, 409, 413, 429, 500, 503)


class Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """As FastAPI derives it, less what is not so: a 422, and refusals as plain JSON."""
        described = super().openapi()
        for path, operations in described["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if path in OPEN_PATHS else [{"token": []}]
                operation["responses"].pop("422", None)
                for response in operation["responses"].values():
                    if PROBLEM in response.get("content", {}):
                        response["content"].pop("application/json", None)
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for unused in ("HTTPValidationError", "ValidationError"):
            described["components"]["schemas"].pop(unused, None)
        return described


def make_app(house: House, *, heartbeat_sec: float = events.HEARTBEAT_SEC) -> FastAPI:
    app = Api(
        title="Turnkeeper",
        version=__version__,
        description="Runs agent skills on agent CLIs, and asks a person when it matters.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        responses=EVERYWHERE,
    )
    app.state.house = house
    app.state.heartbeat_sec = heartbeat_sec
    for module in (jobs, events, files, catalogue, service):
        app.include_router(module.router)
    problems.install(app)
    return app
