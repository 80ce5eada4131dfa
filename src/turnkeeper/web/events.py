"""The log of a run: as a stream that can be lost and picked up again, and as pages."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.responses import Response, StreamingResponse

from turnkeeper.core.errors import CursorInvalid, StorageUnavailable
from turnkeeper.core.fcmp import TERMINAL, instant
from turnkeeper.runtime.feed import Subscription
from turnkeeper.runtime.house import House
from turnkeeper.store.base import LogEntry
from turnkeeper.web import schemas, views
from turnkeeper.web.calls import Call, Route
from turnkeeper.web.parts import RunId, problems

router = APIRouter(prefix="/v1/jobs", tags=["events"], route_class=Route, responses=problems(503))

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
    call: Call,
    cursor: Annotated[str | None, Query(description="Only events after this number")] = None,
    last_event_id: Annotated[str | None, Header(description="As `cursor`, and stronger")] = None,
) -> Response:
    """`snapshot`, then `chat_event`s with `id`, `heartbeat`s in silence, `end` after the last event."""
    run = await call.house.jobs.run(run_id)
    after = read_cursor(cursor if last_event_id is None else last_event_id, run.last_seq)
    headers = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
    frames = _stream(call.house, run_id, after, call.app.state.heartbeat_sec)
    frames = _while_welcome(frames, lambda: call.door.still_knows(call.caller))
    return StreamingResponse(_cut_off(frames, run_id), media_type="text/event-stream", headers=headers)


@router.get("/{run_id}/events/history", response_model=schemas.EventPage)
async def history(
    run_id: RunId,
    call: Call,
    from_seq: Annotated[int, Query(ge=1, le=schemas.LARGEST)] = 1,
    to_seq: Annotated[int | None, Query(ge=1, le=schemas.LARGEST)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """A page of the log, both ends included."""
    entries = await call.house.store.events(run_id, after=from_seq - 1, upto=to_seq, limit=limit)
    # Read after the entries: a page never says that it holds more than there is.
    run = await call.house.jobs.run(run_id)
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


async def _stream(house: House, run_id: str, after: int, heartbeat_sec: float) -> AsyncGenerator[bytes, None]:
    # Subscribed before the first read: whatever is committed meanwhile is in one of the two.
    with house.feed.subscribe(run_id) as news:
        run = await house.store.run(run_id)
        if run is None:
            return  # removed since it was asked for; whoever asks again is told so
        yield _frame("snapshot", _encode(views.run_view(run, house.dispatcher.place(run_id))))
        at, is_over = after, run.state.is_terminal and after >= run.last_seq
        while not is_over and not news.is_closed:
            async for entries in _stored(house, run_id, at):
                yield b"".join(_event_frame(entry) for entry in entries)
                at, is_over = entries[-1].seq, entries[-1].type in TERMINAL
            async for entries in _live(news, at, heartbeat_sec, is_over=is_over):
                yield b"".join(_event_frame(entry) for entry in entries) or _heartbeat(house, at)
                if entries:
                    at, is_over = entries[-1].seq, entries[-1].type in TERMINAL
        if is_over and (run := await house.store.run(run_id)) is not None:
            yield _frame("end", _encode({"status": run.state.value, "last_seq": run.last_seq}))


async def _cut_off(frames: AsyncGenerator[bytes, None], run_id: str) -> AsyncIterator[bytes]:
    """Without `end`, when the log cannot be read: whoever follows comes back, and is told then what goes wrong."""
    async with aclosing(frames):
        try:
            async for frame in frames:
                yield frame
        except StorageUnavailable as error:
            log.error("run=%s a stream of its events is cut off: %s", run_id, error.message)


async def _while_welcome(
    frames: AsyncGenerator[bytes, None], is_welcome: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """Not a word more to a key that was revoked meanwhile, or has expired."""
    async with aclosing(frames):
        async for frame in frames:
            if not is_welcome():
                return
            yield frame


async def _stored(house: House, run_id: str, after: int) -> AsyncIterator[list[LogEntry]]:
    """Many small events at once, or few large ones."""
    limit = FIRST_PAGE
    while entries := await house.store.events(run_id, after=after, upto=None, limit=limit):
        yield entries
        after = entries[-1].seq
        size = sum(len(entry.body) for entry in entries)
        limit = max(1, min(PAGE, 4 * limit, limit * PAGE_BYTES // size))


async def _live(
    news: Subscription, at: int, heartbeat_sec: float, *, is_over: bool
) -> AsyncIterator[list[LogEntry]]:
    """What is committed from now on; an empty list for a heartbeat. Ends when the store must be asked again."""
    while not is_over:
        has_news = await news.wait(heartbeat_sec)
        if news.is_closed:
            return
        entries = [entry for entry in news.take() if entry.seq > at]
        if not has_news:
            yield []
        elif not entries or entries[0].seq != at + 1:
            return  # we fell behind, or nothing new was said
        else:
            at, is_over = entries[-1].seq, entries[-1].type in TERMINAL
            yield entries


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
