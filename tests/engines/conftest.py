from collections.abc import AsyncIterator

import pytest

from tests.fakes.clis import engaged
from tests.harness import Place


@pytest.fixture(scope="module")
async def clis(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """A service with a scripted CLI behind each of their names, shared by the tests of a file."""
    async with engaged(tmp_path_factory.mktemp("clis") / "data") as place:
        yield place
