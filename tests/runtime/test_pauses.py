"""A turn that pauses for a permission, and everything that can come across it: the agent does not wait, the service
stops, somebody cancels. The log tells one story, and whatever was said is heard."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from tests.crash.restarts import CUT_OFF, RECORD, started
from tests.harness import PATIENCE, SKILLS, Json, Place, opened, settings_for, states, wait_for_file
from turnkeeper.core import questions
from turnkeeper.core.change import Change
from turnkeeper.core.errors import Code
from turnkeeper.core.run import Mode, Permissions, Run
from turnkeeper.core.statechart import State, Trigger, next_state
from turnkeeper.engines import census
from turnkeeper.engines.base import EngineConfig
from turnkeeper.engines.registry import engines
from turnkeeper.runtime.clock import Clock, utc_now
from turnkeeper.runtime.disk import Disk
from turnkeeper.runtime.dispatch import Capacity
from turnkeeper.runtime.feed import Subscription
from turnkeeper.runtime.house import House, Parts
from turnkeeper.runtime.intake import JobRequest, Policy
from turnkeeper.skills.install import Library
from turnkeeper.skills.package import Shelf
from turnkeeper.store.base import Notice, Stale
from turnkeeper.store.sqlite import SqliteStore

AGENT = Path(__file__).parents[1] / "fakes" / "asking_agent.py"
ASK: Json = {"execution_mode": "interactive", "permissions": "ask"}
PAUSED = ["queued", "running", "waiting_user", "queued", "running"]
WORDS = "use a branch instead"


def command(*scripts: list[str]) -> tuple[str, ...]:
    """Of an agent that does this, prompt by prompt."""
    return sys.executable, str(AGENT), *map(json.dumps, scripts)


@asynccontextmanager
async def playing(data_dir: Path, *scripts: list[str]) -> AsyncIterator[Place]:
    agent = {"command": command(*scripts), "asks": True}
    async with opened(data_dir, engines={"agent": agent}) as place:
        yield place


async def asking(place: Place) -> str:
    run_id = await place.client.create(engine="agent", **ASK)
    await shown(place, run_id, 1)
    return run_id


async def shown(place: Place, run_id: str, number: int) -> None:
    """Until that question is open."""
    run = await place.client.settled(run_id)
    assert (run["status"], run["pending_interaction_id"]) == ("waiting_user", number), run


async def said(place: Place, run_id: str) -> str:
    run = await place.client.ended(run_id)
    assert run["status"] == "succeeded", run
    return str((await place.client.result(run_id))["answer"])


def workspace(house: House, run_id: str) -> Path:
    return house.stage.folder(run_id).workspace


def go(house: House, run_id: str) -> None:
    """The agent waits for it."""
    (workspace(house, run_id) / "go").touch()


async def expect_withdrawn(place: Place, run_id: str, number: int) -> None:
    """It is told everywhere, and by steps of the table."""
    asked = (await place.client.history(run_id))[number - 1]
    assert (asked["resolution_mode"], asked["response"], asked["resolved_by"]) == ("withdrawn", "", "agent")
    late = await place.client.post_reply(run_id, number, "yes")
    assert (late.status_code, late.json()["code"]) == (409, "INTERACTION_ANSWERED")
    assert late.json()["resolution_mode"] == "withdrawn"
    events = await place.client.events(run_id)
    withdrawn = [event["data"] for event in events if event["type"] == "interaction.withdrawn"]
    assert [each["interaction_id"] for each in withdrawn] == [number]
    for change in (event["data"] for event in events if event["type"] == "conversation.state.changed"):
        assert next_state(State(change["from"]), Trigger(change["trigger"])) == change["to"]


# An agent that does not wait


@pytest.mark.parametrize("reason", ["end_turn", "cancelled"])
async def test_a_turn_that_ends_takes_back_what_it_still_asks_for(tmp_path: Path, reason: str) -> None:
    """Some agents call everything off as soon as one thing is rejected."""
    turn = ["ask first", "ask second", "hear first", "wait-for go", "done {first}", f"end {reason}"]
    async with playing(tmp_path / "data", turn) as place:
        run_id = await asking(place)
        await place.client.reply(run_id, "no")
        await shown(place, run_id, 2)
        go(place.house, run_id)
        assert await said(place, run_id) == "no"
        assert states(await place.client.events(run_id)) == [*PAUSED, *PAUSED[2:], "succeeded"]
        await expect_withdrawn(place, run_id, 2)


async def test_a_request_that_is_taken_back_is_not_waited_for(tmp_path: Path) -> None:
    turn = [
        "ask first",
        "wait-for go",
        "take-back first",
        "ask second",
        "hear second",
        "done {second}",
        "end",
    ]
    async with playing(tmp_path / "data", turn) as place:
        run_id = await asking(place)
        go(place.house, run_id)
        await place.client.until(run_id, "queued")
        await shown(place, run_id, 2)
        await expect_withdrawn(place, run_id, 1)
        await place.client.reply(run_id, "yes")
        assert await said(place, run_id) == "yes"


async def test_a_request_that_is_taken_back_in_time_is_never_shown(tmp_path: Path) -> None:
    early = ["ask first", "take-back first", "ask second", "ask third", "take-back third"]
    async with playing(tmp_path / "data", [*early, "hear second", "done {second}", "end"]) as place:
        run_id = await asking(place)
        await place.client.reply(run_id, "yes")
        assert await said(place, run_id) == "yes"
        (asked,) = await place.client.history(run_id)
        assert "second" in asked["prompt"]


@pytest.mark.parametrize("pause", [[], ["wait-for go"]], ids=["at once", "between two turns"])
async def test_a_request_out_of_turn_is_rejected(tmp_path: Path, pause: list[str]) -> None:
    asks = ["say Which colour?", "end", *pause, "ask late", "touch asked"]
    async with playing(tmp_path / "data", asks, ["hear late", "done {late}", "end"]) as place:
        run_id = await asking(place)
        assert (await place.client.pending(run_id))["kind"] == "open_text"
        go(place.house, run_id)
        await wait_for_file(workspace(place.house, run_id) / "asked")
        await place.client.reply(run_id, "blue")
        assert await said(place, run_id) == "no"


async def test_requests_that_are_left_at_the_end_of_a_turn_are_called_off(tmp_path: Path) -> None:
    asks = ["ask first", "ask second", "ask third", "wait-for go", "say Which colour?", "end"]
    hears = ["hear second", "hear third", "done {second},{third}", "end"]
    async with playing(tmp_path / "data", asks, hears) as place:
        run_id = await asking(place)
        go(place.house, run_id)
        await place.client.until(run_id, "queued")
        await shown(place, run_id, 2)
        assert (await place.client.pending(run_id))["kind"] == "open_text"
        await place.client.reply(run_id, "blue")
        assert await said(place, run_id) == "cancelled,cancelled"


# What a person says


async def test_everything_that_was_said_instead_is_heard(tmp_path: Path) -> None:
    asks = ["ask first", "ask second", "hear first", "hear second", "say I see.", "end"]
    async with playing(tmp_path / "data", asks, ["done {words}", "end"]) as place:
        run_id = await asking(place)
        await place.client.reply(run_id, WORDS)
        await shown(place, run_id, 2)
        await place.client.reply(run_id, "and ask Bob first")
        assert await said(place, run_id) == f"{WORDS}\n\nand ask Bob first"


async def test_words_are_heard_by_an_agent_that_calls_the_rest_off(tmp_path: Path) -> None:
    asks = ["ask first", "ask second", "hear first", "wait-for go", "say I see.", "end"]
    async with playing(tmp_path / "data", asks, ["done {words}", "end"]) as place:
        run_id = await asking(place)
        await place.client.reply(run_id, WORDS)
        await shown(place, run_id, 2)
        go(place.house, run_id)
        assert await said(place, run_id) == WORDS
        await expect_withdrawn(place, run_id, 2)


async def test_an_option_is_meant_by_its_label_and_never_by_what_it_lacks(tmp_path: Path) -> None:
    """One of them has no kind, and blanks around its label."""
    asks = ["ask first", "ask second", "hear first", "hear second", "end"]
    async with playing(tmp_path / "data", asks, ["done {first},{second},{words}", "end"]) as place:
        run_id = await asking(place)
        await place.client.reply(run_id, "None")
        await shown(place, run_id, 2)
        await place.client.reply(run_id, "something else")
        assert await said(place, run_id) == "no,other,None"


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_words_that_the_agent_had_not_heard_come_with_the_next_try(tmp_path: Path, end: str) -> None:
    turn = [{"record": RECORD}, {"permission": {"tool": "shell"}}, {"touch": "rejected"}, {"hang": True}]
    async with started(tmp_path / "data") as daemon:
        run_id = await daemon.client.create(script={"turns": [turn]}, **ASK)
        await daemon.client.settled(run_id)
        await daemon.client.reply(run_id, WORDS)
        await wait_for_file(daemon.workspace(run_id) / "rejected")
        await (daemon.kill() if end == "kill" else daemon.stop())
        daemon.start()
        await daemon.client.settled(run_id)  # it asks again
        first, again = daemon.turns(run_id)
        assert WORDS not in first["prompt"]
        assert CUT_OFF in again["prompt"]
        assert again["prompt"].rstrip().endswith(WORDS)
        await daemon.client.cancel(run_id)
        await daemon.client.ended(run_id)


# The service goes down


async def test_a_permission_that_was_given_to_nobody_ends_the_run_at_once(tmp_path: Path) -> None:
    """Killed between the reply and the going on. The run behind it takes the only slot at the next start."""
    async with started(tmp_path / "data", TURNKEEPER_SLOTS="1") as daemon:
        run_id = await daemon.client.create(script="permission", **ASK)
        await daemon.client.settled(run_id)
        behind = await daemon.client.create(script="hang")
        await daemon.kill()
        async with daemon.store() as store:
            paused, pending = await store.run(run_id), await store.interaction(run_id, 1)
            assert paused is not None
            await store.commit(questions.accept_reply(paused, pending, "allow", utc_now(), by="ann"))
        daemon.start()
        run = await daemon.client.get(run_id)
        assert (run["status"], run["error"] and run["error"]["code"]) == (
            "failed",
            "INTERACTION_PROCESS_LOST",
        )
        assert states(await daemon.log(run_id)) == [*PAUSED[:4], "failed"]
        (attempt,) = (await daemon.client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"]
        assert (attempt["ended_at"] is not None, attempt["verdict"]) == (True, {"verdict": "interrupted"})
        await daemon.client.until(behind, "running")
        await daemon.client.cancel(behind)
        await daemon.client.ended(behind)


# Two things in the same moment


class Crossed(SqliteStore):
    """Once, when it is told to, whoever wants to write has to read the run again, and something else happens after it
    was read and before its reader can write."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def commit(self, change: Change) -> Run:
        if self.meanwhile is not None:
            raise Stale(change.after.id)
        return await super().commit(change)

    async def run(self, run_id: str) -> Run | None:
        found = await super().run(run_id)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found


@dataclass(frozen=True, slots=True)
class Crossing:
    """A house with such a store, and a run in it. Nobody reads the run here but who is to be crossed."""

    house: House
    store: Crossed
    run_id: str
    news: Subscription

    async def until(self, state: State) -> Run:
        async with asyncio.timeout(PATIENCE):
            while self.news.run is None or self.news.run.state is not state:
                assert self.news.run is None or not self.news.run.state.is_terminal, self.news.run
                await self.news.wait(PATIENCE)
        return self.news.run


@asynccontextmanager
async def crossing(data_dir: Path, script: list[str], clock: Clock = utc_now) -> AsyncIterator[Crossing]:
    data_dir.mkdir()
    store = await asyncio.to_thread(Crossed, data_dir, asyncio.get_running_loop())
    timeouts = settings_for(data_dir).timeouts.core()
    shelf = Shelf((SKILLS,))
    parts = Parts(
        store=store,
        engines=engines({"agent": EngineConfig(command=command(script), asks=True)}),
        shelf=shelf,
        library=Library(data_dir / "skills", shelf),
        runs_dir=data_dir / "runs",
        disk=Disk(data_dir, min_free_mb=0),
        capacity=Capacity(slots=1, sticky_slots=1, engine_limits={}),
        policy=Policy(max_queued=1, default_engine=None, session_timeout_sec=600, timeouts=timeouts),
        clock=clock,
    )
    house = House(parts)
    await house.start()
    try:
        run = await house.jobs.create(
            JobRequest(skill_id="answer", engine="agent", mode=Mode.INTERACTIVE, permissions=Permissions.ASK)
        )
        with house.feed.subscribe(run.id) as news:
            yield Crossing(house, store, run.id, news)
    finally:
        await house.stop()
    assert not census.find(store.data_id)


def finals(events: list[Json]) -> list[str]:
    return [event["data"]["text"] for event in events if event["type"] == "assistant.message.final"]


async def test_a_reply_and_a_cancel(tmp_path: Path) -> None:
    """The cancel comes before the turn goes on. What was said in the pause is told nevertheless."""
    turn = ["ask first", "wait-for go", "say one", "say two", "touch said", "hear first"]
    async with crossing(tmp_path / "data", turn) as at:
        await at.until(State.WAITING_USER)
        go(at.house, at.run_id)
        await wait_for_file(workspace(at.house, at.run_id) / "said")

        def cross(notice: Notice) -> None:
            if notice.run is not None and notice.run.state is State.QUEUED:
                at.store.meanwhile = lambda: at.house.jobs.cancel(at.run_id, by="bob")

        at.store.listen(cross)
        await at.house.jobs.reply(at.run_id, 1, "yes", by="ann")
        await at.until(State.CANCELED)
    async with playing(tmp_path / "data", turn) as place:
        events = await place.client.events(at.run_id)
        assert states(events) == [*PAUSED[:4], "canceled"]
        assert finals(events) == ["one", "two"]


async def test_a_request_and_a_cancel(tmp_path: Path) -> None:
    turn = ["touch begun", "wait-for go", "say one", "ask first", "hear first"]
    async with crossing(tmp_path / "data", turn) as at:
        await wait_for_file(workspace(at.house, at.run_id) / "begun")
        at.store.meanwhile = lambda: at.house.jobs.cancel(at.run_id, by="bob")
        go(at.house, at.run_id)
        await at.until(State.CANCELED)
    async with playing(tmp_path / "data", turn) as place:
        events = await place.client.events(at.run_id)
        assert states(events) == ["queued", "running", "canceled"]
        assert finals(events) == ["one"]


async def test_a_request_and_a_stop(tmp_path: Path) -> None:
    """The question was not asked yet: nothing is lost that the next start could not ask again."""
    turn = ["touch begun", "wait-for go", "ask first", "hear first", "done {first}", "end"]
    async with crossing(tmp_path / "data", turn) as at:
        await wait_for_file(workspace(at.house, at.run_id) / "begun")

        async def stop() -> None:
            at.house.begin_stop()
            stopping.set_result(asyncio.create_task(at.house.worker.stop()))
            await asyncio.sleep(0)  # its owner is told, and has not gone on

        stopping: asyncio.Future[asyncio.Task[None]] = asyncio.get_running_loop().create_future()
        at.store.meanwhile = stop
        go(at.house, at.run_id)
        async with asyncio.timeout(PATIENCE):
            await (await stopping)
    async with playing(tmp_path / "data", turn) as place:
        await shown(place, at.run_id, 1)
        await place.client.reply(at.run_id, "yes")
        assert await said(place, at.run_id) == "yes"
        assert states(await place.client.events(at.run_id)) == ["queued", "running", *PAUSED, "succeeded"]


async def test_an_answer_and_the_end_of_the_turn(tmp_path: Path) -> None:
    """It is accepted, and the agent is not told any more; who judges the turn again must know that."""
    turn = ["ask first", "wait-for go", "done alone", "end"]
    async with crossing(tmp_path / "data", turn) as at:
        await at.until(State.WAITING_USER)
        at.store.meanwhile = lambda: at.house.jobs.reply(at.run_id, 1, WORDS, by="ann")
        go(at.house, at.run_id)
        await at.until(State.SUCCEEDED)
    async with playing(tmp_path / "data", turn) as place:
        assert await said(place, at.run_id) == "alone"
        (asked,) = await place.client.history(at.run_id)
        assert (asked["resolution_mode"], asked["response"]) == ("user_reply", WORDS)


class Unsteady:
    """A clock that fails once, when it is told to."""

    fails = False

    def __call__(self) -> datetime:
        if self.fails:
            self.fails = False
            raise OSError("no time")
        return utc_now()


async def test_a_pause_and_a_fault_of_ours(tmp_path: Path) -> None:
    clock, turn = Unsteady(), ["ask first", "wait-for go", "say one", "hear first"]
    async with crossing(tmp_path / "data", turn, clock) as at:
        await at.until(State.WAITING_USER)
        clock.fails = True
        go(at.house, at.run_id)
        failed = await at.until(State.FAILED)
        assert failed.error is not None
        assert failed.error.code is Code.INTERNAL_ERROR
        (attempt,) = await at.store.attempts(at.run_id)
        assert attempt.verdict == {"verdict": "interrupted"}


async def test_the_open_request_is_called_off_with_the_turn(tmp_path: Path) -> None:
    asks = ["ask first", "wait-for go", "say Which colour?", "end"]
    async with playing(tmp_path / "data", asks, ["hear first", "done {first}", "end"]) as place:
        run_id = await asking(place)
        go(place.house, run_id)
        await place.client.until(run_id, "queued")
        await shown(place, run_id, 2)
        await place.client.reply(run_id, "blue")
        assert await said(place, run_id) == "cancelled"


async def test_what_is_said_instead_withdraws_the_other_requests(tmp_path: Path) -> None:
    """The prompt that they belong to is over."""
    asks = ["ask first", "ask second", "hear first", "wait-for go", "say I see.", "end"]
    again = ["hear second", "say And then?", "end"]
    async with playing(tmp_path / "data", asks, again, ["done {words}", "end"]) as place:
        run_id = await asking(place)
        await place.client.reply(run_id, WORDS)
        await shown(place, run_id, 2)
        go(place.house, run_id)
        async for event in place.client.follow(run_id):
            if event["data"].get("interaction_id") == 3:
                break
        _, second, third = await place.client.history(run_id)
        assert (second["resolution_mode"], third["prompt"]) == ("withdrawn", "And then?")
        await place.client.reply(run_id, "ask Bob")
        assert await said(place, run_id) == "ask Bob"


async def test_an_agent_that_ends_its_turn_in_a_pause_and_leaves(tmp_path: Path) -> None:
    """What it said in its turn counts, however soon it is gone."""
    turn = ["ask first", "wait-for go", "done alone", "end", "leave"]
    async with playing(tmp_path / "data", turn) as place:
        run_id = await asking(place)
        (process,) = place.processes(run_id)
        go(place.house, run_id)
        deadline = time.monotonic() + PATIENCE
        # The loop of the service is kept busy: it learns of the end and of the exit together.
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < deadline
        assert await said(place, run_id) == "alone"


@pytest.mark.failure("X02")
async def test_a_wedged_agent_is_ended(tmp_path: Path) -> None:
    """It hears no request to stop, in a turn or in a pause of one."""
    for turn, has_asked in (
        (["touch busy", "wait-for never"], False),
        (["ask first", "wait-for never"], True),
    ):
        async with playing(tmp_path / f"data-{has_asked}", turn) as place:
            run_id = await place.client.create(engine="agent", **ASK)
            if has_asked:
                await shown(place, run_id, 1)
            else:
                await wait_for_file(workspace(place.house, run_id) / "busy")
            await place.client.cancel(run_id)
            assert (await place.client.ended(run_id))["status"] == "canceled"
            assert place.processes(run_id) == []
            assert place.house.dispatcher.busy == 0


async def test_a_request_that_is_taken_back_in_the_same_breath_is_none(tmp_path: Path) -> None:
    turn = ["ask first", "take-back first", "touch busy", "wait-for go", "done alone", "end"]
    async with playing(tmp_path / "data", turn) as place:
        run_id = await place.client.create(engine="agent", **ASK)
        await wait_for_file(workspace(place.house, run_id) / "busy")
        go(place.house, run_id)
        assert await said(place, run_id) == "alone"
        assert await place.client.history(run_id) == []


async def test_more_than_can_be_asked_about_is_refused(tmp_path: Path) -> None:
    turn = [*(f"ask r{number}" for number in range(102)), "wait-for go", "done x", "end cancelled"]
    async with playing(tmp_path / "data", turn) as place:
        run_id = await asking(place)
        go(place.house, run_id)
        assert await said(place, run_id) == "x"


async def test_an_agent_that_ends_a_prompt_twice(tmp_path: Path) -> None:
    again = ["ask first", "hear first", "say hm", "end", "end"]
    async with playing(tmp_path / "data", ["say Which?", "end"], again, ["done {words}", "end"]) as place:
        run_id = await asking(place)
        await place.client.reply(run_id, "blue")
        async for event in place.client.follow(run_id):
            if event["data"].get("interaction_id") == 2:
                break
        await place.client.reply(run_id, WORDS)
        assert await said(place, run_id) == WORDS
