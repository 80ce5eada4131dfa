"""The application of a running service behind a guard of its own, whose clock only a test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.harness import TOKEN, Place
from turnkeeper.web.app import make_app
from turnkeeper.web.guard import Guard
from turnkeeper.web.rates import Rates

KNOWN = {"Authorization": f"Bearer {TOKEN}"}


class Frozen:
    def __init__(self, place: Place, rate: float, **more: Any) -> None:
        self.now = 0.0
        door = place.service.door
        self._guard = Guard(
            make_app(place.house, door),
            door=door,
            hosts=["localhost"],
            max_upload=1 << 20,
            rates=Rates(rate),
            monotonic=lambda: self.now,
            **more,
        )

    @asynccontextmanager
    async def client(self, peer: str = "192.0.2.1", **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(self._guard, client=(peer, 1234))
        async with httpx.AsyncClient(
            base_url="http://localhost", headers=headers, transport=transport
        ) as http:
            yield http
