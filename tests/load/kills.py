"""What goes wrong meanwhile: engines are killed all the time, the service now and then, and it comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.crash.restarts import Daemon
from tests.harm import Harm, Violation
from tests.harness import PATIENCE
from tests.load.plan import Book, Plan
from tests.load.wire import Wire
from turnkeeper.engines import census

LOOK_SEC = 2.0


class Kills:
    def __init__(self, daemon: Daemon, wire: Wire, book: Book, plan: Plan) -> None:
        self._daemon = daemon
        self._wire = wire
        self._book = book
        self._plan = plan
        self._mark = ""

    def begin(self) -> None:
        began = time.monotonic()
        self._daemon.start()  # it blocks, and so does everybody who waits for the service
        self._book.starts.append(time.monotonic() - began)
        self._mark = self._daemon.data_id
        self._wire.found(self._daemon.client.url)

    async def strike_service(self) -> None:
        """Over the whole time, each in its own part of it, at a moment that the seed decides."""
        plan = self._plan
        part = plan.seconds / max(plan.service_kills, 1)
        for number in range(plan.service_kills):
            moment = self._book.began + (number + self._book.chance.uniform(0.2, 0.9)) * part
            await asyncio.sleep(max(0.0, moment - time.monotonic()))
            await self._restart()

    async def _restart(self) -> None:
        os.kill(self._daemon.pid, signal.SIGKILL)
        self._wire.lost()
        await self._daemon.kill()
        self._book.told["service kills"] += 1
        # What is left of its engines lives on until the next start finds it.
        old = set(await asyncio.to_thread(census.find, self._mark))
        self._book.told["engines left by a kill"] += len(old)
        self.begin()
        if left := old & set(await asyncio.to_thread(census.find, self._mark)):
            raise Violation(Harm.LEFTOVER, f"engines of the killed service live on: {left}")

    async def strike_engines(self, goes_on: Callable[[], bool]) -> None:
        chance = self._book.chance
        while goes_on():
            await asyncio.sleep(chance.expovariate(self._plan.engine_kills_per_sec))
            found = await asyncio.to_thread(census.find, self._mark)
            if not found:
                continue
            victim = chance.choice(found)
            assert victim.mark is not None
            self._book.struck.add(victim.mark.split("/")[1])
            if await census.end([victim], signals=(signal.SIGKILL,), step_sec=PATIENCE):
                raise Violation(Harm.LEFTOVER, f"{victim} does not die")
            self._book.told["engine kills"] += 1

    async def watch(self, goes_on: Callable[[], bool]) -> None:
        """Memory and open files of the service, looked at from outside."""
        while goes_on():
            with suppress(OSError, AssertionError):  # it is down
                proc = Path("/proc") / str(self._daemon.pid)
                pages = int((proc / "statm").read_text().split()[1])
                self._book.rss_mb.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
                self._book.fds.append(len(list((proc / "fd").iterdir())))
            await asyncio.sleep(LOOK_SEC)
