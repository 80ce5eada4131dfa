"""A run of two turns, one after the other, each followed by two bare spawns: what is slow for one is slow for both."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from bench import runs
from bench.bench import Bench
from bench.figures import Figure, median, quantile
from bench.floors.spawn import spawned
from bench.service import Service
from bench.wire import Connection

WARM_UP = 20
SILENCE_SEC = 1.0


@dataclass(slots=True)
class Taken:
    """In seconds, one of each for each run."""

    whole: list[float] = field(default_factory=list)
    spawns: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    to_start: list[float] = field(default_factory=list)
    to_wait: list[float] = field(default_factory=list)


async def measure(bench: Bench) -> list[Figure]:
    taken = Taken()
    async with bench.visited() as (service, wire):
        for _ in range(WARM_UP):
            await runs.two_turns(wire)
        for _ in range(bench.rounds(300, 100)):
            await _play(service, wire, taken)
            taken.spawns.append(await spawned(bench.engine) + await spawned(bench.engine))
        woken = await _woken_in_silence(service, wire)
    return [
        Figure(
            goal="G1",
            what="a run of two turns, beyond two bare spawns of its round / those, p50",
            unit="ms",
            measured=median([whole - bare for whole, bare in zip(taken.whole, taken.spawns, strict=True)])
            * 1e3,
            floor=median(taken.spawns) * 1e3,
            limit=4,
        ),
        Figure(goal="G1", what="the whole run, p50", unit="ms", measured=median(taken.whole) * 1e3),
        Figure(
            goal="G2",
            what="processor time of the service for it",
            unit="ms",
            measured=sum(taken.cpu) / len(taken.cpu) * 1e3,
            limit=10,
        ),
        *_figures("G4", "reply acknowledged → engine started", taken.to_start, p50=5, p99=20),
        *_figures("G5", "engine's end → seen to wait", taken.to_wait, p50=5),
        Figure(
            goal="G5",
            what=f"wake-ups in {SILENCE_SEC:g} s of an engine's silence",
            unit="",
            measured=woken,
            limit=0,
        ),
    ]


async def _woken_in_silence(service: Service, wire: Connection) -> int:
    """Who polls for the end of a turn is woken in the middle of it."""
    run_id = await runs.create(wire, f"[[sleep {2000 * SILENCE_SEC:.0f}]]")
    await asyncio.sleep(SILENCE_SEC / 2)
    before = service.wake_ups
    await asyncio.sleep(SILENCE_SEC)
    woken = service.wake_ups - before
    await runs.settled(wire, run_id, "waiting_user")
    return woken


async def _play(service: Service, wire: Connection, taken: Taken) -> None:
    cpu, began = service.cpu_sec, time.perf_counter()
    run_id = await runs.create(wire)
    await runs.settled(wire, run_id, "waiting_user")
    waits_at = time.perf_counter()
    await runs.reply(wire, run_id)
    answered_at = time.perf_counter()
    await runs.settled(wire, run_id, "succeeded")
    taken.whole.append(time.perf_counter() - began)
    taken.cpu.append(service.cpu_sec - cpu)
    _, ended_at, started_at, _ = (at for _, at in service.engine_notes(run_id))
    taken.to_wait.append(waits_at - ended_at)
    taken.to_start.append(started_at - answered_at)


def _figures(goal: str, what: str, seconds: list[float], **limits: float) -> list[Figure]:
    return [
        Figure(
            goal=goal,
            what=f"{what}, {name}",
            unit="ms",
            measured=quantile(seconds, int(name[1:]) / 100) * 1e3,
            limit=limit,
        )
        for name, limit in limits.items()
    ]
