"""HTTP in its plainest form: hundreds of clients share two cores with the service that they talk to."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.harness import TOKEN, Json

LIMIT = 4 * 1024 * 1024


class Lost(Exception):
    """The connection ended before the answer did."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def json(self) -> Json:
        return dict(json.loads(self.body))


@dataclass(frozen=True, slots=True)
class Frame:
    event: str
    id: int | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may come in: what the service calls them, and what they show at the door."""

    by: str
    headers: Mapping[str, str]


OPERATOR = Person("token", {"Authorization": f"Bearer {TOKEN}"})


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in fields}

    async def frames(self) -> AsyncIterator[Frame]:
        while True:
            try:
                text = await self.reader.readuntil(b"\n\n")
            except asyncio.IncompleteReadError as ended:
                if ended.partial:
                    raise Lost from ended
                return
            fields = dict(line.split(b": ", 1) for line in text[:-2].split(b"\n"))
            number = fields.get(b"id")
            yield Frame(fields[b"event"].decode(), None if number is None else int(number), fields[b"data"])

    def close(self) -> None:
        self.writer.close()


class Wire:
    """The way to the service, wherever it is now; while it is away, everybody waits."""

    def __init__(self) -> None:
        self.is_up = asyncio.Event()
        self._host, self._port = "", 0
        self._idle: list[Connection] = []

    def found(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 0)
        self.is_up.set()

    def lost(self) -> None:
        self.is_up.clear()
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def call(
        self, method: str, path: str, body: Any = None, *, who: Person = OPERATOR, **headers: str
    ) -> Answer:
        """One request; raises Lost if the service goes away over it."""
        began, port = time.monotonic(), self._port
        connection = None
        try:
            connection = self._idle.pop() if self._idle else await self._connect()
            content = b"" if body is None else json.dumps(body).encode()
            told = {"Content-Length": str(len(content)), "Content-Type": "application/json"}
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.writer.write(self._request(method, path, {**told, **who.headers, **named}) + content)
            status, got = await connection.head()
            text = await connection.reader.readexactly(int(got["content-length"]))
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, OSError | asyncio.IncompleteReadError):
                raise Lost from error
            raise
        if port == self._port and self.is_up.is_set():
            self._idle.append(connection)
        else:
            connection.close()
        return Answer(status, got, text, time.monotonic() - began)

    async def insist(
        self, method: str, path: str, body: Any = None, *, who: Person = OPERATOR, **headers: str
    ) -> tuple[Answer, bool]:
        """Until it is answered, over any number of restarts; and whether it was sent again."""
        is_again = False
        while True:
            await self.is_up.wait()
            try:
                answer = await self.call(method, path, body, who=who, **headers)
            except Lost:
                is_again = True
                await asyncio.sleep(0.05)  # whoever killed the service is about to say so
                continue
            if answer.status != 503:
                return answer, is_again
            is_again = True
            await asyncio.sleep(0.1)

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[tuple[int, Connection]]:
        """An answer without an end that is known; HTTP/1.0, so that its bytes are nothing but the events."""
        connection = await self._connect()
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            request = self._request("GET", path, {**OPERATOR.headers, **named}, version="1.0")
            connection.writer.write(request)
            status, _ = await connection.head()
            yield status, connection
        finally:
            connection.close()

    async def sign_in(self) -> Person:
        """As a browser does; the cookie outlives restarts."""
        answer = await self.call("POST", "/v1/session", {"token": TOKEN})
        cookie = answer.headers["set-cookie"].partition(";")[0]
        return Person("page", {"Cookie": cookie, "X-Turnkeeper-Page": answer.json["page_key"]})

    async def _connect(self) -> Connection:
        return Connection(*await asyncio.open_connection(self._host, self._port, limit=LIMIT))

    def _request(self, method: str, path: str, headers: Mapping[str, str], version: str = "1.1") -> bytes:
        host = f"{self._host}:{self._port}"
        lines = [f"{method} {path} HTTP/{version}", f"Host: {host}"]
        lines += [f"Origin: http://{host}"] if "Cookie" in headers else []
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
