"""One service for all tests of the client: they look at runs of their own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.client.services import Service, serving
from turnkeeper.client import AsyncClient, Client


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("client") / "data") as service:
        yield service


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No service, no setting and no proxy of the person who runs the tests."""
    for name in list(os.environ):
        if name.startswith(("TURNKEEPER_", "XDG_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url, service.token) as client:
        yield client


@pytest.fixture
async def aclient(service: Service) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(service.url, service.token) as client:
        yield client
