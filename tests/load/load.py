"""A load from its beginning to its reckoning: runs in flight, people, listeners and kills, all at the same time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.crash.restarts import Daemon
from tests.harm import Harm, Violation
from tests.load.accounts import settle_accounts
from tests.load.kills import Kills
from tests.load.listeners import Listener
from tests.load.people import WAITS_ONCE, People
from tests.load.plan import Book, Plan
from tests.load.prepared import prepare
from tests.load.wire import Wire
from turnkeeper.engines import census

FINISH_SEC = 300.0
"""That whatever is under way may take to its end, once nothing is killed any more."""
TELL_SEC = 10.0

Say = Callable[[str], None]


def settings(plan: Plan) -> dict[str, str]:
    """As patient as a machine needs that does a hundred things at once."""
    return {
        "TURNKEEPER_SLOTS": str(plan.in_flight),
        "TURNKEEPER_MAX_QUEUED": "10000",
        "TURNKEEPER_RATE_LIMIT": "0",
        "TURNKEEPER_TIMEOUTS__FIRST_BYTE_SEC": "300",
        "TURNKEEPER_TIMEOUTS__IDLE_SEC": "300",
        "TURNKEEPER_TIMEOUTS__TURN_SEC": "600",
        "TURNKEEPER_TIMEOUTS__RESULT_GRACE_SEC": "5",
        "TURNKEEPER_TIMEOUTS__STEP_SEC": "2",
    }


async def load(folder: Path, plan: Plan, book: Book, say: Say) -> Counter[str]:
    """Raises Violation if anything does not add up; returns how many runs of each state there are in the end."""
    daemon = Daemon(folder / "data", **settings(plan))
    try:
        began = time.monotonic()
        prepared = await prepare(daemon, plan.waiting, WAITS_ONCE)
        book.accepted |= {run_id: run_id for run_id in prepared}
        book.waiting += prepared
        say(f"{len(prepared)} runs wait, put there in {time.monotonic() - began:.0f} s")
        await _play(daemon, plan, book, say)
        if await daemon.stop() != 0:
            raise Violation(Harm.WRONG, "the service did not stop in peace")
        began = time.monotonic()
        counts = await settle_accounts(daemon, book)
        say(f"accounts of {counts.total()} runs settled in {time.monotonic() - began:.0f} s")
        return counts
    finally:
        if daemon.is_running:
            await daemon.kill()
        if (daemon.data_dir / "turnkeeper.db").exists():
            await census.end_all(daemon.data_id, step_sec=0.5)


async def _play(daemon: Daemon, plan: Plan, book: Book, say: Say) -> None:
    wire = Wire()
    kills, people = Kills(daemon, wire, book, plan), People(wire, book, plan)
    kills.begin()
    say(f"started with {plan.waiting} waiting in {book.starts[0]:.1f} s")
    await people.arrive()
    book.began = time.monotonic()

    def goes_on() -> bool:
        return time.monotonic() < book.began + plan.seconds

    is_over = asyncio.Event()
    async with asyncio.TaskGroup() as beside:
        for _ in range(plan.listeners):
            beside.create_task(Listener(wire, book).listen(lambda: not is_over.is_set()))
        beside.create_task(kills.watch(lambda: not is_over.is_set()))
        teller = beside.create_task(_tell(book, say))
        async with asyncio.timeout(plan.seconds + FINISH_SEC), asyncio.TaskGroup() as doing:
            doing.create_task(kills.strike_service())
            doing.create_task(kills.strike_engines(goes_on))
            for _ in range(plan.in_flight):
                doing.create_task(people.bring(goes_on))
        book.lasted = time.monotonic() - book.began
        is_over.set()
        teller.cancel()
    await _expect_rest(daemon)
    wire.lost()


async def _expect_rest(daemon: Daemon) -> None:
    """Every slot is given back; a moment after the last change that everybody has seen."""
    async with asyncio.timeout(FINISH_SEC):
        while True:
            found = (await daemon.client.http.get("/v1/status")).json()
            if not found["slots"]["busy"]:
                break
            await asyncio.sleep(0.05)
    if found["queue"]["length"] or found["runs"]["running"] or found["runs"]["queued"]:
        raise Violation(Harm.LOST, f"nobody works on what is left: {found}")


async def _tell(book: Book, say: Say) -> None:
    while True:
        await asyncio.sleep(TELL_SEC)
        told = book.told
        say(
            f"{time.monotonic() - book.began:4.0f} s: {len(book.accepted)} runs, {len(book.ended)} ended, "
            f"{len(book.flying)} in flight, {told['replies accepted']} replies, "
            f"{told['engine kills']} + {told['service kills']} kills, {told['streams opened']} streams"
        )
