"""Who may come in: Host, Origin, token, sizes and rates are checked before anything else sees the request."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnkeeper.core.access import Caller
from turnkeeper.core.errors import Code, TurnkeeperError
from turnkeeper.web import address
from turnkeeper.web import headers as sent
from turnkeeper.web.door import CALLER, PAGE, Door
from turnkeeper.web.entrance import Entrance
from turnkeeper.web.links import ANSWER
from turnkeeper.web.page import STATIC
from turnkeeper.web.patience import PATIENCE, Patience, timed
from turnkeeper.web.problems import problem
from turnkeeper.web.rates import Rates, retry_after
from turnkeeper.web.traffic import Traffic

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/v1/session"})
SIGN_IN = "/v1/session"
OPEN_FOLDER = f"{STATIC}/"
MAX_BODY = 4 * 1024 * 1024
_UPLOADS = re.compile(r"/v1/skills|/v1/jobs/[^/]+/upload")
"""Paths that take files."""


class BodyTooLarge(HTTPException):
    """Found out while the body was read; of this kind because FastAPI takes any other for a malformed body."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, _too_large(limit))


class ShownOut(HTTPException):
    """The key was revoked, or ended, while the body was on its way."""

    def __init__(self) -> None:
        super().__init__(401, "the key was good when the request began, and is not any more")


HERE = Entrance(host="127.0.0.1")
Refusal = tuple[Code, str] | tuple[Code, str, None, Mapping[str, str]]


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        *,
        door: Door,
        hosts: Collection[str],
        max_upload: int,
        entrance: Entrance = HERE,
        rates: Rates | None = None,
        patience: Patience = PATIENCE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._door = door
        self._hosts = frozenset(host.lower() for host in hosts)
        self._max_upload = max_upload
        self._entrance = entrance
        self._rates = rates or Rates(0)
        self._patience = patience
        self._monotonic = monotonic
        self.traffic = Traffic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        scope = self._entrance.seen_from(scope, headers)
        is_secure = self._entrance.is_known_by_name(scope, _host_name(headers.get("host", "")))
        has_begun = False

        async def send_complete(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = sent.completed(message.get("headers", ()), is_secure=is_secure)
            await send(message)

        refusal: Refusal | None = address.oversize(scope)
        who: Caller | TurnkeeperError | None = None
        if refusal is None:
            who = self._who(scope, headers)
            refusal = self._refusal(scope, headers, who)
        if refusal is not None:
            await problem(*refusal)(scope, receive, send_complete)
            return
        known = who if isinstance(who, Caller) else None
        checked = self._welcome(_limited(receive, self._limit(scope["path"])), known)
        body = timed(checked, self._patience, lambda: has_begun)
        with self.traffic.counted():
            await self._app({**scope, CALLER: known}, body, send_complete)

    def _welcome(self, receive: Receive, caller: Caller | None) -> Receive:
        """A body may take its time: whoever was shown out before it was whole has asked for nothing."""

        async def checked() -> Message:
            message = await receive()
            if caller is not None and not self._door.still_knows(caller):
                raise ShownOut
            return message

        return checked

    def _who(self, scope: Scope, headers: Mapping[str, str]) -> Caller | TurnkeeperError | None:
        """Or why they are not welcome any more: to whom the door is open, that does not matter."""
        try:
            return self._door.knows(scope["method"], scope["path"], headers)
        except TurnkeeperError as refusal:
            return refusal

    def _refusal(
        self, scope: Scope, headers: Mapping[str, str], who: Caller | TurnkeeperError | None
    ) -> Refusal | None:
        host = _host_name(headers.get("host", ""))
        if host not in self._hosts:
            # A page of another site that resolves its own name to this machine still sends its own Host.
            return (
                Code.HOST_NOT_ALLOWED,
                f"this service does not answer for {host!r}; see TURNKEEPER_ALLOWED_HOSTS",
            )
        origin = headers.get("origin")
        if origin is not None and not self._entrance.is_own_page(origin, scope, headers["host"]):
            return Code.ORIGIN_NOT_ALLOWED, f"requests from pages of {origin!r} are not accepted"
        if not is_open(scope["path"]) and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # Without an Origin, as pictures are asked for: it would only use up what strangers may guess.
            return Code.ORIGIN_NOT_ALLOWED, "requests from pages of other sites are not accepted"
        refusal = self._too_often(scope, who) or self._key_in_url(scope)
        if refusal is not None:
            return refusal
        if not is_open(scope["path"]):
            if who is None:
                return Code.UNAUTHORIZED, "send a key or the token as 'Authorization: Bearer KEY', or sign in"
            if isinstance(who, TurnkeeperError):
                return who.code, who.message
            if _is_page(who) and not _is_from_our_page(scope["method"], headers):
                return Code.ORIGIN_NOT_ALLOWED, "the cookie of the page is good for calls of the page alone"
            if who.asked is not None and scope["path"] != ANSWER:
                return Code.LINK_NOT_FOR_THIS, f"a link is good for {ANSWER} and nothing else"
        length, limit = headers.get("content-length", "0"), self._limit(scope["path"])
        if length.isdigit() and int(length) > limit:
            return Code.BODY_TOO_LARGE, _too_large(limit)
        return None

    def _too_often(self, scope: Scope, who: Caller | TurnkeeperError | None) -> Refusal | None:
        """Guesses count wherever the answer would tell something, also of who has a key, or a link, and wants more.
        The page and its files are for everybody."""
        path, now = scope["path"], self._monotonic()
        is_known, is_shut = isinstance(who, Caller), not is_open(path)
        is_guess = bool(address.given_as_key(scope)) or (is_shut and not is_known)
        seconds = self._rates.stranger(_peer(scope), now) if is_guess else 0.0
        if path == SIGN_IN:
            seconds = self._rates.sign_in(_peer(scope), now)
        if not seconds and isinstance(who, Caller) and is_shut:
            seconds = self._rates.caller(_bucket(who), now)
        if not seconds:
            return None
        wait = retry_after(seconds)
        words = f"too many requests in too short a time; try again in {wait} s"
        return Code.RATE_LIMITED, words, None, {"Retry-After": wait}

    def _key_in_url(self, scope: Scope) -> Refusal | None:
        given = address.given_as_key(scope)
        if address.has_key(scope) or any(map(self._door.is_token, given)):
            return Code.KEY_IN_URL, address.KEY_IN_URL
        return None

    def _limit(self, path: str) -> int:
        return self._max_upload if _UPLOADS.fullmatch(path) else MAX_BODY


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def _bucket(caller: Caller) -> str:
    """Whoever was given a link must not be able to use up what its maker may ask."""
    asked = caller.asked
    return f"link {asked.run_id} {asked.interaction_id}" if asked else caller.key_id or ""


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


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _too_large(limit: int) -> str:
    return f"the request body may have at most {limit} bytes"
