"""One timer for all deadlines: set for the earliest, never lost, never applied twice. Time is passed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.runtime.loops import BACKEND, settle, this_loop
from tests.runtime.memory import MemoryStore
from turnkeeper.core import gate, lifecycle, questions
from turnkeeper.core.change import TurnReport
from turnkeeper.core.contract import Contract
from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.core.run import Job, Mode, Profile, Question, Run
from turnkeeper.core.statechart import State, Trigger
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.runtime.deadlines import LONGEST_SLEEP, RETRY, WAKE_GRACE, Deadlines

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def anyio_backend() -> Any:
    return BACKEND


class Watch:
    """Deadlines over a store in memory, with a wall clock that can be set apart from the loop's."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.step = timedelta(0)
        self._began = this_loop().time()
        self.deadlines = Deadlines(self.store.port, self.now)

    def now(self) -> datetime:
        return START + timedelta(seconds=this_loop().time() - self._began) + self.step

    async def asks(self, run_id: str, timeout_sec: float, kind: ProfileKind = ProfileKind.RESUMABLE) -> Run:
        """A lenient run that waits from now on, as the house would make it known."""
        profile = Profile(kind, "chosen by the test")
        job = Job(
            skill_id="answer",
            skill_version="1",
            contract=Contract(name="answer", is_plain=True),
            engine="demo",
            mode=Mode.INTERACTIVE,
            strict=False,
            session_timeout_sec=timeout_sec,
            profile=profile,
        )
        run = await self.store.commit(lifecycle.create(run_id, job, self.now()))
        started = lifecycle.start_turn(run, "lease", self.now())
        run = await self.store.commit(started)
        assert started.attempt is not None
        report = TurnReport(question=Question(prompt="Which colour?"))
        run = await self.store.commit(
            lifecycle.finish_turn(run, started.attempt, gate.Wait(), report, self.now())
        )
        assert run.due_at is not None
        self.deadlines.arm(run.due_at)
        return run

    async def reply(self, run_id: str) -> None:
        run = self.store.known[run_id]
        question = self.store.questions[run_id, 1]
        await self.store.commit(questions.accept_reply(run, question, "blue", self.now(), by="ann"))

    @property
    def decided(self) -> list[str]:
        """Runs whose deadline was applied, in order."""
        changes = self.store.changes
        return [change.after.id for change in changes if change.trigger is Trigger.AUTO_DECIDE_TIMEOUT]

    @property
    def timer_sec(self) -> list[float]:
        """Seconds to go, for every timer that there is."""
        return [round(timer.when() - this_loop().time(), 1) for timer in this_loop().timers()]


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    watch = Watch()
    yield watch
    await watch.deadlines.stop()
    assert this_loop().timers() == []


async def test_one_timer_for_the_earliest(watch: Watch) -> None:
    await watch.asks("slow", 50)
    assert watch.timer_sec == [50]
    await watch.asks("quick", 10)
    assert watch.timer_sec == [10]
    await watch.asks("between", 30)
    assert watch.timer_sec == [10]


async def test_each_deadline_is_applied_when_it_comes(watch: Watch) -> None:
    for run_id, seconds in (("slow", 50), ("quick", 10), ("twin", 10)):
        await watch.asks(run_id, seconds)
    await this_loop().skip(9.9)
    assert watch.decided == []
    await this_loop().skip(0.2)
    assert watch.decided == ["quick", "twin"]
    await this_loop().skip(40)
    assert watch.decided == ["quick", "twin", "slow"]
    assert watch.timer_sec == []


async def test_the_deadline_is_an_instant(watch: Watch) -> None:
    run = await watch.asks("run", 10)
    assert run.due_at is not None
    assert await watch.deadlines.sweep(run.due_at - timedelta(microseconds=1)) == 0
    assert await watch.deadlines.sweep(run.due_at) == 1
    assert await watch.deadlines.sweep(run.due_at + timedelta(days=1)) == 0
    assert watch.decided == ["run"]


async def test_more_runs_than_a_page_are_all_applied(watch: Watch) -> None:
    for number in range(250):
        await watch.asks(f"run {number}", 10)
    assert await watch.deadlines.sweep(watch.now() + timedelta(seconds=11)) == 250


async def test_a_reply_that_came_first_is_left_alone(watch: Watch) -> None:
    await watch.asks("answered", 10)
    await watch.asks("silent", 10)
    await watch.reply("answered")
    await this_loop().skip(10.1)
    assert watch.decided == ["silent"]


@pytest.mark.failure("T06")
async def test_a_start_applies_what_is_overdue_and_waits_for_the_rest(watch: Watch) -> None:
    await watch.asks("overdue", 10)
    await watch.asks("later", 50)
    again = Deadlines(watch.store.port, watch.now)
    await watch.deadlines.stop()
    watch.step = timedelta(seconds=20)
    await again.start()
    assert watch.decided == ["overdue"]
    assert watch.timer_sec == [30]
    await again.stop()


@pytest.mark.failure("T04", "T05")
async def test_a_clock_that_is_set_forward_is_noticed_soon(watch: Watch) -> None:
    """Also a machine that slept: its monotonic clock stood still. Whoever woke it has a minute to answer."""
    await watch.asks("run", 10 * 3600)
    assert watch.timer_sec == [LONGEST_SLEEP.total_seconds()]
    watch.step = timedelta(hours=11)
    await this_loop().skip(LONGEST_SLEEP.total_seconds() + 0.1)
    assert watch.decided == []
    assert watch.timer_sec == [WAKE_GRACE.total_seconds()]
    await this_loop().skip(WAKE_GRACE.total_seconds() + 0.1)
    assert watch.decided == ["run"]


@pytest.mark.failure("T05")
async def test_a_reply_after_the_wake_is_in_time(watch: Watch) -> None:
    await watch.asks("run", 10 * 3600)
    watch.step = timedelta(hours=11)
    await this_loop().skip(LONGEST_SLEEP.total_seconds() + 0.1)
    await watch.reply("run")
    await this_loop().skip(WAKE_GRACE.total_seconds() + 0.1)
    assert watch.decided == []


@pytest.mark.failure("T05")
async def test_a_new_deadline_does_not_cut_the_grace_short(watch: Watch) -> None:
    await watch.asks("run", 10 * 3600)
    watch.step = timedelta(hours=11)
    await this_loop().skip(LONGEST_SLEEP.total_seconds() + 0.1)
    await watch.asks("quick", 10)
    await this_loop().skip(WAKE_GRACE.total_seconds() - 0.2)
    assert watch.decided == []
    await this_loop().skip(0.3)
    assert sorted(watch.decided) == ["quick", "run"]
    await watch.asks("next", 10)
    assert watch.timer_sec == [10]


@pytest.mark.failure("T04")
async def test_a_clock_that_was_wrong_for_a_moment_delays_nothing_for_long(watch: Watch) -> None:
    await watch.asks("run", 600)
    watch.step = timedelta(days=365)
    await this_loop().skip(LONGEST_SLEEP.total_seconds() + 0.1)
    watch.step = timedelta(0)
    await this_loop().skip(600)
    assert watch.decided == ["run"]


@pytest.mark.failure("T04")
async def test_a_clock_that_is_set_back_fires_nothing_early_and_does_not_spin(watch: Watch) -> None:
    await watch.asks("run", 10)
    watch.step = -timedelta(hours=1)
    await this_loop().skip(10.1)
    assert watch.decided == []
    looked = watch.store.asked["due"]
    while watch.timer_sec:
        assert watch.decided == []
        await this_loop().skip(60)
    assert watch.decided == ["run"]
    assert watch.store.asked["due"] - looked <= 3600 / LONGEST_SLEEP.total_seconds() + 2


async def test_a_deadline_that_nobody_can_apply_does_not_spin(watch: Watch) -> None:
    run = await watch.asks("run", 10)
    assert run.pending_interaction_id is not None
    del watch.store.questions["run", run.pending_interaction_id]
    await this_loop().skip(10.1)
    looked = watch.store.asked["due"]
    for _ in range(100):
        await this_loop().skip(0.1)
    assert watch.store.asked["due"] - looked <= 11


@pytest.mark.failure("V03", "V05")
async def test_a_database_that_refuses_is_asked_again(watch: Watch) -> None:
    await watch.asks("run", 10)
    watch.store.refuse("commit", StorageUnavailable("the disk is full"))
    await this_loop().skip(10.1)
    assert watch.decided == []
    await this_loop().skip(RETRY.total_seconds() + 0.1)
    assert watch.decided == ["run"]


@pytest.mark.failure("T08")
async def test_a_deadline_that_comes_while_others_are_applied_is_not_lost(watch: Watch) -> None:
    """The round under way has asked for the next deadline already, and was told that there is none."""
    await watch.asks("first", 10)
    with watch.store.hold("next_due"):
        await this_loop().skip(10.1)
        assert watch.decided == ["first"]
        await watch.asks("second", 0.5)
        await this_loop().skip(0.6)
    await settle()
    await this_loop().skip(LONGEST_SLEEP.total_seconds() + 0.1)
    assert watch.decided == ["first", "second"]


async def test_a_stop_waits_for_the_round_and_leaves_no_timer(watch: Watch) -> None:
    await watch.asks("now", 10)
    await watch.asks("later", 50)
    with watch.store.hold("next_due"):
        await this_loop().skip(10.1)
        stopping = asyncio.ensure_future(watch.deadlines.stop())
        await settle()
        assert not stopping.done()
    await stopping
    assert watch.decided == ["now"]
    assert watch.timer_sec == []
    asked = watch.store.asked["due"]
    await this_loop().skip(120)
    assert watch.store.asked["due"] == asked


async def test_a_run_that_is_not_waiting_any_more_is_no_error(watch: Watch) -> None:
    await watch.asks("run", 10)
    with watch.store.hold("due"):
        sweep = asyncio.ensure_future(watch.deadlines.sweep(watch.now() + timedelta(seconds=10)))
        await settle()
        await watch.reply("run")
    assert await sweep == 0
    assert watch.store.known["run"].state is State.QUEUED
