"""How the service itself is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from turnkeeper import __version__
from turnkeeper.core.fcmp import instant
from turnkeeper.core.run import Run
from turnkeeper.core.statechart import State
from turnkeeper.runtime.disk import MIB, Space
from turnkeeper.runtime.house import House
from turnkeeper.web import service_schemas as schemas
from turnkeeper.web import views
from turnkeeper.web.calls import Call, Route
from turnkeeper.web.parts import problems, within

router = APIRouter(tags=["service"], route_class=Route)

MAX_HELD = 100

_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/healthz", response_model=schemas.Health)
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", response_model=schemas.Health, responses={503: {"model": schemas.Health}})
async def readyz(call: Call, response: Response) -> dict[str, str]:
    """Calls are taken and turns are started. Also on a full disk: what was accepted goes on, and can be answered."""
    if call.house.is_ready:
        return {"status": "ok"}
    response.status_code = 503
    return {"status": _condition(call.house)}


@router.get("/v1/status", response_model=schemas.Status, responses=problems(503))
async def status(call: Call) -> dict[str, Any]:
    """Who holds the slots, above all those who hold one while they wait for a person; and who waits for one."""
    counts, holding = (
        await call.house.store.counts(),
        await call.house.store.holding(MAX_HELD, within(call.caller)),
    )
    space = await asyncio.to_thread(call.house.disk.space)
    return {
        "version": __version__,
        "status": _condition(call.house),
        "started_at": instant(call.house.since),
        "slots": _slots(call.house),
        "queue": {"length": call.house.dispatcher.waiting, "sticky": call.house.dispatcher.waiting_sticky},
        "runs": {state.value: count for state, count in counts.items()},
        "held": [_held(run) for run in holding.runs],
        "held_count": holding.count,
        "storage": _storage(call.house, space),
        "sandbox": _sandbox(call.house),
    }


@router.get("/metrics", response_class=Response, responses=_TEXT | problems(503))
async def metrics(call: Call) -> Response:
    """Prometheus text."""
    counts = await call.house.store.counts()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(call.house, counts, await asyncio.to_thread(call.house.disk.space)))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _condition(house: House) -> str:
    if house.is_ready:
        return "ready"
    return "stopping" if house.jobs.is_closing else "starting"


def _slots(house: House) -> dict[str, int]:
    return {
        "total": house.capacity.slots,
        "busy": house.dispatcher.busy,
        "free": house.dispatcher.free,
        "waiting": house.worker.resident,
        "sticky_total": house.capacity.sticky_slots,
        "sticky": house.dispatcher.sticky,
    }


def _storage(house: House, space: Space) -> dict[str, Any]:
    return {
        "free_bytes": space.free,
        "free_files": space.files,
        "min_free_bytes": house.disk.min_free_mb * MIB,
        "low": house.disk.shortage(space) is not None,
    }


def _sandbox(house: House) -> dict[str, Any]:
    sandbox = house.sandbox
    return {"mode": sandbox.mode.value, "effective": sandbox.kind.value, "reason": sandbox.reason}


def _held(run: Run) -> dict[str, Any]:
    view = views.run_view(run, None)
    told = ("run_id", "skill_id", "engine", "pending_interaction_id", "wait_deadline_at")
    # Nothing changes a run that waits, but an order to end.
    return {**{name: view[name] for name in told}, "since": view["updated_at"]}


class _Snapshot:
    """Counts as they are at the moment of the scrape."""

    def __init__(self, house: House, counts: dict[State, int], space: Space) -> None:
        self._house = house
        self._counts = counts
        self._space = space

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
        yield GaugeMetricFamily(
            "turnkeeper_sticky_slots",
            "Slots that runs of profile sticky_process may hold",
            house.capacity.sticky_slots,
        )
        yield GaugeMetricFamily(
            "turnkeeper_sticky_slots_busy", "Slots held by such runs", house.dispatcher.sticky
        )
        yield GaugeMetricFamily("turnkeeper_queue", "Runs that wait for a slot", house.dispatcher.waiting)
        yield GaugeMetricFamily("turnkeeper_streams", "Open event streams", len(house.feed))
        yield GaugeMetricFamily(
            "turnkeeper_storage_free_bytes", "Free on the disk of the data directory", self._space.free
        )
        yield GaugeMetricFamily(
            "turnkeeper_storage_low",
            "1 while no new work is taken for want of room",
            house.disk.shortage(self._space) is not None,
        )
        yield CounterMetricFamily("turnkeeper_changes", "Changes committed", stats.changes)
        yield CounterMetricFamily("turnkeeper_appends", "Output batches appended", stats.appends)
        yield CounterMetricFamily("turnkeeper_removals", "Runs removed", stats.removals)
        yield CounterMetricFamily("turnkeeper_transactions", "Database transactions", stats.transactions)
        unparsed = CounterMetricFamily(
            "turnkeeper_unparsed_lines", "Lines of engines that nobody understood", labels=["engine"]
        )
        for engine in house.engines:
            unparsed.add_metric([engine], house.worker.unparsed[engine])
        yield unparsed
        if house.alarm is not None:
            hangs = house.alarm.hangs
            yield CounterMetricFamily(
                "turnkeeper_loop_hangs", "Times that the event loop stood still for seconds", hangs.count
            )
            yield GaugeMetricFamily(
                "turnkeeper_loop_hang_longest_seconds", "The longest of them", hangs.longest_sec
            )
