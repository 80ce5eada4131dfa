"""How long a request may take to become whole. Whoever sends it byte by byte would hold a connection for ever.

The head is timed here, by one timer for each connection that has begun a request and not finished it; so is what is
left of a request that is answered already. A body is timed while somebody reads it. An answer may take its
time.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h11
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol, RequestResponseCycle

from turnkeeper.core.errors import Code
from turnkeeper.web import headers
from turnkeeper.web.address import MAX_URL, TOO_LARGE, TOO_LONG
from turnkeeper.web.problems import problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    head_sec: float = 15.0
    """From the first byte of a request, or from the beginning of the connection, to the end of the headers."""
    rest_sec: float = 30.0
    """For what is still on its way of a request that is answered already, such as an upload that was refused."""
    idle_sec: float = 30.0
    """Without a byte of the body."""
    grace_sec: float = 30.0
    """After which a body must have come at the least speed, on the average."""
    least_per_sec: float = 1024.0
    linger_sec: float = 2.0
    """After a refusal in the middle of a head: who is still sending would meet a closed door, and not read why."""


PATIENCE = Patience()


class TooSlow(HTTPException):
    """Of this kind because FastAPI takes any other for a malformed body."""

    def __init__(self) -> None:
        super().__init__(408, "the body of the request did not come in time; nothing was done")


class Whole(h11.Connection):
    """The head of an answer leaves together with what comes after it: each piece that is written by itself is a call to
    the kernel, and wakes up whoever waits for the answer."""

    _head = b""

    def send(self, event: Any) -> Any:
        data = super().send(event)
        if isinstance(event, h11.Response):
            self._head, data = data or b"", b""
        elif self._head and data is not None:
            self._head, data = b"", self._head + data
        return data


class PatientProtocol(H11Protocol):
    """uvicorn's, which waits for the rest of a request as long as anything comes; with words for what it refuses."""

    patience = PATIENCE
    _limit: asyncio.TimerHandle | None = None
    _is_refused = False

    def __init__(self, config: Config, *more: Any, **others: Any) -> None:
        super().__init__(config, *more, **others)
        assert config.h11_max_incomplete_event_size is not None
        self.conn = Whole(h11.SERVER, config.h11_max_incomplete_event_size)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.access_log = False  # an address may have a secret in it, that somebody put there by mistake
        self._limit = self.loop.call_later(self.patience.head_sec, self._give_up)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        self._time_the_rest()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._time_the_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_limit()
        super().connection_lost(exc)

    def _time_the_rest(self) -> None:
        """Once for each request that is not whole, however often something comes."""
        if self._is_refused:
            return
        seconds = self._allowed_sec()
        if seconds is None or self.transport.is_closing():
            self._forget_limit()
        elif self._limit is None:
            self._limit = self.loop.call_later(seconds, self._give_up)

    def _allowed_sec(self) -> float | None:
        match self.conn.our_state, self.conn.their_state:
            case h11.IDLE, h11.IDLE if self.conn.trailing_data[0]:
                return self.patience.head_sec
            case h11.IDLE, h11.IDLE:
                self._rest()
                return None
            case h11.DONE | h11.MUST_CLOSE, h11.SEND_BODY:
                return self.patience.rest_sec
            case _:
                return None

    def _rest(self) -> None:
        """Between two requests. uvicorn forgets this one where the last byte of a request came after its answer."""
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _forget_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _give_up(self) -> None:
        self._limit = None
        if self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            seconds = self.patience.head_sec
            self._refuse(Code.REQUEST_TIMEOUT, f"the headers were not complete after {seconds:g} seconds")
        else:
            self.transport.close()  # nothing was asked, or it is answered

    def send_400_response(self, msg: str) -> None:
        """Called where h11 refused what came; it tells by a hint whether there was too much of it."""
        error = sys.exception()
        if not isinstance(error, h11.RemoteProtocolError) or error.error_status_hint != 431:
            self._refuse(Code.INVALID_REQUEST, "this is not HTTP/1.1 as it should be")
        elif b"\n" not in self.conn.trailing_data[0][:MAX_URL]:
            self._refuse(Code.URL_TOO_LONG, TOO_LONG)
        else:
            self._refuse(Code.HEADERS_TOO_LARGE, TOO_LARGE)

    def _refuse(self, code: Code, message: str) -> None:
        """Without the application: there is no request to call it with."""
        self._forget_limit()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # something was said already, and must not be cut in two
            return
        answer = problem(code, message, headers={"Connection": "close"})
        sent = headers.completed(answer.raw_headers, is_secure=False)
        events: tuple[h11.Event, ...] = (
            h11.Response(
                status_code=answer.status_code, headers=sent, reason=STATUS_PHRASES[answer.status_code]
            ),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self._leave()

    def _leave(self) -> None:
        """What is still coming is thrown away for a moment: the kernel would answer it by taking our words back."""
        self._is_refused = True
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            # Its body is not what it should be: whoever reads it is told that nobody is there any more.
            cycle.disconnected = True
            cycle.message_event.set()
        self._limit = self.loop.call_later(self.patience.linger_sec, self.transport.close)
        if self.transport.can_write_eof():
            self.transport.write_eof()


def timed(receive: Receive, patience: Patience, has_begun_to_answer: Callable[[], bool]) -> Receive:
    """Of a body, as it is read. Only what is waited for counts: whoever writes it to a disk may take their time."""
    is_whole = False
    waited, taken = 0.0, 0

    async def next_message() -> Message:
        nonlocal is_whole, waited, taken
        if is_whole or has_begun_to_answer():
            return await receive()  # for the end of the connection, which comes when it comes
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(patience.idle_sec):
                message = await receive()
        except TimeoutError:
            if has_begun_to_answer():
                return await receive()
            raise TooSlow from None
        waited += loop.time() - began
        taken += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        is_slow = waited > patience.grace_sec and taken < waited * patience.least_per_sec
        if is_slow and not is_whole and not has_begun_to_answer():
            raise TooSlow
        return message

    return next_message
