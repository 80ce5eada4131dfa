"""Waiting for something that will be so, within limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tests.harness import PATIENCE, Client


async def eventually(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        await asyncio.sleep(0.002)


async def settle(client: Client) -> None:
    """Until no run is on its way: what is looked at after this stands still."""
    for status in ("queued", "running"):  # the way they move, so that none slips by
        for run in (await client.http.get("/v1/jobs", params={"status": status, "limit": 200})).json()[
            "jobs"
        ]:
            await client.settled(run["run_id"])
