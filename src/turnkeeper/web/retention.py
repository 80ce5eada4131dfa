"""Removing what is not needed any more: runs, or only their homes or raw logs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from turnkeeper.core.fcmp import instant
from turnkeeper.runtime.retention import Going, Removed
from turnkeeper.skills.clearing import Space
from turnkeeper.web import retention_schemas as schemas
from turnkeeper.web.calls import Call, JsonRoute

router = APIRouter(prefix="/v1/prune", tags=["service"], route_class=JsonRoute)


@router.post("", response_model=schemas.Pruned)
async def prune(body: schemas.Prune, call: Call) -> dict[str, Any]:
    """Removes what is too old or too much, the oldest first; with `dry_run` it only says what that would be."""
    limits = body.limits()
    removed = await call.house.retention.remove(limits, dry_run=body.dry_run, by=call.by)
    return {"dry_run": body.dry_run, "only": limits.part.value, **_view(removed)}


def _view(removed: Removed) -> dict[str, Any]:
    return {
        "count": removed.count,
        "bytes": _space_view(removed.space),
        "undeleted": removed.undeleted,
        "remaining_bytes": removed.left,
        "runs": [_going_view(each) for each in removed.first],
    }


def _going_view(going: Going) -> dict[str, Any]:
    run = going.run
    return {
        "run_id": run.run_id,
        "status": run.state.value,
        "skill_id": run.skill_id,
        "since": instant(run.since),
        "bytes": going.space.total,
    }


def _space_view(space: Space) -> dict[str, int]:
    return {"total": space.total, "homes": space.homes, "logs": space.logs, "files": space.files}
