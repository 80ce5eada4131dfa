"""A resident engine, its service or both are killed: which cases there are, how one is played, what must hold then.

A cycle is a run that is struck once. A round plays as many of them as the service has slots, since one restart
serves them all. Whatever is left to chance is decided by the seed of the deal.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product, starmap
from pathlib import Path

import httpx

from tests.crash.restarts import CUT_OFF, RECORD, WORKS, Daemon, started
from tests.harm import Harm, Violation
from tests.harness import PATIENCE, Json, assert_judged_alike, settings_for
from turnkeeper import wiring
from turnkeeper.core.statechart import State, Trigger, next_state
from turnkeeper.engines import census

RESIDENT: Json = {"execution_mode": "interactive", "interactive_profile": "sticky_process"}
QUESTIONS = 2
SPREAD_SEC = 0.015
"""About what a reply takes from the socket to the engine."""
BRISK = "0.2"
"""Seconds that an engine gets which does not want to end: there are many of them."""


class Victim(StrEnum):
    ENGINE = "engine"
    SERVICE = "service"
    BOTH = "both"


class Moment(StrEnum):
    SHOWN = "question shown"
    RACING = "reply racing"
    WORKING = "later turn"


@dataclass(frozen=True, slots=True)
class Kind:
    victim: Victim
    moment: Moment
    loadable: bool

    def __str__(self) -> str:
        return f"{self.victim}, {self.moment}, {'loadable' if self.loadable else 'unloadable'}"


KINDS = tuple(starmap(Kind, product(Victim, Moment, (True, False))))


class Habit(StrEnum):
    """What is alive besides, or after, an engine that was left alone: each has to be ended by somebody."""

    PLAIN = "plain"
    PARENT = "parent"
    LINGERS = "lingers"
    STUBBORN = "stubborn"


HABITS: dict[Habit, list[Json]] = {
    Habit.PLAIN: [],
    Habit.PARENT: [{"setsid_child": {"seconds": 600, "pid_file": "child.pid"}}],
    Habit.LINGERS: [{"linger": 600}],
    Habit.STUBBORN: [{"ignore_signals": True}, {"linger": 600}],
}


@dataclass(frozen=True, slots=True)
class End:
    status: str
    code: str | None = None


SUCCEEDED = End("succeeded")
PROCESS_LOST = End("failed", "INTERACTION_PROCESS_LOST")
CRASHED = End("failed", "ENGINE_CRASHED")
INTERRUPTED = End("failed", "RUN_INTERRUPTED")
ENDS = (SUCCEEDED, PROCESS_LOST, CRASHED, INTERRUPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    number: int
    kind: Kind
    question: int
    """Struck while this one is open, or in the turn that its reply opens."""
    engine_first: bool
    """The engine is dead before the reply is sent, or before the service is killed."""
    habit: Habit
    pause_sec: float
    """Before the kill that races something: it spreads the kills over what they race, and nothing waits by it."""

    @property
    def ends(self) -> set[End]:
        """How the run may end: several ways only where two things really happen at the same moment."""
        seen = {CRASHED} if self.engine_first else set()
        match (self.kind.victim, self.kind.moment, self.kind.loadable):
            case (_, Moment.SHOWN, True):
                return {SUCCEEDED}
            case (_, Moment.SHOWN, False):
                return {PROCESS_LOST}
            case (Victim.ENGINE, Moment.WORKING, _):
                return {CRASHED}
            case (_, Moment.WORKING, True):
                return {SUCCEEDED} | seen
            case (_, Moment.WORKING, False):
                return {INTERRUPTED} | seen
            case (_, Moment.RACING, True) if self.engine_first:
                return {SUCCEEDED}  # a reply to a dead process is never written into its pipe
            case (_, Moment.RACING, False) if self.engine_first:
                return {PROCESS_LOST}
            case (Victim.ENGINE, Moment.RACING, True):
                return {SUCCEEDED, CRASHED}
            case (Victim.ENGINE, Moment.RACING, False):
                return {PROCESS_LOST, CRASHED, SUCCEEDED}  # the last turn may be over before the kill
            case (_, Moment.RACING, True):
                return {SUCCEEDED}
            case _:
                return {PROCESS_LOST, INTERRUPTED}

    @property
    def script(self) -> Json:
        turns: list[list[Json]] = [
            [*HABITS[self.habit], {"record": RECORD}, {"say": "Which colour?"}],
            [{"record": RECORD}, {"say": "Which words?"}],
            [{"record": RECORD}, {"result": {"answer": "{{replies.1}}|{{replies.2}}"}}],
        ]
        if self.is_held:
            turns[self.question][:1] = WORKS
        return {"turns": turns, "loadable": self.kind.loadable}

    @property
    def is_held(self) -> bool:
        """The turn after the reply stays in its middle until it is told to go on.

        Otherwise an engine whose service is gone could finish it unheard, and its session would be a turn ahead.
        """
        return self.kind.moment is Moment.WORKING or (
            self.kind.moment is Moment.RACING and self.kind.victim is not Victim.ENGINE
        )

    def reply(self, question: int) -> str:
        return f"reply {self.number}.{question}"


def deal(seed: int, count: int, slots: int) -> list[list[Cycle]]:
    """Rounds in which every kind comes equally often, as far as the count goes."""
    chance = random.Random(seed)
    kinds = [kind for _ in range(count // len(KINDS)) for kind in KINDS]
    kinds += chance.sample(KINDS, count - len(kinds))
    chance.shuffle(kinds)
    cycles = [
        Cycle(
            number=number,
            kind=kind,
            question=chance.randint(1, QUESTIONS),
            engine_first=_may_choose(kind) and chance.random() < 0.5,
            habit=chance.choice(list(Habit)),
            pause_sec=chance.uniform(0, SPREAD_SEC),
        )
        for number, kind in enumerate(kinds, 1)
    ]
    rounds = []
    for with_restart in (False, True):
        alike = [cycle for cycle in cycles if (cycle.kind.victim is not Victim.ENGINE) is with_restart]
        rounds += [alike[start : start + slots] for start in range(0, len(alike), slots)]
    chance.shuffle(rounds)
    return rounds


def _may_choose(kind: Kind) -> bool:
    return kind.victim is Victim.BOTH or (kind.victim is Victim.ENGINE and kind.moment is Moment.RACING)


@asynccontextmanager
async def service(data_dir: Path, slots: int) -> AsyncIterator[Daemon]:
    """With so many slots, all of them for residents. What is killed around it is no fault of its own."""
    async with started(
        data_dir,
        TURNKEEPER_SLOTS=str(slots),
        TURNKEEPER_STICKY_SLOTS=str(slots),
        TURNKEEPER_TIMEOUTS__STEP_SEC=BRISK,
        TURNKEEPER_TIMEOUTS__RESULT_GRACE_SEC=BRISK,
    ) as daemon:
        yield daemon
    log = (data_dir.parent / "service.log").read_text()
    if faults := re.findall(r"^.*(?: ERROR |Traceback).*$", log, re.MULTILINE):
        raise Violation(Harm.WRONG, f"the service logged {faults}")


@dataclass(slots=True)
class Tally:
    cycles: Counter[Kind] = field(default_factory=Counter)
    ends: Counter[tuple[Kind, End]] = field(default_factory=Counter)
    runs: int = 0
    replies: int = 0
    kills: int = 0
    restarts: int = 0
    harms: Counter[Harm] = field(default_factory=Counter)


async def play(daemon: Daemon, cycles: Sequence[Cycle], tally: Tally) -> None:
    """One round: all are brought to their moment, struck, and followed to their end."""
    residents = [Resident(daemon, cycle, tally) for cycle in cycles]
    try:
        await _play(daemon, residents, tally)
    except Exception as error:
        error.add_note("\n".join(("in a round of", *map(str, residents))))
        raise
    tally.cycles.update(cycle.kind for cycle in cycles)


async def _play(daemon: Daemon, residents: Sequence[Resident], tally: Tally) -> None:
    await _each(residents, Resident.arrive)
    await _expect_slots(daemon, busy=len(residents), waiting=sum(each.waits for each in residents))
    if residents[0].cycle.kind.victim is Victim.ENGINE:
        await _each(residents, Resident.strike)
    else:
        await _strike_service(daemon, residents)
        tally.kills, tally.restarts = tally.kills + 1, tally.restarts + 1
    await _each(residents, Resident.outlive)
    await _expect_rest(daemon)
    fresh = await _fill(daemon)
    await _each(residents, Resident.finish)
    await _expect_rest(daemon)
    await _each(residents, Resident.check)
    await _expect_same_verdicts(daemon, [*fresh, *(each.run_id for each in residents)])
    tally.runs += len(residents) + len(fresh)


async def _strike_service(daemon: Daemon, residents: Sequence[Resident]) -> None:
    mark = daemon.data_id
    both = [each for each in residents if each.cycle.kind.victim is Victim.BOTH]
    await _each([each for each in both if each.cycle.engine_first], Resident.kill_engine)
    racing = [each for each in residents if each.cycle.kind.moment is Moment.RACING]
    replies = asyncio.ensure_future(_each(racing, Resident.send_reply))
    await asyncio.sleep(residents[0].cycle.pause_sec)
    os.kill(daemon.pid, signal.SIGKILL)
    await _each([each for each in both if not each.cycle.engine_first], Resident.kill_engine)
    await replies
    await daemon.kill()
    for each in residents:
        # Otherwise nothing would be left for the next start to end.
        assert census.find(f"{mark}/{each.run_id}") or not each.outlives_service, each
    daemon.start()
    left = census.find(mark)
    old = [found for found in left if any(found in each.old for each in residents)]
    if old:
        raise Violation(Harm.LEFTOVER, f"processes of the killed service live on: {old}")


class Resident:
    """The run of a cycle."""

    def __init__(self, daemon: Daemon, cycle: Cycle, tally: Tally) -> None:
        self.cycle = cycle
        self.run_id = ""
        self.old: list[census.Found] = []
        self._daemon = daemon
        self._tally = tally
        self._engine: census.Found  # once it has arrived
        self._seen: list[Json] = []
        self._receipts: set[int] = set()
        self._deadline: str | None = None

    def __str__(self) -> str:
        return f"run {self.run_id} of {self.cycle}"

    @property
    def waits(self) -> bool:
        return self.cycle.kind.moment is not Moment.WORKING

    @property
    def outlives_service(self) -> bool:
        """An engine in a turn may say something that nobody reads any more: it dies of that, its child does not."""
        kind, habit = self.cycle.kind, self.cycle.habit
        is_silent = habit is not Habit.PLAIN and kind.moment is not Moment.RACING
        return kind.victim is Victim.SERVICE and (is_silent or habit is Habit.PARENT)

    async def arrive(self) -> None:
        """Until it is where it will be struck."""
        client, cycle = self._daemon.client, self.cycle
        self.run_id = await client.create(script=cycle.script, **RESIDENT, session_timeout_sec=600)
        for question in range(1, cycle.question):
            await self._asked(question)
            await self.send_reply(question)
        self._deadline = (await self._asked(cycle.question))["wait_deadline_at"]
        if not self.waits:
            await self.send_reply()
            await self._daemon.in_the_middle(self.run_id)
        self._seen = await client.events(self.run_id)
        self.old = self._daemon.processes(self.run_id)
        assert len(self.old) == (2 if cycle.habit is Habit.PARENT else 1), self.old
        pid = self._daemon.turns(self.run_id)[-1]["pid"]
        (self._engine,) = [found for found in self.old if found.pid == pid]

    async def _asked(self, question: int) -> Json:
        run = await self._daemon.client.settled(self.run_id)
        assert (run["status"], run["pending_interaction_id"]) == ("waiting_user", question), run
        return run

    async def send_reply(self, question: int | None = None) -> None:
        question = question or self.cycle.question
        client = self._daemon.client
        try:
            answer = await client.post_reply(self.run_id, question, self.cycle.reply(question))
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            # The service died over it: it may have been heard or not, and whoever sent it has to ask.
            assert self.cycle.kind.victim is not Victim.ENGINE
            return
        assert answer.status_code in (200, 409), answer.text
        if answer.status_code == 200:
            self._receipts.add(question)

    async def kill_engine(self) -> None:
        """Sent at once, and waited for until it is dead; not every engine is still there when its service is gone."""
        survivors = await census.end([self._engine], signals=(signal.SIGKILL,), step_sec=PATIENCE)
        assert not survivors
        self._tally.kills += 1

    async def strike(self) -> None:
        """The engine alone."""
        if self.cycle.kind.moment is not Moment.RACING:
            await self.kill_engine()
        elif self.cycle.engine_first:
            await self.kill_engine()
            await self.send_reply()
        else:
            reply = asyncio.ensure_future(self.send_reply())
            await asyncio.sleep(self.cycle.pause_sec)
            await self.kill_engine()
            await reply

    async def outlive(self) -> None:
        """Until it holds nothing: it has ended, or its question is open and its process is gone."""
        if self.cycle.kind.moment is not Moment.SHOWN:
            self._daemon.go_on(self.run_id)
            await self.finish()
        elif not self.cycle.kind.loadable:
            await self._daemon.client.ended(self.run_id)
            late = await self._daemon.client.post_reply(self.run_id, self.cycle.question, "too late")
            assert (late.status_code, late.json()["state"]) == (409, "failed")
        else:
            run = await self._preserved()
            assert (run["status"], run["pending_interaction_id"]) == ("waiting_user", self.cycle.question)
            assert run["wait_deadline_at"] == self._deadline

    async def _preserved(self) -> Json:
        """A process that ends is noted without an event: the question was open before, and still is."""
        while True:
            run = await self._daemon.client.get(self.run_id)
            if run["recovery"] is not None:
                assert run["recovery"]["trigger"] == "restart.preserve_waiting", run
                return run
            await asyncio.sleep(0.005)

    async def finish(self) -> None:
        """Whatever is asked is answered, to the end of the run."""
        while (run := await self._daemon.client.settled(self.run_id))["status"] == "waiting_user":
            question = run["pending_interaction_id"]
            if question in self._receipts:
                raise Violation(Harm.LOST, f"the reply to question {question} was accepted, and is gone")
            await self.send_reply(question)
        if run["finished_at"] is None:
            raise Violation(Harm.LOST, f"the run got stuck: {run}")

    async def check(self) -> None:
        client, cycle = self._daemon.client, self.cycle
        run, events = await client.get(self.run_id), await self._daemon.log(self.run_id)
        end = End(run["status"], run["error"] and run["error"]["code"])
        assert end in cycle.ends, run
        assert events[: len(self._seen)] == self._seen
        self._check_story(run, events, end)
        self._check_replies(run, events, await client.history(self.run_id))
        if end == SUCCEEDED:
            said = (await client.result(self.run_id))["answer"].split("|")
            # Who was cut off before it had read the reply gets it at the end of the words that say so.
            assert [text.split("\n\n")[-1].strip() for text in said] == [cycle.reply(1), cycle.reply(2)], said
        if cycle.kind.moment is Moment.SHOWN:
            self._check_processes(run)
        self._tally.ends[cycle.kind, end] += 1

    def _check_story(self, run: Json, events: list[Json], end: End) -> None:
        """Every step is one of the table, and it is told what the kill has led to."""
        changes = [event["data"] for event in events if event["type"] == "conversation.state.changed"]
        for change in changes:
            assert next_state(State(change["from"]), Trigger(change["trigger"])) == change["to"]
        recovered = run["recovery"] and run["recovery"]["trigger"]
        match (self.cycle.kind.victim, self.cycle.kind.moment, end):
            case (_, Moment.SHOWN, End("succeeded")):
                assert recovered == "restart.preserve_waiting"
            case (Victim.ENGINE, Moment.SHOWN, _):
                assert (changes[-1]["trigger"], recovered) == ("interaction.process_lost", None)
            case (Victim.SERVICE, Moment.SHOWN, _):
                assert changes[-1]["trigger"] == recovered == "restart.reconcile_failed"
            case (_, Moment.WORKING, End("succeeded")):
                assert recovered == "restart.resume_turn"
            case (_, Moment.WORKING, End(_, "RUN_INTERRUPTED")):
                assert changes[-1]["trigger"] == recovered == "restart.reconcile_failed"

    def _check_replies(self, run: Json, events: list[Json], history: list[Json]) -> None:
        """Each that was accepted opened one turn, and no engine was told it twice as if it were new."""
        answered = [each["interaction_id"] for each in history if each["response"] is not None]
        accepted = [e["data"]["interaction_id"] for e in events if e["type"] == "interaction.reply.accepted"]
        told = [turn["prompt"] for turn in self._daemon.turns(self.run_id) if CUT_OFF not in turn["prompt"]]
        if lost := self._receipts - set(answered):
            raise Violation(Harm.LOST, f"accepted, and not in the history: {lost}")
        if accepted != answered or run["attempt_number"] != 1 + len(answered):
            raise Violation(Harm.DOUBLED, f"{answered} answered, {accepted} accepted: {run}")
        if len(told) != len(set(told)):
            raise Violation(Harm.DOUBLED, f"the engine was told {told}")
        assert [each["response"] for each in history[: len(answered)]] == [
            self.cycle.reply(number) for number in answered
        ]
        self._tally.replies += len(answered)

    def _check_processes(self, run: Json) -> None:
        """One before the kill; one after it that has loaded the session, and stays for what is left."""
        turns = self._daemon.turns(self.run_id)
        before, after = (
            {turn["pid"] for turn in some}
            for some in (turns[: self.cycle.question], turns[self.cycle.question :])
        )
        assert before == {self._engine.pid}
        assert len(after) == (1 if self.cycle.kind.loadable else 0)
        assert not before & after
        assert [turn["turn"] for turn in turns] == list(range(run["attempt_number"]))


async def _each(residents: Sequence[Resident], step: Callable[[Resident], Awaitable[None]]) -> None:
    """All at once; the first that fails ends the others, and says which cycle it was."""

    async def bounded(resident: Resident) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await step(resident)
        except TimeoutError:
            raise Violation(Harm.LOST, f"it never got on: {resident}") from None
        except Exception as error:
            error.add_note(f"about {resident}")
            raise

    tasks = [asyncio.ensure_future(bounded(each)) for each in residents]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _fill(daemon: Daemon) -> list[str]:
    """As many new residents as there are slots, at work at the same moment: a leaked slot would keep one in line."""
    slots = (await _gauges(daemon))["slots"]
    script = {"turns": [[*WORKS, {"result": {"answer": "42"}}]]}
    runs = [await daemon.client.create(script=script, **RESIDENT) for _ in range(slots)]
    try:
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*map(daemon.in_the_middle, runs))
    except TimeoutError:
        raise Violation(Harm.SLOT, f"no room for {slots} new runs: {await _gauges(daemon)}") from None
    for run_id in runs:
        daemon.go_on(run_id)
    for run_id in runs:
        assert (await daemon.client.ended(run_id))["status"] == "succeeded"
        await daemon.log(run_id)
    return runs


async def _expect_rest(daemon: Daemon) -> None:
    """Every run has ended or waits without a process."""
    if left := daemon.processes():
        raise Violation(Harm.LEFTOVER, f"{left}")
    await _expect_slots(daemon, busy=0, waiting=0)


async def _expect_slots(daemon: Daemon, *, busy: int, waiting: int) -> None:
    """A slot is given back a moment after the change that everybody sees."""
    deadline = time.monotonic() + PATIENCE
    while (found := await _gauges(daemon)) != found | {
        "slots_busy": busy,
        "slots_waiting": waiting,
        "queue": 0,
    }:
        if time.monotonic() > deadline:
            raise Violation(Harm.SLOT, f"{busy} busy and {waiting} waiting were expected: {found}")
        await asyncio.sleep(0.005)


async def _gauges(daemon: Daemon) -> dict[str, int]:
    text = (await daemon.client.http.get("/metrics")).text
    found = re.findall(r"^turnkeeper_(slots|slots_busy|slots_waiting|queue) (\d+)", text, re.MULTILINE)
    return {name: int(value) for name, value in found}


async def _expect_same_verdicts(daemon: Daemon, runs: Sequence[str]) -> None:
    """The stored bytes of each turn are judged again, beside the service."""
    async with wiring.archive(settings_for(daemon.data_dir)) as archive:
        for run_id in runs:
            run, asked = await archive.store.run(run_id), await archive.store.interactions(run_id)
            assert run is not None
            for attempt in await archive.store.attempts(run_id):
                assert_judged_alike(archive.stage, run, attempt, asked)
