"""Who is known at the door: the token, sign-in codes that a person is handed, and what a code is traded for.

Codes live in memory, one use and ten minutes each. They are traded for a cookie and a key that go together: a browser
sends the cookie to every port of this host, so that whoever listens on another one can have it; the key is kept by the
page, which browsers keep apart by port. Both carry their own proof, made with the token: they outlive a restart of the
service, and a new token makes them void.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from turnkeeper.core.errors import CodeInvalid, Unauthorized
from turnkeeper.runtime.clock import Clock
from turnkeeper.web.links import Links

CODE_LASTS = timedelta(minutes=10)
COOKIE_LASTS = timedelta(days=30)
MOST_CODES = 100
"""At once; beyond that the oldest is forgotten."""
TOKEN, PAGE = "token", "page"
"""Who made a change, as it is recorded."""
BY = "turnkeeper.by"
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


@dataclass(frozen=True, slots=True)
class Session:
    cookie: str
    page_key: str
    expires_at: datetime


class Door:
    def __init__(self, token: str, name: str, clock: Clock) -> None:
        self._token = token.encode()
        self._proof_key = hashlib.sha256(b"turnkeeper cookie " + self._token).digest()
        self.links = Links(self._token)
        self._clock = clock
        self._codes: dict[str, SignInCode] = {}
        # A browser sends the cookies of a host to all its ports: two services must not overwrite each other's.
        self.cookie_name = f"turnkeeper_{name[:8]}"

    def new_code(self, *, is_asked_for: bool) -> SignInCode:
        while len(self._codes) >= MOST_CODES:
            del self._codes[next(iter(self._codes))]
        made = SignInCode(secrets.token_urlsafe(16), self._clock() + CODE_LASTS, is_asked_for)
        self._codes[made.code] = made
        return made

    @property
    def expects_somebody(self) -> bool:
        now = self._clock()
        return any(each.is_asked_for and each.expires_at > now for each in self._codes.values())

    def trade(self, *, code: str | None, token: str | None) -> Session:
        """For a code, which is then used up, or for the token."""
        if code is not None:
            self._use_up(code)
        elif token is None or not self.is_token(token):
            raise Unauthorized("that is not the token of this service")
        ends = (self._clock() + COOKIE_LASTS).replace(microsecond=0)
        told = f"{int(ends.timestamp())}.{secrets.token_urlsafe(12)}"
        cookie = f"{told}.{self._proof(told)}"
        return Session(cookie, self._key_of(cookie), ends)

    def knows(self, method: str, path: str, headers: Mapping[str, str]) -> str | None:
        """Who asks; None is a stranger."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return TOKEN
        link = self.links.of(headers.get("authorization", ""))
        if link is not None:
            return link.by
        is_link = method in ("GET", "HEAD") and _DOWNLOADS.fullmatch(path) is not None
        key = headers.get(PAGE_KEY, "").encode()
        for cookie in self._cookies(headers.get("cookie", "")):
            has_key = hmac.compare_digest(self._key_of(cookie).encode(), key)
            if self._is_cookie(cookie) and (has_key or is_link):
                return PAGE
        return None

    def _use_up(self, code: str) -> None:
        made = self._codes.pop(code, None)
        if made is None or made.expires_at <= self._clock():
            raise CodeInvalid(
                "this sign-in address was used already, or is older than ten minutes; get a new one: turnkeeper open"
            )

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

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token)

    def _key_of(self, cookie: str) -> str:
        return self._proof(f"page {cookie}")

    def _proof(self, told: str) -> str:
        return hmac.new(self._proof_key, told.encode(), hashlib.sha256).hexdigest()
