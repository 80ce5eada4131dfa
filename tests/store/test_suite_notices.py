"""Listeners: told of every durable write, in order, before the writer goes on, whatever happens to the writer."""

import asyncio
import logging

import pytest

from tests.store.sample import LEASE, creation, later, log_of, output, queued, reply, running, waiting
from turnkeeper.core import lifecycle
from turnkeeper.core.run import Idempotency, Run
from turnkeeper.store.base import KeyTaken, Notice, Stale, Store


class Ear:
    """A listener that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.heard: list[Notice] = []
        self._something = asyncio.Event()

    def __call__(self, notice: Notice) -> None:
        self.heard.append(notice)
        self._something.set()

    async def wait(self) -> Notice:
        async with asyncio.timeout(10):
            await self._something.wait()
        return self.heard[-1]


@pytest.fixture
def ear(store: Store) -> Ear:
    ear = Ear()
    store.listen(ear)
    return ear


async def test_a_change_is_heard_before_commit_returns(store: Store, ear: Ear) -> None:
    run = await store.commit(creation())
    assert ear.heard == [Notice(run.id, tuple(await log_of(store, run.id)), run, enqueue=True)]
    await store.commit(lifecycle.start_turn(run, LEASE, later(1)))
    assert [notice.enqueue for notice in ear.heard] == [True, False]
    assert ear.heard[-1].run == await store.run(run.id)


async def test_output_is_heard_with_its_entries_and_no_run(store: Store, ear: Ear) -> None:
    run = await running(store)
    await store.append(output(run, "a", "b"))
    assert ear.heard[-1] == Notice(run.id, tuple((await log_of(store, run.id))[-2:]))


async def test_enqueue_is_passed_on(store: Store, ear: Ear) -> None:
    await store.commit(creation(held="upload", due_at=later(60)))
    assert not ear.heard[-1].enqueue
    run = await waiting(store)
    assert not ear.heard[-1].enqueue
    assert ear.heard[-1].answered is None, "it was asked, and not answered"
    await store.commit(await reply(store, run, "blue"))
    assert ear.heard[-1].enqueue
    assert ear.heard[-1].answered == await store.interaction(run.id, 1)


async def test_a_refusal_is_not_heard(store: Store, ear: Ear) -> None:
    run = await running(store)
    await store.commit(creation(idempotency=Idempotency("key", "d")))
    heard = list(ear.heard)
    with pytest.raises(Stale):
        await store.append(output(run, "a", lease="other"))
    with pytest.raises(Stale):
        await store.commit(lifecycle.create(run.id, run.job, later(1)))
    with pytest.raises(KeyTaken):
        await store.commit(creation(idempotency=Idempotency("key", "d")))
    assert ear.heard == heard


async def test_writes_are_heard_in_their_order(store: Store, ear: Ear) -> None:
    runs = [await running(store) for _ in range(3)]
    known = len(ear.heard)
    await asyncio.gather(*(store.append(output(run, str(n))) for n in range(20) for run in runs))
    heard = ear.heard[known:]
    assert [notice.run_id for notice in heard] == [run.id for _ in range(20) for run in runs]
    for run in runs:
        told = [entry for notice in ear.heard if notice.run_id == run.id for entry in notice.entries]
        assert told == await log_of(store, run.id)


async def test_each_writer_goes_on_after_its_own_notice(store: Store, ear: Ear) -> None:
    runs = await asyncio.gather(*(queued(store) for _ in range(20)))

    async def start(run: Run) -> None:
        written = await store.commit(lifecycle.start_turn(run, LEASE, later(1)))
        assert written in [notice.run for notice in ear.heard]

    await asyncio.gather(*(start(run) for run in runs))


async def test_every_listener_hears(store: Store, ear: Ear) -> None:
    second = Ear()
    store.listen(second)
    await queued(store)
    assert ear.heard == second.heard
    assert len(ear.heard) == 1


@pytest.mark.failure("V01")
async def test_a_write_whose_writer_was_canceled_is_done_and_heard(store: Store, ear: Ear) -> None:
    change = creation()

    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()  # arrives at the first point where `commit` waits
        await store.commit(change)

    task = asyncio.create_task(give_up())
    with pytest.raises(asyncio.CancelledError):
        await task
    notice = await ear.wait()
    assert notice.run == await store.run(change.after.id)
    assert notice.enqueue
    assert notice.entries == tuple(await log_of(store, change.after.id))


async def test_a_listener_that_fails_harms_nobody(
    store: Store, ear: Ear, caplog: pytest.LogCaptureFixture
) -> None:
    def deaf(notice: Notice) -> None:
        raise ValueError("I cannot hear you")

    store.listen(deaf)
    second = Ear()
    store.listen(second)
    with caplog.at_level(logging.ERROR):
        async with asyncio.timeout(10):
            runs = await asyncio.gather(*(queued(store) for _ in range(5)))
    assert len(ear.heard) == len(second.heard) == len(runs)
    assert runs[0].id in caplog.text
    assert "I cannot hear you" in caplog.text
