"""A power cut: what was acknowledged was on the disk, and what was not may be there in part, in pieces or as zeros.

A cut is played with the files that it could leave: the write-ahead log ends anywhere behind the last acknowledged
write, and what was not synced is missing or has no bytes. That a name which was not synced is lost, although later
writes of other files are there, takes a file system that forgets; here it is only seen that each folder is synced
before anybody is told.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.restarts import RECORD, started
from tests.harness import Json, opened, settings_for
from tests.store.sample import LEASE, job, later, output
from turnkeeper.beacon import NAME
from turnkeeper.core import lifecycle
from turnkeeper.store.base import RunFilter
from turnkeeper.store.reads import DATABASE
from turnkeeper.store.sqlite import SqliteStore
from turnkeeper.wiring import running

WAL = f"{DATABASE}-wal"
HEADER, FRAME = 32, 24
"""Bytes before the first page of the log, and before each page."""
RUNS = 6
CUTS = 40
"""At random bytes, beside one at each border between two pages."""


@dataclass(frozen=True, slots=True)
class Written:
    """Two files as the last write left them, and after which size of the log each promise was given."""

    database: bytes
    log: bytes
    promises: list[tuple[int, str, int]]
    """How long the log was when it was acknowledged that this run has so many events."""

    def promised(self, size: int) -> dict[str, int]:
        return {run_id: seq for at, run_id, seq in self.promises if at <= size}

    @property
    def borders(self) -> list[int]:
        page = int.from_bytes(self.log[8:12])
        return list(range(HEADER, len(self.log) + 1, FRAME + page))


@asynccontextmanager
async def store_at(folder: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(folder)
    try:
        yield store
    finally:
        await store.close()


async def write(folder: Path) -> Written:
    promises: list[tuple[int, str, int]] = []

    def promise(run_id: str, seq: int) -> None:
        promises.append(((folder / WAL).stat().st_size, run_id, seq))

    async with store_at(folder) as store:
        for number in range(RUNS):
            run = await store.commit(lifecycle.create(f"run-{number}", job(), later(0)))
            promise(run.id, run.last_seq)
            run = await store.commit(lifecycle.start_turn(run, LEASE, later(1)))
            promise(run.id, run.last_seq)
            await store.append(output(run, "some", "output"))
            promise(run.id, run.last_seq + 2)
        return Written((folder / DATABASE).read_bytes(), (folder / WAL).read_bytes(), promises)


async def survives(written: Written, log: bytes, intact: int, folder: Path) -> int:
    """Opens what a cut left; every promise that was given before is kept. How many events there are."""
    folder.mkdir()
    (folder / DATABASE).write_bytes(written.database)
    (folder / WAL).write_bytes(log)
    async with store_at(folder) as store:
        found = {run.id: run for run in await store.runs(RunFilter(), 1000)}
        for run_id, seq in written.promised(intact).items():
            assert found[run_id].last_seq >= seq, f"{run_id} had {seq} events in the first {intact} bytes"
        for run in found.values():
            entries = await store.events(run.id, after=0, upto=None, limit=1000)
            assert [json.loads(entry.body)["seq"] for entry in entries] == list(range(1, run.last_seq + 1))
            assert len(await store.attempts(run.id)) == run.attempt_number
        await store.commit(lifecycle.create("one-more", job(), later(2)))
    shutil.rmtree(folder)
    return sum(run.last_seq for run in found.values())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    live = tmp_path / "live"
    live.mkdir()
    return live


@pytest.mark.failure("V02")
async def test_a_log_that_ends_anywhere_keeps_what_was_acknowledged_before(
    folder: Path, tmp_path: Path
) -> None:
    written, chance = await write(folder), random.Random(2)
    assert len(written.borders) > 3 * RUNS  # a commit is a page at least
    cuts = [*written.borders, *(chance.randrange(len(written.log)) for _ in range(CUTS))]
    kept = [(cut, await survives(written, written.log[:cut], cut, tmp_path / "torn")) for cut in sorted(cuts)]
    counts = [events for _, events in kept]
    assert counts == sorted(counts)
    assert counts[-1] == sum(written.promised(len(written.log)).values())


@pytest.mark.failure("V02")
@pytest.mark.parametrize("kind", ["zeros", "noise", "one bit"])
async def test_what_stands_behind_the_last_synced_byte_does_not_matter(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    """A file may have grown before its bytes came, or they came in any order."""
    written, chance = await write(folder), random.Random(3)
    borders = written.borders[:-1]
    for cut in [*chance.sample(borders, 8), *(chance.randrange(HEADER, len(written.log)) for _ in range(8))]:
        tail = {
            "zeros": bytes(len(written.log) - cut),
            "noise": chance.randbytes(len(written.log) - cut),
            "one bit": bytes([written.log[cut] ^ 1]) + written.log[cut + 1 :],
        }[kind]
        await survives(written, written.log[:cut] + tail, cut, tmp_path / "torn")


# Files that were not synced

TALK: Json = {
    "turns": [[{"say": "Which colour?"}], [{"record": RECORD}, {"result": {"answer": "{{reply}}"}}]]
}


@pytest.mark.failure("V02")
@pytest.mark.parametrize("remains", ["nothing", "no bytes"])
async def test_a_service_comes_back_without_the_files_that_it_need_not_have(
    tmp_path: Path, remains: str
) -> None:
    """Whatever is written without a sync may be gone, or have its name and no bytes."""
    async with started(tmp_path / "data") as daemon:
        run_id = await daemon.client.create(script=TALK, execution_mode="interactive")
        await daemon.client.settled(run_id)
        before = await daemon.client.events(run_id)
        await daemon.kill()
        unsynced = [daemon.data_dir / name for name in (NAME, f"{NAME}.new", "lock", f"{DATABASE}-shm")]
        for path in unsynced:
            path.unlink(missing_ok=True)
            if remains == "no bytes":
                path.touch(0o600)
        daemon.start()
        assert (await daemon.client.events(run_id))[: len(before)] == before
        await daemon.client.reply(run_id, "blue")
        assert (await daemon.client.ended(run_id))["status"] == "succeeded"
        assert await daemon.client.result(run_id) == {"answer": "blue"}


@pytest.mark.failure("V02")
async def test_an_upload_is_on_the_disk_with_all_its_names_before_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        sync(handle)

    async with opened(tmp_path / "data") as place:
        run_id = await place.client.create("filed", "done", input={"title": "Bees"})
        monkeypatch.setattr(os, "fsync", noted)
        files = {"document": ("bees.txt", b"All about bees.")}
        answer = await place.client.http.post(f"/v1/jobs/{run_id}/upload", files=files)
        told = list(synced)
        monkeypatch.undo()
        assert answer.status_code == 200, answer.text
        folder = place.house.stage.folder(run_id)
        new = folder.root / "uploads.new"
        # Its bytes and its name under the name that counts for nothing, then that name, and all above it.
        wanted = [new / "bees.txt", new, folder.workspace, folder.root, folder.root.parent]
        assert told[: len(wanted)] == [path.resolve() for path in wanted]
        await place.client.ended(run_id)


@pytest.mark.failure("V02")
async def test_a_token_is_on_the_disk_before_it_opens_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first start that is cut off leaves none, or one that every later start can use."""
    data = tmp_path / "data"
    synced: list[tuple[str, int]] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        synced.append((path.name, os.fstat(handle).st_size if path.is_file() else 0))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    async with running(settings_for(data, token=None)) as service:
        monkeypatch.undo()
        assert (data / "token").read_text().strip() == service.token
        at = [name for name, _ in synced].index("token.new")
        assert synced[at][1] == (data / "token").stat().st_size
        assert ("data", 0) in synced[at:]
