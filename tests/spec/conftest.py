from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import Place, opened


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "data", slots=2) as place:
        yield place
