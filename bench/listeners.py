"""Clients that follow the events of a run, and do nothing but count them: they share two cores with the service."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench.service import TOKEN, Service

PATIENCE_SEC = 60.0
TOGETHER = 50
"""So many connect at the same moment."""
_ID = b"\nid: "
_MESSAGE = re.compile(rb'"message_id":"[^"]+","text":"(\d{9,})"')
"""Of the engine's `[[pace]]`: the moment when it was printed."""


class Listener(asyncio.Protocol):
    def __init__(self, head: bytes) -> None:
        self.events = 0
        self.lags: list[float] | None = None
        """In seconds, from the engine's printing of a message until it was here; None: nobody wants to know."""
        self.has_begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_over = False
        self._wanted = 0
        self._has_heard: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport
        self._head = head
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter_ns()
        seen = self._rest + data
        self.events += seen.count(_ID)
        if self.lags is None:
            self._rest = seen[-len(_ID) + 1 :]
        else:  # whole frames only: a message may be cut anywhere
            whole, _, self._rest = seen.rpartition(b"\n\n")
            self.events -= self._rest.count(_ID)
            self.lags += [(now - int(at)) / 1e9 for at in _MESSAGE.findall(whole)]
        if not self.has_begun.done() and b"event: snapshot" in seen:
            self.has_begun.set_result(None)
        if self._has_heard is not None and not self._has_heard.done() and self.events >= self._wanted:
            self._has_heard.set_result(None)

    def hears(self, events: int) -> asyncio.Future[None]:
        """Done when it has heard so many."""
        self._wanted, self._has_heard = events, asyncio.get_running_loop().create_future()
        if self.events >= events:
            self._has_heard.set_result(None)
        return self._has_heard

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over = True
        if not self.has_begun.done():
            self.has_begun.set_exception(error or ConnectionResetError("the stream ended before it began"))

    def close(self) -> None:
        self._transport.close()


@asynccontextmanager
async def following(to: Service, run_id: str, number: int, after: int = 0) -> AsyncIterator[list[Listener]]:
    """Each has its snapshot when they are there."""
    path = f"/v1/jobs/{run_id}/events?cursor={after}"
    head = (
        f"GET {path} HTTP/1.1\r\nHost: {to.host}:{to.port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    )
    loop, made = asyncio.get_running_loop(), list[Listener]()
    try:
        while len(made) < number:
            some = min(TOGETHER, number - len(made))
            pairs = await asyncio.gather(
                *(loop.create_connection(lambda: Listener(head), to.host, to.port) for _ in range(some))
            )
            made += [listener for _, listener in pairs]
            async with asyncio.timeout(PATIENCE_SEC):
                await asyncio.gather(*(listener.has_begun for _, listener in pairs))
        yield made
    finally:
        for listener in made:
            listener.close()


async def all_heard(listeners: Sequence[Listener], events: int) -> None:
    """Until each has so many."""
    async with asyncio.timeout(PATIENCE_SEC):
        await asyncio.gather(*(listener.hears(events) for listener in listeners))
