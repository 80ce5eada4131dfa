"""Jobs that are posted while nothing can start: how much each costs, and what a full queue says to too many of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bench import runs
from bench.bench import Bench
from bench.figures import Figure, median, quantile
from bench.floors.post import posting
from bench.service import Service
from bench.wire import Answer, Connection, connected

JOB = {"skill_id": "colour", "engine": "codex", "execution_mode": "auto", "input": {"orders": ""}}
LONG = "[[sleep 600000]]"
POSTS = 50
"""A round of them."""
CLIENTS, MANY = 8, 10
"""How many post at the same time, and how many times as many are too many."""
PACE = 7.5
"""Jobs a second of each client that has one now and then: eight of them bring as many as a service is to play (G6)."""
MB = 1024 * 1024


async def measure(bench: Bench) -> list[Figure]:
    return [*await _accepted(bench), *await _refused(bench)]


# all slots are busy


async def _accepted(bench: Bench) -> list[Figure]:
    async with _busy(bench, max_queued=100_000) as (service, wire):
        with posting(bench.fresh()) as bare:
            async with connected(bare) as bare_wire:
                ours, floor = 0.0, 0.0
                await _cpu_sec(service, wire)
                await _cpu_sec(bare, bare_wire)
                before = await _transactions(wire)
                rounds = bench.rounds(40, 10)
                for _ in range(rounds):
                    ours += await _cpu_sec(service, wire)
                    floor += await _cpu_sec(bare, bare_wire)
        posts = rounds * POSTS
        commits = (await _transactions(wire) - before) / posts
        async with _clients(service, CLIENTS) as wires:
            await _posted(wires, POSTS // 2)
            taken = await _posted(wires, bench.rounds(500, 150))
    return [
        Figure(
            goal="G3",
            what="commits for each job while all slots are busy",
            unit="",
            measured=commits,
            limit=1,
        ),
        Figure(
            goal="G3",
            what="processor time of a POST / of a bare POST with a commit",
            unit="ms",
            measured=ours / posts * 1e3,
            floor=floor / posts * 1e3,
            limit=3,
        ),
        Figure(
            goal="G3",
            what=f"a POST of one of {CLIENTS} clients, p99",
            unit="ms",
            measured=_p99(_all_taken(taken)) * 1e3,
            limit=20,
        ),
    ]


async def _cpu_sec(service: Service, wire: Connection) -> float:
    """Of a round of posts, one after the other."""
    before = service.cpu_sec
    _all_taken(await _posted([wire], POSTS))
    return service.cpu_sec - before


async def _transactions(wire: Connection) -> float:
    lines = (await wire.call("GET", "/metrics")).body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("turnkeeper_transactions_total "))


# the queue is full


async def _refused(bench: Bench) -> list[Figure]:
    each, rush = bench.rounds(100, 15), bench.rounds(100, 15)
    room = CLIENTS * (each + rush + POSTS)
    async with _busy(bench, max_queued=room + CLIENTS) as (service, wire), AsyncExitStack() as stack:
        few = await stack.enter_async_context(_clients(service, CLIENTS))
        _all_taken(await _posted(few, POSTS))
        fits = _all_taken(await _posted(few, each, PACE))
        fits_in_rush = _all_taken(await _posted(few, rush))
        # Not earlier: who connects and does not ask is shown out.
        many = await stack.enter_async_context(_clients(service, CLIENTS * MANY))
        service.forget_peak()
        before = service.rss
        # The first of these are the last that fit.
        too_many = await _posted(many, each, PACE)
        in_rush = await _posted(many, rush)
        grown = (service.peak_rss - before) / MB
        refused = _all_refused(await _posted([wire], bench.rounds(2000, 500)))
    if [answer.status for answer in too_many].count(200) != CLIENTS:
        raise runs.Unexpected("the queue should have taken what it has room for, and nothing else")
    return [
        Figure(
            goal="G13",
            what="the refusal of a job that the queue has no room for, p50",
            unit="ms",
            measured=median(refused) * 1e3,
            limit=5,
        ),
        Figure(goal="G13", what="the same, p99", unit="ms", measured=_p99(refused) * 1e3),
        Figure(
            goal="G13",
            what=f"a POST of one of {CLIENTS * MANY} clients, most refused / of {CLIENTS} that fit, p99",
            unit="ms",
            measured=_p99([answer.seconds for answer in too_many]) * 1e3,
            floor=_p99(fits) * 1e3,
            limit=2,
        ),
        Figure(
            goal="G13",
            what="the same of clients that post again at once, whoever answers them",
            unit="ms",
            measured=_p99(_all_refused(in_rush)) * 1e3,
            floor=_p99(fits_in_rush) * 1e3,
        ),
        Figure(goal="G13", what="more memory at that load", unit="MB", measured=grown, limit=64),
    ]


# the clients


@asynccontextmanager
async def _busy(bench: Bench, *, max_queued: int) -> AsyncIterator[tuple[Service, Connection]]:
    """A service whose only slot is taken."""
    async with bench.visited(SLOTS="1", MAX_QUEUED=str(max_queued)) as (service, wire):
        await runs.create(wire, LONG, mode="auto")
        while not service.children:  # noqa: ASYNC110 (it is looked for in the kernel)
            await asyncio.sleep(0.01)
        yield service, wire


@asynccontextmanager
async def _clients(service: Service, count: int) -> AsyncIterator[list[Connection]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connected(service)) for _ in range(count)]


async def _posted(wires: list[Connection], each: int, pace: float | None = None) -> list[Answer]:
    """By all of them at the same time, and by each one after the other: as soon as the last is answered, or so many a
    second. They begin one after the other, as clients that know nothing of each other do."""
    loop = asyncio.get_running_loop()

    async def post(wire: Connection, begins: float) -> list[Answer]:
        found = []
        for number in range(each):
            if pace is not None:
                await asyncio.sleep(begins + number / pace - loop.time())
            found.append(await wire.call("POST", "/v1/jobs", JOB))
        return found

    apart = 0 if pace is None else 1 / pace / len(wires)
    now = loop.time()
    posting = (post(wire, now + number * apart) for number, wire in enumerate(wires))
    return [answer for found in await asyncio.gather(*posting) for answer in found]


def _all_taken(answers: list[Answer]) -> list[float]:
    return _seconds(answers, 200)


def _all_refused(answers: list[Answer]) -> list[float]:
    return _seconds(answers, 429)


def _seconds(answers: list[Answer], status: int) -> list[float]:
    if wrong := next((answer for answer in answers if answer.status != status), None):
        raise runs.Unexpected(f"{wrong.status} instead of {status}: {wrong.body[:2000].decode()}")
    return [answer.seconds for answer in answers]


def _p99(seconds: list[float]) -> float:
    return quantile(seconds, 0.99)
