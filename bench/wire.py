"""HTTP in its plainest form: the client shares two cores with the service, so it must cost next to nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from bench.service import TOKEN, Service

encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    seconds: float

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Connection(asyncio.Protocol):
    """One request after the other, each answered with a Content-Length."""

    def __init__(self, host: str) -> None:
        self._transport: asyncio.Transport
        self._got = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._head = f"Host: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        head = bytes(self._got[:end]).lower()
        at = head.index(b"content-length:") + 15
        length = int(head[at:].split(b"\r\n", 1)[0])
        if len(self._got) >= end + 4 + length:
            answer, self._answer = self._answer, None
            body = bytes(self._got[end + 4 : end + 4 + length])
            del self._got[: end + 4 + length]
            answer.set_result((int(head[9:12]), body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the service closed the connection"))

    async def call(self, method: str, path: str, body: Any = None, headers: str = "") -> Answer:
        if self._transport.is_closing():
            raise ConnectionResetError("the service has closed the connection")
        content = b"" if body is None else encode(body)
        self._answer = asyncio.get_running_loop().create_future()
        head = (
            f"{method} {path} HTTP/1.1\r\n{self._head}{headers}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        began = time.perf_counter()
        self._transport.write(head.encode() + content)
        status, answer = await self._answer
        return Answer(status, answer, time.perf_counter() - began)

    def close(self) -> None:
        self._transport.close()


async def connect(to: Service) -> Connection:
    loop = asyncio.get_running_loop()
    _, made = await loop.create_connection(lambda: Connection(f"{to.host}:{to.port}"), to.host, to.port)
    return made


@asynccontextmanager
async def connected(to: Service) -> AsyncIterator[Connection]:
    made = await connect(to)
    try:
        yield made
    finally:
        made.close()
