"""How the service itself is doing, and the page that says so."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.responses import HTMLResponse

from turnkeeper.core.statechart import State
from turnkeeper.runtime.house import House
from turnkeeper.web import schemas
from turnkeeper.web.parts import HouseOf, problems

router = APIRouter(tags=["service"])

_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/healthz", response_model=schemas.Health)
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", response_model=schemas.Health, responses={503: {"model": schemas.Health}})
async def readyz(house: HouseOf, response: Response) -> dict[str, str]:
    """Jobs are accepted and turns are started."""
    if house.is_ready:
        return {"status": "ok"}
    response.status_code = 503
    return {"status": "stopping" if house.jobs.is_closing else "starting"}


@router.get("/metrics", response_class=Response, responses=_TEXT | problems(503))
async def metrics(house: HouseOf) -> Response:
    """Prometheus text."""
    counts = await house.store.counts()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(house, counts))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/", response_class=HTMLResponse, include_in_schema=False)
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
