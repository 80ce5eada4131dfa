"""A wire between a client and the service that breaks in the middle of the n-th piece it carries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from tests.faults.failing import Trip


@asynccontextmanager
async def wired(url: str, trip: Trip) -> AsyncIterator[str]:
    """The address to ask instead; every piece counts, of whatever connection and in whatever direction."""
    port, carried = urlsplit(url).port, set[asyncio.Task[None]]()

    async def carry(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        service, to_service = await asyncio.open_connection("127.0.0.1", port)
        ends = (to_client, to_service)
        ways = [
            asyncio.create_task(_pass(trip, "request", client, to_service)),
            asyncio.create_task(_pass(trip, "answer", service, to_client)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in ends:
                end.transport.abort()

    def accept(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(carry(client, to_client))
        carried.add(task)
        task.add_done_callback(carried.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in carried:
            task.cancel()
        await asyncio.gather(*carried, return_exceptions=True)


async def _pass(trip: Trip, way: str, one: asyncio.StreamReader, other: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await one.read(65536):
            is_cut = trip.fails(way, trip.root) is not None
            other.write(piece[: len(piece) // 2] if is_cut else piece)
            await other.drain()
            if is_cut:
                return
