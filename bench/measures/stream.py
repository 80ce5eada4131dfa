"""From an engine's line to those who follow its run: how soon, and what each of them costs."""

from __future__ import annotations

from bench import runs
from bench.bench import Bench
from bench.figures import Figure, median, quantile
from bench.floors.fanout import fanned_out
from bench.listeners import all_heard, following
from bench.service import Service
from bench.wire import Connection

RATE = 200
"""Lines in a second."""
CLIENTS, MANY = 100, 1000
SLOWLY = 40
"""Lines in a second for `CLIENTS` clients: nobody falls behind, and each line is a delivery of its own to each."""


async def measure(bench: Bench) -> list[Figure]:
    return [*await _soon(bench), *await _deliveries(bench), *await _crowd(bench)]


async def _soon(bench: Bench) -> list[Figure]:
    count = bench.rounds(2000, 400)
    async with bench.visited() as (service, wire):
        await runs.two_turns(wire)
        run_id, heard = await _waiting(wire)
        async with following(service, run_id, 1, heard) as (listener,):
            lags = listener.lags = list[float]()
            await _play(wire, run_id, count, RATE)
            await all_heard([listener], count)
    if len(lags) != count:
        raise runs.Unexpected(f"of {count} messages {len(lags)} were heard")
    return [
        Figure(
            goal="G10",
            what=f"a line → a client, {RATE} lines/s, {name}",
            unit="ms",
            measured=quantile(lags, part) * 1e3,
            limit=limit,
        )
        for name, part, limit in (("p50", 0.5, 10), ("p99", 0.99, None))
    ]


async def _deliveries(bench: Bench) -> list[Figure]:
    """Beyond the same run that nobody follows; each followed by a bare fan-out of as many frames."""
    count = bench.rounds(200, 40)
    ours, bare = list[float](), list[float]()
    async with bench.visited() as (service, wire):
        await _paced(service, wire, 10, 1)
        for _ in range(bench.rounds(3, 1)):
            alone, _ = await _paced(service, wire, count, 0)
            cost, deliveries = await _paced(service, wire, count, CLIENTS)
            ours.append((cost - alone) / deliveries)
            bare.append(await fanned_out(count, SLOWLY, CLIENTS))
    what = f"processor time of a delivery, {CLIENTS} clients"
    cost, floor = median(ours) * 1e6, median(bare) * 1e6
    return [
        Figure(goal="G10", what=what, unit="µs", measured=cost, limit=100),
        Figure(goal="G10", what=f"{what} / of a bare fan-out", unit="µs", measured=cost, floor=floor),
    ]


async def _paced(service: Service, wire: Connection, count: int, clients: int) -> tuple[float, int]:
    """The processor time of a turn with so many lines, and how many events were delivered in it."""
    run_id, heard = await _waiting(wire)
    async with following(service, run_id, clients, heard) as listeners:
        cpu = service.cpu_sec
        last = await _play(wire, run_id, count, SLOWLY)
        await all_heard(listeners, last - heard)
        return service.cpu_sec - cpu, (last - heard) * clients


async def _crowd(bench: Bench) -> list[Figure]:
    """Who follows a run that waits costs memory, and runs of others cost what they did."""
    async with bench.visited() as (service, wire), bench.visited() as (empty, other):
        for _ in range(10):
            await runs.two_turns(wire)
            await runs.two_turns(other)
        run_id, heard = await _waiting(wire)
        async with following(service, run_id, 50, heard):
            pass  # what the first of them load is none of the others'
        before = service.rss
        async with following(service, run_id, MANY, heard) as listeners:
            after = service.rss
            with_them, without = list[float](), list[float]()
            for _ in range(bench.rounds(100, 25)):
                with_them.append(await _two_turns(service, wire))
                without.append(await _two_turns(empty, other))
            if any(listener.is_over for listener in listeners):
                raise runs.Unexpected("a stream of a waiting run has ended")
    return [
        Figure(
            goal="G10",
            what=f"memory of a client, {MANY} of them",
            unit="KB",
            measured=(after - before) / MANY / 1024,
            limit=32,
        ),
        Figure(
            goal="G10",
            what=f"processor time of two turns, {MANY} clients of another run / none",
            unit="ms",
            measured=median(with_them) * 1e3,
            floor=median(without) * 1e3,
            limit=1.1,
        ),
    ]


async def _two_turns(service: Service, wire: Connection) -> float:
    cpu = service.cpu_sec
    await runs.two_turns(wire)
    return service.cpu_sec - cpu


async def _waiting(wire: Connection) -> tuple[str, int]:
    """A run with a question, and how long its log is."""
    run_id = await runs.create(wire)
    run = await runs.settled(wire, run_id, "waiting_user")
    return run_id, int(run["last_seq"])


async def _play(wire: Connection, run_id: str, count: int, rate: float) -> int:
    """Its second turn, with so many lines; returns how long the log is then."""
    await runs.reply(wire, run_id, text=f"[[pace {count} {rate}]]")
    run = await runs.settled(wire, run_id, "succeeded")
    return int(run["last_seq"])
