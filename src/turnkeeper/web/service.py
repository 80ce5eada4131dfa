"""How the service itself is doing."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from turnkeeper import __version__
from turnkeeper.core.fcmp import instant
from turnkeeper.core.run import Run
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
    from turnkeeper.web.metrics import CONTENT_TYPE, exposition

    counts = await call.house.store.counts()
    told = exposition(call.house, counts, await asyncio.to_thread(call.house.disk.space))
    return Response(told, media_type=CONTENT_TYPE)


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
