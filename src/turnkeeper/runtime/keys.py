"""Makes, keeps and revokes keys. What is in memory is what was committed: a key that was answered outlives a crash."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from turnkeeper.core.access import EVERYTHING, Scope
from turnkeeper.core.errors import (
    ExpiryRefused,
    KeyNameTaken,
    KeyNotFound,
    KeyNotRevocable,
    StorageUnavailable,
)
from turnkeeper.core.fcmp import instant
from turnkeeper.core.journal import What
from turnkeeper.core.keys import (
    ADMIN,
    ID_LENGTH,
    ID_LETTERS,
    NOBODYS,
    PREFIX,
    SECRET_LENGTH,
    SECRET_LETTERS,
    TOKEN,
    Key,
    digest_of,
    id_in,
)
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.journal import Journal
from turnkeeper.store.base import NameTaken, Store

log = logging.getLogger(__name__)

USED_EVERY = timedelta(hours=1)
OURSELVES = "turnkeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """What a new key shall be good for."""

    name: str
    scopes: frozenset[Scope]
    skills: frozenset[str] | None = None
    engines: frozenset[str] | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    key: Key
    secret: str
    """Told once: nobody can find it out again."""

    def __repr__(self) -> str:
        return f"NewKey({self.key.name!r})"


class Ring:
    """The keys as they are now, by id."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = {key.id: key for key in keys}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def put(self, key: Key) -> None:
        self._keys[key.id] = key

    def get(self, key_id: str) -> Key | None:
        return self._keys.get(key_id)

    def named(self, given: str) -> Key | None:
        """By id or name; no word is both of two keys."""
        return self._keys.get(given) or next((key for key in self if key.name == given), None)

    def of(self, secret: str) -> Key | None:
        """Whose secret this is, also if it is not good any more. It takes as long for an id that nobody has."""
        found = self._keys.get(id_in(secret) or "")
        is_right = hmac.compare_digest(digest_of(secret), NOBODYS if found is None else found.digest)
        return found if is_right else None


class Keys:
    def __init__(self, store: Store, journal: Journal, clock: Clock) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self.ring = Ring()
        self._noting: set[asyncio.Task[None]] = set()
        self._noted: dict[str, datetime] = {}

    async def start(self) -> None:
        for key in await self._store.keys():
            self.ring.put(key)

    async def stop(self) -> None:
        await asyncio.gather(*self._noting)

    async def keep_token(self, token: str) -> None:
        """The service's own token is a key like others in the list, and good without it: a full disk stops nobody."""
        known, digest, now = self.ring.get(ADMIN), digest_of(token), self._clock()
        if known is not None and hmac.compare_digest(known.digest, digest):
            return
        key = Key(
            id=ADMIN, name=TOKEN, digest=digest, scopes=EVERYTHING, created_at=now, created_by=OURSELVES
        )
        is_new = known is None
        entry = self._journal.entry(by=OURSELVES, what=What.TOKEN_REPLACED, subject=TOKEN)
        try:
            await self._store.keep_token(key, None if is_new else entry)
        except StorageUnavailable as error:
            log.error("the list of keys does not know the new token: %s", error.message)
        else:
            self.ring.put(key)

    async def create(self, wanted: KeyRequest, *, by: str) -> NewKey:
        now = self._clock()
        if wanted.expires_at is not None and wanted.expires_at <= now:
            raise ExpiryRefused("the key would have expired already; name a moment that is still to come")
        key_id = self._new_id()
        secret = f"{PREFIX}{key_id}_{_letters(SECRET_LETTERS, SECRET_LENGTH)}"
        key = Key(
            id=key_id,
            name=wanted.name,
            digest=digest_of(secret),
            scopes=wanted.scopes,
            skills=wanted.skills,
            engines=wanted.engines,
            created_at=now,
            created_by=by,
            expires_at=wanted.expires_at,
        )
        entry = self._journal.entry(by=by, what=What.KEY_CREATED, subject=key.name, detail=_told(key))
        try:
            await self._store.add_key(key, entry)
        except NameTaken:
            raise KeyNameTaken(
                f"there is a key {key.name!r}, or was one; names are never given twice, so choose another"
            ) from None
        self.ring.put(key)
        return NewKey(key, secret)

    async def revoke(self, given: str, *, by: str) -> Key:
        """By id or name. Once this returns it opens nothing, and never will again; once more does no harm."""
        key = self.ring.named(given)
        if key is None:
            raise KeyNotFound(f"there is no key {given!r}")
        if key.is_token:
            raise KeyNotRevocable(
                "the service's own token cannot be revoked; to replace it, delete the file 'token' in the data "
                "directory (or change TURNKEEPER_TOKEN) and start the service again"
            )
        entry = self._journal.entry(by=by, what=What.KEY_REVOKED, subject=key.name, detail={"id": key.id})
        revoked = await self._store.revoke_key(key.id, entry)
        assert revoked is not None
        self.ring.put(replace(revoked, last_used_at=self._last_used(key.id)))
        return revoked

    def used(self, key_id: str) -> None:
        """Written down once an hour at the most, and nobody waits for it."""
        now, last = self._clock(), self._noted.get(key_id) or self._last_used(key_id)
        if last is None or now - last >= USED_EVERY:
            self._noted[key_id] = now
            task = asyncio.create_task(self._note_use(key_id, now), name=f"use of key {key_id}")
            self._noting.add(task)
            task.add_done_callback(self._noting.discard)

    async def _note_use(self, key_id: str, now: datetime) -> None:
        try:
            await self._store.touch_key(key_id, now)
        except StorageUnavailable as error:
            log.warning("that key %s was used is not written down: %s", key_id, error.message)
            return
        if (key := self.ring.get(key_id)) is not None:
            self.ring.put(replace(key, last_used_at=now))

    def _last_used(self, key_id: str) -> datetime | None:
        key = self.ring.get(key_id)
        return None if key is None else key.last_used_at

    def _new_id(self) -> str:
        key_id = _letters(ID_LETTERS, ID_LENGTH)
        return key_id if self.ring.named(key_id) is None else self._new_id()


def _letters(alphabet: str, count: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(count))


def _told(key: Key) -> dict[str, object]:
    return {
        "id": key.id,
        "scopes": sorted(key.scopes),
        "skills": key.skills and sorted(key.skills),
        "engines": key.engines and sorted(key.engines),
        "expires_at": key.expires_at and instant(key.expires_at),
    }
