"""A machine that runs short: of disk, of files, of descriptors, of memory, of time. New work is refused early, running
work fails with a code, the service answers all the time, nothing accepted is lost, and it goes on when there is room.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import socket
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from itertools import count, islice
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.cli.test_serve import refusal
from tests.crash.restarts import Daemon, started
from tests.faults.failing import SPAWNING, Failing
from tests.faults.small_disk import SmallDisk, small_disk
from tests.harness import TOKEN, Json, Place
from tests.skills.archives import zipped
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, script
from tests.web.patience import eventually
from tests.web.problems import assert_problem
from turnkeeper.core.errors import Code

MIB = 1024 * 1024
BALLAST = 100_000
"""Bytes that a disk without any has no room for, not even between two blocks."""
ROOMY = "size=32m"
READS = ("/healthz", "/readyz", "/v1/jobs", "/v1/status", "/metrics", "/v1/openapi.json")
HELD: list[Json] = [{"think": "working"}, {"wait_for": "go"}]
WAITS = script([ASK], [ANSWER])
ENDINGS = {
    "said": script([*HELD, {"say": "x" * 20_000}, {"result": {"answer": "said"}}]),
    "written": script(
        [*HELD, {"write_file": {"path": "report.md", "text": "x" * 20_000}}, {"result": {"answer": "x"}}]
    ),
    "asked": script([*HELD, ASK], [ANSWER]),
}
"""What a turn still has to put on the disk: its raw log, an artifact, its session."""


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with started(tmp_path / "data", TURNKEEPER_SLOTS="4") as daemon:
        yield daemon


@asynccontextmanager
async def on(disk: SmallDisk, min_free_mb: int = 0) -> AsyncIterator[Daemon]:
    limit = str(min_free_mb)
    async with started(disk.root / "data", TURNKEEPER_SLOTS="4", TURNKEEPER_MIN_FREE_MB=limit) as daemon:
        yield daemon


async def assert_answers(daemon: Daemon, *run_ids: str) -> None:
    for path in (*READS, *(f"/v1/jobs/{run_id}/events/history" for run_id in run_ids)):
        answer = await daemon.client.http.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text}"


def assert_refused_or_done(answer: httpx.Response) -> bool:
    """Nothing in between; True if it was done."""
    if answer.status_code != 200:
        assert_problem(answer, 503, Code.STORAGE_UNAVAILABLE)
        assert int(answer.headers["retry-after"]) > 0
    return answer.status_code == 200


async def waiting(daemon: Daemon, **more: str) -> str:
    run_id = await daemon.client.create("answer", WAITS, **INTERACTIVE, **more)
    assert (await daemon.client.settled(run_id))["status"] == "waiting_user"
    return run_id


async def assert_ends(daemon: Daemon, *run_ids: str) -> None:
    for run_id in run_ids:
        await daemon.client.reply(run_id, "blue")
        assert (await daemon.client.settled(run_id))["status"] == "succeeded"
        assert await daemon.client.result(run_id) == {"answer": "blue"}


class TestDisk:
    @pytest.mark.failure("V03")
    async def test_admission_stops_before_the_disk_is_full(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", ROOMY) as disk:
            async with on(disk, min_free_mb=16) as daemon:
                client, accepted = daemon.client, await waiting(daemon)
                disk.fill(leave=15 * MIB)
                assert_problem(await client.post_job("answer", "done"), 507, Code.STORAGE_LOW)
                skill = {"file": ("a.zip", zipped({"new/SKILL.md": b"Do it."}))}
                assert_problem(await client.http.post("/v1/skills", files=skill), 507, Code.STORAGE_LOW)
                await assert_answers(daemon, accepted)
                await assert_ends(daemon, accepted)
                disk.clear()
                run_id = await client.create("answer", "done")
                assert (await client.settled(run_id))["status"] == "succeeded"

    @pytest.mark.failure("V03")
    async def test_admission_stops_before_there_are_no_files_left(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", f"{ROOMY},nr_inodes=200") as disk:
            async with on(disk, min_free_mb=4) as daemon:
                client, accepted = daemon.client, await waiting(daemon)
                disk.use_up_files(leave=63)
                problem = assert_problem(await client.post_job("answer", "done"), 507, Code.STORAGE_LOW)
                assert re.match(r"\d+ files can still be made", problem["detail"])
                await assert_ends(daemon, accepted)
                disk.clear()
                assert (await client.post_job("answer", "done")).status_code == 200

    @pytest.mark.failure("V03")
    async def test_not_a_byte_is_left(self, tmp_path: Path) -> None:
        """Whatever is on its way, and with nothing that stops it early."""
        with small_disk(tmp_path / "disk", ROOMY) as disk:
            async with on(disk) as daemon:
                client = daemon.client
                resumable = await waiting(daemon)
                sticky = await waiting(daemon, interactive_profile="sticky_process")
                held = {
                    name: await client.create("answer", each, **INTERACTIVE) for name, each in ENDINGS.items()
                }
                for run_id in held.values():
                    await daemon.in_the_middle(run_id)
                disk.fill()
                for run_id in held.values():
                    daemon.go_on(run_id)
                created = [await client.post_job("answer", "done") for _ in range(3)]
                replied = await client.post_reply(resumable, 1, "blue")
                canceled = await client.http.post(f"/v1/jobs/{sticky}/cancel")
                skill = {"file": ("a.zip", zipped({"new/SKILL.md": os.urandom(BALLAST)}))}
                assert not assert_refused_or_done(await client.http.post("/v1/skills", files=skill))
                done = {
                    run_id
                    for run_id, answer in ((resumable, replied), (sticky, canceled))
                    if assert_refused_or_done(answer)
                }
                await eventually(lambda: not any(daemon.processes(run_id) for run_id in held.values()))
                await assert_answers(daemon, *held.values(), resumable, sticky)
                disk.clear()

                for answer in created:
                    if assert_refused_or_done(answer):
                        await self._assert_ended(daemon, answer.json()["run_id"])
                for run_id in held.values():
                    await self._assert_ended(daemon, run_id)
                if resumable not in done:
                    assert (await client.get(resumable))["status"] == "waiting_user", "nothing was changed"
                    await client.reply(resumable, "blue")
                await self._assert_ended(daemon, resumable)
                if sticky not in done:
                    await client.cancel(sticky)
                assert (await client.ended(sticky))["status"] == "canceled"
                after = await client.create("answer", "done")
                assert (await client.settled(after))["status"] == "succeeded", "without a restart"

    @staticmethod
    async def _assert_ended(daemon: Daemon, run_id: str) -> None:
        """By itself once there is room, with a result or a reason; or it asks, as it did before the disk was full."""
        run = await daemon.client.settled(run_id)
        if run["status"] == "waiting_user":
            await daemon.client.reply(run_id, "blue")
            run = await daemon.client.settled(run_id)
        if run["status"] != "succeeded":
            assert run["status"] == "failed"
            assert run["error"]["code"] in (Code.STORAGE_UNAVAILABLE, Code.ENGINE_FAILED), run["error"]

    @pytest.mark.failure("V03", "V04")
    async def test_start_on_a_full_disk(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", ROOMY) as disk:
            data = disk.root / "data"
            disk.fill()
            line = refusal(tmp_path, "--data-dir", str(data))
            assert "No space left" in line or "disk is full" in line or "disk I/O error" in line
            disk.clear()
            async with on(disk) as daemon:
                accepted = await waiting(daemon)
            disk.fill()
            line = refusal(tmp_path, "--data-dir", str(data), TURNKEEPER_TOKEN=TOKEN)
            assert "the database cannot be written" in line or "cannot be opened" in line
            disk.clear()
            async with on(disk) as daemon:
                await assert_ends(daemon, accepted)

    @pytest.mark.failure("V04")
    async def test_start_on_a_disk_that_is_read_only(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", ROOMY) as disk:
            async with on(disk) as daemon:
                accepted = await waiting(daemon)
            disk.remount("ro")
            for name in ("data", "new"):
                line = refusal(tmp_path, "--data-dir", str(disk.root / name))
                assert "Read-only file system" in line or "is not writable" in line
            disk.remount("rw")
            async with on(disk) as daemon:
                await assert_ends(daemon, accepted)


class TestDatabase:
    @pytest.mark.failure("V05")
    async def test_somebody_else_holds_the_lock(self, daemon: Daemon) -> None:
        """However long, and as with a write that does not come to its end: who writes waits, who reads does not,
        and nothing is lost."""
        client, asked = daemon.client, await waiting(daemon)
        held = await client.create("answer", script([*HELD, {"result": {"answer": "kept"}}]))
        await daemon.in_the_middle(held)
        with locked(daemon.data_dir):
            created = asyncio.create_task(client.post_job("answer", "done"))
            replied = asyncio.create_task(client.post_reply(asked, 1, "blue"))
            daemon.go_on(held)
            await eventually(lambda: not daemon.processes(held))
            await assert_answers(daemon, asked, held)
            assert (await client.get(held))["status"] == "running", "its end is still to be written"
            assert (created.done(), replied.done()) == (False, False)
        assert (await created).status_code == (await replied).status_code == 200
        assert (await client.settled((await created).json()["run_id"]))["status"] == "succeeded"
        for run_id, answer in ((asked, "blue"), (held, "kept")):
            assert (await client.settled(run_id))["status"] == "succeeded"
            assert await client.result(run_id) == {"answer": answer}

    @pytest.mark.failure("V05")
    async def test_a_disk_that_takes_its_time(
        self, place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Every sync of our own, as of raw logs and skills, waits until the test lets it go on; nobody else does.

        SQLite syncs by itself and is not slowed down here. A database that takes its time is played by the lock above.
        """
        client, real, go_on, stuck = place.client, os.fsync, threading.Event(), threading.Event()

        def slow(file: int) -> None:
            stuck.set()
            assert go_on.wait(30)
            real(file)

        monkeypatch.setattr(os, "fsync", slow)
        run_id = await client.create("answer", "done")
        skill = {"file": ("a.zip", zipped({"new/SKILL.md": b"Do it."}))}
        installed = asyncio.create_task(client.http.post("/v1/skills", files=skill))
        await eventually(stuck.is_set)
        for path in READS:
            assert (await client.http.get(path)).status_code == 200
        quick = await client.create("answer", WAITS, **INTERACTIVE)
        assert (await client.get(quick))["status"] in ("queued", "running")
        assert not installed.done()
        go_on.set()
        assert (await installed).status_code == 200
        assert (await client.settled(run_id))["status"] == "succeeded"
        assert (await client.settled(quick))["status"] == "waiting_user"


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    with closing(sqlite3.connect(data_dir / "turnkeeper.db", isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


class TestProcesses:
    @pytest.mark.failure("S04")
    @pytest.mark.parametrize("number", SPAWNING[:3], ids=os.strerror)
    async def test_no_process_can_be_started(
        self, number: int, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is tried again a few times, then the run says why; the next one, on a better day, is played."""
        with monkeypatch.context() as patch:
            failing = Failing(patch)
            failing.of_spawns()
            with failing.trip(place.settings.data_dir) as trip:
                trip.fail_from_now_on(number)
                run_id = await place.client.create("answer", "done")
                run = await place.client.settled(run_id)
                assert trip.seen == 4
        assert (run["status"], run["error"]["code"]) == ("failed", Code.ENGINE_NOT_READY)
        assert os.strerror(number) in run["error"]["message"]
        await eventually(lambda: not place.house.dispatcher.busy)
        again = await place.client.create("answer", "done")
        assert (await place.client.settled(again))["status"] == "succeeded"


class TestDescriptors:
    @pytest.mark.failure("S04", "V09")
    async def test_none_is_left(self, daemon: Daemon) -> None:
        """Many come and stay: whoever is in is answered, what runs comes to its end, and when they go all is well."""
        client = daemon.client
        asked, sticky = await waiting(daemon), await waiting(daemon, interactive_profile="sticky_process")
        held = await client.create("answer", script([*HELD, {"result": {"answer": "kept"}}]))
        await daemon.in_the_middle(held)
        limit_descriptors(daemon.pid, left=8)
        with crowd(client.url, asked, 60):
            await eventually(lambda: descriptors_left(daemon.pid) == 0)
            for path in READS:
                assert (await client.http.get(path)).status_code == 200, "on the connection that it has"
            assert not assert_refused_or_done(await client.post_job("answer", "done"))
            daemon.go_on(held)
            assert (await client.post_reply(asked, 1, "blue")).status_code == 200
            assert (await client.post_reply(sticky, 1, "green")).status_code == 200
            await eventually(lambda: not daemon.processes(held))
        for run_id, answer in ((held, "kept"), (asked, "blue"), (sticky, "green")):
            run = await client.settled(run_id)
            if run["status"] == "succeeded":
                assert await client.result(run_id) == {"answer": answer}
            else:
                assert run["error"]["code"] in (Code.STORAGE_UNAVAILABLE, Code.ENGINE_NOT_READY), run["error"]
        after = await client.create("answer", "done")
        assert (await client.settled(after))["status"] == "succeeded", "without a restart"
        assert not daemon.processes()

    @pytest.mark.failure("V09")
    async def test_a_cancel_when_one_is_left(self, daemon: Daemon) -> None:
        """One is too few to reach a process: the run is not canceled before that is gone."""
        client, log = daemon.client, daemon.data_dir.parent / "service.log"
        held = await client.create("answer", script(HELD))
        await daemon.in_the_middle(held)
        with one_descriptor(daemon.pid):
            assert (await client.http.post(f"/v1/jobs/{held}/cancel")).status_code == 200
            await eventually(lambda: "yet: Too many open files" in log.read_text())
            assert (await client.get(held))["status"] == "running"
            assert daemon.processes(held)
        run = await client.ended(held)
        assert (run["status"], run["warnings"]) == ("canceled", [])
        assert not daemon.processes()


@contextmanager
def one_descriptor(pid: int) -> Iterator[None]:
    """All below the limit are in use but one."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = set(map(int, os.listdir(f"/proc/{pid}/fd")))  # noqa: PTH208
    _, limit = islice((number for number in count() if number not in used), 2)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def limit_descriptors(pid: int, left: int) -> None:
    highest = max(map(int, os.listdir(f"/proc/{pid}/fd")))  # noqa: PTH208
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1 + left, hard))


def descriptors_left(pid: int) -> int:
    limit, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    return limit - len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208


@contextmanager
def crowd(url: str, run_id: str, size: int) -> Iterator[None]:
    """So many follow a run, each on a connection of its own, and read nothing."""
    words = (
        f"GET /v1/jobs/{run_id}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    )
    with ExitStack() as stack:
        for _ in range(size):
            address = urlsplit(url)
            line = stack.enter_context(socket.create_connection((address.hostname, address.port)))
            line.sendall(words.encode())
        yield


class TestMemory:
    @pytest.mark.failure("S04", "V09")
    async def test_none_is_left(self, daemon: Daemon) -> None:
        """Not for a thread, nor for much else: what can be done without is done, and the next day all is well."""
        client = daemon.client
        asked, sticky = await waiting(daemon), await waiting(daemon, interactive_profile="sticky_process")
        held = await client.create("answer", script([*HELD, {"result": {"answer": "kept"}}]))
        await daemon.in_the_middle(held)
        with little_memory(daemon.pid):
            daemon.go_on(held)
            created = [await client.post_job("answer", "done") for _ in range(3)]
            for run_id in (asked, sticky):
                assert (await client.post_reply(run_id, 1, "blue")).status_code == 200
            for path in ("/healthz", "/readyz", "/v1/jobs", "/v1/status"):
                assert (await client.http.get(path)).status_code == 200
            await eventually(lambda: not daemon.processes(held))
        accepted = [answer.json()["run_id"] for answer in created if answer.status_code == 200]
        assert all(answer.status_code in (200, 500, 503) for answer in created)
        for run_id in (held, asked, sticky, *accepted):
            run = await client.settled(run_id)
            assert run["status"] == "succeeded" or run["error"]["code"], run
        after = await client.create("answer", "done")
        assert (await client.settled(after))["status"] == "succeeded", "without a restart"


@contextmanager
def little_memory(pid: int) -> Iterator[None]:
    """What it has, and a little: less than the stack of a thread."""
    used = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (used + 4 * MIB, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_AS, before)
