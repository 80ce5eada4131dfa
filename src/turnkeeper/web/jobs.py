"""The calls that drive a run: create, look, reply, cancel."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query

from turnkeeper.core.asking import pending_view
from turnkeeper.core.errors import CursorInvalid, InvalidRequest
from turnkeeper.core.fcmp import instant
from turnkeeper.core.run import Idempotency, Interaction, Mode, Run
from turnkeeper.core.statechart import State
from turnkeeper.runtime.jobs import Receipt
from turnkeeper.store.base import RunFilter
from turnkeeper.web import schemas, views
from turnkeeper.web.answers import Shown, ShownSmall
from turnkeeper.web.calls import Call, JsonRoute
from turnkeeper.web.parts import RunId, problems, within

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=JsonRoute, responses=problems(503))

MAX_WAIT_SEC = 60

_CREATED: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"Location": {"required": True, "schema": {"type": "string"}}}},
    **problems(404, 429, 507),
}
PreferHeader = Annotated[str | None, Header(description="`wait=30`: answer when the run waits or has ended.")]


@router.post("", response_model=schemas.Created, responses=_CREATED)
async def create_job(
    body: schemas.CreateJob,
    call: Call,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Shown:
    """Accepts a job: once this answers, the run is durable."""
    idempotency = None
    if idempotency_key is not None:
        digest = await asyncio.to_thread(_digest, await call.json())
        idempotency = Idempotency(idempotency_key, digest, call.caller.key_id)
    run = await call.house.jobs.create(body.request(), idempotency, caller=call.caller)
    return Shown(
        {"request_id": run.id, "run_id": run.id, "status": run.state.value, "cache_hit": False},
        {"Location": f"/v1/jobs/{run.id}"},
    )


@router.get("", response_model=schemas.RunList)
async def list_jobs(
    call: Call,
    status: Annotated[
        list[schemas.State] | None, Query(description="One of these; may be given again.")
    ] = None,
    skill_id: str | None = None,
    engine: str | None = None,
    execution_mode: Literal["auto", "interactive"] | None = None,
    q: Annotated[
        str | None,
        Query(
            max_length=200, description="In the open question or the skill's id; or how the run's id begins."
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> ShownSmall:
    """Newest first, each with its open question; `next_cursor` pages on."""
    wanted = RunFilter(
        states=tuple(dict.fromkeys(map(State, status or ()))),
        text=q or None,
        skill_id=skill_id,
        engine=engine,
        mode=Mode(execution_mode) if execution_mode else None,
        before=_read_cursor(cursor) if cursor else None,
        within=within(call.caller),
    )
    runs = await call.house.store.runs(wanted, limit + 1)
    page = runs[:limit]
    asked = await call.house.store.open_questions(page)
    place = call.house.dispatcher.place
    listed = [{**views.run_view(run, place(run.id)), "pending": _pending(asked.get(run.id))} for run in page]
    return ShownSmall({"jobs": listed, "next_cursor": _cursor(page[-1]) if len(runs) > limit else None})


@router.get("/{run_id}", response_model=schemas.RunOut)
async def get_job(run_id: RunId, call: Call, prefer: PreferHeader = None) -> Shown:
    """One run, as it is now or (`Prefer: wait=N`) as soon as it waits or has ended."""
    seconds = _wait_seconds(prefer)
    if seconds is None:
        run, applied = await call.house.jobs.run(run_id), None
    else:
        run = await call.house.jobs.settled(run_id, seconds)
        applied = {"Preference-Applied": f"wait={seconds}"}
    return Shown(views.run_view(run, call.house.dispatcher.place(run.id)), applied)


@router.get("/{run_id}/interaction/pending", response_model=schemas.PendingOut)
async def get_pending(run_id: RunId, call: Call) -> Shown:
    """The open question; `pending` is null when there is none."""
    run, pending = await call.house.jobs.asked(run_id)
    return Shown({"request_id": run.id, "status": run.state.value, "pending": _pending(pending)})


@router.post("/{run_id}/interaction/reply", response_model=schemas.ReplyOut)
async def reply(run_id: RunId, body: schemas.Reply, call: Call) -> Shown:
    """Any text is a reply. The same reply again gets the same receipt; another one is 409."""
    receipt = await call.house.jobs.reply(
        run_id, body.interaction_id, body.response, by=call.by, idempotency_key=body.idempotency_key
    )
    return Shown(receipt_view(receipt))


@router.get("/{run_id}/interaction/history", response_model=schemas.History)
async def get_history(run_id: RunId, call: Call) -> dict[str, Any]:
    """Every question and its answer, with who or what gave it."""
    run = await call.house.jobs.run(run_id)
    interactions = await call.house.store.interactions(run.id)
    return {"request_id": run.id, "interactions": [views.history_view(each) for each in interactions]}


@router.get("/{run_id}/request", response_model=schemas.CreateJob, response_model_exclude_unset=True)
async def get_request(run_id: RunId, call: Call) -> dict[str, Any]:
    """What would create the same job again, with every default settled; files have to be uploaded again."""
    return views.request_view(await call.house.jobs.run(run_id))


@router.get("/{run_id}/attempts", response_model=schemas.Attempts)
async def get_attempts(run_id: RunId, call: Call) -> dict[str, Any]:
    """Every try of every turn: how it was started, what it used, what was seen and decided."""
    run = await call.house.jobs.run(run_id)
    attempts = await call.house.store.attempts(run.id)
    return {"request_id": run.id, "attempts": [views.attempt_view(each) for each in attempts]}


@router.post("/{run_id}/cancel", response_model=schemas.CancelOut)
async def cancel(run_id: RunId, call: Call) -> dict[str, Any]:
    """Idempotent. A live process is ended first: until then the run shows `ending`."""
    run = await call.house.jobs.cancel(run_id, by=call.by)
    return {"request_id": run.id, "status": run.state.value, "ending": views.ending_view(run.ending)}


def receipt_view(receipt: Receipt) -> dict[str, Any]:
    return {
        "request_id": receipt.run.id,
        "status": receipt.run.state.value,
        "accepted": True,
        "interaction_id": receipt.interaction_id,
        "resolution_mode": receipt.answer.resolution_mode.value,
        "accepted_at": instant(receipt.answer.at),
    }


def _digest(body: Any) -> str:
    """The same for the same request, however it was written down."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _pending(interaction: Interaction | None) -> dict[str, Any] | None:
    return pending_view(interaction) if interaction else None


def _wait_seconds(prefer: str | None) -> int | None:
    found = re.search(r"(?:^|[,;\s])wait\s*=\s*([0-9]{1,6})\s*(?:$|[,;])", prefer or "")
    if prefer is not None and found is None and "wait" in prefer:
        raise InvalidRequest("Prefer: wait takes whole seconds, such as wait=30")
    return min(int(found[1]), MAX_WAIT_SEC) if found else None


def _cursor(run: Run) -> str:
    return base64.urlsafe_b64encode(f"{instant(run.created_at)} {run.id}".encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[datetime, str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        moment, run_id = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").split(" ")
        created_at = datetime.fromisoformat(moment)
        if instant(created_at) == moment:
            return created_at, run_id
    except (ValueError, OverflowError):
        pass
    raise CursorInvalid("the cursor is not one that this service gave out")
