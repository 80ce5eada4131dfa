"""A service in this process for the tests of faults; after each test the general assertions have been checked."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.clis import engaged
from tests.harness import Place, opened


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "data") as place:
        yield place


@pytest.fixture(scope="module")
async def clis(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """A service with a scripted CLI behind each of their names, shared by the tests of a file."""
    async with engaged(tmp_path_factory.mktemp("clis") / "data") as place:
        yield place
