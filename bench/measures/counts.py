"""What a run of two turns leaves behind in counts, which no load of the machine changes."""

from __future__ import annotations

import re

from bench import runs
from bench.bench import Bench
from bench.figures import Figure
from bench.service import Service, counted_service
from bench.wire import Connection, connected

RUNS = 20


async def measure(bench: Bench) -> list[Figure]:
    with counted_service(bench.fresh(), bench.engine) as service:
        async with connected(service) as wire:
            counts = await counted(service, wire)
    limits = {
        "commits besides batches of output": 8,
        "files opened": 25,
        "processes started": 2,
        "database files": 1,
    }
    return [
        Figure(goal="G7", what=what, unit="", measured=counts[what], limit=limit)
        for what, limit in limits.items()
    ]


async def counted(service: Service, wire: Connection) -> dict[str, float]:
    """For each run of two turns, on the average of some. The first run has what is done once."""
    await runs.two_turns(wire)
    before, commits = service.counts, await _commits(wire)
    for _ in range(RUNS):
        await runs.two_turns(wire)
    after, committed = service.counts, await _commits(wire)
    return {
        "commits besides batches of output": (committed - commits) / RUNS,
        "files opened": (after["opens"] - before["opens"]) / RUNS,
        "processes started": (after["processes"] - before["processes"]) / RUNS,
        "database files": len(list(service.data_dir.rglob("*.db"))),
    }


async def _commits(wire: Connection) -> float:
    """A batch may share its commit with a change, so it is counted as if it never did."""
    text = (await wire.call("GET", "/metrics")).body.decode()
    found = dict(re.findall(r"^turnkeeper_(transactions|appends)_total (\S+)$", text, re.MULTILINE))
    return float(found["transactions"]) - float(found["appends"])
