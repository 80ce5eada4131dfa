from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import Place, opened
from turnkeeper.store.base import Notice


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Room for everybody. A run that has ended must have no process from the moment it says so."""
    alive: list[str] = []

    async with opened(tmp_path / "data", slots=24, sticky_slots=24) as opened_place:

        def look(notice: Notice) -> None:
            run = notice.run
            if run is not None and run.state.is_terminal and opened_place.processes(run.id):
                alive.append(f"{run.id} is {run.state.value} and has processes")

        opened_place.house.store.listen(look)
        yield opened_place
        assert not alive


@pytest.fixture
async def one_slot(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "data", slots=1) as place:
        yield place
