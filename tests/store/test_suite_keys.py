"""Keys and the journal: a change and its entry are written together, and no name is ever given twice."""

import asyncio
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tests.store.conftest import Opener
from tests.store.sample import NOW, bare, job, later, place
from turnkeeper.core.access import EVERYTHING, Scope
from turnkeeper.core.journal import Entry
from turnkeeper.core.keys import ADMIN, TOKEN, Key, digest_of
from turnkeeper.core.run import Run
from turnkeeper.core.statechart import State
from turnkeeper.store.base import NameTaken, RunFilter, Store, Within

FULL = Key(
    id="abcdefgh",
    name="ci",
    digest=digest_of("secret"),
    scopes=frozenset({Scope.READ, Scope.RUN}),
    skills=frozenset({"paint", "ünïcode"}),
    engines=frozenset({"demo"}),
    created_at=NOW,
    created_by="token",
    expires_at=later(60),
    revoked_at=later(30),
    revoked_by="page",
    last_used_at=later(10),
)
PLAIN = Key(
    id="ijklmnop",
    name="ann",
    digest=digest_of("other"),
    scopes=frozenset({Scope.ANSWER}),
    created_at=later(1),
    created_by="key:ci",
)


def entry(what: str = "key.created", subject: str = "ci", **more: Any) -> Entry:
    return replace(Entry(at=NOW, by="token", what=what, subject=subject), **more)


async def whole_journal(store: Store) -> list[Entry]:
    return await store.journal(before=None, limit=1000)


def test_the_full_sample_leaves_nothing_at_its_default() -> None:
    assert not [field.name for field in fields(FULL) if getattr(FULL, field.name) == field.default]


async def test_every_field_of_a_key_comes_back(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    await store.add_key(PLAIN, entry(subject="ann"))
    await store.add_key(FULL, entry())
    assert await store.keys() == [FULL, PLAIN]
    await store.close()
    again = await open_store(tmp_path)
    assert await again.keys() == [FULL, PLAIN], "the oldest first"
    await again.close()


async def test_a_key_and_its_entry_are_one_write(store: Store) -> None:
    told = entry(detail={"scopes": ["read"], "deep": {"a": [1, None]}})
    await store.add_key(FULL, told)
    assert await whole_journal(store) == [replace(told, seq=1)]


@pytest.mark.parametrize(
    "rival",
    [
        replace(PLAIN, name=FULL.name),
        replace(PLAIN, name=FULL.id),
        replace(PLAIN, id=FULL.id),
        replace(PLAIN, id=FULL.name),
    ],
    ids=["its name", "its id as a name", "its id", "its name as an id"],
)
async def test_no_word_means_two_keys(store: Store, rival: Key) -> None:
    await store.add_key(FULL, entry())
    with pytest.raises(NameTaken):
        await store.add_key(rival, entry(subject="rival"))
    assert await store.keys() == [FULL]
    assert len(await whole_journal(store)) == 1


async def test_of_many_that_want_one_name_one_gets_it(store: Store) -> None:
    rivals = [replace(PLAIN, id=f"{number:08}") for number in range(20)]
    outcomes = await asyncio.gather(*(store.add_key(key, entry()) for key in rivals), return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 1
    assert len(await store.keys()) == len(await whole_journal(store)) == 1


async def test_a_revoked_key_stays_as_it_was_revoked(store: Store) -> None:
    await store.add_key(PLAIN, entry())
    await store.touch_key(PLAIN.id, later(5))
    revoked = await store.revoke_key(PLAIN.id, entry("key.revoked", at=later(9), by="page:bob"))
    assert revoked == replace(PLAIN, last_used_at=later(5), revoked_at=later(9), revoked_by="page:bob")
    again = await store.revoke_key(PLAIN.id, entry("key.revoked", at=later(99), by="token"))
    assert [again] == await store.keys() == [revoked]
    assert [each.what for each in await whole_journal(store)] == ["key.revoked", "key.created"]


async def test_nobody_can_be_revoked(store: Store) -> None:
    assert await store.revoke_key("nobody", entry("key.revoked")) is None
    assert await whole_journal(store) == []
    await store.touch_key("nobody", NOW)
    assert await store.keys() == []


async def test_the_token_has_one_row(store: Store) -> None:
    token = replace(PLAIN, id=ADMIN, name=TOKEN, scopes=EVERYTHING)
    await store.keep_token(token, None)
    newer = replace(token, digest=digest_of("newer"), created_at=later(50))
    await store.keep_token(newer, entry("token.replaced", TOKEN))
    assert await store.keys() == [newer]
    assert [each.what for each in await whole_journal(store)] == ["token.replaced"]
    with pytest.raises(NameTaken):
        await store.add_key(replace(PLAIN, name=TOKEN), entry())


async def test_the_journal_is_numbered_and_read_from_its_end(store: Store) -> None:
    await asyncio.gather(*(store.note(entry(subject=f"{number}")) for number in range(10)))
    found = await whole_journal(store)
    assert [each.seq for each in found] == list(range(10, 0, -1))
    assert {each.subject for each in found} == {f"{number}" for number in range(10)}
    assert await store.journal(before=8, limit=3) == found[3:6]
    assert await store.journal(before=1, limit=3) == []


async def test_a_write_that_fails_takes_nothing_with_it(store: Store) -> None:
    """In one group with others: a text that no database takes."""
    odd = entry(subject="\ud83d")
    outcomes = await asyncio.gather(
        store.note(entry()), store.add_key(PLAIN, odd), store.note(entry()), return_exceptions=True
    )
    assert [outcome is None for outcome in outcomes] == [True, False, True]
    assert await store.keys() == []
    assert [each.seq for each in await whole_journal(store)] == [2, 1]


# what a limited key sees


async def placed(store: Store, skill_id: str, engine: str, state: State = State.QUEUED, **more: Any) -> Run:
    return await place(store, bare(state, job=job(skill_id=skill_id, engine=engine), **more))


LIMITS = [
    (Within(), {"a1", "a2", "b1", "b2"}),
    (Within(skills=frozenset({"a"})), {"a1", "a2"}),
    (Within(engines=frozenset({"2"})), {"a2", "b2"}),
    (Within(skills=frozenset({"a", "c"}), engines=frozenset({"1"})), {"a1"}),
    (Within(skills=frozenset({"c"})), set()),
]


@pytest.mark.parametrize(("within", "seen"), LIMITS)
async def test_runs_within_limits(store: Store, within: Within, seen: set[str]) -> None:
    states = (State.QUEUED, State.SUCCEEDED)
    for state in states:
        for skill_id in "ab":
            for engine in "12":
                await placed(store, skill_id, engine, state)
    for wanted in (RunFilter(within=within), RunFilter(within=within, states=states)):
        found = await store.runs(wanted, 100)
        assert {f"{run.job.skill_id}{run.job.engine}" for run in found} == seen
        assert len(found) == 2 * len(seen)
    both = await store.runs(RunFilter(within=within, skill_id="b"), 100)
    assert {f"{run.job.skill_id}{run.job.engine}" for run in both} == {
        each for each in seen if each[0] == "b"
    }


@pytest.mark.parametrize(("within", "seen"), LIMITS)
async def test_holders_within_limits(store: Store, within: Within, seen: set[str]) -> None:
    for skill_id in "ab":
        for engine in "12":
            await placed(store, skill_id, engine, State.WAITING_USER, lease="mine")
    holding = await store.holding(1, within)
    assert (holding.count, len(holding.runs)) == (len(seen), min(1, len(seen)))
    held = (await store.holding(10, within)).runs
    assert {f"{run.job.skill_id}{run.job.engine}" for run in held} == seen


async def test_who_made_a_run_and_who_brought_its_files(store: Store) -> None:
    run = await place(store, bare(created_by="key:ci"))
    kept = await store.run(run.id)
    assert kept is not None
    assert (kept.created_by, kept.uploaded_by) == ("key:ci", None)
