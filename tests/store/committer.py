"""A process that owns a store and writes until it is killed. Each line it prints is a promise: run, last number.

Run as `python -m tests.store.committer DATA_DIR`.
"""

import asyncio
import sys
import uuid
from pathlib import Path

from tests.store.sample import LEASE, job, later, output
from turnkeeper.core import lifecycle
from turnkeeper.store.base import Store
from turnkeeper.store.sqlite import SqliteStore

LIMIT = 30
"""Seconds after which it ends by itself, should its parent be gone."""


async def write_runs(store: Store) -> None:
    while True:
        run = await store.commit(lifecycle.create(uuid.uuid4().hex, job(), later(0)))
        promise(run.id, run.last_seq)
        run = await store.commit(lifecycle.start_turn(run, LEASE, later(1)))
        promise(run.id, run.last_seq)
        for number in range(1, 4):
            await store.append(output(run, "some", "output"))
            promise(run.id, run.last_seq + 2 * number)


def promise(run_id: str, seq: int) -> None:
    sys.stdout.write(f"{run_id} {seq}\n")
    sys.stdout.flush()


async def main() -> None:
    store = await SqliteStore.open(Path(sys.argv[1]))
    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*(write_runs(store) for _ in range(4)))


if __name__ == "__main__":
    asyncio.run(main())
