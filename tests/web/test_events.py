"""The log as a stream: it can be lost and picked up anywhere, and always tells the whole story once."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness import PATIENCE, TOKEN, Client, Json, Place, let_in, opened
from tests.spec.scripts import INTERACTIVE, Latch, script
from tests.web.patience import eventually
from tests.web.problems import assert_problem
from tests.web.requests import TALK
from tests.web.sse import Frame, connected, everything, log_of, parsed
from turnkeeper.core.errors import Code
from turnkeeper.web.app import make_app


async def test_snapshot_then_the_log_then_the_end(client: Client, told: tuple[str, list[Json]]) -> None:
    run_id, log = told
    first, *middle, last = await everything(client, run_id)
    assert first == Frame("snapshot", await client.get(run_id))
    assert [frame.event for frame in middle] == ["chat_event"] * len(log)
    assert [frame.id for frame in middle] == [event["seq"] for event in log]
    assert [frame.data for frame in middle] == log
    assert last == Frame("end", {"status": "succeeded", "last_seq": len(log)})


async def test_both_ways_to_say_where_to_go_on(client: Client, told: tuple[str, list[Json]]) -> None:
    run_id, log = told
    for after in (0, 1, len(log) // 2, len(log) - 1, len(log)):
        by_cursor = await everything(client, run_id, cursor=after)
        assert log_of(by_cursor) == log[after:]
        assert [by_cursor[0].event, by_cursor[-1].event] == ["snapshot", "end"]
        assert await everything(client, run_id, last_event_id=after) == by_cursor


async def test_last_event_id_beats_the_cursor(client: Client, told: tuple[str, list[Json]]) -> None:
    run_id, log = told
    assert log_of(await everything(client, run_id, cursor=2, last_event_id=5)) == log[5:]
    assert log_of(await everything(client, run_id, cursor=5, last_event_id=2)) == log[2:]
    assert log_of(await everything(client, run_id, cursor="garbage", last_event_id=2)) == log[2:]


async def test_empty_cursor_means_from_the_start(client: Client, told: tuple[str, list[Json]]) -> None:
    run_id, log = told
    assert log_of(await everything(client, run_id, cursor="")) == log


@pytest.mark.failure("E03")
@pytest.mark.parametrize(
    "cursor",
    [
        "{beyond}",
        "-1",
        "1.5",
        "x",
        "0x1",
        "+1",
        "²",
        "१",
        "9" * 30,
        "9" * 5000,
        "0" * 30 + "9999",
        "0" * 5000,
    ],
    ids=lambda text: text[:12],
)
@pytest.mark.parametrize("way", ["cursor", "header"])
async def test_cursor_outside_the_log_is_refused_with_its_range(
    client: Client, told: tuple[str, list[Json]], cursor: str, way: str
) -> None:
    run_id, log = told
    given = cursor.format(beyond=len(log) + 1)
    if way == "cursor":
        answer = await client.http.get(f"/v1/jobs/{run_id}/events", params={"cursor": given})
    else:
        headers = [(b"Last-Event-ID", given.encode())]
        answer = await client.http.get(f"/v1/jobs/{run_id}/events", headers=headers)
    problem = assert_problem(answer, 400, Code.CURSOR_INVALID)
    assert problem["last_seq"] == len(log)


@pytest.mark.failure("E01")
async def test_reader_that_loses_every_connection_misses_nothing(client: Client, latch: Latch) -> None:
    """While the run is under way, and once more after its end."""
    run_id = await client.create("answer", TALK, **INTERACTIVE)
    live: list[Json] = []
    ends = 0
    while not ends:
        async with connected(client, run_id, last_event_id=len(live) or None) as stream:
            assert (await anext(stream)).event == "snapshot"
            frame = await anext(stream)
        if frame.event == "end":
            ends += 1
        else:
            assert frame.event == "chat_event"
            live.append(frame.data)
            if frame.data["type"] == "user.input.required":
                await client.reply(run_id, "blue")
    log = await client.events(run_id)
    assert live == log

    late: list[Json] = []
    for after in range(len(log)):
        async with connected(client, run_id, last_event_id=after) as stream:
            assert (await anext(stream)).event == "snapshot"
            late.append((await anext(stream)).data)
    assert late == log


@pytest.mark.failure("E01")
async def test_reader_that_comes_and_goes_at_will_misses_nothing(client: Client) -> None:
    run_id = await client.create("answer", TALK, **INTERACTIVE)
    chance = random.Random(5)
    seen: list[Json] = []
    is_over = False
    while not is_over:
        stay = chance.randint(0, 5)
        async with connected(client, run_id, cursor=len(seen)) as stream:
            async for frame in stream:
                if frame.event == "chat_event":
                    seen.append(frame.data)
                    if frame.data["type"] == "user.input.required":
                        await client.reply(run_id, "blue")
                is_over = frame.event == "end"
                stay -= 1
                if stay < 0:
                    break
    assert seen == await client.events(run_id)


async def test_stays_open_across_a_question_and_waits_at_the_end_of_the_log(
    place: Place, client: Client
) -> None:
    run_id = await client.create("answer", TALK, **INTERACTIVE)
    before = (await client.settled(run_id))["last_seq"]
    listening = asyncio.ensure_future(everything(client, run_id, cursor=before))
    await eventually(lambda: len(place.house.feed) == 1)
    assert not listening.done()
    await client.reply(run_id, "blue")
    heard = await asyncio.wait_for(listening, PATIENCE)
    assert heard[0].data["status"] == "waiting_user"
    assert heard[0].data["last_seq"] == before
    assert log_of(heard) == (await client.events(run_id))[before:]
    assert heard[-1].data["status"] == "succeeded"


async def test_cursor_at_the_end_of_a_finished_run_gives_snapshot_and_end(
    client: Client, told: tuple[str, list[Json]]
) -> None:
    run_id, log = told
    assert [frame.event for frame in await everything(client, run_id, cursor=len(log))] == ["snapshot", "end"]


@pytest.mark.failure("E06")
async def test_early_and_late_listeners_hear_the_same(place: Place, client: Client, latch: Latch) -> None:
    run_id = await client.create(
        "answer", script([*latch.steps, {"say": "one"}, {"result": {"answer": "two"}}])
    )
    early = asyncio.ensure_future(everything(client, run_id))
    await latch.reached()
    await eventually(lambda: len(place.house.feed) == 1)
    middle = asyncio.ensure_future(everything(client, run_id))
    latch.open()
    await client.ended(run_id)
    late = await everything(client, run_id)
    assert log_of(await early) == log_of(await middle) == log_of(late) == await client.events(run_id)
    assert (await early)[-1] == late[-1]
    assert (await early)[0].data["status"] in ("queued", "running")
    assert late[0].data["status"] == "succeeded"


async def test_canceled_run_ends_its_streams(place: Place, client: Client) -> None:
    run_id = await client.create("answer", TALK, **INTERACTIVE)
    await client.settled(run_id)
    listening = asyncio.ensure_future(everything(client, run_id))
    await eventually(lambda: len(place.house.feed) == 1)
    await client.cancel(run_id)
    heard = await asyncio.wait_for(listening, PATIENCE)
    assert heard[-2].data["type"] == "conversation.canceled"
    assert heard[-1].data["status"] == "canceled"


@pytest.mark.failure("E04")
async def test_fifty_listeners_hear_the_same(place: Place, client: Client, latch: Latch) -> None:
    many = [{"think": f"thought {n}"} for n in range(100)]
    run_id = await client.create("answer", script([*latch.steps, *many, {"result": {"answer": "x"}}]))
    listeners = [asyncio.ensure_future(everything(client, run_id)) for _ in range(50)]
    await eventually(lambda: len(place.house.feed) == 50)
    latch.open()
    heard = await asyncio.wait_for(asyncio.gather(*listeners), PATIENCE)
    log = await client.events(run_id)
    assert len(log) > 100
    assert all(log_of(each) == log for each in heard)
    await eventually(lambda: len(place.house.feed) == 0)


@pytest.mark.failure("E04")
async def test_reader_that_does_not_read_holds_nobody_up_and_misses_nothing(
    place: Place, client: Client, latch: Latch
) -> None:
    """More than the sockets between us can hold, then more than is kept for it: the store has the rest."""
    large = [{"think": f"{n} {{{{input.long}}}}"} for n in range(50)]
    many = [{"think": f"thought {n}"} if n % 100 else {"sleep": 0.005} for n in range(2000)]
    play = script([*latch.steps, *large, *many, {"result": {"answer": "x"}}])
    run_id = await client.create("answer", play, input={"long": "x" * 200_000})
    await latch.reached()
    loop = asyncio.get_running_loop()
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.setblocking(False)
        await loop.sock_connect(lazy, ("127.0.0.1", httpx.URL(place.service.url).port))
        # HTTP/1.0: the body is sent as it is, and ends with the connection.
        head = f"GET /v1/jobs/{run_id}/events HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        await loop.sock_sendall(lazy, head.encode())
        await eventually(lambda: len(place.house.feed) == 1)
        latch.open()
        assert (await client.settled(run_id))["status"] == "succeeded"
        body = bytearray()
        async with asyncio.timeout(PATIENCE):
            while chunk := await loop.sock_recv(lazy, 1 << 20):
                body += chunk
    _, _, text = bytes(body).partition(b"\r\n\r\n")
    heard = [parsed(frame) for frame in text.removesuffix(b"\n\n").split(b"\n\n")]
    assert log_of(heard) == await client.events(run_id)
    assert len(heard) > 2000
    assert (heard[0].event, heard[-1].event) == ("snapshot", "end")


@pytest.mark.failure("E02")
async def test_listener_that_is_gone_is_forgotten(place: Place, client: Client) -> None:
    run_id = await client.create("answer", TALK, **INTERACTIVE)
    await client.settled(run_id)
    for _ in range(3):
        async with connected(client, run_id) as stream:
            await anext(stream)
            await eventually(lambda: len(place.house.feed) == 1)
        await eventually(lambda: len(place.house.feed) == 0)
    await client.cancel(run_id)


async def test_reader_that_is_stuck_in_the_middle_reads_the_rest_from_the_store(
    place: Place, client: Client, latch: Latch
) -> None:
    """The first live event is not taken off us until the run is over, and far more was said than we keep."""
    many = [{"think": f"thought {n}"} if n % 50 else {"sleep": 0.002} for n in range(1, 1000)]
    run_id = await client.create("answer", script([*latch.steps, *many, {"result": {"answer": "x"}}]))
    await latch.reached()
    before = (await client.get(run_id))["last_seq"]
    reader = Overheard(let_in(make_app(place.house, place.service.door)), run_id, stuck_after=1 + before)
    listening = asyncio.ensure_future(reader.listen())
    await eventually(lambda: len(reader.heard) == 1 + before)
    latch.open()
    assert (await client.settled(run_id))["status"] == "succeeded"
    reader.unstuck.set()
    await asyncio.wait_for(listening, PATIENCE)
    assert log_of(reader.heard) == await client.events(run_id)
    assert reader.heard[-1].event == "end"


async def test_heartbeats_in_silence(place: Place, client: Client) -> None:
    run_id = await client.create("answer", TALK, **INTERACTIVE)
    last_seq = (await client.settled(run_id))["last_seq"]
    reader = Overheard(
        let_in(make_app(place.house, place.service.door, heartbeat_sec=0.01)), run_id, cursor=last_seq
    )
    listening = asyncio.ensure_future(reader.listen())
    await eventually(lambda: len(reader.heard) >= 4)
    reader.gone.set()
    await asyncio.wait_for(listening, PATIENCE)
    snapshot, *rest = reader.heard
    assert snapshot.event == "snapshot"
    for frame in rest:
        assert (frame.event, frame.id) == ("heartbeat", None), "a heartbeat is not a place in the log"
        assert frame.data["last_seq"] == last_seq
        assert frame.data["ts"].endswith("Z")
    await client.cancel(run_id)


async def test_heartbeats_come_every_quarter_of_a_minute(place: Place) -> None:
    assert make_app(place.house, place.service.door).state.heartbeat_sec == 15


class Overheard:
    """A stream without a network between: the reader decides when it takes a frame, and when it leaves."""

    def __init__(self, app: Any, run_id: str, *, cursor: int = 0, stuck_after: int | None = None) -> None:
        self.heard: list[Frame] = []
        self.unstuck = asyncio.Event()
        self.gone = asyncio.Event()
        self._app = app
        self._path = f"/v1/jobs/{run_id}/events"
        self._query = f"cursor={cursor}"
        self._stuck_after = stuck_after

    async def listen(self) -> None:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "root_path": "",
            "query_string": self._query.encode(),
            "headers": [],
        }
        await self._app(scope, self._receive, self._send)

    async def _receive(self) -> Json:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Json) -> None:
        if self._stuck_after is not None and len(self.heard) >= self._stuck_after:
            await self.unstuck.wait()
        body = message.get("body", b"")
        self.heard += [parsed(text) for text in body.removesuffix(b"\n\n").split(b"\n\n") if text]


async def test_stop_of_the_service_ends_open_streams(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Promptly, and between two frames: a reader comes back to the next start with its last id."""
    async with opened(tmp_path / "data") as place:
        run_id = await place.client.create("answer", TALK, **INTERACTIVE)
        await place.client.settled(run_id)
        reader = Client(place.service.url)
        listeners = [asyncio.ensure_future(everything(reader, run_id)) for _ in range(5)]
        await eventually(lambda: len(place.house.feed) == 5)
    assert "graceful shutdown exceeded" not in caplog.text
    heard = await asyncio.wait_for(asyncio.gather(*listeners), PATIENCE)
    await reader.http.aclose()
    for each in heard:
        assert each == heard[0]
        assert each[-1].event == "chat_event", "no end: the run goes on"

    async with opened(tmp_path / "data") as place:
        last = heard[0][-1].id
        await place.client.reply(run_id, "blue")
        rest = await everything(place.client, run_id, last_event_id=last)
        assert log_of(heard[0]) + log_of(rest) == await place.client.events(run_id)
