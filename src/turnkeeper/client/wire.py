"""The calls on their way: sent, sent again where that does no harm, and their refusals understood.

Imported by the first client that is made and not before: httpx brings a terminal library along.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from typing import IO, Any, TypeVar

import httpx
import msgspec

from turnkeeper.client.calls import Call
from turnkeeper.client.discovery import GIVE_TOKEN, Place
from turnkeeper.client.errors import ApiError, ClientError, ServiceNotFound, ServiceUnreachable
from turnkeeper.client.following import Backoff, Loss
from turnkeeper.client.trust import Trusting

T = TypeVar("T")

QUICK_SEC = 2.0
"""How long a single call is tried again."""
PASSING = frozenset({429, 502, 503, 504})
"""Refusals that may be over soon; after some of them it is not known whether the service was reached."""
UNSURE = frozenset({502, 504})
STANDARD = frozenset({"type", "title", "status", "detail", "code", "error", "errors"})
"""Members of every problem; the others are its facts."""
POOL = httpx.Limits(keepalive_expiry=2.0)
"""Any number of connections. The service closes an idle one after 75 seconds, a proxy before it maybe sooner; we should
be the first."""
HINTS = {
    "UNAUTHORIZED": f"the service refuses the token; {GIVE_TOKEN}; one that it made itself is in the file "
    "'token' of its data directory, and a key has to be whole",
}
"""Where the service speaks to who writes HTTP by hand."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds."""

    timeout: float
    """For an answer."""
    silence: float
    """After which a stream that says nothing is taken for dead."""


class Wire:
    """For programs that wait."""

    def __init__(self, place: Place, limits: Limits) -> None:
        self._limits = limits
        with environment():
            self._place = Trusting(place)
            self._http = httpx.Client(trust_env=not place.is_here, limits=POOL, verify=self._place.context)

    def send(self, call: Call[T], patience: float | None = QUICK_SEC) -> T:
        backoff, is_again = Backoff(patience, time.monotonic()), False
        while True:
            try:
                with losses(self._place):
                    answer = self._http.send(request(self._http, self._place, call, self._limits))
                return understood(call, answer, is_again=is_again)
            except Loss as loss:
                time.sleep(pause(call, backoff, loss))
                is_again = True

    @contextmanager
    def stream(self, call: Call[Any]) -> Iterator[Iterator[bytes]]:
        with losses(self._place):
            sent = request(self._http, self._place, call, self._limits, is_stream=True)
            answer = self._http.send(sent, stream=True)
        try:
            if answer.status_code != 200:
                with losses(self._place):
                    answer.read()
                understood(call, answer)
            with closing(self._chunks(answer)) as chunks:
                yield chunks
        finally:
            answer.close()

    def _chunks(self, answer: httpx.Response) -> Generator[bytes, None, None]:
        with losses(self._place):
            yield from answer.iter_bytes()

    def fetch(self, call: Call[bytes], into: IO[bytes]) -> None:
        backoff = Backoff(QUICK_SEC)
        while True:
            into.seek(0)
            into.truncate()
            try:
                with self.stream(call) as chunks:
                    for chunk in chunks:
                        into.write(chunk)
                return
            except Loss as loss:
                time.sleep(pause(call, backoff, loss))

    def close(self) -> None:
        self._http.close()


class AsyncWire:
    """For programs that do other things meanwhile."""

    def __init__(self, place: Place, limits: Limits) -> None:
        self._limits = limits
        with environment():
            self._place = Trusting(place)
            self._http = httpx.AsyncClient(
                trust_env=not place.is_here, limits=POOL, verify=self._place.context
            )

    async def send(self, call: Call[T], patience: float | None = QUICK_SEC) -> T:
        backoff, is_again = Backoff(patience, time.monotonic()), False
        while True:
            try:
                with losses(self._place):
                    answer = await self._http.send(request(self._http, self._place, call, self._limits))
                return understood(call, answer, is_again=is_again)
            except Loss as loss:
                await asyncio.sleep(pause(call, backoff, loss))
                is_again = True

    @asynccontextmanager
    async def stream(self, call: Call[Any]) -> AsyncIterator[AsyncIterator[bytes]]:
        with losses(self._place):
            sent = request(self._http, self._place, call, self._limits, is_stream=True)
            answer = await self._http.send(sent, stream=True)
        try:
            if answer.status_code != 200:
                with losses(self._place):
                    await answer.aread()
                understood(call, answer)
            async with aclosing(self._chunks(answer)) as chunks:
                yield chunks
        finally:
            await answer.aclose()

    async def _chunks(self, answer: httpx.Response) -> AsyncGenerator[bytes, None]:
        with losses(self._place):
            async for chunk in answer.aiter_bytes():
                yield chunk

    async def fetch(self, call: Call[bytes], into: IO[bytes]) -> None:
        backoff = Backoff(QUICK_SEC)
        while True:
            into.seek(0)
            into.truncate()
            try:
                async with self.stream(call) as chunks:
                    async for chunk in chunks:
                        into.write(chunk)
                return
            except Loss as loss:
                await asyncio.sleep(pause(call, backoff, loss))

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self._http.aclose()


def request(
    http: httpx.Client | httpx.AsyncClient,
    place: Place,
    call: Call[Any],
    limits: Limits,
    *,
    is_stream: bool = False,
) -> httpx.Request:
    """Addressed to where the service is now."""
    read_sec = limits.silence if is_stream else limits.timeout + call.wait
    address = place.look()
    headers = {name.encode(): value.encode() for name, value in call.headers}
    headers |= address.headers | {b"Accept-Encoding": b"identity"}
    if call.body is not None:
        headers[b"Content-Type"] = b"application/json"
    return http.build_request(
        call.method,
        address.url + call.path,
        params=call.params or None,
        headers=headers,
        content=call.body,
        files=list(call.parts) or None,
        timeout=httpx.Timeout(limits.timeout, read=read_sec),
    )


def understood(call: Call[T], answer: httpx.Response, *, is_again: bool = False) -> T:
    status = answer.status_code
    if status == 200:
        return call.parse(answer.content)
    error = refusal(status, answer.headers, answer.content)
    if is_again and error.code in call.done:
        return call.parse(b"")
    if status in PASSING:
        raise Loss(error, was_sent=status in UNSURE, retry_after=error.retry_after)
    raise error


def refusal(status: int, headers: httpx.Headers, body: bytes) -> ApiError:
    retry_after = headers.get("retry-after", "")
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None
    try:
        told = msgspec.json.decode(body, type=dict[str, Any])
        code, message = str(told["code"]), str(told["detail"])
    except (msgspec.DecodeError, KeyError):
        message = (
            f"the answer was {status}, and not one of Turnkeeper; does the service stand at that address?"
        )
        return ApiError(f"HTTP_{status}", message, status, retry_after=seconds)
    facts = {name: value for name, value in told.items() if name not in STANDARD}
    errors = [str(each) for each in told.get("errors") or ()]
    return ApiError(code, HINTS.get(code, message), status, facts, errors, seconds)


@contextmanager
def environment() -> Iterator[None]:
    """Variables of the environment may name proxies and certificates that cannot be used."""
    try:
        yield
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        raise ClientError(
            "the environment names a proxy or certificates that cannot be used (see HTTP_PROXY, ALL_PROXY, "
            f"NO_PROXY, SSL_CERT_FILE): {_reason(error)}"
        ) from error


@contextmanager
def losses(place: Place) -> Iterator[None]:
    """What httpx says about a connection, as one kind of loss."""
    try:
        yield
    except ServiceNotFound as error:
        raise Loss(ServiceUnreachable(str(error)), was_sent=False) from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
        raise ServiceNotFound(f"{place} is no address that can be asked ({_reason(error)})") from error
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        words = f"{place} does not answer ({_reason(error)}); does the service run there?"
        raise Loss(ServiceUnreachable(words), was_sent=False) from error
    except httpx.TimeoutException as error:
        raise Loss(
            ServiceUnreachable(f"{place} did not answer in time; it hangs, or is overloaded")
        ) from error
    except httpx.RequestError as error:
        raise Loss(ServiceUnreachable(f"the connection to {place} broke ({_reason(error)})")) from error


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def pause(call: Call[Any], backoff: Backoff, loss: Loss) -> float:
    """Before the next try, if there may be one."""
    if loss.was_sent and not call.is_safe:
        raise loss.error from loss.__cause__
    return backoff.pause(loss, time.monotonic())
