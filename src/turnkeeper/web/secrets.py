"""Named secrets: set, granted to skills, taken away. Their values come in, and never go out."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from turnkeeper.core.fcmp import instant
from turnkeeper.core.journal import What
from turnkeeper.runtime.secrets import Secret
from turnkeeper.web import secret_schemas as schemas
from turnkeeper.web.calls import Call, JsonRoute

router = APIRouter(prefix="/v1/secrets", tags=["secrets"], route_class=JsonRoute)


@router.get("", response_model=schemas.SecretList)
async def list_secrets(call: Call) -> dict[str, Any]:
    """Their names and the skills that they are granted to."""
    return {"secrets": [_view(each) for each in call.house.secrets.all()]}


@router.put("/{name}", response_model=schemas.SecretOut)
async def set_secret(name: str, body: schemas.SetSecret, call: Call) -> dict[str, Any]:
    """New, or in place of the old value: its grants stay, and turns that run go on with the old one."""
    secret = await asyncio.to_thread(call.house.secrets.put, name, body.value.get_secret_value(), by=call.by)
    await call.house.journal.note(by=call.by, what=What.SECRET_SET, subject=name)
    return _view(secret)


@router.delete("/{name}", response_model=schemas.SecretRemoved)
async def remove_secret(name: str, call: Call) -> dict[str, Any]:
    """With its grants. Runs of skills that need it fail at their next turn."""
    await asyncio.to_thread(call.house.secrets.remove, name)
    await call.house.journal.note(by=call.by, what=What.SECRET_REMOVED, subject=name)
    return {"name": name, "removed": True}


@router.put("/{name}/grants/{skill_id}", response_model=schemas.SecretOut)
async def grant_secret(name: str, skill_id: str, call: Call) -> dict[str, Any]:
    """To a skill whose `runner.json` asks for it, be it installed yet or not. Once more does nothing."""
    secret, is_new = await asyncio.to_thread(call.house.secrets.grant, name, skill_id)
    if is_new:
        await call.house.journal.note(
            by=call.by, what=What.SECRET_GRANTED, subject=name, detail={"skill_id": skill_id}
        )
    return _view(secret)


@router.delete("/{name}/grants/{skill_id}", response_model=schemas.SecretOut)
async def revoke_secret(name: str, skill_id: str, call: Call) -> dict[str, Any]:
    """From the next turn on. Once more does nothing."""
    secret, is_new = await asyncio.to_thread(call.house.secrets.revoke, name, skill_id)
    if is_new:
        await call.house.journal.note(
            by=call.by, what=What.SECRET_REVOKED, subject=name, detail={"skill_id": skill_id}
        )
    return _view(secret)


def _view(secret: Secret) -> dict[str, Any]:
    return {
        "name": secret.name,
        "grants": list(secret.grants),
        "set_at": instant(secret.set_at),
        "set_by": secret.set_by,
    }
