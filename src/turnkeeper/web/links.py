"""Links for somebody who has no key: each is good for one question of one run, until a day that it carries itself.

Nothing is stored: a link is signed with a key that is made of the service's token. A new token makes all of them void,
and the question that is answered, or gone, makes its own void.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from turnkeeper.core.access import Asked, Caller

PREFIX = "tkl_"
LASTS = timedelta(days=7)
LONGEST = timedelta(days=30)
BY = "link"
ANSWER = "/v1/answer"
"""The one path that they open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    asked: Asked
    expires_at: datetime
    label: str | None
    """Who it was made for, in the words of who made it."""
    key_id: str | None
    """Of the key that made it; None: the token of the service itself."""

    @property
    def by(self) -> str:
        return f"{BY}:{self.label}" if self.label else BY


class _Told(msgspec.Struct, array_like=True):
    run_id: str
    interaction_id: int
    expires: int
    label: str | None
    key_id: str | None


class Links:
    def __init__(self, token: bytes, is_key_good: Callable[[str], bool] = lambda key_id: True) -> None:
        """`is_key_good`: whether the key of that id may still come in; the links of one that may not are void."""
        self._proof_key = hashlib.sha256(b"turnkeeper link " + token).digest()
        self._is_key_good = is_key_good

    def seal(self, link: Link) -> str:
        told = _Told(
            link.asked.run_id,
            link.asked.interaction_id,
            int(link.expires_at.timestamp()),
            link.label,
            link.key_id,
        )
        inside = msgspec.json.encode(told)
        return f"{PREFIX}{_text(inside)}.{_text(self._proof(inside))}"

    def read(self, secret: str) -> Link | None:
        """None: nobody here has made it, or whoever did may not come in any more. An expired one is still one."""
        if not secret.startswith(PREFIX):
            return None
        inside, _, proof = secret.removeprefix(PREFIX).partition(".")
        try:
            told = base64.b64decode(_padded(inside), altchars=b"-_", validate=True)
            given = base64.b64decode(_padded(proof), altchars=b"-_", validate=True)
        except ValueError:
            return None
        # Looked into only if it is ours.
        if not hmac.compare_digest(self._proof(told), given):
            return None
        link = _link(msgspec.json.decode(told, type=_Told))
        return link if link.key_id is None or self._is_key_good(link.key_id) else None

    def of(self, authorization: str) -> Link | None:
        scheme, _, given = authorization.partition(" ")
        return self.read(given.strip()) if scheme.lower() == "bearer" else None

    def _proof(self, told: bytes) -> bytes:
        return hmac.new(self._proof_key, told, hashlib.sha256).digest()


def caller(link: Link) -> Caller:
    """Whoever brings it: they may do nothing but answer."""
    return Caller(by=link.by, scopes=frozenset(), key_id=link.key_id, asked=link.asked)


def _link(told: _Told) -> Link:
    return Link(
        asked=Asked(run_id=told.run_id, interaction_id=told.interaction_id),
        expires_at=datetime.fromtimestamp(told.expires, UTC),
        label=told.label,
        key_id=told.key_id,
    )


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
