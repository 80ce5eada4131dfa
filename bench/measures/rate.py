"""Complete runs per second, while many are on their way: rounds with few and with many, in alternation."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from bench import runs
from bench.bench import Bench
from bench.figures import Figure, median
from bench.service import Service
from bench.wire import Connection, connected

FEW, MANY = 16, 64
SAME = 0.95
"""Rounds of the same differ by so much."""


async def measure(bench: Bench) -> list[Figure]:
    rates: dict[int, list[float]] = {FEW: [], MANY: []}
    cpu: list[float] = []
    rounds, count = bench.rounds(5, 2), bench.rounds(800, 120)
    with bench.service() as service:
        for _ in range(rounds):
            rates[FEW].append(await _rate(service, FEW, count))
            before = service.cpu_sec
            rates[MANY].append(await _rate(service, MANY, count))
            cpu.append((service.cpu_sec - before) / count)
    few, many = median(rates[FEW]), median(rates[MANY])
    return [
        Figure(goal="G2", what=f"the same, {MANY} in flight", unit="ms", measured=median(cpu) * 1e3),
        *(
            Figure(
                goal="G6",
                what=f"complete runs, {in_flight} in flight",
                unit="/s",
                measured=found,
                limit=60,
                at_least=True,
            )
            for in_flight, found in ((FEW, few), (MANY, many))
        ),
        Figure(
            goal="G6",
            what=f"{MANY} in flight / {FEW}",
            unit="/s",
            measured=many,
            floor=few,
            limit=SAME,
            at_least=True,
        ),
    ]


async def _rate(service: Service, in_flight: int, count: int) -> float:
    left = iter(range(count))

    async def play(wire: Connection) -> None:
        for _ in left:
            await runs.two_turns(wire)

    async with AsyncExitStack() as open_wires:
        wires = [await open_wires.enter_async_context(connected(service)) for _ in range(in_flight)]
        began = time.perf_counter()
        await asyncio.gather(*map(play, wires))
        return count / (time.perf_counter() - began)
