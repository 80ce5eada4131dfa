"""Who may come in: Host, Origin, token and body size are checked before anything else sees the request."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from email.utils import formatdate
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnkeeper.core.access import Caller
from turnkeeper.core.errors import Code, TurnkeeperError
from turnkeeper.web.door import CALLER, PAGE, Door
from turnkeeper.web.page import STATIC
from turnkeeper.web.problems import problem
from turnkeeper.web.traffic import Traffic

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/v1/session"})
OPEN_FOLDER = f"{STATIC}/"
MAX_BODY = 4 * 1024 * 1024
_UPLOADS = re.compile(r"/v1/skills|/v1/jobs/[^/]+/upload")
"""Paths that take files."""


class BodyTooLarge(HTTPException):
    """Found out while the body was read; of this kind because FastAPI takes any other for a malformed body."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, _too_large(limit))


class Guard:
    def __init__(self, app: ASGIApp, *, door: Door, hosts: Collection[str], max_upload: int) -> None:
        self._app = app
        self._door = door
        self._hosts = frozenset(host.lower() for host in hosts)
        self._max_upload = max_upload
        self.traffic = Traffic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Date"] = formatdate(time.time(), usegmt=True)
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        headers = Headers(scope=scope)
        who = self._who(scope, headers)
        refusal = self._refusal(scope, headers, who)
        if refusal is not None:
            await problem(*refusal)(scope, receive, send_dated)
            return
        with self.traffic.counted():
            known = who if isinstance(who, Caller) else None
            limit = self._limit(scope["path"])
            await self._app({**scope, CALLER: known}, _limited(receive, limit), send_dated)

    def _who(self, scope: Scope, headers: Mapping[str, str]) -> Caller | TurnkeeperError | None:
        """Or why they are not welcome any more: to whom the door is open, that does not matter."""
        try:
            return self._door.knows(scope["method"], scope["path"], headers)
        except TurnkeeperError as refusal:
            return refusal

    def _refusal(
        self, scope: Scope, headers: Mapping[str, str], who: Caller | TurnkeeperError | None
    ) -> tuple[Code, str] | None:
        host = _host_name(headers.get("host", ""))
        if host not in self._hosts:
            # A page of another site that resolves its own name to this machine still sends its own Host.
            return (
                Code.HOST_NOT_ALLOWED,
                f"this service does not answer for {host!r}; see TURNKEEPER_ALLOWED_HOSTS",
            )
        origin = headers.get("origin")
        if origin is not None and _site(origin) != headers["host"].lower():
            return Code.ORIGIN_NOT_ALLOWED, f"requests from pages of {origin!r} are not accepted"
        if not is_open(scope["path"]):
            if who is None:
                return Code.UNAUTHORIZED, "send a key or the token as 'Authorization: Bearer KEY', or sign in"
            if isinstance(who, TurnkeeperError):
                return who.code, who.message
            if _is_page(who) and not _is_from_our_page(scope["method"], headers):
                return Code.ORIGIN_NOT_ALLOWED, "the cookie of the page is good for calls of the page alone"
        length, limit = headers.get("content-length", "0"), self._limit(scope["path"])
        if length.isdigit() and int(length) > limit:
            return Code.BODY_TOO_LARGE, _too_large(limit)
        return None

    def _limit(self, path: str) -> int:
        return self._max_upload if _UPLOADS.fullmatch(path) else MAX_BODY


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def _is_page(caller: Caller) -> bool:
    return caller.by.partition(":")[0] == PAGE


def _is_from_our_page(method: str, headers: Mapping[str, str]) -> bool:
    """A cookie comes with whatever the browser sends here, also for pages of other ports of this host. An `Origin`
    that is not ours was refused before; a call that changes something must have one."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    return method in ("GET", "HEAD") or "origin" in headers


def _limited(receive: Receive, limit: int) -> Receive:
    """A body without a length is counted as it comes."""
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > limit:
            raise BodyTooLarge(limit)
        return message

    return counted


def _site(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _too_large(limit: int) -> str:
    return f"the request body may have at most {limit} bytes"
