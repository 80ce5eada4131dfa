"""What has been done leaves nothing behind: after equal rounds of work a service holds exactly the same."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.harness import PATIENCE, Client, Json, Place, opened
from tests.web.sse import connected

ASK: Json = {"turns": [[{"say": "Which colour?"}], [{"result": {"answer": "{{reply}}"}}]]}
DONE: Json = {"turns": [[{"result": {"answer": "x"}}]]}
FILED: Json = {"turns": [[{"result": {"answer": "{{input.document}}"}}]]}
HANGS: Json = {"turns": [[{"think": "working"}, {"hang": True}]]}
CRASHES: Json = {"turns": [[{"crash": "KILL"}]]}
INTERACTIVE: Json = {"execution_mode": "interactive"}
RESIDENT: Json = {**INTERACTIVE, "interactive_profile": "sticky_process"}
TIMES = 10
"""Of each kind of work, in each round."""
THREADS = 32
"""More than any pool of ours has."""
CEILING = 64 * 2**20
"""What a round may add to the memory of the process: allocators keep some, and a leak adds it each time."""


@dataclass(frozen=True)
class Held:
    files: Counter[str]
    """By what they are; the pipes and sockets of a test are gone when this is taken."""
    tasks: Counter[str]
    threads: int
    objects: Counter[str]
    """Of our own classes, and tasks that are over but not forgotten."""

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        return cls(
            files=Counter(_kind(path) for path in Path("/proc/self/fd").iterdir()),
            tasks=Counter(str(task.get_coro()).split(" at ")[0] for task in asyncio.all_tasks()),
            # Starlette's own pool gives up threads that had nothing to do for a while.
            threads=sum("AnyIO" not in thread.name for thread in threading.enumerate()),
            objects=Counter(
                f"{kind.__module__}.{kind.__qualname__}"
                for kind in map(type, gc.get_objects())
                if kind is asyncio.Task or str(kind.__module__).startswith("turnkeeper.")
            ),
        )

    def unlike(self, other: Held) -> Json:
        """What it holds more, or less. Of objects, only what comes with each piece of work: the last ones of all stay
        with whoever waits for the next, and how many those are is chance."""
        found: Json = {
            "files": _difference(self.files, other.files),
            "tasks": _difference(self.tasks, other.tasks),
            "threads": self.threads - other.threads,
            "objects": {
                name: counts
                for name, counts in _difference(self.objects, other.objects).items()
                if counts[0] - counts[1] >= TIMES
            },
        }
        return {name: difference for name, difference in found.items() if difference}


def _kind(path: Path) -> str:
    try:
        name = os.readlink(path)  # noqa: PTH115
    except FileNotFoundError:
        return "the listing itself"
    return name.partition(":")[0] if name.startswith(("pipe:", "socket:")) else name


def _difference(mine: Counter[str], theirs: Counter[str]) -> dict[str, tuple[int, int]]:
    return {key: (mine[key], theirs[key]) for key in mine | theirs if mine[key] != theirs[key]}


@pytest.mark.failure("V09")
async def test_equal_rounds_leave_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", slots=4) as place:
        await warm_up(place)
        await work(place)
        before, memory = Held.now(), rss()
        await work(place)
        after = await settled(before)
        assert not after.unlike(before), after.unlike(before)
        assert rss() - memory < CEILING


async def warm_up(place: Place) -> None:
    """Every thread and every connection to the database that there will ever be."""
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.05) for _ in range(THREADS)))
    await asyncio.gather(*(place.house.store.counts() for _ in range(THREADS)))
    await work(place)


async def settled(wanted: Held) -> Held:
    """As it is as soon as it is as wanted; a connection is closed a moment after its last answer."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = Held.now()
        if not found.unlike(wanted) or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.05)


async def work(place: Place) -> None:
    """All kinds of it, through the front door, by somebody who leaves afterwards."""
    place.client = Client(place.service.url)
    kinds = (
        one_turn,
        conversation,
        stays_and_leaves,
        is_called_off,
        dies,
        has_files,
        is_listened_to,
        is_wrong,
    )
    for kind in kinds:
        await asyncio.gather(*(kind(place.client) for _ in range(TIMES)))
    await place.client.http.aclose()
    deadline = time.monotonic() + PATIENCE
    while place.house.dispatcher.busy or len(place.house.feed) or place.service.traffic.quiet_sec < 0.2:
        assert time.monotonic() < deadline, "something goes on and on"
        await asyncio.sleep(0.05)
    place.client = Client(place.service.url)  # for who comes after us; it has no connection yet


async def one_turn(client: Client) -> None:
    assert (await client.ended(await client.create(script=DONE)))["status"] == "succeeded"


async def conversation(client: Client, **profile: str) -> None:
    run_id = await client.create(script=ASK, **(INTERACTIVE | profile))
    await client.settled(run_id)
    await client.reply(run_id, "blue")
    assert (await client.ended(run_id))["status"] == "succeeded"


async def stays_and_leaves(client: Client) -> None:
    await conversation(client, **RESIDENT)


async def is_called_off(client: Client) -> None:
    run_id = await client.create(script=HANGS)
    await client.until(run_id, "running")
    await client.cancel(run_id)
    assert (await client.ended(run_id))["status"] == "canceled"


async def dies(client: Client) -> None:
    assert (await client.ended(await client.create(script=CRASHES)))["status"] == "failed"


async def has_files(client: Client) -> None:
    run_id = await client.create("filed", FILED, input={"title": "Bees"})
    files = {"document": ("bees.txt", b"All about bees.")}
    uploaded = await client.http.post(f"/v1/jobs/{run_id}/upload", files=files)
    assert uploaded.status_code == 200, uploaded.text
    assert (await client.ended(run_id))["status"] == "succeeded"
    assert (await client.http.get(f"/v1/jobs/{run_id}/bundle")).status_code == 200


async def is_listened_to(client: Client) -> None:
    """By somebody who hangs up in the middle, and comes back; and then it is answered by nobody."""
    run_id = await client.create(script=ASK, **INTERACTIVE)
    await client.settled(run_id)
    for after in range(3):
        async with connected(client, run_id, last_event_id=after) as stream:
            await anext(stream)
    await client.cancel(run_id)


async def is_wrong(client: Client) -> None:
    """Refused; and given up on by who asked, while it is still being waited for."""
    refused = await client.http.post("/v1/jobs", json={"skill_id": "nobody", "unknown": 1})
    assert refused.status_code == 400
    held = await client.create("filed", FILED, input={"title": "Bees"})
    with pytest.raises(httpx.TimeoutException):
        await client.http.get(f"/v1/jobs/{held}", headers={"Prefer": "wait=30"}, timeout=0.2)
    await client.cancel(held)


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
