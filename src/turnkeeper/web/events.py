"""The log of a run: as a stream that can be lost and picked up again, and as pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnkeeper.core.errors import CursorInvalid, StorageUnavailable
from turnkeeper.core.fcmp import TERMINAL, instant
from turnkeeper.runtime.feed import Subscription
from turnkeeper.runtime.house import House
from turnkeeper.store.base import LogEntry
from turnkeeper.web import schemas, views
from turnkeeper.web.parts import CallerOf, DoorOf, HouseOf, RunId, problems

router = APIRouter(prefix="/v1/jobs", tags=["events"], responses=problems(503))

log = logging.getLogger(__name__)

HEARTBEAT_SEC = 15.0
FIRST_PAGE, PAGE = 4, 500
PAGE_BYTES = 256 * 1024
"""Read from the store at once: what a reader does not take is held for it, and there may be many of them."""
MAX_DIGITS = 18

_encode = msgspec.json.encode
_FRAME = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["snapshot", "chat_event", "heartbeat", "end"]},
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
_SSE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {"schema": _FRAME}},
        "description": "Server-sent events; the schema is that of each",
    },
}


@router.get("/{run_id}/events", response_class=Response, responses=_SSE)
async def follow(
    run_id: RunId,
    house: HouseOf,
    door: DoorOf,
    caller: CallerOf,
    request: Request,
    cursor: Annotated[str | None, Query(description="Only events after this number")] = None,
    last_event_id: Annotated[str | None, Header(description="As `cursor`, and stronger")] = None,
) -> Response:
    """`snapshot`, then `chat_event`s with `id`, `heartbeat`s in silence, `end` after the last event."""
    run = await house.jobs.run(run_id)
    after = read_cursor(cursor if last_event_id is None else last_event_id, run.last_seq)
    heartbeat_sec = request.app.state.heartbeat_sec
    return EventStream(house, run_id, after, lambda: door.still_knows(caller), heartbeat_sec)


@router.get("/{run_id}/events/history", response_model=schemas.EventPage)
async def history(
    run_id: RunId,
    house: HouseOf,
    from_seq: Annotated[int, Query(ge=1, le=schemas.LARGEST)] = 1,
    to_seq: Annotated[int | None, Query(ge=1, le=schemas.LARGEST)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """A page of the log, both ends included."""
    entries = await house.store.events(run_id, after=from_seq - 1, upto=to_seq, limit=limit)
    # Read after the entries: a page never says that it holds more than there is.
    run = await house.jobs.run(run_id)
    last = entries[-1].seq if entries else from_seq - 1
    more = last < min(run.last_seq, to_seq or run.last_seq) and bool(entries)
    # The bodies are JSON already; they are joined, not parsed and encoded again.
    body = b'{"request_id":%s,"events":[%s],"last_seq":%d,"next_from_seq":%s}' % (
        _encode(run_id),
        b",".join(entry.body for entry in entries),
        run.last_seq,
        b"%d" % (last + 1) if more else b"null",
    )
    return Response(body, media_type="application/json")


class EventStream(Response):
    """What one listener is told, for as long as they listen."""

    def __init__(
        self, house: House, run_id: str, after: int, is_welcome: Callable[[], bool], heartbeat_sec: float
    ) -> None:
        # Not by `super`, which would say how long it is.
        self.status_code = 200
        self.media_type = "text/event-stream"
        self.background = None
        self.init_headers({"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"})
        self._house = house
        self._run_id = run_id
        self._after = after
        self._is_welcome = is_welcome
        self._heartbeat_sec = heartbeat_sec

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Subscribed before the first read: whatever is committed meanwhile is in one of the two.
        with self._house.feed.subscribe(self._run_id) as news:
            watch = asyncio.create_task(_close_when_gone(news, receive))
            try:
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await self._tell(_Listener(news, self._after, send, self._is_welcome))
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                watch.cancel()

    async def _tell(self, listener: _Listener) -> None:
        try:
            await self._tell_snapshot(listener)
            while listener.wants_more:
                await self._tell_stored(listener)
                await self._tell_live(listener)
            if listener.has_all:
                await self._tell_end(listener)
        except StorageUnavailable as error:
            # Without `end`: whoever follows comes back, and is told then what goes wrong.
            log.error("run=%s a stream of its events is cut off: %s", self._run_id, error.message)

    async def _tell_snapshot(self, listener: _Listener) -> None:
        run = await self._house.store.run(self._run_id)
        if run is None:
            listener.news.close()  # removed since it was asked for; whoever asks again is told so
            return
        listener.has_all = run.state.is_terminal and listener.at >= run.last_seq
        shown = views.run_view(run, self._house.dispatcher.place(self._run_id))
        await listener.tell(_frame("snapshot", _encode(shown)))

    async def _tell_stored(self, listener: _Listener) -> None:
        """Many small events at once, or few large ones."""
        limit = FIRST_PAGE
        while entries := await self._house.store.events(
            self._run_id, after=listener.at, upto=None, limit=limit
        ):
            await listener.tell_events(entries)
            if listener.news.is_closed:
                return
            size = sum(len(entry.body) for entry in entries)
            limit = max(1, min(PAGE, 4 * limit, limit * PAGE_BYTES // size))

    async def _tell_live(self, listener: _Listener) -> None:
        """What is committed from now on, until the end, or until the store must be asked again."""
        while listener.wants_more:
            if not await listener.news.wait(self._heartbeat_sec):
                await listener.tell(_heartbeat(self._house, listener.at))
            elif not await listener.tell_events(listener.news.take(after=listener.at)):
                return  # they fell behind, or nothing new was said

    async def _tell_end(self, listener: _Listener) -> None:
        run = await self._house.store.run(self._run_id)
        if run is not None:
            end = {"status": run.state.value, "last_seq": run.last_seq}
            await listener.tell(_frame("end", _encode(end)))


@dataclass(slots=True)
class _Listener:
    """Where one of them is. There may be a thousand, and most of them wait: nothing else is held for them then, and no
    text that they were told."""

    news: Subscription
    at: int
    send: Send
    is_welcome: Callable[[], bool]
    has_all: bool = False
    """The run is over, and they know how it ended."""

    @property
    def wants_more(self) -> bool:
        return not (self.has_all or self.news.is_closed)

    async def tell(self, frames: bytes) -> None:
        """Not a word more to a key that was revoked meanwhile, or has expired."""
        if self.is_welcome():
            await self.send({"type": "http.response.body", "body": frames, "more_body": True})
        else:
            self.news.close()

    async def tell_events(self, entries: Sequence[LogEntry]) -> bool:
        """False if these are not the next."""
        if not entries or entries[0].seq != self.at + 1:
            return False
        self.at, self.has_all = entries[-1].seq, entries[-1].type in TERMINAL
        await self.tell(b"".join(map(_event_frame, entries)))
        return True


async def _close_when_gone(news: Subscription, receive: Receive) -> None:
    with suppress(HTTPException):  # by it the guard shows out whom it does not know any more
        while (await receive())["type"] != "http.disconnect":
            pass
    news.close()


def _event_frame(entry: LogEntry) -> bytes:
    return b"event: chat_event\nid: %d\ndata: %s\n\n" % (entry.seq, entry.body)


def _heartbeat(house: House, at: int) -> bytes:
    return _frame("heartbeat", _encode({"ts": instant(house.clock()), "last_seq": at}))


def _frame(event: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), data)


def read_cursor(given: str | None, last_seq: int) -> int:
    """The number after which the stream goes on; none means from the beginning."""
    if given is None or given == "":
        return 0
    is_number = given.isascii() and given.isdigit() and len(given) <= MAX_DIGITS
    if not is_number or int(given) > last_seq:
        raise CursorInvalid(
            f"the cursor must be a number from 0 to {last_seq}, the last event of this run",
            last_seq=last_seq,
        )
    return int(given)
