"""A client whose service dies under its hands: it asks again, as a real one would, and remembers every promise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import httpx

from tests.crash.mortal import Mortal
from tests.harm import Harm, Violation, require
from tests.harness import PATIENCE, Client, Json
from turnkeeper.core.fcmp import TERMINAL
from turnkeeper.engines import census

T = TypeVar("T")

GONE = (httpx.NetworkError, httpx.RemoteProtocolError)
ENDED = ("succeeded", "failed", "canceled")
LOOK_EVERY_SEC = 0.005


@dataclass(slots=True)
class Stay:
    """A run as its client knows it."""

    run_id: str
    key: str
    body: Json
    seen: list[Json] = field(default_factory=list)
    """By the stream, across every restart."""
    replies: dict[int, str] = field(default_factory=dict)
    """Sent; whether they were taken is another matter."""
    receipts: set[int] = field(default_factory=set)
    is_canceled: bool = False
    """We were told so, or that it will be."""
    expected: tuple[str, str | None] = ("succeeded", None)
    echoes: bool = True
    """Its result is the last reply."""

    @property
    def asked(self) -> bool:
        return any(event["type"] == "user.input.required" for event in self.seen)

    @property
    def is_over(self) -> bool:
        return bool(self.seen) and self.seen[-1]["type"] in TERMINAL


class Guest:
    def __init__(self, service: Mortal) -> None:
        self.service = service
        self.stays: dict[str, Stay] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}

    async def insist(self, ask: Callable[[Client], Awaitable[T]]) -> T:
        """Asks until there is an answer, whatever becomes of the service meanwhile."""
        while True:
            life = self.service.starts
            try:
                async with asyncio.timeout(PATIENCE):
                    return await ask(self.service.client)
            except GONE:
                await self.revive(life)
            except TimeoutError:
                raise Violation(Harm.LOST, "a request was never answered") from None

    async def revive(self, life: int) -> None:
        """Once for each life, whoever notices first that it is over."""
        if self.service.starts == life:
            old = self.service.client
            self.service.fall()
            self.service.start()
            await old.http.aclose()

    async def strike(self) -> None:
        """The service is killed where it stands, and started again."""
        old = self.service.client
        self.service.strike()
        self.service.start()
        await old.http.aclose()

    async def leave(self) -> None:
        """The service is stopped in peace; it may be killed over that, and is then started and stopped again."""
        await self.rest()
        while self.service.is_running:
            life, deaths = self.service.starts, len(self.service.deaths)
            code = await self.service.stop()
            if code:
                require(self.service.fell_at(life, code), Harm.WRONG, f"a stop ended with {code}")
                require(len(self.service.deaths) == deaths + 1, Harm.WRONG, "it died twice")
                self.service.start()

    async def rest(self) -> None:
        """Nothing is followed any more."""
        followers, self._followers = self._followers, {}
        for each in followers.values():
            each.cancel()
        for ended in await asyncio.gather(*followers.values(), return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def abandon(self) -> None:
        """Something is wrong: nothing of it stays alive, and what is on the disk stays as it is."""
        for each in self._followers.values():
            each.cancel()
        await asyncio.gather(*self._followers.values(), return_exceptions=True)
        if self.service.is_running:
            await self.service.kill()
        if (self.service.data_dir / "turnkeeper.db").exists():
            await census.end_all(self.service.data_id, step_sec=0.5)

    # What a client asks for

    async def create(self, key: str, skill: str = "answer", script: Any = None, **body: Any) -> Stay:
        """With a key: asked again after a kill, it is still one run."""
        body = {"skill_id": skill, "engine": "demo"} | body
        if script is not None:
            body["parameter"] = {"demo_script": script}
        stay = Stay(await self.create_again(key, body), key, body)
        known = self.stays.setdefault(stay.run_id, stay)
        require(known is stay, Harm.WRONG, f"{key} was given the run of {known.key}")
        self.follow(stay)
        return stay

    async def create_again(self, key: str, body: Json) -> str:
        headers = {"Idempotency-Key": key}
        answer = await self.insist(lambda client: client.http.post("/v1/jobs", json=body, headers=headers))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["run_id"])

    def follow(self, stay: Stay) -> None:
        self._followers[stay.run_id] = asyncio.create_task(self._follow(stay))

    async def _follow(self, stay: Stay) -> None:
        while not stay.is_over:
            life = self.service.starts
            try:
                async with aclosing(
                    cast(Any, self.service.client.follow(stay.run_id, len(stay.seen)))
                ) as log:
                    async for event in log:
                        number = len(stay.seen) + 1
                        require(event["seq"] == number, Harm.LOST, f"not event {number}: {event}")
                        stay.seen.append(event)
            except GONE:
                await self.revive(life)
            else:
                if not stay.is_over:  # it stops, and whoever asked it to will start it again
                    await asyncio.sleep(LOOK_EVERY_SEC)

    async def hears(self, stay: Stay, type_: str, times: int = 1) -> None:
        """Until so many of these are in the log, or the run is over."""
        async with asyncio.timeout(PATIENCE):
            while not stay.is_over and sum(event["type"] == type_ for event in stay.seen) < times:
                await self._look(stay)

    async def _look(self, stay: Stay) -> None:
        follower = self._followers[stay.run_id]
        if follower.done():
            follower.result()
        await asyncio.sleep(LOOK_EVERY_SEC)

    async def settled(self, stay: Stay) -> Json:
        run = await self.insist(lambda client: client.settled(stay.run_id))
        is_settled = run["status"] in (*ENDED, "waiting_user")
        require(is_settled, Harm.LOST, f"the run never got on: {run}")
        return run

    async def converse(self, stay: Stay, words: str | None = None) -> Json:
        """Answers whatever is asked, until the run is over; each time with these words, or with others."""
        while (run := await self.settled(stay))["status"] not in ENDED:
            number = run["pending_interaction_id"]
            require(
                number not in stay.receipts, Harm.LOST, f"{number} was answered, and is open again: {run}"
            )
            await self.reply(stay, number, words or f"reply {number}")
        return run

    async def reply(self, stay: Stay, number: int, text: str) -> httpx.Response:
        stay.replies[number] = text
        answer = await self.insist(lambda client: client.post_reply(stay.run_id, number, text))
        assert answer.status_code in (200, 409), answer.text
        if answer.status_code == 200:
            stay.receipts.add(number)
        return answer

    async def cancel(self, stay: Stay) -> Json:
        told = await self.insist(lambda client: client.cancel(stay.run_id))
        stay.is_canceled = told["status"] == "canceled" or bool(told["ending"])
        return told

    async def ended(self, stay: Stay) -> Json:
        """The run when its stream has come to its end."""
        async with asyncio.timeout(PATIENCE):
            while not stay.is_over:
                await self._look(stay)
        return await self.insist(lambda client: client.get(stay.run_id))
