"""Answer links: made for the open question of a run, traded for that question, and for one answer to it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from turnkeeper.core import questions
from turnkeeper.core.access import Asked
from turnkeeper.core.asking import pending_view
from turnkeeper.core.errors import (
    InteractionAnswered,
    InteractionStale,
    LinkDead,
    LinkExpired,
    RunEnding,
    RunNotFound,
    RunNotWaiting,
    TurnkeeperError,
)
from turnkeeper.core.fcmp import instant
from turnkeeper.core.journal import What
from turnkeeper.core.run import Interaction, Resolution, Run
from turnkeeper.runtime.house import House
from turnkeeper.web import link_schemas, schemas
from turnkeeper.web.calls import Call, JsonRoute
from turnkeeper.web.jobs import receipt_view
from turnkeeper.web.links import ANSWER, LASTS, Link
from turnkeeper.web.parts import RunId, problems
from turnkeeper.web.session import base_url

router = APIRouter(tags=["links"], route_class=JsonRoute, responses=problems(503))

_GONE = (RunNotFound, RunEnding, RunNotWaiting, InteractionStale, InteractionAnswered)
_CLOSED = {
    Resolution.USER_REPLY: "this question was answered at {at}",
    Resolution.AUTO_DECIDE: "nobody answered this question in time: at {at} the agent went on without an answer",
    Resolution.WITHDRAWN: "the agent withdrew this question at {at}, and went on without an answer",
}


@router.post("/v1/jobs/{run_id}/interaction/links", response_model=link_schemas.LinkOut)
async def new_link(
    run_id: RunId,
    body: link_schemas.NewLink,
    call: Call,
    response: Response,
) -> dict[str, Any]:
    """An address by which somebody without a key can answer the open question, once. It ends with the question."""
    run, asked = await call.house.jobs.asked(run_id, body.interaction_id)
    pending = questions.require_open(run, asked)
    lasts = LASTS if body.expires_in_sec is None else timedelta(seconds=body.expires_in_sec)
    link = Link(
        asked=Asked(run_id=run.id, interaction_id=pending.interaction_id),
        expires_at=_end(call.house.clock() + lasts, call.caller.key_id, call.house),
        label=body.for_,
        key_id=call.caller.key_id,
    )
    told = {
        "interaction_id": pending.interaction_id,
        "for": link.label,
        "expires_at": instant(link.expires_at),
    }
    await call.house.journal.note(by=call.caller.by, what=What.LINK_CREATED, subject=run.id, detail=told)
    response.headers["Cache-Control"] = "no-store"
    return {
        "url": f"{base_url(call)}/#answer={call.door.links.seal(link)}",
        "expires_at": instant(link.expires_at),
        "interaction_id": pending.interaction_id,
        "public": call.app.state.public_url is not None,
    }


def _end(wanted: datetime, key_id: str | None, house: House) -> datetime:
    """A link is good for no longer than the key that made it."""
    key = None if key_id is None else house.keys.ring.get(key_id)
    return min(wanted, key.expires_at if key and key.expires_at else wanted).replace(microsecond=0)


async def _link(call: Call) -> Link:
    """By the rules nobody comes here without one."""
    link = call.door.links.of(call.headers.get("authorization", ""))
    assert link is not None
    if link.expires_at <= call.house.clock():
        raise LinkExpired(f"this link was good until {instant(link.expires_at)}")
    return link


LinkOf = Annotated[Link, Depends(_link)]


@router.get(
    ANSWER, response_model=link_schemas.AskedOut, response_model_exclude_unset=True, responses=problems(410)
)
async def get_asked(call: Call, link: LinkOf) -> dict[str, Any]:
    """The question of a link. To look at it uses nothing up."""
    run, interaction = await _found(call.house, link)
    try:
        pending = questions.require_open(run, interaction)
    except _GONE as error:
        raise _dead(run, interaction, error) from None
    return {
        "skill_id": run.job.skill_id,
        "pending": pending_view(pending),
        "expires_at": instant(link.expires_at),
    }


@router.post(ANSWER, response_model=schemas.ReplyOut, responses=problems(410))
async def answer(body: schemas.Words, call: Call, link: LinkOf) -> dict[str, Any]:
    """The same answer again gets the same receipt; any other comes too late."""
    asked = link.asked
    try:
        receipt = await call.house.jobs.reply(
            asked.run_id,
            asked.interaction_id,
            body.response,
            by=call.by,
            idempotency_key=body.idempotency_key,
        )
    except _GONE as error:
        run, interaction = await _found(call.house, link)
        raise _dead(run, interaction, error) from None
    if receipt.answer.by != call.by:
        # Somebody else gave the same answer: that it is the same is none of their business.
        run, interaction = await _found(call.house, link)
        raise _dead(run, interaction, LinkDead("this question was answered", reason="gone"))
    return receipt_view(receipt)


async def _found(house: House, link: Link) -> tuple[Run, Interaction | None]:
    try:
        return await house.jobs.asked(link.asked.run_id, link.asked.interaction_id)
    except RunNotFound:
        raise LinkDead("the run that asked this is not there any more", reason="gone") from None


def _dead(run: Run, interaction: Interaction | None, error: TurnkeeperError) -> LinkDead:
    """In words for somebody who knows nothing of runs; who answered is none of their business."""
    if interaction is not None and interaction.answer is not None:
        mode, at = interaction.answer.resolution_mode, instant(interaction.answer.at)
        return LinkDead(_CLOSED[mode].format(at=at), reason=mode.value, at=at)
    if run.finished_at is not None:
        at = instant(run.finished_at)
        return LinkDead(f"the run that asked this is over: {run.state.value} at {at}", reason="over", at=at)
    if run.ending is not None:
        at = instant(run.ending.at)
        return LinkDead(f"the run that asked this is being ended since {at}", reason="over", at=at)
    return LinkDead(error.message, reason="gone")
