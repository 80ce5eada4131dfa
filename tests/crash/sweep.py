"""Plays a scenario with a plan of kills, and holds everything against what was promised."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.crash import promises
from tests.crash.armed import Kill, traced
from tests.crash.guest import Guest
from tests.crash.mortal import Mortal
from tests.crash.scenarios import Scenario
from turnkeeper.failpoints import When

MEMORY = Path("/dev/shm")
BRISK = {"TURNKEEPER_TIMEOUTS__STEP_SEC": "0.2", "TURNKEEPER_TIMEOUTS__RESULT_GRACE_SEC": "0.2"}


@dataclass(frozen=True, slots=True)
class Played:
    kills: list[Kill]
    """Those that came about; a moment that this play did not come by strikes nobody."""
    traces: list[list[Kill]]
    """The moments of each start."""
    runs: int
    replies: int
    starts: int


async def play(scenario: Scenario, plan: Sequence[Kill | None], folder: Path) -> Played:
    async with _visited(scenario, plan, folder) as guest:
        await scenario.play(guest)
        await promises.keep(guest)
        await guest.leave()
    await promises.keep_on_disk(guest)
    service = guest.service
    return Played(
        kills=[death.kill for death in service.deaths if death.kill is not None],
        traces=[traced(service.trace(number)) for number in range(service.starts)],
        runs=len(guest.stays),
        replies=sum(len(stay.receipts) for stay in guest.stays.values()),
        starts=service.starts,
    )


@asynccontextmanager
async def _visited(scenario: Scenario, plan: Sequence[Kill | None], folder: Path) -> AsyncIterator[Guest]:
    """Whatever happens, nothing of it stays alive."""
    env = scenario.env | BRISK | scenario.prepare(folder)
    service = Mortal(folder / "data", plan, **env)
    service.makes_token = scenario.makes_token
    guest = Guest(service)
    try:
        service.start()
        yield guest
    except BaseException:
        await guest.abandon()
        raise


def plan_of(scenario: Scenario, kill: Kill | None) -> list[Kill | None]:
    """The kill in the start that the scenario is about."""
    before: list[Kill | None] = [scenario.first] * scenario.start
    return [*before, kill]


def chosen(scenario: Scenario, trace: Sequence[Kill], count: int) -> tuple[list[Kill], list[Kill]]:
    """The kills that the scenario is here for, and others, spread over its whole length."""
    points = [(when, deed) for deed in scenario.deeds for when in When]
    due = [Kill(point) for point in points]
    rest = [kill for kill in trace if kill not in due]
    wanted = min(max(0, count - len(due)), len(rest))
    return due, [rest[number * len(rest) // wanted] for number in range(wanted)]


def memory() -> Path | None:
    """Where a service's data may be: a kill loses nothing of what was written, synced or not, so no disk is needed."""
    return MEMORY if os.access(MEMORY, os.W_OK) else None
