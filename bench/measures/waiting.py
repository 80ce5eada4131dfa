"""Runs that wait for a person: what real ones hold, and what a hundred thousand cost the service that has them."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench import copies, runs
from bench.bench import Bench
from bench.figures import Figure, median
from bench.measures.start import idle
from bench.service import Service
from bench.wire import Connection, connected

MANY, MANY_QUICK = 100_000, 30_000
KB, MB = 1e3, 1e6


async def measure(bench: Bench) -> list[Figure]:
    return [*await _real(bench), *await _many(bench)]


async def _real(bench: Bench) -> list[Figure]:
    count = bench.rounds(300, 60)
    async with bench.visited() as (service, wire):
        run_id = await _waiting(wire)  # the first has what is made once
        before, had = _database(service.data_dir), _held(service)
        *_, run_id = [await _waiting(wire) for _ in range(count)]
        more = {name: number - had[name] for name, number in _held(service).items()}
        grown = (_database(service.data_dir) - before) / count
        folder = service.data_dir / "runs" / run_id
        skill = _bytes(folder / "home" / ".codex" / "skills")
        rest = _bytes(folder) - _bytes(folder / "workspace") - skill
    return [
        *(
            Figure(goal="G8", what=f"{name} held by {count} that wait", unit="", measured=number, limit=0)
            for name, number in more.items()
        ),
        # The size of the copy is its author's choice, but for three kilobytes of our words.
        Figure(
            goal="G8",
            what="disk of one that waits, beside its workspace and its copy of the skill",
            unit="KB",
            measured=(grown + rest) / KB,
            limit=8,
        ),
        Figure(goal="G8", what="… of this, database", unit="KB", measured=grown / KB),
        Figure(goal="G8", what="its copy of the skill", unit="KB", measured=skill / KB),
    ]


async def _many(bench: Bench) -> list[Figure]:
    """A service with them, and one without, started in turns."""
    full, empty, many = bench.fresh(), bench.fresh(), bench.rounds(MANY, MANY_QUICK)
    async with bench.visited(full) as (_, wire):
        run_id = await _waiting(wire)
    copies.copy(full, run_id, many)
    with bench.service(empty):
        pass  # a first start makes the database
    starts: dict[Path, list[Start]] = {empty: [], full: []}
    rest: list[tuple[float, float]] = []
    for _ in range(bench.rounds(7, 2)):
        for data_dir, taken in starts.items():
            with bench.service(data_dir) as service:
                async with connected(service) as wire:
                    await wire.call("GET", "/healthz")
                    taken.append(Start(time.monotonic() - service.began, service.rss))
                if data_dir == full and not rest:
                    rest.append(await idle(bench, service, bench.rounds(10, 3)))
    ((share, wake_ups),) = rest
    late, more = (
        median([getattr(each, name) for each in starts[full]])
        - median([getattr(each, name) for each in starts[empty]])
        for name in ("seconds", "rss")
    )
    with_many = f"with {many:,} that wait"
    return [
        Figure(
            goal="G8",
            what=f"memory of one that waits ({many:,} of them)",
            unit="KB",
            measured=more / KB / many,
            limit=0.5,
        ),
        Figure(goal="G8", what=f"processor time, idle {with_many}", unit="%", measured=share * 100, limit=0),
        Figure(goal="G8", what=f"wake-ups, idle {with_many}", unit="/s", measured=wake_ups, limit=0),
        Figure(goal="G9", what=f"first answer {with_many}, later by", unit="s", measured=late, limit=1),
        Figure(goal="G9", what=f"memory {with_many}, more by", unit="MB", measured=more / MB, limit=5),
    ]


@dataclass(frozen=True, slots=True)
class Start:
    seconds: float
    rss: int


async def _waiting(wire: Connection) -> str:
    run_id = await runs.create(wire)
    await runs.settled(wire, run_id, "waiting_user")
    return run_id


def _held(service: Service) -> dict[str, int]:
    return {"descriptors": service.descriptors, "threads": service.threads, "processes": service.children}


def _database(data_dir: Path) -> int:
    """As large as it is when what is in its log has come home."""
    with closing(sqlite3.connect(data_dir / copies.DATABASE)) as database:
        pages, size = (database.execute(f"PRAGMA page_{name}").fetchone()[0] for name in ("count", "size"))
    return int(pages * size)


def _bytes(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
