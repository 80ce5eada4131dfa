"""The shapes of keys and of the journal."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from turnkeeper.core.access import Scope
from turnkeeper.core.errors import ExpiryRefused
from turnkeeper.core.keys import NAME
from turnkeeper.runtime.keys import KeyRequest
from turnkeeper.web.schemas import Strict

LONGEST_SEC = 100 * 365 * 24 * 3600
MOST_NAMES = 1000


def _moment(value: Any) -> Any:
    """In words: a bare number could mean seconds or milliseconds."""
    if value is not None and not (isinstance(value, str) and re.match(r"[0-9]{4}-", value)):
        raise ValueError("should be a time as text, such as 2030-01-31T12:00:00Z")
    return value


ScopeName = Literal["read", "run", "answer", "admin"]
Names = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=1, max_length=MOST_NAMES)
]


_WITH_ADMIN: JsonDict = {"type": "array", "contains": {"const": "admin"}}


def _not_both(one: str, of: JsonDict, other: str, of_other: JsonDict) -> JsonDict:
    return {"not": {"required": [one, other], "properties": {one: of, other: of_other}}}


class CreateKey(Strict):
    """At most one of `expires_at` and `expires_in_sec`; without both it is good until it is revoked."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                _not_both("expires_at", {"type": "string"}, "expires_in_sec", {"type": "number"}),
                _not_both("scopes", _WITH_ADMIN, "skills", {"type": "array"}),
                _not_both("scopes", _WITH_ADMIN, "engines", {"type": "array"}),
            ]
        }
    )

    name: str = Field(pattern=NAME, description="Never given to another key: changes are recorded with it.")
    scopes: list[ScopeName] = Field(min_length=1, max_length=20, description="What it may do.")
    skills: Names | None = Field(
        default=None, description="Only these are there for it, and their runs; null: all."
    )
    engines: Names | None = Field(
        default=None, description="Only these are there for it, and their runs; null: all."
    )
    expires_at: Annotated[AwareDatetime | None, BeforeValidator(_moment)] = Field(
        default=None, description="Until when it is good, with its zone."
    )
    expires_in_sec: Annotated[float, Field(strict=True, gt=0, le=LONGEST_SEC)] | None = Field(
        default=None, description="The same, from now on."
    )

    @model_validator(mode="after")
    def _sensible(self) -> CreateKey:
        if self.expires_at is not None and self.expires_in_sec is not None:
            raise ValueError("send expires_at or expires_in_sec, not both")
        if Scope.ADMIN in self.scopes and (self.skills is not None or self.engines is not None):
            raise ValueError("a key with the scope admin could lift any limit, so it cannot have one")
        return self

    def request(self, now: datetime) -> KeyRequest:
        return KeyRequest(
            name=self.name,
            scopes=frozenset(map(Scope, self.scopes)),
            skills=None if self.skills is None else frozenset(self.skills),
            engines=None if self.engines is None else frozenset(self.engines),
            expires_at=self._ends(now),
        )

    def _ends(self, now: datetime) -> datetime | None:
        if self.expires_in_sec is not None:
            return now + timedelta(seconds=self.expires_in_sec)
        try:
            return self.expires_at and self.expires_at.astimezone(UTC)
        except OverflowError:
            raise ExpiryRefused("expires_at is beyond what a calendar holds") from None


class KeyOut(BaseModel):
    id: str
    name: str
    status: Literal["active", "expired", "revoked"]
    scopes: list[ScopeName]
    skills: list[str] | None
    engines: list[str] | None
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    revoked_by: str | None
    last_used_at: str | None = Field(description="To the hour; never told of the service's own token.")


class KeyCreated(KeyOut):
    key: str = Field(description="The key itself. It is told now and never again.")


class Keys(BaseModel):
    keys: list[KeyOut]


class Me(BaseModel):
    by: str = Field(description="As changes are recorded: `token`, `page`, `key:NAME`, `page:NAME`.")
    scopes: list[ScopeName]
    skills: list[str] | None = Field(description="Only these are there; null: all.")
    engines: list[str] | None = Field(description="Only these are there; null: all.")
    expires_at: str | None = Field(description="When the key ends; null: when it is revoked.")


class EntryOut(BaseModel):
    seq: int
    at: str
    by: str
    what: str
    subject: str
    detail: dict[str, Any]


class JournalOut(BaseModel):
    entries: list[EntryOut]
    next_cursor: str | None
