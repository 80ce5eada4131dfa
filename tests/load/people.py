"""Who makes runs and answers them: each run has somebody who brings it to its end, each question many who answer it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

from tests.crash.restarts import RECORD
from tests.harm import Harm, Violation
from tests.harness import Json
from tests.load.plan import Book, Plan, Winner
from tests.load.wire import OPERATOR, Answer, Person, Wire

ASKS: list[Json] = [{"record": RECORD}, {"say": "Which colour?"}]
ANSWERS: list[Json] = [{"record": RECORD}, {"result": {"answer": "{{reply}}"}}]
# `repeat_last`: an engine that has finished its turn unheard, because the service died, is asked to go on.
SCRIPTS: list[Json] = [
    {"repeat_last": True, "turns": [ASKS] * questions + [ANSWERS]} for questions in range(3)
]
WAITS_ONCE = SCRIPTS[1]
# An engine that is silent when the service is killed does not die of its closed pipe: the next start has to end it.
SCRIPTS.append({"repeat_last": True, "turns": [[{"linger": 600}, *ANSWERS]]})
HOW_OFTEN = (4, 4, 4, 1)
OVER = ("succeeded", "failed", "canceled")
RACES = 8
"""At the same time: each has a connection for every rival."""
TAKES_UP = 0.3
"""Of those who begin something: how many answer a run that waits, and leave another one waiting instead."""
SENDS_TWICE = 0.2
"""Of new jobs: how many are sent twice at the same moment, with the same key."""


class People:
    def __init__(self, wire: Wire, book: Book, plan: Plan) -> None:
        self._wire = wire
        self._book = book
        self._plan = plan
        self._racing = asyncio.Semaphore(RACES)
        self._persons: list[Person] = [OPERATOR]

    async def arrive(self) -> None:
        self._persons.append(await self._wire.sign_in())

    async def bring(self, goes_on: Callable[[], bool]) -> None:
        """One run after the other, each to its end, for as long as it goes on."""
        chance = self._book.chance
        while goes_on():
            if chance.random() < TAKES_UP and (found := self._book.take_waiting()):
                self._book.waiting.append(await self._leave_one())
                await self._bring(found)
            else:
                await self._bring(await self._create(*chance.choices(SCRIPTS, HOW_OFTEN)))

    async def _leave_one(self) -> str:
        """A new run that waits: somebody will answer it later, or nobody."""
        while True:
            run_id = await self._create(WAITS_ONCE)
            run = await self._settled(run_id)
            if run["status"] == "waiting_user":
                return run_id
            self._book.end(run)  # its engine was killed, or its turn was cut off and went on

    async def _bring(self, run_id: str) -> None:
        self._book.flying.append(run_id)
        while (run := await self._settled(run_id))["status"] not in OVER:
            await self._race(run_id, run["pending_interaction_id"])
        self._book.flying.remove(run_id)
        self._book.end(run)

    async def _create(self, script: Json) -> str:
        """With a key: however often it is sent, it is one run."""
        key = uuid.UUID(int=self._book.chance.getrandbits(128)).hex
        mode = "auto" if len(script["turns"]) == 1 else "interactive"
        body: Json = {"skill_id": "answer", "engine": "demo", "execution_mode": mode}
        body["parameter"] = {"demo_script": script}
        times = 2 if self._book.chance.random() < SENDS_TWICE else 1
        answers = await asyncio.gather(
            *(self._wire.insist("POST", "/v1/jobs", body, Idempotency_Key=key) for _ in range(times))
        )
        for answer, is_again in answers:
            _expect(answer, 200)
            self._note("POST /v1/jobs", answer, is_again)
            run_id = answer.json["run_id"]
            if (known := self._book.accepted.setdefault(key, run_id)) != run_id:
                raise Violation(Harm.DOUBLED, f"one key, two runs: {known} and {run_id}")
        self._book.told["jobs sent again"] += times - 1 + sum(is_again for _, is_again in answers)
        return self._book.accepted[key]

    async def _settled(self, run_id: str) -> Json:
        while True:
            answer, _ = await self._wire.insist("GET", f"/v1/jobs/{run_id}", Prefer="wait=20")
            _expect(answer, 200)
            run = answer.json
            if run["status"] in OVER or run["pending_interaction_id"] is not None:
                return run

    async def _race(self, run_id: str, question: int) -> None:
        """All at once, with different words, as different people: one of them is heard."""
        async with self._racing:
            rivals = [
                (f"{question}.{number} of {run_id}", self._persons[number % len(self._persons)])
                for number in range(self._plan.rivals)
            ]
            self._book.chance.shuffle(rivals)
            answers = await asyncio.gather(*(self._reply(run_id, question, *rival) for rival in rivals))
            won = [at for at, answer in enumerate(answers) if answer.status == 200]
            if len(won) != 1:
                raise Violation(Harm.DOUBLED, f"{len(won)} replies to {question} of {run_id} were accepted")
            (text, who), receipt = rivals[won[0]], answers[won[0]].json
            winner = Winner(text, who.by, receipt["accepted_at"])
            if self._book.winners.setdefault((run_id, question), winner) != winner:
                raise Violation(Harm.DOUBLED, f"question {question} of {run_id} had another winner before")
            for answer in answers:
                if answer.status != 200:
                    _expect_refusal(answer, question, winner)
            again = await self._reply(run_id, question, text, who)
            _expect(again, 200)
            if again.json["accepted_at"] != winner.accepted_at:
                raise Violation(Harm.DOUBLED, f"two receipts for one reply: {receipt}, {again.json}")
        self._book.told["replies accepted"] += 1
        self._book.told["rivals refused"] += len(rivals) - 1

    async def _reply(self, run_id: str, question: int, text: str, who: Person) -> Answer:
        body = {"interaction_id": question, "response": text}
        path = f"/v1/jobs/{run_id}/interaction/reply"
        answer, is_again = await self._wire.insist("POST", path, body, who=who)
        self._note("POST reply", answer, is_again)
        return answer

    def _note(self, call: str, answer: Answer, is_again: bool) -> None:
        if not is_again:
            self._book.took.setdefault(call, []).append(answer.seconds)


def _expect(answer: Answer, status: int) -> None:
    if answer.status != status:
        raise Violation(Harm.WRONG, f"{answer.status} instead of {status}: {answer.body[:500]!r}")


def _expect_refusal(answer: Answer, question: int, winner: Winner) -> None:
    """Whoever was too late is told who was not."""
    _expect(answer, 409)
    told = answer.json
    seen = told["code"], told["answered_interaction_id"], told["answered_by"], told["accepted_at"]
    wanted = "INTERACTION_ANSWERED", question, winner.by, winner.accepted_at
    if seen != wanted:
        raise Violation(Harm.WRONG, f"the loser was told {seen}, and it was {wanted}")
