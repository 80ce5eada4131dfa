"""No refusal repeats a secret: what a request said is often a part of why it was refused."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnkeeper.runtime.secrecy import Secrecy
from turnkeeper.web.parts import PROBLEM


class Discreet:
    """Around the guard. Other answers than refusals tell what is stored; a refusal is never compressed."""

    def __init__(self, app: ASGIApp, secrecy: Secrecy) -> None:
        self._app = app
        self._secrecy = secrecy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        veil = None

        async def send_hidden(message: Message) -> None:
            nonlocal veil
            if message["type"] == "http.response.start":
                veil = self._secrecy.veil() if _is_problem(message) else None
            elif veil is not None and message["type"] == "http.response.body":
                shown = veil.hide(message.get("body", b""))
                rest = b"" if message.get("more_body", False) else veil.close()
                message = {**message, "body": shown + rest}
            await send(message)

        await self._app(scope, receive, send_hidden)


def _is_problem(start: Message) -> bool:
    if start["status"] < 400:
        return False
    return Headers(raw=start["headers"]).get("content-type", "").startswith(PROBLEM)
