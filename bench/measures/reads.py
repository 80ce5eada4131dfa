"""What looking costs: at a run, at its open question, at a page of its log, and at the end of a very long one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from bench import runs
from bench.bench import Bench
from bench.figures import Figure
from bench.runs import Unexpected
from bench.service import Service
from bench.wire import Connection
from turnkeeper.core.fcmp import Event, Type
from turnkeeper.store import rows
from turnkeeper.store.reads import DATABASE, connect

PAGE, LAST = 1000, 200
WORDS = "I have looked at the file, and it says what was expected: there are three colours to choose from."


async def measure(bench: Bench) -> list[Figure]:
    data_dir, long = bench.fresh(), bench.rounds(1_000_000, 100_000)
    async with bench.visited(data_dir) as (_, wire):
        run_id = await runs.create(wire)
        await runs.settled(wire, run_id, "waiting_user")
    _make_long(data_dir, run_id, long)
    job, pages = f"/v1/jobs/{run_id}", f"/v1/jobs/{run_id}/events/history"
    async with bench.visited(data_dir) as (service, wire):

        async def cost(what: str, path: str, limit_ms: float, rounds: int, events: int = 0) -> Figure:
            for _ in range(20):
                await _read(wire, path, events)
            seconds = await _cpu_sec(service, wire, path, rounds)
            return Figure(
                goal="G12",
                what=f"processor time of {what}",
                unit="ms",
                measured=seconds / rounds * 1e3,
                limit=limit_ms,
            )

        many, some = bench.rounds(3000, 500), bench.rounds(300, 100)
        tail = f"{pages}?from_seq={long - LAST + 1}&limit={LAST}"
        return [
            await cost("the status of a run", job, 1, many),
            await cost("its open question", f"{job}/interaction/pending", 1, many),
            await cost(f"a page of {PAGE:,} events", f"{pages}?limit={PAGE}", 10, some, PAGE),
            await cost(f"the last page ({LAST}) of {long:,} events", tail, 2, some, LAST),
        ]


async def _cpu_sec(service: Service, wire: Connection, path: str, rounds: int) -> float:
    before = service.cpu_sec
    for _ in range(rounds):
        await _read(wire, path)
    return service.cpu_sec - before


async def _read(wire: Connection, path: str, events: int = 0) -> None:
    """With so many events in the answer, if it is looked into."""
    answer = await wire.call("GET", path)
    if answer.status != 200 or (events and len(answer.json["events"]) != events):
        raise Unexpected(f"{path}: {answer.status} {answer.body[:2000].decode()}")


def _make_long(data_dir: Path, run_id: str, count: int) -> None:
    """Its log, up to that number of events, in the file of a service that has stopped."""
    connection = connect(data_dir / DATABASE)
    (last,) = connection.execute("SELECT last_seq FROM runs WHERE id = ?", (run_id,)).fetchone()
    event = Event(Type.MESSAGE_FINAL, {"text": WORDS}, datetime.now(UTC), attempt=1)
    entries = (
        rows.log_entry(event, run_id=run_id, seq=seq, engine="codex") for seq in range(last + 1, count + 1)
    )
    with connection:
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?)",
            ((run_id, entry.seq, entry.type, entry.body.decode()) for entry in entries),
        )
        connection.execute("UPDATE runs SET last_seq = ? WHERE id = ?", (count, run_id))
    connection.close()
