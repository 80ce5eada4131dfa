"""Who is known at the door: the token, keys, sign-in codes that a person is handed, and what a code is traded for.

Codes live in memory, one use and ten minutes each. They are traded for a cookie and a key that go together: a browser
sends the cookie to every port of this host, so that whoever listens on another one can have it; the key is kept by the
page, which browsers keep apart by port. Both carry their own proof, made with the token: they outlive a restart of the
service, and a new token makes them void. Who signed in with an API key is signed in for as long as that is good.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from turnkeeper.core.access import Caller
from turnkeeper.core.errors import CodeInvalid, KeyExpired, KeyRevoked, Unauthorized
from turnkeeper.core.fcmp import instant
from turnkeeper.core.keys import Key, Standing, digest_of
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.keys import Ring
from turnkeeper.web import links
from turnkeeper.web.links import Links

CODE_LASTS = timedelta(minutes=10)
COOKIE_LASTS = timedelta(days=30)
MOST_CODES = 100
"""At once, of one key or of the token; beyond that the oldest is forgotten."""
TOKEN, PAGE, KEY = "token", "page", "key"
"""Who made a change, as it is recorded: the last two with the name of a key behind them, `page` also without."""
CALLER = "turnkeeper.caller"
"""In the scope of a request: who makes it."""


PAGE_KEY = "x-turnkeeper-page"
"""The header that brings the key."""
_DOWNLOADS = re.compile(r"/v1/jobs/[^/]+/(artifacts/.+|bundle|logs/.+)", re.DOTALL)
"""What a link leads to: a browser sends no header of ours along. Who has the cookie alone knows the id of no run."""


@dataclass(frozen=True, slots=True)
class SignInCode:
    code: str
    expires_at: datetime
    is_asked_for: bool
    """Somebody has it in hand, and will come with it; one that is only printed at the start may be seen by nobody."""
    key_id: str | None = None
    """Of the key that asked for it, and that it signs in with; None: the token."""


@dataclass(frozen=True, slots=True)
class Session:
    cookie: str
    page_key: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Visit:
    """A request, as far as it tells who makes it."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def bearer(self) -> str:
        scheme, _, given = self.headers.get("authorization", "").partition(" ")
        return given.strip() if scheme.lower() == "bearer" else ""


Way = Callable[[Visit], Caller | None]
"""A way in: whom it knows, or None for who came by none or another way. It raises the refusal of somebody who is known
and not welcome any more."""


class Door:
    def __init__(self, token: str, name: str, clock: Clock, ring: Ring | None = None) -> None:
        self._token = digest_of(token)
        self._proof_key = hashlib.sha256(b"turnkeeper cookie " + token.encode()).digest()
        self.links = Links(token.encode(), self._is_good)
        self._clock = clock
        self._ring = Ring() if ring is None else ring
        self._codes: dict[str, SignInCode] = {}
        # A browser sends the cookies of a host to all its ports: two services must not overwrite each other's.
        self.cookie_name = f"turnkeeper_{name[:8]}"
        self.ways: list[Way] = [self._by_bearer, self._by_link, self._by_cookie]
        """Tried in this order."""

    def new_code(self, *, is_asked_for: bool, key_id: str | None = None) -> SignInCode:
        # Of their own: nobody shall void the codes of others by asking for many.
        own = [code for code, made in self._codes.items() if made.key_id == key_id]
        for oldest in own[: max(0, len(own) - MOST_CODES + 1)]:
            del self._codes[oldest]
        made = SignInCode(secrets.token_urlsafe(16), self._clock() + CODE_LASTS, is_asked_for, key_id)
        self._codes[made.code] = made
        return made

    @property
    def expects_somebody(self) -> bool:
        now = self._clock()
        return any(each.is_asked_for and each.expires_at > now for each in self._codes.values())

    def trade(self, *, code: str | None, token: str | None) -> Session:
        """For a code, which is then used up, or for the token or a key: the session may do what that may."""
        key_id = self._use_up(code).key_id if code is not None else self._holder(token or "").key_id
        ends = (self._clock() + COOKIE_LASTS).replace(microsecond=0)
        told = f"{int(ends.timestamp())}.{secrets.token_urlsafe(12)}"
        if key_id is not None:
            key = self._good(key_id)
            ends = min(ends, key.expires_at or ends)
            told = f"{told}.{key_id}"
        cookie = f"{told}.{self._proof(told)}"
        return Session(cookie, self._key_of(cookie), ends)

    def knows(self, method: str, path: str, headers: Mapping[str, str]) -> Caller | None:
        """Who asks; None is a stranger. Raises the refusal of a key that was good once."""
        visit = Visit(method, path, headers)
        return next((caller for way in self.ways if (caller := way(visit)) is not None), None)

    def still_knows(self, caller: Caller) -> bool:
        """For who stays long, and may have been shown out meanwhile."""
        return caller.key_id is None or self._is_good(caller.key_id)

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(digest_of(given), self._token)

    def _by_bearer(self, visit: Visit) -> Caller | None:
        given = visit.bearer
        if self.is_token(given):
            return Caller(by=TOKEN)
        key = self._ring.of(given)
        return None if key is None else self._good(key.id).caller(KEY)

    def _by_link(self, visit: Visit) -> Caller | None:
        link = self.links.read(visit.bearer)
        return None if link is None else links.caller(link)

    def _by_cookie(self, visit: Visit) -> Caller | None:
        is_link = visit.method in ("GET", "HEAD") and _DOWNLOADS.fullmatch(visit.path) is not None
        key = visit.headers.get(PAGE_KEY, "").encode()
        for cookie in self._cookies(visit.headers.get("cookie", "")):
            has_key = hmac.compare_digest(self._key_of(cookie).encode(), key)
            if self._is_cookie(cookie) and (has_key or is_link):
                return self._signed_in(cookie)
        return None

    def _signed_in(self, cookie: str) -> Caller:
        _, _, *key_id, _ = cookie.split(".")
        return self._good(key_id[0]).caller(PAGE) if key_id else Caller(by=PAGE)

    def _is_good(self, key_id: str) -> bool:
        key = self._ring.get(key_id)
        return key is not None and key.standing(self._clock()) is Standing.ACTIVE

    def _good(self, key_id: str) -> Key:
        """For who has proved that the key is theirs: nobody else is told what has become of it."""
        key = self._ring.get(key_id)
        if key is None:
            raise Unauthorized("there is no such key any more")
        match key.standing(self._clock()):
            case Standing.REVOKED:
                assert key.revoked_at is not None
                raise KeyRevoked(f"the key {key.name!r} was revoked at {instant(key.revoked_at)}")
            case Standing.EXPIRED:
                assert key.expires_at is not None
                raise KeyExpired(f"the key {key.name!r} was good until {instant(key.expires_at)}")
        return key

    def _holder(self, given: str) -> Caller:
        caller = self._by_bearer(Visit("", "", {"authorization": f"Bearer {given}"}))
        if caller is None:
            raise Unauthorized("that is neither the token of this service nor a key")
        return caller

    def _use_up(self, code: str) -> SignInCode:
        made = self._codes.pop(code, None)
        if made is None or made.expires_at <= self._clock():
            raise CodeInvalid(
                "this sign-in address was used already, or is older than ten minutes; get a new one: turnkeeper open"
            )
        return made

    def _cookies(self, header: str) -> Iterator[str]:
        """All that have our name. Those of other ports stand beside them, and may be of any form: the standard
        library gives up at the first that is not as it should be, and would lose ours with it."""
        for each in header.split(";"):
            name, _, value = each.partition("=")
            if name.strip() == self.cookie_name:
                yield value.strip()

    def _is_cookie(self, given: str) -> bool:
        told, _, proof = given.rpartition(".")
        if not hmac.compare_digest(self._proof(told).encode(), proof.encode()):
            return False
        return datetime.fromtimestamp(int(told.partition(".")[0]), UTC) > self._clock()

    def _key_of(self, cookie: str) -> str:
        return self._proof(f"page {cookie}")

    def _proof(self, told: str) -> str:
        return hmac.new(self._proof_key, told.encode(), hashlib.sha256).hexdigest()
