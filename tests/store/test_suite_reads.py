"""The questions of the rest of the house: what is due, what is queued, which runs there are."""

from dataclasses import replace
from datetime import timedelta
from itertools import combinations

import pytest

from tests.store.sample import NOW, bare, creation, job, later, place, queued, running, waiting
from turnkeeper.core import lifecycle
from turnkeeper.core.run import Ending, EndingWhy, Mode, Run
from turnkeeper.core.statechart import State
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.store.base import Holding, RunFilter, Store

CANCEL = Ending(EndingWhy.CANCEL, "ann", NOW)


# deadlines


async def test_due_runs_come_in_the_order_of_their_deadlines(store: Store) -> None:
    by_deadline = {seconds: await place(store, bare(due_at=later(seconds))) for seconds in (30, 10, 20, 40)}
    await queued(store)

    async def due(now: float, limit: int = 100) -> list[str]:
        return await store.due(later(now), limit)

    assert await due(9.999999) == []
    assert await due(10) == [by_deadline[10].id]
    assert await due(30) == [by_deadline[s].id for s in (10, 20, 30)]
    assert await due(1000, limit=2) == [by_deadline[s].id for s in (10, 20)]


async def test_the_next_deadline_is_the_earliest(store: Store) -> None:
    assert await store.next_due() is None
    await queued(store)
    assert await store.next_due() is None
    await place(store, bare(due_at=later(20)))
    first = await place(store, bare(State.WAITING_USER, due_at=later(10)))
    assert await store.next_due() == later(10)
    canceled = lifecycle.cancel(first, later(1), by="ann")
    assert canceled is not None
    await store.commit(canceled)
    assert await store.next_due() == later(20)


async def test_a_deadline_is_as_fine_as_a_microsecond(store: Store) -> None:
    tick = timedelta(microseconds=1)
    run = await place(store, bare(due_at=NOW))
    assert await store.due(NOW - tick, 1) == []
    assert await store.due(NOW, 1) == [run.id]


async def test_uploads_and_waits_are_due_by_their_own_lifecycle(store: Store) -> None:
    held = await store.commit(creation(held="upload", due_at=later(60)))
    relaxed = await waiting(store, job(strict=False, session_timeout_sec=5))
    await waiting(store)  # resumable and strict: no deadline
    assert await store.due(later(3600), 10) == [relaxed.id, held.id]
    await store.commit(lifecycle.complete_input(held, {}, later(3)))
    assert await store.due(later(3600), 10) == [relaxed.id]


# the queue


async def test_the_queue_is_first_come_first_served(store: Store) -> None:
    third = await queued(store, now=later(30))
    first = await queued(store, now=later(10))
    second = await queued(store, now=later(20))
    assert [run.id for run in await store.queued()] == [first.id, second.id, third.id]


async def test_held_ending_and_started_runs_are_not_in_the_queue(store: Store) -> None:
    run = await queued(store)
    held = await store.commit(creation(held="upload", due_at=later(60)))
    await place(store, bare(ending=CANCEL))
    await running(store)
    await waiting(store)
    assert await store.queued() == [run]
    completed = await store.commit(lifecycle.complete_input(held, {"paper": "uploads/paper.txt"}, later(1)))
    assert await store.queued() == [run, completed]


async def test_owned_runs_are_those_with_an_owner_that_can_be_gone(store: Store) -> None:
    owned = [
        await running(store),
        await place(store, bare(State.RUNNING, lease="a", ending=CANCEL)),
        await place(store, bare(State.WAITING_USER, lease="a", ending=CANCEL)),
        await place(store, bare(State.QUEUED, ending=CANCEL)),
    ]
    for other in (
        bare(),
        bare(held="upload"),
        bare(lease="a"),  # replied to, its owner not yet awake: `preserve_waiting` frees it
        bare(State.WAITING_USER),
        bare(State.WAITING_USER, lease="a"),
        bare(State.CANCELED, ending=CANCEL),
        bare(State.FAILED, lease="a"),
    ):
        await place(store, other)
    assert sorted(run.id for run in await store.owned()) == [run.id for run in owned]


async def test_counts_name_every_state(store: Store) -> None:
    assert await store.counts() == dict.fromkeys(State, 0)
    for state, number in {State.QUEUED: 1, State.WAITING_USER: 3, State.FAILED: 2}.items():
        for _ in range(number):
            await place(store, bare(state))
    assert await store.counts() == {
        State.QUEUED: 1,
        State.RUNNING: 0,
        State.WAITING_USER: 3,
        State.SUCCEEDED: 0,
        State.FAILED: 2,
        State.CANCELED: 0,
    }


async def test_runs_that_hold_a_slot_while_they_wait(store: Store) -> None:
    resident = job(ProfileKind.STICKY)
    second, first, ending = [
        await place(store, bare(State.WAITING_USER, job=resident, lease="a", updated_at=later(n), **more))
        for n, more in ((20, {}), (10, {}), (30, {"ending": CANCEL}))  # an ending one has not let go yet
    ]
    for other in (
        bare(State.WAITING_USER),
        bare(State.WAITING_USER, job=resident),  # its process is gone, its question is not
        bare(State.RUNNING, job=resident, lease="a"),
        bare(lease="a"),
    ):
        await place(store, other)
    assert await store.holding(10) == Holding(3, [first, second, ending])
    assert await store.holding(1) == Holding(3, [first])


async def test_nobody_holds_a_slot(store: Store) -> None:
    await waiting(store)
    assert await store.holding(10) == Holding(0, [])
    run = await waiting(store, job(ProfileKind.STICKY))
    assert await store.holding(10) == Holding(1, [run])


# lists


async def test_runs_are_listed_from_the_newest(store: Store) -> None:
    old, new, middle = [await queued(store, now=later(seconds)) for seconds in (10, 30, 20)]
    assert await store.runs(RunFilter(), 10) == [new, middle, old]
    assert await store.runs(RunFilter(), 2) == [new, middle]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (RunFilter(states=[State.WAITING_USER]), "c"),
        (RunFilter(skill_id="paint"), "ac"),
        (RunFilter(engine="other"), "b"),
        (RunFilter(mode=Mode.AUTO), "bc"),
        (RunFilter(mode=Mode.AUTO, skill_id="paint"), "c"),
        (RunFilter(mode=Mode.INTERACTIVE, engine="other"), ""),
        (RunFilter(states=[State.QUEUED], skill_id="paint", engine="demo", mode=Mode.INTERACTIVE), "a"),
        (RunFilter(states=[State.RUNNING]), ""),
        (RunFilter(states=[State.WAITING_USER, State.RUNNING, State.QUEUED]), "abc"),
        (RunFilter(states=[State.WAITING_USER, State.QUEUED], skill_id="paint"), "ac"),
        (RunFilter(skill_id="' OR 1=1 --"), ""),
        (RunFilter(), "abc"),
    ],
    ids=repr,
)
async def test_runs_can_be_filtered(store: Store, wanted: RunFilter, found: str) -> None:
    for run in (
        bare(id="a", job=job()),
        bare(id="b", job=job(ProfileKind.STICKY, skill_id="draw", engine="other", mode=Mode.AUTO)),
        bare(State.WAITING_USER, id="c", job=job(mode=Mode.AUTO)),
    ):
        await place(store, run)
    assert sorted(run.id for run in await store.runs(wanted, 10)) == list(found)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
async def test_pages_of_runs_have_no_gap_and_no_double(store: Store, size: int) -> None:
    for second in (3, 1, 2, 2, 2, 1, 1, 3, 2, 1, 2):  # many of the same moment
        await queued(store, now=later(second))
    whole = await store.runs(RunFilter(), 100)
    assert len(whole) == 11

    seen: list[Run] = []
    wanted = RunFilter()
    while page := await store.runs(wanted, size):
        seen += page
        await queued(store, now=later(100 + len(seen)))  # newer runs do not shift the pages
        wanted = replace(wanted, before=(page[-1].created_at, page[-1].id))
        assert len(seen) <= len(whole)
    assert seen == whole


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("states", [states for n in (1, 2, 3, 6) for states in combinations(State, n)][::5])
async def test_pages_of_several_states_are_those_of_the_whole(
    store: Store, states: tuple[State, ...], size: int
) -> None:
    for number, state in enumerate([*State, *State, *reversed(list(State))]):
        await place(store, bare(state, created_at=later(number % 4)))  # many of the same moment
    wanted = [run for run in await store.runs(RunFilter(), 100) if run.state in states]

    seen: list[Run] = []
    asked = RunFilter(states=states)
    while page := await store.runs(asked, size):
        seen += page
        asked = replace(asked, before=(page[-1].created_at, page[-1].id))
        assert len(seen) <= len(wanted)
    assert seen == wanted


@pytest.mark.parametrize("text", ["Übungs-Maß", "übung", "ÜBUNG", "mass"])
async def test_ids_are_searched_in_any_case_of_any_letters(store: Store, text: str) -> None:
    """A skill without a runner goes by the name of its folder."""
    run = await place(store, bare(job=job(skill_id="Übungs-Maß")))
    await place(store, bare())
    assert await store.runs(RunFilter(text=text), 10) == [run]


async def test_pages_keep_to_their_filter(store: Store) -> None:
    runs = [await place(store, bare(State.FAILED, created_at=later(n))) for n in range(4)]
    for n in range(4):
        await place(store, bare(created_at=later(n)))
    wanted = RunFilter(states=[State.FAILED], before=(runs[3].created_at, runs[3].id))
    assert await store.runs(wanted, 2) == [runs[2], runs[1]]
