"""What grows with the past: the same calls to a service with some runs, and to one with ten times as many, in turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from bench import copies, runs
from bench.bench import Bench
from bench.figures import Figure
from bench.service import Service
from bench.wire import Connection, connected

TIMES = 10
LIMIT = 1.2
BLOCK = 5
"""Calls in a row to one of the two."""
TAIL = 200
BUSY = "[[sleep 3600000]]"


@dataclass(frozen=True, slots=True)
class Side:
    service: Service
    wire: Connection
    waiting: str
    """A run, like those below."""
    done: str
    long: str
    events: int
    copied: int
    """How many wait beside it, with ids that are numbers."""
    _next: count[int] = field(default_factory=lambda: count(1))

    async def play(self) -> None:
        await runs.two_turns(self.wire)

    async def create(self) -> None:
        await runs.create(self.wire)

    async def reply(self) -> None:
        """To one of the copies, each once."""
        number = next(self._next)
        if number > self.copied:
            raise runs.Unexpected("every copy has its reply")
        await runs.reply(self.wire, f"{number:032x}")

    async def status(self) -> None:
        await self._get(f"/v1/jobs/{self.waiting}")

    async def pending(self) -> None:
        await self._get(f"/v1/jobs/{self.waiting}/interaction/pending")

    async def page(self) -> None:
        await self._get("/v1/jobs?limit=50")

    async def inbox(self) -> None:
        await self._get("/v1/jobs?status=waiting_user&limit=50")

    async def tail(self) -> None:
        await self._get(f"/v1/jobs/{self.long}/events/history?from_seq={self.events - TAIL + 1}&limit={TAIL}")

    async def overview(self) -> None:
        await self._get("/v1/status")

    async def _get(self, path: str) -> None:
        answer = await self.wire.call("GET", path)
        if answer.status != 200:
            raise runs.Unexpected(f"{path}: {answer.status} {answer.body[:500]!r}")


Call = Callable[[Side], Awaitable[None]]

AT_REST: dict[str, Call] = {
    "status of a run": Side.status,
    "its open question": Side.pending,
    "first page of runs": Side.page,
    "first page of those that wait": Side.inbox,
    "last page of a log": Side.tail,
    "/v1/status": Side.overview,
}
AT_WORK: dict[str, Call] = {"POST job, slots busy": Side.create, "reply, slots busy": Side.reply}


async def measure(bench: Bench) -> list[Figure]:
    few, events = bench.rounds(10_000, 1_000), bench.rounds(100_000, 10_000) // TIMES
    async with AsyncExitStack() as both:
        small = await both.enter_async_context(_side(bench, few, events))
        large = await both.enter_async_context(_side(bench, few * TIMES, events * TIMES))
        rounds = bench.rounds(80, 20)
        # A run is worth many calls.
        figures = [await _compared("run of two turns", Side.play, small, large, rounds // 4)]
        for what, call in AT_REST.items():
            figures.append(await _compared(what, call, small, large, rounds))
        for side in (small, large):
            await runs.create(side.wire, BUSY)  # the only slot is taken: what comes now stands in line
        for what, call in AT_WORK.items():
            figures.append(await _compared(what, call, small, large, rounds))
    return figures


@asynccontextmanager
async def _side(bench: Bench, many: int, events: int) -> AsyncIterator[Side]:
    """Half of its runs wait, half are done; and one has a long log."""
    data_dir = bench.fresh()
    async with bench.visited(data_dir) as (_, wire):
        waiting = await runs.create(wire)
        await runs.settled(wire, waiting, "waiting_user")
        done, long = await runs.two_turns(wire), await runs.two_turns(wire)
    copies.copy(data_dir, waiting, many // 2)
    copies.copy(data_dir, done, many // 2, first=many // 2)
    total = copies.lengthen(data_dir, long, events)
    settings = {"SLOTS": "1", "MAX_QUEUED": "1000000"}
    with bench.service(data_dir, **settings) as service:
        async with connected(service) as wire:
            yield Side(service, wire, waiting, done, long, total, many // 2)


async def _compared(what: str, call: Call, small: Side, large: Side, rounds: int) -> Figure:
    blocks: list[tuple[float, float]] = []
    for side in (small, large):
        await call(side)  # what the first one loads, both have loaded
    for number in range(rounds):
        if number % 2:
            blocks.append((await _block(call, small), await _block(call, large)))
        else:
            blocks.append((await _block(call, large), await _block(call, small))[::-1])
    # The least of many blocks: whatever else the machine does only adds to it.
    few, many = (min(side) * 1e3 / BLOCK for side in zip(*blocks, strict=True))
    return Figure(
        goal="G15",
        what=f"{what}, processor time with {TIMES} × as much",
        unit="ms",
        measured=many,
        floor=few,
        limit=LIMIT,
    )


async def _block(call: Call, side: Side) -> float:
    before = side.service.cpu_sec
    for _ in range(BLOCK):
        await call(side)
    return side.service.cpu_sec - before
