"""Signing in from a browser: a code, the token or a key is traded for a cookie that only our own page can send."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from turnkeeper.core.fcmp import instant
from turnkeeper.web import service_schemas as schemas
from turnkeeper.web.calls import Call, JsonRoute
from turnkeeper.web.parts import problems

router = APIRouter(prefix="/v1/session", tags=["session"], route_class=JsonRoute)


def base_url(request: Request) -> str:
    """What addresses that are handed out begin with: as the settings tell, else as this request came."""
    return request.app.state.public_url or str(request.base_url).rstrip("/")


@router.post("", response_model=schemas.SignedIn, responses=problems(401))
async def sign_in(body: schemas.SignIn, call: Call, response: Response) -> dict[str, Any]:
    """Cookie and key, as `X-Turnkeeper-Page`, together replace the token or API key. A code can be used once."""
    session = call.door.trade(code=body.code, token=body.token)
    response.set_cookie(
        call.door.cookie_name,
        session.cookie,
        max_age=max(0, int((session.expires_at - call.house.clock()).total_seconds())),
        httponly=True,
        samesite="strict",
        secure=call.url.scheme == "https",  # as a proxy in front tells
    )
    response.headers["Cache-Control"] = "no-store"
    return {"expires_at": instant(session.expires_at), "page_key": session.page_key}


@router.delete("", response_model=schemas.SignedOut)
async def sign_out(call: Call, response: Response) -> dict[str, Any]:
    """The browser forgets its cookie."""
    response.delete_cookie(call.door.cookie_name, httponly=True, samesite="strict")
    return {"signed_out": True}


@router.post("/codes", response_model=schemas.SignInCode)
async def new_code(call: Call, response: Response) -> dict[str, Any]:
    """An address that signs one browser in, within ten minutes, to do what the caller may do. The code is behind `#`:
    it is never sent in a URL."""
    made = call.door.new_code(is_asked_for=True, key_id=call.caller.key_id)
    response.headers["Cache-Control"] = "no-store"
    return {
        "code": made.code,
        "url": f"{base_url(call)}/#code={made.code}",
        "expires_at": instant(made.expires_at),
        "public": call.app.state.public_url is not None,
    }
