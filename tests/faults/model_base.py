"""What all steps of the state machine share: how a step is told, how everything comes to rest after it, and the end.

Between two steps nothing is under way: whatever can go on by itself has gone on, and what is seen then is one of the
worlds that the model allows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

import httpx
from hypothesis.stateful import RuleBasedStateMachine

from tests.faults import model_promises as promises
from tests.faults import model_runs as model
from tests.faults.model_nursery import Nursery
from tests.faults.model_place import PAST, SPARE, Card, Listener, Place
from tests.faults.model_runs import OK, Act, Kind
from tests.harness import PATIENCE

log = logging.getLogger(__name__)

Method = TypeVar("Method", bound=Callable[..., None])
T = TypeVar("T")


class NothingToDo(Exception):
    """A step that is not possible now. It is no precondition: where a race decides what is possible, the same draws
    would not be the same steps, and hypothesis wants them to be."""


def pick(things: Sequence[T], which: int) -> T:
    need(bool(things))
    return things[which % len(things)]


def need(fact: bool) -> None:
    if not fact:
        raise NothingToDo


def code_of(answer: httpx.Response) -> str:
    return OK if answer.status_code == 200 else str(answer.json()["code"])


def told(method: Method) -> Method:
    """Written down as code before it is done."""

    @wraps(method)
    def noted(self: Base, **given: Any) -> None:
        values = ", ".join(f"{name}={value!r}" for name, value in given.items())
        self.story.append(f"state.{method.__name__}({values})")
        try:
            method(self, **given)
        except NothingToDo:
            assert not self.is_replay, f"nothing to do: {self.story[-1]}"
            self.story[-1] += "  # nothing to do"
        except BaseException:
            self.is_broken = True
            # Of a failure that does not come again hypothesis tells only that.
            log.exception("\n".join(("the steps, as code:", *self.story, "the runs:", *self.tell_runs())))
            raise

    return cast(Method, noted)


def step(method: Method) -> Method:
    """After it everything is at rest, and as it was promised."""

    @told
    @wraps(method)
    def stepped(self: Base, **given: Any) -> None:
        method(self, **given)
        self.run(self.settle())

    return cast(Method, stepped)


class Base(RuleBasedStateMachine):
    nursery: ClassVar[Nursery]
    kinds: ClassVar[Sequence[Kind]] = tuple(Kind)
    slots: ClassVar[int] = 2
    sticky_slots: ClassVar[int] = 1
    is_replay = False
    """Its steps were chosen by somebody: one that is not possible would make the story tell less than it says."""

    def __init__(self) -> None:
        super().__init__()
        self.story: list[str] = []
        self.cards: list[Card] = []
        self.listeners: list[Listener] = []
        self.is_broken = False
        self._runner = asyncio.Runner()
        self.place = Place(self.nursery, slots=self.slots, sticky_slots=self.sticky_slots)
        self.place.start()

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(doing)

    def tell_runs(self) -> list[str]:
        return [f"{card.run_id}: {card.view} may be {card.worlds}" for card in self.cards]

    def teardown(self) -> None:
        try:
            if not self.is_broken:
                self.finish()
        finally:
            self.run(self._leave())
            self._runner.close()

    @told
    def finish(self) -> None:
        """Everything that takes longer to look at, while the service answers and when it has stopped."""
        if not self.place.disk_works:
            self._heal()
            self.run(self.settle())
        self.run(promises.assert_all_kept(self.place, self.cards, self.listeners))
        for card in self.some("queued", "running"):
            (answer,) = self.run(self._all(self.place.cancel(card)))
            self._apply(card, (model.cancel(), answer))
        self.run(self._stop_for_good())

    async def _stop_for_good(self) -> None:
        """All that is left are runs that wait for a person, and those that have ended."""
        await self.settle()
        for listener in self.listeners:
            await listener.leave()
        await self.place.stop()
        await promises.assert_left_in_order(self.place, self.cards)

    async def _leave(self) -> None:
        for listener in self.listeners:
            await listener.leave()
        await self.place.clear()

    # Looking

    async def settle(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not await self._is_still():
            assert time.monotonic() < deadline, "the runs do not come to rest where they should"
            await asyncio.sleep(0.004)
        for card in self.cards:
            card.worlds = card.legal
            if card.view["status"] == "running":
                card.worlds = model.in_the_middle(card.worlds)
                assert card.worlds, f"{card.run_id} plays a turn that has no raw log"
            promises.assert_asked_before_shown(card)
            promises.assert_secret_hidden(card)
        promises.assert_processes(self.cards, self.place.processes())
        for listener in self.listeners:
            assert listener.heard == listener.card.log[: len(listener.heard)]

    async def _is_still(self) -> bool:
        before = {card.run_id for card in self.cards if card.view.get("status") in PAST}
        await self.place.look(self.cards)
        for card in self.cards:
            promises.assert_told_alike(card)
            if card.view["status"] in PAST and card.run_id not in before:
                left = self.place.processes(card)
                assert not left, f"{card.run_id} has ended, and something of it is alive: {left}"
        if not all(self._is_at_rest(card) for card in self.cards):
            return False
        slots = (await self.place.get("/v1/status"))["slots"]
        return (slots["busy"], slots["sticky"]) == self._held()

    def _is_at_rest(self, card: Card) -> bool:
        """It stands still where it may; it is in line only if there is no room."""
        status, is_resident = card.view["status"], card.terms.kind is Kind.RESIDENT
        is_ending = card.view["ending"] and status not in PAST
        if is_ending or not card.legal or (status == "running" and not card.thoughts):
            return False
        busy, sticky = self._held()
        is_room = busy < self.slots and not (is_resident and sticky >= self.sticky_slots)
        return status != "queued" or not (is_room and self.place.disk_works)

    def _held(self) -> tuple[int, int]:
        """How many slots are held now, and how many of them by residents."""
        held = [card for card in self.cards if any(world.holds_slot for world in card.legal)]
        return len(held), sum(card.terms.kind is Kind.RESIDENT for card in held)

    def some(self, *states: str) -> list[Card]:
        """Those in such a state; a turn that the disk has spoiled is over in all but name."""
        return [card for card in self.cards if card.view["status"] in states and not card.world.doom]

    # Doing

    def _bring(self, state: str, which: int) -> Card:
        """One that is in that state, or can be brought there by the usual next things."""
        while not self.some(state):
            card = pick(self.some("running", "waiting_user"), which)
            need(self.place.disk_works)
            self._usual_thing(card, "blue")
            self.run(self.settle())
        return pick(self.some(state), which)

    def _usual_thing(self, card: Card, words: str) -> None:
        if card.view["status"] == "waiting_user":
            self._replies(card, (len(card.history), words, "token"))
        else:
            self._ends(card)

    def _ends(self, card: Card) -> None:
        card.worlds = model.every(card.worlds, self._exits(card))
        self.place.let_go_on(card, "say", "end")

    def _exits(self, card: Card) -> Act:
        outcome = (*card.outcomes, *SPARE)[self.place.playing(card)]
        return model.exits(outcome, self.place.hop, disk_works=self.place.disk_works)

    def _replies(self, card: Card, *said: tuple[int, str, str]) -> None:
        answers = self.run(self._all(*(self.place.reply(card, *each) for each in said)))
        acts = [model.reply(*each, disk_works=self.place.disk_works) for each in said]
        self._apply(card, *zip(acts, answers, strict=True))

    async def _all(self, *calls: Coroutine[Any, Any, httpx.Response]) -> list[str]:
        """At the same instant."""
        await self.place.sign_in()
        return [code_of(answer) for answer in await asyncio.gather(*calls)]

    async def _until(self, card: Card, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline, f"{card.run_id} never said anything"
            await self.place.look(self.cards)

    def _apply(self, card: Card, *done: tuple[Act, str]) -> None:
        legal = model.after(card.worlds, *done)
        assert legal, f"{card.run_id}: no order explains the answers {[answer for _, answer in done]}"
        card.worlds = legal

    def _everywhere(self, act: Act) -> None:
        for card in self.cards:
            card.worlds = model.every(card.worlds, act)

    def _pass_time(self, hops: int) -> None:
        self.run(self.place.set_clock(self.place.hop + hops))
        if self.place.disk_works:
            self._everywhere(model.passes_time(self.place.hop))

    def _heal(self) -> None:
        self.run(self.place.set_disk(works=True))
        self._everywhere(model.heal)
        self._pass_time(0)

    # The service goes down

    def _crash(self, hops: int = 0) -> None:
        self.run(self.place.kill())
        self._come_back(hops, is_meant=False)

    def _come_back(self, hops: int, *, is_meant: bool) -> None:
        self._everywhere(model.goes_down(is_meant=is_meant))
        for card in self.cards:
            self.place.stand_still_again(card)
        self.place.hop += hops
        self.place.start()
        self._everywhere(model.passes_time(self.place.hop))
        self.run(self._same_past())

    async def _same_past(self) -> None:
        for listener in self.listeners:
            await listener.leave()
        for card in self.cards:
            if card.view:
                again = await self.place.reread(card)
                assert again == card.log, f"the past of {card.run_id} is another one now"
