"""A service that has just started: when it answers, how much memory it has, and what wakes it while nobody asks."""

from __future__ import annotations

import asyncio
import time

from bench import runs
from bench.bench import Bench
from bench.figures import Figure, median
from bench.service import Service
from bench.wire import connected

MB = 1e6
IDLE_SEC, IDLE_SEC_QUICK = 5, 3


async def measure(bench: Bench) -> list[Figure]:
    seconds: list[float] = []
    started: list[float] = []
    used: list[float] = []
    for _ in range(bench.rounds(9, 3)):
        async with bench.visited() as (service, wire):
            await wire.call("GET", "/healthz")
            seconds.append(time.monotonic() - service.began)
            started.append(service.rss / MB)
            await runs.two_turns(wire)
            used.append(service.rss / MB)
    return [
        Figure(
            goal="G14",
            what="process started → first answer, median",
            unit="s",
            measured=median(seconds),
            limit=1.2,
        ),
        Figure(goal="G14", what="memory when started, median", unit="MB", measured=median(started), limit=75),
        Figure(
            goal="G14",
            what="memory after a run of two turns, median",
            unit="MB",
            measured=median(used),
            limit=75,
        ),
        Figure(goal="G14", what="wake-ups, idle", unit="/s", measured=await _woken(bench), limit=0),
    ]


async def _woken(bench: Bench) -> float:
    """By the second, of a service that has played a run, when the last client has gone."""
    with bench.service() as service:
        async with connected(service) as wire:
            await runs.two_turns(wire)
        return (await idle(bench, service, bench.rounds(IDLE_SEC, IDLE_SEC_QUICK)))[1]


async def idle(bench: Bench, service: Service, seconds: float) -> tuple[float, float]:
    """While nobody asks it for anything: its share of a processor, and its wake-ups by the second."""
    # Five seconds after it went to work, the loop is looked at once more (`runtime/alarm.py`). That is the end of the
    # work, and not idleness: we look after that, or, in a hurry, before.
    await asyncio.sleep(bench.rounds(6, 1))
    cpu, wake_ups, began = service.cpu_sec, service.wake_ups, time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    return (service.cpu_sec - cpu) / took, (service.wake_ups - wake_ups) / took
