"""What there is: skills, engines, and how the service itself is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from importlib import resources
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.responses import HTMLResponse

from turnkeeper.core.errors import EngineNotFound, SkillBroken
from turnkeeper.core.skill import Skill
from turnkeeper.core.statechart import State
from turnkeeper.engines.base import Engine
from turnkeeper.runtime.house import House
from turnkeeper.web import schemas, views
from turnkeeper.web.parts import HouseOf

router = APIRouter(prefix="/v1", tags=["catalogue"])
service = APIRouter(tags=["service"])


@router.get("/skills", response_model=schemas.Skills)
async def list_skills(house: HouseOf) -> dict[str, Any]:
    """Every skill, the broken ones with what is wrong with them."""
    found = await asyncio.to_thread(lambda: list(house.shelf.all()))
    known = house.engines.keys()
    return {"skills": [_skill(skill, known) if skill else _broken(broken) for skill, broken in found]}


@router.get("/skills/{skill_id}", response_model=schemas.SkillOut)
async def get_skill(skill_id: str, house: HouseOf) -> dict[str, Any]:
    skill = await asyncio.to_thread(house.shelf.get, skill_id)
    return _skill(skill, house.engines.keys())


@router.get("/skills/{skill_id}/schemas", response_model=schemas.Schemas)
async def get_schemas(skill_id: str, house: HouseOf) -> dict[str, Any]:
    """The JSON Schemas of input, parameters and output; null where the skill has none."""
    skill = await asyncio.to_thread(house.shelf.get, skill_id)
    return {
        "skill_id": skill.id,
        "input": skill.input_schema,
        "parameter": skill.parameter_schema,
        "output": skill.output_schema,
    }


@router.get("/engines", response_model=schemas.Engines)
async def list_engines(house: HouseOf) -> dict[str, Any]:
    """Every engine: ready, or why not and the command that fixes it."""
    return {"engines": [_engine(house, engine) for engine in house.engines.values()]}


@router.get("/engines/{name}", response_model=schemas.EngineOut)
async def get_engine(name: str, house: HouseOf) -> dict[str, Any]:
    engine = house.engines.get(name)
    if engine is None:
        raise EngineNotFound(f"there is no engine {name!r} here; there are: {', '.join(house.engines)}")
    return _engine(house, engine)


@service.get("/healthz", response_model=schemas.Health)
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@service.get("/readyz", response_model=schemas.Health, responses={503: {"model": schemas.Health}})
async def readyz(house: HouseOf, response: Response) -> dict[str, str]:
    """Jobs are accepted and turns are started."""
    if house.is_ready:
        return {"status": "ok"}
    response.status_code = 503
    return {"status": "stopping" if house.jobs.is_closing else "starting"}


@service.get("/metrics", response_class=Response)
async def metrics(house: HouseOf) -> Response:
    """Prometheus text."""
    counts = await house.store.counts()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(house, counts))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


@service.get("/", response_class=HTMLResponse, include_in_schema=False)
async def page() -> HTMLResponse:
    text = (resources.files("turnkeeper.web") / "static" / "index.html").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'self' 'unsafe-inline'"
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


class _Snapshot:
    """Counts as they are at the moment of the scrape."""

    def __init__(self, house: House, counts: dict[State, int]) -> None:
        self._house = house
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        house, stats = self._house, self._house.store.stats
        runs = GaugeMetricFamily("turnkeeper_runs", "Runs by state", labels=["state"])
        for state, count in self._counts.items():
            runs.add_metric([state.value], count)
        yield runs
        yield GaugeMetricFamily("turnkeeper_slots", "Slots there are", house.capacity.slots)
        yield GaugeMetricFamily("turnkeeper_slots_busy", "Slots in use", house.dispatcher.busy)
        yield GaugeMetricFamily(
            "turnkeeper_slots_waiting",
            "Slots held by resident runs that wait for a person",
            house.worker.resident,
        )
        yield GaugeMetricFamily("turnkeeper_queue", "Runs that wait for a slot", house.dispatcher.waiting)
        yield GaugeMetricFamily("turnkeeper_streams", "Open event streams", len(house.feed))
        yield CounterMetricFamily("turnkeeper_changes", "Changes committed", stats.changes)
        yield CounterMetricFamily("turnkeeper_appends", "Output batches appended", stats.appends)
        yield CounterMetricFamily("turnkeeper_transactions", "Database transactions", stats.transactions)


def _skill(skill: Skill, known: Iterable[str]) -> dict[str, Any]:
    return {
        "id": skill.id,
        "version": skill.version,
        "name": skill.name,
        "description": skill.description,
        "engines": list(skill.effective_engines(tuple(known))),
        "execution_modes": [mode.value for mode in skill.execution_modes],
        "max_attempt": skill.max_attempt,
        "warnings": [views.warning_view(warning) for warning in skill.warnings],
    }


def _broken(broken: SkillBroken | None) -> dict[str, Any]:
    assert broken is not None
    return {
        "id": broken.skill_id,
        "version": "",
        "name": broken.skill_id,
        "description": "",
        "engines": [],
        "execution_modes": [],
        "max_attempt": None,
        "warnings": [],
        "problems": broken.problems,
    }


def _engine(house: House, engine: Engine) -> dict[str, Any]:
    ready = engine.readiness()
    return {
        "name": engine.name,
        "ready": ready.ready,
        "path": ready.path,
        "version": ready.version,
        "reason": ready.reason,
        "fix": ready.fix,
        "profiles": [kind.value for kind in engine.profiles],
        "limit": house.capacity.engine_limits.get(engine.name),
    }
