from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.crash.restarts import Daemon, started


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with started(tmp_path / "data", TURNKEEPER_SLOTS="2", TURNKEEPER_STICKY_SLOTS="2") as daemon:
        yield daemon


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[Daemon]:
    """A service with one slot: whoever holds it is seen by everybody else."""
    async with started(tmp_path / "data", TURNKEEPER_SLOTS="1") as daemon:
        yield daemon


@pytest.fixture
async def stopped(tmp_path: Path) -> AsyncIterator[Daemon]:
    """A service that has still to be started: a test puts into its memory what an earlier one left there."""
    async with started(tmp_path / "data", at_once=False) as daemon:
        yield daemon
