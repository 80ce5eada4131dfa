from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import Client, Daemon, Place, opened
from tests.spec.scripts import Latch, Notebook


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "data", slots=2) as place:
        yield place


@pytest.fixture
async def one_slot(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "data", slots=1) as place:
        yield place


@pytest.fixture
def client(place: Place) -> Client:
    return place.client


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    daemon = Daemon(tmp_path / "data", TURNKEEPER_SLOTS="2")
    daemon.start()
    try:
        yield daemon
    finally:
        if daemon.is_running:
            await daemon.stop()


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    return Notebook(tmp_path)


@pytest.fixture
def latch(tmp_path: Path) -> Latch:
    return Latch(tmp_path)
