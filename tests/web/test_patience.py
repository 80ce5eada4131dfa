"""A request that never becomes whole is let go of; one that waits for its answer never is."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.harness import DOOR, PATIENCE, TOKEN
from turnkeeper.web import problems
from turnkeeper.web.address import MAX_HEAD
from turnkeeper.web.guard import Guard
from turnkeeper.web.patience import Patience, PatientProtocol, TooSlow, timed
from turnkeeper.wiring import _serving

LONG = 3600.0
HASTY = Patience(head_sec=0.15, rest_sec=0.15, idle_sec=0.15, grace_sec=LONG, linger_sec=0.1)
SLOW_AVERAGE = Patience(head_sec=LONG, rest_sec=LONG, idle_sec=LONG, grace_sec=0.1, least_per_sec=1e9)
FOR_EVER = Patience(head_sec=LONG, rest_sec=LONG, idle_sec=LONG, grace_sec=LONG)
HEAD = f"HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


class Line:
    """A client that says what it is told to, byte by byte if need be."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, words: bytes) -> None:
        self.writer.write(words)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        body = await self.reader.readexactly(int(lines.get(b"content-length", b"0")))
        return int(head.split()[1]), body

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    async def trickles(self, words: bytes = b"x") -> bool:
        """On and on, until the other side has had enough."""
        closed = asyncio.ensure_future(self.reader.read())
        try:
            while not closed.done():
                self.writer.write(words)
                await asyncio.wait([closed], timeout=0.02)
            return True
        except ConnectionError:
            return True
        finally:
            closed.cancel()
            await asyncio.gather(closed, return_exceptions=True)


async def taken(request: Request) -> Response:
    return JSONResponse(len(await request.body()))


async def unread(request: Request) -> Response:
    return JSONResponse("answered")


async def late(request: Request) -> Response:
    await asyncio.sleep(0.6)  # several times what is allowed to a request
    return JSONResponse("at last")


async def stream(request: Request) -> Response:
    async def words() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield b"."
            await asyncio.sleep(0.1)

    return StreamingResponse(words(), headers={"Content-Length": "6"})


ROUTES: dict[str, Callable[[Request], Awaitable[Response]]] = {
    "/taken": taken,
    "/unread": unread,
    "/late": late,
    "/stream": stream,
}


@asynccontextmanager
async def served(
    patience: Patience, keep_alive: float = LONG
) -> AsyncIterator[Callable[[], Awaitable[Line]]]:
    class Protocol(PatientProtocol):
        pass

    Protocol.patience = patience
    app = Starlette(
        routes=[Route(path, each, methods=["GET", "POST"]) for path, each in ROUTES.items()],
        exception_handlers={TooSlow: problems._http, ClientDisconnect: problems._gone},
    )
    guard = Guard(app, door=DOOR, hosts=["localhost"], max_upload=1 << 20, patience=patience)
    config = uvicorn.Config(
        guard,
        http=Protocol,
        h11_max_incomplete_event_size=MAX_HEAD,
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=keep_alive,  # type: ignore[arg-type]  # only handed on to the loop
        timeout_graceful_shutdown=1,
    )
    lines: list[Line] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        async def connect() -> Line:
            line = Line(*await asyncio.open_connection("127.0.0.1", port))
            lines.append(line)
            return line

        async with asyncio.timeout(PATIENCE), _serving(config, listener):
            try:
                yield connect
            finally:
                for line in lines:
                    line.writer.close()


class TestHead:
    async def test_connection_that_asks_nothing_is_closed(self) -> None:
        async with served(HASTY) as connect:
            assert await (await connect()).is_closed()

    @pytest.mark.parametrize(
        "begun", [b"G", b"GET /unread", b"GET /unread " + HEAD, b"GET /unread " + HEAD + b"\r"]
    )
    async def test_head_that_stops_is_refused(self, begun: bytes) -> None:
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(begun)
            status, body = await line.answer()
            assert (status, json.loads(body)["code"]) == (408, "REQUEST_TIMEOUT")
            assert await line.is_closed()

    async def test_head_that_trickles_is_no_better(self) -> None:
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(b"GET /unread " + HEAD + b"X-Slow: ")
            assert await line.trickles()

    async def test_second_request_of_a_connection_is_timed_too(self) -> None:
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(b"GET /unread " + HEAD + b"\r\n")
            assert (await line.answer())[0] == 200
            await line.say(b"GET /unr")
            assert (await line.answer())[0] == 408

    async def test_connection_may_rest_between_requests(self) -> None:
        """That has a time of its own."""
        async with served(HASTY) as connect:
            line = await connect()
            for _ in range(2):
                await line.say(b"GET /unread " + HEAD + b"\r\n")
                assert (await line.answer())[0] == 200
                await asyncio.sleep(3 * HASTY.head_sec)
            await line.say(b"GET /unread " + HEAD + b"\r\n")
            assert (await line.answer())[0] == 200

    async def test_pipelined_request_that_stops(self) -> None:
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(b"GET /unread " + HEAD + b"\r\nGET /unr")
            assert (await line.answer())[0] == 200
            assert (await line.answer())[0] == 408


class TestBody:
    async def test_body_that_stops_is_refused(self) -> None:
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(b"POST /taken " + HEAD + b"Content-Length: 100\r\n\r\nhalf of it")
            status, body = await line.answer()
            assert (status, json.loads(body)["code"]) == (408, "REQUEST_TIMEOUT")
            assert await line.is_closed()

    async def test_body_without_a_length_that_stops_is_refused(self) -> None:
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(b"POST /taken " + HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
            assert (await line.answer())[0] == 408

    async def test_body_that_trickles_is_too_slow_on_the_average(self) -> None:
        async with served(SLOW_AVERAGE) as connect:
            line = await connect()
            await line.say(b"POST /taken " + HEAD + b"Content-Length: 1000000\r\n\r\n")
            assert await line.trickles()

    async def test_body_that_comes_in_pieces_is_taken(self) -> None:
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(b"POST /taken " + HEAD + b"Content-Length: 10\r\n\r\n")
            for _ in range(10):
                await asyncio.sleep(HASTY.idle_sec / 5)
                await line.say(b"x")
            assert await line.answer() == (200, b"10")

    async def test_rest_of_a_body_that_nobody_reads(self) -> None:
        """It was answered at once: who goes on sending is not listened to for ever."""
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(b"POST /unread " + HEAD + b"Content-Length: 1000000\r\n\r\n")
            assert (await line.answer())[0] == 200
            assert await line.trickles()

    async def test_after_the_rest_of_a_body_the_connection_rests_as_any_other(self) -> None:
        async with served(FOR_EVER, keep_alive=0.2) as connect:
            line = await connect()
            await line.say(b"POST /unread " + HEAD + b"Content-Length: 5\r\n\r\n")
            assert (await line.answer())[0] == 200
            await line.say(b"words")
            assert await line.is_closed()

    async def test_body_that_is_no_body_is_refused_and_nobody_answers_it_twice(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(b"POST /taken " + HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
            await line.say(b"no size\r\n")
            status, body = await line.answer()
            assert (status, json.loads(body)["code"]) == (400, "INVALID_REQUEST")
            assert await line.is_closed()
        assert not [record for record in caplog.records if "ASGI" in record.getMessage()]


class TestAnswers:
    """May take as long as they like."""

    @pytest.mark.parametrize(("path", "said"), [("/late", b'"at last"'), ("/stream", b"......")])
    @pytest.mark.parametrize("more", [b"\r\n", b"Content-Length: 2\r\n\r\n{}"])
    async def test_long_answer(self, path: str, said: bytes, more: bytes) -> None:
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(b"GET " + path.encode() + b" " + HEAD + more)
            assert await line.answer() == (200, said)

    async def test_stream_of_a_client_that_never_sent_its_body(self) -> None:
        """Whoever is answered already is not cut off for it."""
        async with served(HASTY) as connect:
            line = await connect()
            await line.say(b"GET /stream " + HEAD + b"Content-Length: 2\r\n\r\n")
            assert await line.answer() == (200, b"......")


async def test_only_waiting_counts() -> None:
    """A reader that is slow itself, with a disk say, must not blame the client."""
    told = iter([{"type": "http.request", "body": b"x", "more_body": n < 4} for n in range(5)])

    async def receive() -> dict[str, object]:
        return next(told)

    body = timed(receive, Patience(idle_sec=LONG, grace_sec=0.05, least_per_sec=1e9), lambda: False)
    for _ in range(5):
        await body()
        await asyncio.sleep(0.03)
