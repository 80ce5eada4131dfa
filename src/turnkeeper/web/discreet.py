"""No refusal repeats a secret: what a request said is often a part of why it was refused."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnkeeper.runtime.secrecy import Secrecy
from turnkeeper.web.parts import PROBLEM


class Discreet:
    """Around the guard, and around the calls before anything is compressed. Other answers tell what is stored."""

    def __init__(self, app: ASGIApp, secrecy: Secrecy) -> None:
        self._app = app
        self._secrecy = secrecy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        veil = None

        async def send_hidden(message: Message) -> None:
            nonlocal veil
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "")
                veil = self._secrecy.veil() if kind.startswith(PROBLEM) else None
            elif veil is not None and message["type"] == "http.response.body":
                shown = veil.hide(message.get("body", b""))
                rest = b"" if message.get("more_body", False) else veil.close()
                message = {**message, "body": shown + rest}
            await send(message)

        await self._app(scope, receive, send_hidden)
