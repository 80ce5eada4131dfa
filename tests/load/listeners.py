"""Who listens: each follows a run, loses its connection, and picks up after the last event that it has seen."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

from tests.harm import Harm, Violation
from tests.load.plan import Book, Heard
from tests.load.wire import Frame, Lost, Wire

LONGEST_SEC = 15.0
"""After so long without a loss the listener hangs up by itself."""
LOSSES = 3
"""That a listener may have on a run that does not end; then it turns to another one."""
FOLLOWS_FLYING = 0.7
"""The others listen to runs that wait, and mostly hear nothing."""


class Listener:
    def __init__(self, wire: Wire, book: Book) -> None:
        self._wire = wire
        self._book = book

    async def listen(self, goes_on: Callable[[], bool]) -> None:
        while goes_on():
            await self._wire.is_up.wait()
            chance = self._book.chance
            there = self._book.flying if chance.random() < FOLLOWS_FLYING else self._book.waiting
            if not there:
                await asyncio.sleep(0.05)
                continue
            await self._follow(Ear(chance.choice(there)), goes_on)

    async def _follow(self, ear: Ear, goes_on: Callable[[], bool]) -> None:
        losses = 0
        while not ear.is_whole and losses < LOSSES and goes_on():
            await self._wire.is_up.wait()
            try:
                async with asyncio.timeout(self._book.chance.uniform(0.2, LONGEST_SEC)):
                    await self._connected(ear, frames=self._book.chance.randint(2, 40))
            except (OSError, asyncio.IncompleteReadError, Lost):
                await asyncio.sleep(0.05)  # whoever killed the service is about to say so
                self._book.told["streams cut by a kill"] += 1
            except TimeoutError:
                losses += 1
                self._book.told["streams hung up"] += 1
        self._book.told["events heard"] += ear.upto
        self._book.heard.append(ear.heard)

    async def _connected(self, ear: Ear, frames: int) -> None:
        """Until the end of the run, of the connection, or of so many frames."""
        path = f"/v1/jobs/{ear.run_id}/events"
        async with self._wire.stream(path, Last_Event_ID=str(ear.upto)) as (status, connection):
            if status != 200:
                # Above all 400: the service does not know an event any more that it has sent.
                body = await connection.reader.read()
                raise Violation(Harm.LOST, f"{ear}: the stream was refused with {status}: {body[:300]!r}")
            self._book.told["streams opened"] += 1
            async for frame in connection.frames():
                ear.hear(frame)
                frames -= 1
                if ear.is_whole or not frames:
                    return


class Ear:
    """One run as one listener heard it."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.upto = 0
        self.is_whole = False
        self._digest = hashlib.blake2b(digest_size=16)

    def __str__(self) -> str:
        return f"{self.run_id} up to {self.upto}"

    @property
    def heard(self) -> Heard:
        return Heard(self.run_id, self.upto, self._digest.digest(), self.is_whole)

    def hear(self, frame: Frame) -> None:
        if frame.event == "end":
            self.is_whole = True
        if frame.event != "chat_event":
            return
        if frame.id != self.upto + 1 or self.is_whole:
            harm = Harm.DOUBLED if frame.id and frame.id <= self.upto else Harm.LOST
            raise Violation(harm, f"{self}: then came event {frame.id}")
        self.upto = frame.id
        self._digest.update(frame.data)


def digest_of(bodies: list[bytes]) -> bytes:
    """What an ear has that heard exactly these."""
    digest = hashlib.blake2b(digest_size=16)
    for body in bodies:
        digest.update(body)
    return digest.digest()
