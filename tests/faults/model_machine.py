"""The state machine: what can be done to a service, in any order.

A failure is told as code, step by step: `test_model.py` has the place where it becomes a regression test.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.faults import model_runs as model
from tests.faults.model_base import Base, code_of, need, pick, step
from tests.faults.model_place import KEY_HOPS, Card, Listener, job
from tests.faults.model_runs import OK, Act, Outcome, Terms, World
from tests.harness import Json

MOST_RUNS, MOST_ALIVE = 8, 4
KEYS = ("a", "b")

which = st.integers(0, MOST_RUNS - 1)
"""Of those that a step can be done to."""
terms = st.builds(
    Terms,
    kind=st.runner().flatmap(lambda machine: st.sampled_from(machine.kinds)),
    strict=st.booleans(),
    loadable=st.sampled_from((True, True, False)),
    resumes=st.sampled_from((True, True, True, False)),
)
questions, last = st.integers(0, 2), st.sampled_from(Outcome)
words, person = st.sampled_from(("blue", "green", "")), st.sampled_from(("token", "page"))
then_crash = st.sampled_from((False, False, False, True))


@dataclass(frozen=True, slots=True)
class Key:
    body: Json
    run_id: str
    hop: int


class Machine(Base):
    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[str, Key] = {}

    # Jobs

    @initialize(terms=terms, questions=questions, last=last)
    def begin(self, terms: Terms, questions: int, last: Outcome) -> None:
        self.create(terms=terms, questions=questions, last=last, key=None, twice=False, then_crash=False)

    @rule(
        terms=terms,
        questions=questions,
        last=last,
        key=st.sampled_from((None, *KEYS)),
        twice=st.booleans(),
        then_crash=then_crash,
    )
    @step
    def create(
        self, terms: Terms, questions: int, last: Outcome, key: str | None, twice: bool, then_crash: bool
    ) -> None:
        """`twice`: at the same instant, by a client that heard no answer, if it has a key."""
        alive = self.some("queued", "running", "waiting_user")
        need(len(self.cards) < MOST_RUNS and len(alive) < MOST_ALIVE)
        outcomes = (*(Outcome.ASKS,) * questions, last)
        body, known = job(terms, outcomes), self._known(key)
        answers = self.run(self._create(body, key, 2 if twice and key else 1))
        if known is not None:
            assert answers == {(200, known.run_id) if known.body == body else (409, "IDEMPOTENCY_KEY_REUSED")}
        elif not self.place.disk_works:
            assert answers == {(503, "STORAGE_UNAVAILABLE")}
        else:
            assert len(answers) == 1, f"one request, several answers: {answers}"
            ((status, run_id),) = answers
            assert status == 200, run_id
            self.cards.append(Card(run_id, outcomes, {World(terms=terms)}))
            self._keep(key, body, run_id)
        if then_crash:
            self._crash()

    async def _create(self, body: Json, key: str | None, times: int) -> set[tuple[int, str]]:
        answers = await asyncio.gather(*(self.place.create(body, key) for _ in range(times)))
        return {(each.status_code, each.json().get("run_id") or each.json()["code"]) for each in answers}

    def _known(self, key: str | None) -> Key | None:
        known = self._keys.get(key) if key else None
        return known if known and self.place.hop - known.hop <= KEY_HOPS else None

    def _keep(self, key: str | None, body: Json, run_id: str) -> None:
        """A new key is the moment at which the old ones are forgotten."""
        if key is not None:
            now = self.place.hop
            self._keys = {name: each for name, each in self._keys.items() if now - each.hop <= KEY_HOPS}
            self._keys[key] = Key(body, run_id, now)

    @rule(key=st.sampled_from(KEYS))
    @step
    def create_again(self, key: str) -> None:
        """The same request, as a client sends it that is not sure."""
        need(self._known(key) is not None)
        known = self._keys[key]
        assert self.run(self._create(known.body, key, 1)) == {(200, known.run_id)}

    # Turns

    @rule(which=which, words=words)
    @step
    def goes_on(self, which: int, words: str) -> None:
        """The usual next thing."""
        self._usual_thing(pick(self.some("running", "waiting_user"), which), words)

    @rule(which=which)
    @step
    def output(self, which: int) -> None:
        card = self._bring("running", which)
        need(card.thoughts == 1)
        self.place.let_go_on(card, "say")
        self._apply(card, (model.speaks(disk_works=self.place.disk_works), OK))
        if self.place.disk_works:
            self.run(self._until(card, lambda: card.thoughts == 2))

    @rule(which=which, then_crash=then_crash)
    @step
    def turn_ends(self, which: int, then_crash: bool) -> None:
        """`then_crash`: the service is killed as soon as anything of it is heard."""
        card = self._bring("running", which)
        if not then_crash or not self.place.disk_works:
            self._ends(card)
            return
        heard, ends = len(card.log), self._exits(card)
        self.place.let_go_on(card, "say", "end")
        self.run(self._until(card, lambda: len(card.log) > heard))
        card.worlds |= model.every(card.worlds, ends)
        self._crash()

    @rule(which=which)
    @step
    def engine_is_killed(self, which: int) -> None:
        need(self.place.disk_works)
        card = pick([card for card in self.cards if card.world.holds_slot], which)
        for found in self.place.processes(card):
            os.kill(found.pid, signal.SIGKILL)
        card.worlds = model.every(card.worlds, model.engine_dies)

    # People

    @rule(which=which, words=words, by=person, then_crash=then_crash)
    @step
    def reply(self, which: int, words: str, by: str, then_crash: bool) -> None:
        card = self._bring("waiting_user", which)
        self._replies(card, (len(card.history), words, by))
        if then_crash:
            self._crash()

    @rule(which=which, words=words, by=person, after_ms=st.integers(0, 20))
    @step
    def reply_meets_crash(self, which: int, words: str, by: str, after_ms: int) -> None:
        """Nobody may have heard whether it was accepted; then both must be possible, and nothing between."""
        card = self._bring("waiting_user", which)
        number = len(card.history)

        async def both() -> httpx.Response | BaseException:
            await self.place.sign_in()
            replied = asyncio.create_task(self.place.reply(card, number, words, by))
            await asyncio.sleep(after_ms / 1000)  # spreads the kills over what they race; nothing waits by it
            self.place.cut_power()
            (answer,) = await asyncio.gather(replied, return_exceptions=True)
            await self.place.client.http.aclose()
            return answer

        answer = self.run(both())
        replies = model.reply(number, words, by, disk_works=self.place.disk_works)
        if isinstance(answer, httpx.Response):
            self._apply(card, (replies, code_of(answer)))
        else:
            assert isinstance(answer, httpx.TransportError), answer
            card.worlds |= model.every(card.worlds, replies)
        self._come_back(0, is_meant=False)

    @rule(which=which, first=words, second=words)
    @step
    def rivals_reply(self, which: int, first: str, second: str) -> None:
        """Two people at the same instant; if they say the same, both are told that it was taken."""
        card = self._bring("waiting_user", which)
        number = len(card.history)
        self._replies(card, (number, first, "page"), (number, second, "token"))

    @rule(which=which, number=st.integers(1, 4), words=words, by=person)
    @step
    def reply_anyhow(self, which: int, number: int, words: str, by: str) -> None:
        """To any question, in any state: the same again, a late rival, one that was never asked."""
        card = pick(self.cards, which)
        self._replies(card, (number, words, by))

    @rule(which=which, then_crash=then_crash)
    @step
    def cancel(self, which: int, then_crash: bool) -> None:
        card = pick(self.cards, which)
        (answer,) = self.run(self._all(self.place.cancel(card)))
        self._apply(card, (model.cancel(disk_works=self.place.disk_works), answer))
        if then_crash:
            self._crash()

    @rule(which=which, words=words, by=person)
    @step
    def reply_meets_cancel(self, which: int, words: str, by: str) -> None:
        card = self._bring("waiting_user", which)
        number, works = len(card.history), self.place.disk_works
        said, told = self.run(self._all(self.place.reply(card, number, words, by), self.place.cancel(card)))
        replies, cancels = model.reply(number, words, by, disk_works=works), model.cancel(disk_works=works)
        self._apply(card, (replies, said), (cancels, told))

    @rule(which=which)
    @step
    def turn_end_meets_cancel(self, which: int) -> None:
        """The verdict comes before the order to end, or not at all."""
        card = self._bring("running", which)
        ends = self._exits(card)
        self.place.let_go_on(card, "say", "end")
        (told,) = self.run(self._all(self.place.cancel(card)))
        self._apply(card, (_if_it_can(ends), OK), (model.cancel(disk_works=self.place.disk_works), told))

    # Time

    @rule(hops=st.sampled_from((1, -1, 4, 1252, -1252, 125_200)))
    @step
    def clock_jumps(self, hops: int) -> None:
        """Hours, a day, a year, a century. A question without a deadline is still open then."""
        need(bool(self._keys) or bool(self.some("waiting_user")))
        self._pass_time(hops)

    @rule(which=which, words=words, by=person)
    @step
    def reply_meets_deadline(self, which: int, words: str, by: str) -> None:
        need(self.place.disk_works)
        card = self._bring("waiting_user", which)
        number, late = len(card.history), max(card.world.asked_at, self.place.hop) + 1

        async def both() -> list[str]:
            replied = self._all(self.place.reply(card, number, words, by))
            answers, _ = await asyncio.gather(replied, self.place.set_clock(late))
            return answers

        (said,), passes = self.run(both()), model.passes_time(late)
        self._apply(card, (model.reply(number, words, by), said), (passes, OK))
        for other in self.cards:
            if other is not card:
                other.worlds = model.every(other.worlds, passes)

    # The service

    @rule(is_meant=st.booleans(), hops=st.sampled_from((0, 0, 1, -1)))
    @step
    def goes_down(self, is_meant: bool, hops: int) -> None:
        """Killed, or stopped as an operator does it; and comes back, perhaps much later."""
        if is_meant and self.place.disk_works:
            self.run(self.place.stop())
            self._come_back(hops, is_meant=True)
        else:
            self._crash(hops)

    @rule(which=which, is_new=st.booleans())
    @step
    def somebody_listens(self, which: int, is_new: bool) -> None:
        """Or goes away, or comes back to hear the rest."""
        if is_new:
            self.listeners.append(Listener(pick(self.cards, which)))
        listener = pick(self.listeners, -1 if is_new else which)
        self.run(listener.leave() if listener.is_there else self._listen(listener))

    async def _listen(self, listener: Listener) -> None:
        listener.come(self.place.client)


def _if_it_can(act: Act) -> Act:
    return lambda world: [*act(world)] or [(OK, world)]


class FaultyDisk(Machine):
    """The same with a disk that does not take a byte, for a while."""

    @rule()
    @step
    def disk_fails(self) -> None:
        need(self.place.disk_works)
        self.run(self.place.set_disk(works=False))

    @rule()
    @step
    def disk_works_again(self) -> None:
        need(not self.place.disk_works)
        self._heal()

    @rule(which=which)
    @step
    def raw_log_is_blocked(self, which: int) -> None:
        """Where the next turn's raw log should be, there is something else."""
        card = self._bring("waiting_user", which)
        self.place.raw(card, card.world.turn + 1).mkdir(exist_ok=True)
        card.worlds = {model.blocked(world) for world in card.worlds}
