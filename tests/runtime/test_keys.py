"""Keys inside the house: what they look like, what is in memory, and what happens when the disk is full."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnkeeper.core.access import Scope
from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.core.journal import Entry, What
from turnkeeper.core.keys import NOBODYS, SECRET_LENGTH, SECRET_LETTERS, Key, Standing, digest_of, id_in
from turnkeeper.runtime.journal import Journal
from turnkeeper.runtime.keys import KeyRequest, Keys, NewKey, Ring
from turnkeeper.store.sqlite import SqliteStore

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
WANTED = KeyRequest(name="ci", scopes=frozenset({Scope.READ}))


class Moment:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class FullStore(SqliteStore):
    """It has room for nothing of ours."""

    async def touch_key(self, key_id: str, at: datetime) -> None:
        raise StorageUnavailable("the disk is full")

    async def keep_token(self, key: Key, entry: Entry | None) -> None:
        raise StorageUnavailable("the disk is full")

    async def add_key(self, key: Key, entry: Entry) -> None:
        raise StorageUnavailable("the disk is full")

    async def revoke_key(self, key_id: str, entry: Entry) -> Key | None:
        raise StorageUnavailable("the disk is full")

    async def note(self, entry: Entry) -> None:
        raise StorageUnavailable("the disk is full")


@pytest.fixture
def clock() -> Moment:
    return Moment()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path)
    yield store
    await store.close()


async def opened(store: SqliteStore, clock: Moment) -> Keys:
    keys = Keys(store, Journal(store, clock), clock)
    await keys.start()
    return keys


async def made(keys: Keys, name: str = "ci") -> NewKey:
    return await keys.create(replace(WANTED, name=name), by="token")


async def test_a_secret_cannot_be_guessed_and_is_in_no_repr(store: SqliteStore, clock: Moment) -> None:
    keys = await opened(store, clock)
    new = [await made(keys, f"key-{number}") for number in range(20)]
    assert len({each.secret for each in new}) == len({each.key.id for each in new}) == 20
    assert SECRET_LENGTH * math.log2(len(set(SECRET_LETTERS))) >= 256
    for each in new:
        assert id_in(each.secret) == each.key.id
        assert each.secret.count("_") == 2
        assert keys.ring.of(each.secret) is each.key
        assert each.secret not in repr(each) + repr(each.key)


@given(st.text() | st.from_regex(r"tk_[a-z2-7]{7,9}_[A-Za-z0-9]{42,44}", fullmatch=True))
def test_what_is_no_key_is_nobodys(text: str) -> None:
    ring = Ring(
        [Key(id="abcdefgh", name="a", digest=NOBODYS, scopes=frozenset(), created_at=NOW, created_by="x")]
    )
    assert ring.of(text) is None


async def test_keys_are_there_after_a_restart(tmp_path: Path, clock: Moment) -> None:
    store = await SqliteStore.open(tmp_path)
    keys = await opened(store, clock)
    kept, gone = await made(keys), await made(keys, "gone")
    await keys.revoke("gone", by="token")
    await store.close()
    store = await SqliteStore.open(tmp_path)
    again = await opened(store, clock)
    assert again.ring.of(kept.secret) == kept.key
    found = again.ring.of(gone.secret)
    assert found is not None
    assert found.standing(NOW) is Standing.REVOKED
    await store.close()


def test_until_when_a_key_is_good() -> None:
    key = Key(id="a", name="a", digest="", scopes=frozenset(), created_at=NOW, created_by="x")
    ends = replace(key, expires_at=NOW + timedelta(seconds=1))
    assert key.standing(datetime.max.replace(tzinfo=UTC)) is Standing.ACTIVE
    assert ends.standing(NOW) is Standing.ACTIVE
    assert ends.standing(NOW + timedelta(seconds=1)) is Standing.EXPIRED
    assert replace(ends, revoked_at=NOW).standing(NOW + timedelta(days=1)) is Standing.REVOKED


async def test_a_use_is_written_once_an_hour_and_a_revoked_key_stays_revoked(
    store: SqliteStore, clock: Moment
) -> None:
    keys = await opened(store, clock)
    key = (await made(keys)).key
    for minutes, expected in ((0, 0), (59, 0), (60, 60), (119, 60), (180, 180)):
        clock.now = NOW + timedelta(minutes=minutes)
        keys.used(key.id)
        keys.used(key.id)
        await keys.stop()
        (stored,) = await store.keys()
        assert stored.last_used_at == NOW + timedelta(minutes=expected)
        assert keys.ring.get(key.id) == stored
    clock.now += timedelta(hours=2)
    keys.used(key.id)
    await keys.revoke(key.id, by="token")
    await keys.stop()
    (stored,) = await store.keys()
    assert keys.ring.get(key.id) == stored
    assert stored.revoked_at is not None


async def test_a_full_disk_changes_nothing_and_stops_nobody(
    tmp_path: Path, clock: Moment, caplog: pytest.LogCaptureFixture
) -> None:
    store = await SqliteStore.open(tmp_path)
    first = await opened(store, clock)
    new = await made(first)
    await store.close()
    full = await FullStore.open(tmp_path)
    keys = await opened(full, clock)
    await keys.keep_token("the-token-of-the-service")
    keys.used(new.key.id)
    await keys.stop()
    await Journal(full, clock).note(by="page", what=What.SKILL_INSTALLED, subject="echo")
    assert "skill.installed echo by page" in caplog.text, "what is not in the journal is in the log"
    with pytest.raises(StorageUnavailable):
        await made(keys, "another")
    with pytest.raises(StorageUnavailable):
        await keys.revoke("ci", by="token")
    assert list(keys.ring) == [new.key], "what was not committed is not in memory either"
    assert keys.ring.of(new.secret) == new.key
    await full.close()


async def test_the_same_token_is_not_written_again(store: SqliteStore, clock: Moment) -> None:
    keys = await opened(store, clock)
    await keys.keep_token("the-token-of-the-service")
    before = store.stats.transactions
    await keys.keep_token("the-token-of-the-service")
    assert store.stats.transactions == before
    (row,) = await store.keys()
    assert (row.id, row.name, row.digest) == ("admin", "token", digest_of("the-token-of-the-service"))
    assert await store.journal(before=None, limit=9) == []
