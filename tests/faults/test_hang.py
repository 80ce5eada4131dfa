"""The event loop stands still: it is told while it lasts, and seen afterwards."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from tests.crash.restarts import started
from tests.harness import Place, opened
from turnkeeper.runtime.alarm import WatchedLoop
from turnkeeper.web.events import EventStream

BLOCKED_SEC = 10.0
HEARTBEAT_SEC = 0.2


@pytest.fixture(scope="module")
def anyio_backend() -> Any:
    return ("asyncio", {"loop_factory": partial(WatchedLoop, BLOCKED_SEC / 2)})


def a_call_that_never_should_have_blocked() -> None:
    time.sleep(BLOCKED_SEC)


@pytest.mark.failure("V08")
async def test_ten_seconds_are_told_and_seen(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="turnkeeper.runtime.alarm")
    run_id = await place.client.create(script="ask", execution_mode="interactive")
    last_seq = (await place.client.settled(run_id))["last_seq"]
    assert hangs(await metrics(place)) == 0
    async with aclosing(heartbeats(place, run_id, last_seq)) as beats:
        before = await anext(beats)
        asyncio.get_running_loop().call_soon(a_call_that_never_should_have_blocked)
        after = await anext(beats)

    assert (after - before).total_seconds() >= BLOCKED_SEC, "whoever listens sees that nobody spoke"
    told, over = caplog.messages
    assert re.match(r"the event loop has stood still for \d+\.\d s", told)
    assert "in a_call_that_never_should_have_blocked\n    time.sleep(BLOCKED_SEC)" in told
    assert re.match(r"the event loop stood still for \d+\.\d s; it goes on", over)
    seen = await metrics(place)
    assert hangs(seen) == 1
    assert hangs(seen, "turnkeeper_loop_hang_longest_seconds") >= BLOCKED_SEC
    # Nothing was lost by it.
    await place.client.reply(run_id, "blue")
    assert (await place.client.ended(run_id))["status"] == "succeeded"


async def test_the_command_has_the_alarm(tmp_path: Path) -> None:
    async with started(tmp_path / "data") as daemon:
        assert hangs((await daemon.client.http.get("/metrics")).text) == 0


async def test_without_an_alarm_nothing_is_claimed(tmp_path: Path) -> None:
    def in_a_plain_loop() -> str:
        async def look() -> str:
            async with opened(tmp_path / "data") as place:
                return await metrics(place)

        return asyncio.run(look())

    assert "loop_hang" not in await asyncio.to_thread(in_a_plain_loop)


async def heartbeats(place: Place, run_id: str, after: int) -> AsyncGenerator[datetime, None]:
    """Of a stream that is asked for them more often than anybody does."""
    frames = asyncio.Queue[bytes]()

    async def receive() -> Message:
        return await asyncio.Future[Message]()  # somebody who stays

    async def send(message: Message) -> None:
        await frames.put(message.get("body", b""))

    stream = EventStream(place.house, run_id, after, lambda: True, HEARTBEAT_SEC)
    listening = asyncio.ensure_future(stream({}, receive, send))
    try:
        while True:
            frame = await frames.get()
            if frame.startswith(b"event: heartbeat\n"):
                yield datetime.fromisoformat(json.loads(frame.partition(b"data: ")[2])["ts"])
    finally:
        listening.cancel()


async def metrics(place: Place) -> str:
    return (await place.client.http.get("/metrics")).text


def hangs(text: str, name: str = "turnkeeper_loop_hangs_total") -> float:
    (value,) = re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(value)
