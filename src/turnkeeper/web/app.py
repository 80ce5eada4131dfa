"""The HTTP API as one application."""

from __future__ import annotations

from fastapi import FastAPI

from turnkeeper import __version__
from turnkeeper.runtime.house import House
from turnkeeper.web import catalogue, events, files, jobs, problems
from turnkeeper.web.parts import problems as documented

EVERYWHERE = documented(400, 401, 403, 404, 409, 413, 429, 500, 503)


def make_app(house: House) -> FastAPI:
    app = FastAPI(
        title="Turnkeeper",
        version=__version__,
        description="Runs agent skills on agent CLIs, and asks a person when it matters.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        responses=EVERYWHERE,
    )
    app.state.house = house
    for module in (jobs, events, files, catalogue):
        app.include_router(module.router)
    app.include_router(catalogue.service)
    problems.install(app)
    return app
