"""Server-sent events read as the standard says: lines end with a line feed only, frames with an empty line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.harness import Client, Json


@dataclass(frozen=True)
class Frame:
    event: str
    data: Json
    id: int | None = None


@asynccontextmanager
async def connected(
    client: Client, run_id: str, *, cursor: object = None, last_event_id: object = None
) -> AsyncIterator[AsyncIterator[Frame]]:
    """One connection; leaving the context drops it, whatever was still to come."""
    params = {} if cursor is None else {"cursor": str(cursor)}
    headers = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
    url = f"/v1/jobs/{run_id}/events"
    async with client.http.stream("GET", url, params=params, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store, no-transform"
        yield frames(answer.aiter_bytes())


async def everything(client: Client, run_id: str, **where: object) -> list[Frame]:
    """Until the service has nothing more to say."""
    async with connected(client, run_id, **where) as stream:
        return [frame async for frame in stream]


async def frames(chunks: AsyncIterable[bytes]) -> AsyncIterator[Frame]:
    waiting = b""
    async for chunk in chunks:
        *whole, waiting = (waiting + chunk).split(b"\n\n")
        for text in whole:
            yield parsed(text)
    assert waiting == b"", "the stream ended in the middle of a frame"


def parsed(text: bytes) -> Frame:
    """Exactly our form: `event`, perhaps `id`, one line of `data`."""
    fields = [line.split(": ", 1) for line in text.decode().split("\n")]
    names = [name for name, _ in fields]
    assert names in (["event", "data"], ["event", "id", "data"]), text[:200]
    values = dict(fields)
    return Frame(values["event"], json.loads(values["data"]), int(values["id"]) if "id" in values else None)


def log_of(stream: list[Frame]) -> list[Json]:
    return [frame.data for frame in stream if frame.event == "chat_event"]
