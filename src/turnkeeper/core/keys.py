"""A key: how it is written, what is kept of it, who comes in with it. Making one needs chance: `runtime/keys.py`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from turnkeeper.core.access import Caller, Scope

PREFIX = "tk_"
"""So that whoever looks for secrets that have got lost finds it."""
ID_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
ID_LENGTH = 8
SECRET_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
SECRET_LENGTH = 43
"""Of 62 letters each: a little more than 256 bits. No underscore is among them: a key has three parts."""
_FORM = re.compile(rf"{PREFIX}([a-z2-7]{{{ID_LENGTH}}})_[A-Za-z0-9]{{{SECRET_LENGTH}}}")
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
ADMIN, TOKEN = "admin", "token"
"""Id and name of the service's own token among the keys."""


class Standing(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What is kept of a key: not the key itself, which is shown once, to whoever made it."""

    id: str
    name: str
    """Never given to another one, so that `by` of a change means one key for ever."""
    digest: str
    scopes: frozenset[Scope]
    skills: frozenset[str] | None = None
    engines: frozenset[str] | None = None
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    last_used_at: datetime | None = None
    """To the hour."""

    @property
    def is_token(self) -> bool:
        return self.id == ADMIN

    def standing(self, now: datetime) -> Standing:
        if self.revoked_at is not None:
            return Standing.REVOKED
        is_over = self.expires_at is not None and self.expires_at <= now
        return Standing.EXPIRED if is_over else Standing.ACTIVE

    def caller(self, way: str) -> Caller:
        """`way`: how it came in, `key` or `page`."""
        return Caller(
            by=f"{way}:{self.name}",
            scopes=self.scopes,
            skills=self.skills,
            engines=self.engines,
            key_id=self.id,
        )


def digest_of(secret: str) -> str:
    """A plain hash will do: nobody can guess their way through 256 bits, so there is nothing to slow down."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


NOBODYS = digest_of("")
"""What a key of an unknown id is compared with, so that it takes as long."""


def id_in(secret: str) -> str | None:
    """None if this is not written as a key is."""
    found = _FORM.fullmatch(secret)
    return found[1] if found else None
