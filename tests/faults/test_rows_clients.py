"""Streams and clients: cut, slow, many, old, gone, or asking for what is not theirs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.crash.restarts import started
from tests.harness import PATIENCE, TOKEN, Client, Json, Place, opened
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, Latch, script
from tests.web.patience import eventually
from tests.web.sse import log_of, parsed
from turnkeeper.web.events import HEARTBEAT_SEC
from turnkeeper.wiring import DEAD_PEER_SEC

TALK = script([ASK], [ANSWER])
IDLE_CUT_SEC = 60
"""After which common proxies cut a connection on which nothing is said."""


def request(path: str, version: str = "1.0", **headers: str) -> bytes:
    lines = [f"GET {path} HTTP/{version}", "Host: localhost", f"Authorization: Bearer {TOKEN}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def answered(url: str, asked: bytes) -> tuple[str, dict[str, str], bytes]:
    """By a client that reads until the connection ends: status line, headers, body."""
    port = httpx.URL(url).port
    assert port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(asked)
        async with asyncio.timeout(PATIENCE):
            head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    finally:
        writer.close()
    status, *fields = head.decode().split("\r\n")
    return status, dict(field.lower().split(": ", 1) for field in fields), body


def log_in(body: bytes) -> list[Json]:
    return log_of([parsed(frame) for frame in body.removesuffix(b"\n\n").split(b"\n\n")])


# Half-open


def listener_of(place: Place) -> socket.socket:
    """The socket on which the service of this process waits for its clients."""
    port = httpx.URL(place.service.url).port
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            found = socket.socket(fileno=os.dup(int(name)))
            is_listening = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if is_listening and found.family == socket.AF_INET and found.getsockname()[1] == port:
                return found
            found.close()
    raise AssertionError("nobody listens")


@pytest.mark.failure("E02")
async def test_peer_that_takes_nothing_any_more_is_dropped(place: Place) -> None:
    """The connection stands, as after a cable was cut, and heartbeats or events pile up in front of it."""
    long = [{"think": f"{n} {{{{input.long}}}}"} for n in range(40)]
    run_id = await place.client.create(
        script=script([*long, ASK], [ANSWER]), input={"long": "x" * 200_000}, **INTERACTIVE
    )
    await place.client.settled(run_id)
    with listener_of(place) as listener:
        allowed = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert allowed == DEAD_PEER_SEC * 1000
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 500)
        with socket.socket() as dead:
            dead.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            dead.connect(listener.getsockname())
            dead.sendall(request(f"/v1/jobs/{run_id}/events"))
            await eventually(lambda: len(place.house.feed) == 1)
            await eventually(lambda: len(place.house.feed) == 0)
    await place.client.cancel(run_id)


async def test_a_resting_connection_is_closed_by_the_client_first(place: Place) -> None:
    """One that the service closes while the next call is on its way is a call that fails for no reason."""
    kept_by_clients = httpx.Limits().keepalive_expiry
    assert kept_by_clients is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(place.service.url).port)
    for resting_sec in (kept_by_clients + 1, 0.0):
        writer.write(request("/healthz", "1.1"))
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(resting_sec):
                await reader.read(1)  # the end of the connection, if it came, would be read here
    writer.close()


# Cursors


@pytest.mark.failure("E03")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/jobs?cursor=garbage", "CURSOR_INVALID"),
        ("/v1/jobs?cursor=-1", "CURSOR_INVALID"),
        ("/v1/jobs?cursor=%00", "CURSOR_INVALID"),
        ("/v1/jobs/{run}/events/history?from_seq=-1", "INVALID_REQUEST"),
        ("/v1/jobs/{run}/events/history?from_seq=x", "INVALID_REQUEST"),
        ("/v1/jobs/{run}/events?cursor=-1", "CURSOR_INVALID"),
        ("/v1/jobs/{run}/events?cursor=x", "CURSOR_INVALID"),
        ("/v1/jobs/{run}/events?cursor=99999", "CURSOR_INVALID"),
    ],
)
async def test_cursor_that_is_none_is_refused_and_says_what_there_is(
    place: Place, path: str, code: str
) -> None:
    run_id = await place.client.create(script="done")
    last_seq = (await place.client.ended(run_id))["last_seq"]
    refused = await place.client.http.get(path.format(run=run_id))
    assert (refused.status_code, refused.json()["code"]) == (400, code), refused.text
    if "events?" in path:
        assert refused.json()["last_seq"] == last_seq


@pytest.mark.failure("E03")
async def test_page_behind_the_end_of_the_log_is_empty(place: Place) -> None:
    """One who reads page by page comes there, and begins again when there is more."""
    run_id = await place.client.create(script="done")
    await place.client.ended(run_id)
    page = (await place.client.http.get(f"/v1/jobs/{run_id}/events/history?from_seq=99999")).json()
    assert (page["events"], page["next_from_seq"]) == ([], None)


# Many and slow


READERS, LAZY = 1000, 20
ROOM = 150 * 1024 * 1024
"""Bytes that the service may grow by: what the lazy ones have not read is four times as much."""


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * resource.getpagesize()


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """For a client with so many connections."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * READERS
    if before[1] != resource.RLIM_INFINITY and before[1] < wanted:
        pytest.skip(f"a process may have {before[1]} files open here, and {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], wanted), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.failure("E04")
async def test_thousand_readers_and_slow_ones_cost_little_and_miss_nothing(tmp_path: Path) -> None:
    latch = Latch(tmp_path)
    large = [{"think": f"{n} {{{{input.long}}}}"} for n in range(150)]
    play = script([*latch.steps, *large, ANSWER])
    with many_files():
        async with started(tmp_path / "data") as daemon:
            resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
            quiet = await daemon.client.create(script=TALK, **INTERACTIVE)
            await daemon.client.settled(quiet)
            loud = await daemon.client.create(script=play, input={"long": "x" * 200_000})
            await latch.reached()
            before = resident_bytes(daemon.pid)
            asked = request(f"/v1/jobs/{quiet}/events")
            many = [asyncio.ensure_future(answered(daemon.client.url, asked)) for _ in range(READERS)]
            lazy = [await lazily(daemon.client.url, loud) for _ in range(LAZY)]
            latch.open()
            assert (await daemon.client.settled(loud))["status"] == "succeeded"
            await daemon.client.reply(quiet, "blue")
            heard = await asyncio.gather(*many)
            assert resident_bytes(daemon.pid) - before < ROOM
            log = await daemon.client.events(quiet)
            assert all(log_in(body) == log for _, _, body in heard)
            said = await daemon.client.events(loud)
            first, *others = lazy
            assert log_in(await in_drops(first)) == said
            for each in (first, *others):
                each.close()


async def lazily(url: str, run_id: str) -> socket.socket:
    """Connected, and not reading."""
    loop, port = asyncio.get_running_loop(), httpx.URL(url).port
    lazy = socket.socket()
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lazy.setblocking(False)
    await loop.sock_connect(lazy, ("127.0.0.1", port))
    await loop.sock_sendall(lazy, request(f"/v1/jobs/{run_id}/events"))
    return lazy


async def in_drops(lazy: socket.socket) -> bytes:
    """The beginning byte by byte, and then all of it: the rest of the story would take a year."""
    loop, body = asyncio.get_running_loop(), bytearray()
    async with asyncio.timeout(PATIENCE):
        for _ in range(200):
            body += await loop.sock_recv(lazy, 1)
        while part := await loop.sock_recv(lazy, 1 << 16):
            body += part
    return bytes(body).partition(b"\r\n\r\n")[2]


# Proxies and old clients


@pytest.mark.failure("E05")
async def test_stream_tells_proxies_to_pass_it_on_and_beats_before_they_cut(place: Place) -> None:
    run_id = await place.client.create(script="done")
    await place.client.ended(run_id)
    async with place.client.http.stream("GET", f"/v1/jobs/{run_id}/events") as answer:
        assert answer.headers["x-accel-buffering"] == "no"
        assert {"no-store", "no-transform"} <= set(answer.headers["cache-control"].split(", "))
        assert "content-encoding" not in answer.headers
    assert 2 * HEARTBEAT_SEC < IDLE_CUT_SEC, "one may be lost"


@pytest.mark.failure("E05")
async def test_client_of_the_last_century_reads_the_stream_to_its_end(place: Place) -> None:
    """HTTP/1.0 knows no chunks: the body is as it is, and ends with the connection."""
    run_id = await place.client.create(script=TALK, **INTERACTIVE)
    await place.client.settled(run_id)
    reading = asyncio.ensure_future(answered(place.service.url, request(f"/v1/jobs/{run_id}/events")))
    await eventually(lambda: len(place.house.feed) == 1)
    await place.client.reply(run_id, "blue")
    status, headers, body = await reading
    assert status.split()[1] == "200"
    assert "transfer-encoding" not in headers
    assert log_in(body) == await place.client.events(run_id)


@pytest.mark.failure("E05")
@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_long_poll_answers_when_there_is_something_to_say(place: Place, version: str) -> None:
    """For whoever cannot have a stream: one whole answer, as soon as the run waits or is over."""
    latch = Latch(place.settings.data_dir)
    run_id = await place.client.create(script=script([*latch.steps, ASK], [ANSWER]), **INTERACTIVE)
    asked = request(f"/v1/jobs/{run_id}", version, Prefer=f"wait={PATIENCE}", Connection="close")
    polling = asyncio.ensure_future(answered(place.service.url, asked))
    await latch.reached()
    assert not polling.done()
    latch.open()
    status, headers, body = await polling
    assert (status.split()[1], int(headers["content-length"])) == ("200", len(body))
    assert json.loads(body)["status"] == "waiting_user"
    await place.client.cancel(run_id)


@asynccontextmanager
async def hoarding_proxy(url: str) -> AsyncIterator[str]:
    """Passes an answer on when it has all of it, as some do whatever they are told."""
    port = httpx.URL(url).port

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        upstream, there = await asyncio.open_connection("127.0.0.1", port)
        there.write(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        writer.write(await upstream.read(-1))
        await writer.drain()
        for each in (there, writer):
            each.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.failure("E05")
async def test_conversation_through_a_proxy_that_hoards(place: Place) -> None:
    """The stream is of no use there; polls and pages tell the same."""
    async with hoarding_proxy(place.service.url) as url:
        run_id = await place.client.create(script=TALK, **INTERACTIVE)
        far = Client(url)
        far.http.headers["Connection"] = "close"
        try:
            assert (await far.settled(run_id))["status"] == "waiting_user"
            pending = await far.pending(run_id)
            await place.client.post_reply(run_id, pending["interaction_id"], "blue")
            assert (await far.settled(run_id))["status"] == "succeeded"
            assert await far.events(run_id) == await place.client.events(run_id)
            assert [each async for each in far.follow(run_id)] == await place.client.events(run_id)
        finally:
            await far.http.aclose()


# What is somebody else's


@pytest.mark.failure("E07")
async def test_id_and_cursor_of_another_service_are_unknown_here(place: Place, tmp_path: Path) -> None:
    async with opened(tmp_path / "other") as other:
        theirs = await other.client.create(script="done")
        await other.client.ended(theirs)
        for _ in range(2):
            await other.client.ended(await other.client.create(script="done"))
        cursor = (await other.client.http.get("/v1/jobs", params={"limit": 1})).json()["next_cursor"]
    mine = await place.client.create(script="done")
    await place.client.ended(mine)
    http = place.client.http
    gets = (
        *(
            "",
            "/events",
            "/events?cursor=3",
            "/events/history",
            "/interaction/pending",
            "/interaction/history",
        ),
        *("/result", "/artifacts", "/artifacts/a.txt", "/bundle", "/logs", "/logs/1/1/stdout", "/attempts"),
    )
    for path in gets:
        answer = await http.get(f"/v1/jobs/{theirs}{path}", headers={"Last-Event-ID": "2"})
        assert (answer.status_code, answer.json()["code"]) == (404, "RUN_NOT_FOUND"), (path, answer.text)
    posts: dict[str, Json] = {"/cancel": {}, "/interaction/reply": {"interaction_id": 1, "response": "x"}}
    for path, body in posts.items():
        answer = await http.post(f"/v1/jobs/{theirs}{path}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "RUN_NOT_FOUND"), (path, answer.text)
    page = await http.get("/v1/jobs", params={"cursor": cursor})
    assert page.status_code in (200, 400)
    assert theirs not in page.text


# Create, and never look


@pytest.mark.failure("E08")
@pytest.mark.parametrize("leaves", ["after the request", "in its middle"])
async def test_client_that_leaves_and_tries_again_has_one_run(place: Place, leaves: str) -> None:
    body = json.dumps({"skill_id": "answer", "engine": "demo", "parameter": {"demo_script": "done"}}).encode()
    head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: once\r\n"
    whole = f"{head}Authorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    port = httpx.URL(place.service.url).port
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port)) as hasty:
            hasty.sendall(whole if leaves == "after the request" else whole[:-5])
    headers = {"Idempotency-Key": "once"}
    last = await place.client.http.post("/v1/jobs", json=json.loads(body), headers=headers)
    assert last.status_code == 200
    assert (await place.client.ended(last.json()["run_id"]))["status"] == "succeeded"
    assert [each["run_id"] for each in await place.client.runs()] == [last.json()["run_id"]]
