"""One service for each file of tests: they look at runs of their own, so it costs them nothing to share it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import Client, Json, Place, opened
from tests.spec.scripts import INTERACTIVE, Latch, Notebook
from tests.web.patience import settle
from tests.web.requests import TALK


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with opened(tmp_path_factory.mktemp("service") / "data", slots=3) as place:
        yield place
        await settle(place.client)


@pytest.fixture(scope="module")
def client(place: Place) -> Client:
    return place.client


@pytest.fixture
def latch(tmp_path: Path) -> Latch:
    return Latch(tmp_path)


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    return Notebook(tmp_path)


@pytest.fixture(scope="module")
async def told(client: Client) -> tuple[str, list[Json]]:
    """A run that has ended, and its log."""
    run_id = await client.create("answer", TALK, **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"
    return run_id, await client.events(run_id)
