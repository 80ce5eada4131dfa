"""Keys, for whoever looks after the service; and what the caller's own is good for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Response

from turnkeeper.core.access import Caller, Scope
from turnkeeper.core.errors import EngineNotFound
from turnkeeper.core.fcmp import instant
from turnkeeper.core.keys import Key
from turnkeeper.web import key_schemas as schemas
from turnkeeper.web.calls import Call, JsonRoute
from turnkeeper.web.parts import problems

router = APIRouter(prefix="/v1", tags=["keys"], route_class=JsonRoute)


@router.post("/keys", response_model=schemas.KeyCreated, responses=problems(404))
async def create_key(body: schemas.CreateKey, call: Call, response: Response) -> dict[str, Any]:
    """Once it answers, the key is durable. It is in this answer and nowhere else: what is stored is a hash of it."""
    wanted = body.request(call.house.clock())
    for name in sorted((wanted.engines or frozenset()) - call.house.engines.keys()):
        raise EngineNotFound(f"there is no engine {name!r} here; there are: {', '.join(call.house.engines)}")
    made = await call.house.keys.create(wanted, by=call.by)
    response.headers["Cache-Control"] = "no-store"
    return {**_key(made.key, call.house.clock()), "key": made.secret}


@router.get("/keys", response_model=schemas.Keys)
async def list_keys(call: Call) -> dict[str, Any]:
    """All that ever were, the oldest first; the service's own token is among them, as `admin`."""
    now = call.house.clock()
    return {"keys": [_key(key, now) for key in sorted(call.house.keys.ring, key=lambda key: key.created_at)]}


@router.delete("/keys/{key_id}", response_model=schemas.KeyOut)
async def revoke_key(key_id: str, call: Call) -> dict[str, Any]:
    """By its id or its name. Its sessions end with it, at once; once more does no harm."""
    return _key(await call.house.keys.revoke(key_id, by=call.by), call.house.clock())


@router.get("/me", response_model=schemas.Me)
async def get_me(call: Call) -> dict[str, Any]:
    """What the key, token or session of this call is good for."""
    key = None if call.caller.key_id is None else call.house.keys.ring.get(call.caller.key_id)
    return {
        "by": call.caller.by,
        **_limits(call.caller),
        "expires_at": key and key.expires_at and instant(key.expires_at),
    }


def _key(key: Key, now: datetime) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "status": key.standing(now).value,
        **_limits(key),
        "created_at": instant(key.created_at),
        "created_by": key.created_by,
        "expires_at": key.expires_at and instant(key.expires_at),
        "revoked_at": key.revoked_at and instant(key.revoked_at),
        "revoked_by": key.revoked_by,
        "last_used_at": key.last_used_at and instant(key.last_used_at),
    }


def _limits(of: Key | Caller) -> dict[str, Any]:
    return {
        "scopes": [scope.value for scope in Scope if scope in of.scopes],
        "skills": _sorted(of.skills),
        "engines": _sorted(of.engines),
    }


def _sorted(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)
