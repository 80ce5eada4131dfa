"""What an engine prints, until it is stored and published: many small lines, and much of it."""

from __future__ import annotations

import asyncio
import time

from bench import runs
from bench.bench import Bench
from bench.figures import Figure
from bench.service import Service
from bench.wire import Connection, connected

TEXT = 80
ASK_EVERY_SEC = 0.02
OUTPUT = 50_000
"""Bytes of one output of a tool."""


async def measure(bench: Bench) -> list[Figure]:
    return [await _lines(bench), *await _flood(bench)]


async def _lines(bench: Bench) -> Figure:
    """Beyond a run that says nothing, which has all else in it. The least of several: whatever else goes on in the
    machine only adds to it."""
    lines = bench.rounds(100_000, 10_000)
    async with bench.visited() as (service, wire):
        costs = [
            (await _cost(service, wire, lines), await _cost(service, wire, 0))
            for _ in range(bench.rounds(8, 6))
        ]
    with_them, without = map(min, zip(*costs, strict=True))
    return Figure(
        goal="G11",
        what="processor time for a line, stored and published",
        unit="µs",
        measured=(with_them - without) / lines * 1e6,
        limit=30,
    )


async def _cost(service: Service, wire: Connection, lines: int) -> float:
    cpu = service.cpu_sec
    run_id = await runs.create(wire, f"[[say {lines} {TEXT}]][[done]]", mode="auto")
    run = await runs.settled(wire, run_id, "succeeded")
    if run["last_seq"] < lines:
        raise runs.Unexpected(f"of {lines} lines there are {run['last_seq']} events")
    return service.cpu_sec - cpu


async def _flood(bench: Bench) -> list[Figure]:
    megabytes = bench.rounds(100, 30)
    count = megabytes * 10**6 // OUTPUT
    async with bench.visited() as (service, wire), connected(service) as other:
        await runs.two_turns(wire)
        idle = service.rss
        service.forget_peak()
        began = time.perf_counter()
        run_id = await runs.create(wire, f"[[tool {count} {OUTPUT}]][[done]]", mode="auto")
        asking = asyncio.create_task(_slowest(other, run_id))
        run = await runs.settled(wire, run_id, "succeeded")
        took = time.perf_counter() - began
        if run["last_seq"] < count:
            raise runs.Unexpected(f"of {count} outputs there are {run['last_seq']} events")
        slowest = await asking
        more = service.peak_rss - idle
    return [
        Figure(goal="G11", what=what, unit=unit, measured=measured, limit=limit)
        for what, unit, measured, limit in (
            # With less of it, less time: what is allowed is a speed.
            (f"{megabytes} MB of output taken in", "s", took, 15 * megabytes / 100),
            ("memory that it takes meanwhile", "MB", more / 1e6, 64),
            ("slowest call meanwhile", "ms", slowest * 1e3, 250),
        )
    ]


async def _slowest(wire: Connection, run_id: str) -> float:
    """Of the calls of a client that asks again and again, until the run has ended."""
    slowest = 0.0
    while True:
        answer = await wire.call("GET", f"/v1/jobs/{run_id}")
        slowest = max(slowest, answer.seconds)
        if answer.json["status"] not in ("queued", "running"):
            return slowest
        await asyncio.sleep(ASK_EVERY_SEC)
