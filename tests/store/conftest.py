"""The drivers that are held to the suite. A new driver is one more line in `DRIVERS`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from turnkeeper.store.base import Store
from turnkeeper.store.sqlite import SqliteStore

Opener = Callable[[Path], Awaitable[Store]]

DRIVERS: dict[str, Opener] = {"sqlite": SqliteStore.open}


@pytest.fixture(params=DRIVERS)
def open_store(request: pytest.FixtureRequest) -> Opener:
    return DRIVERS[request.param]


@pytest.fixture
async def store(open_store: Opener, tmp_path: Path) -> AsyncIterator[Store]:
    store = await open_store(tmp_path)
    yield store
    await store.close()
