"""What only the embedded driver promises: one file, one owner, no acknowledged write lost, no blocked event loop."""

import asyncio
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.store.sample import LEASE, bare, job, later, log_of, memory_of, output, place, queued, running
from turnkeeper.core import lifecycle
from turnkeeper.core.errors import DataDirInUse, SchemaTooNew, StorageUnavailable
from turnkeeper.core.run import Run
from turnkeeper.core.statechart import State
from turnkeeper.store.base import Notice, RunFilter, Stale, Store
from turnkeeper.store.migrate import migrate, migrations
from turnkeeper.store.reads import ENDED, HOLDING, OWNED, SqliteReads, questions
from turnkeeper.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
DATABASE = "turnkeeper.db"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path)
    yield store
    await store.close()


@asynccontextmanager
async def opened(data_dir: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(data_dir)
    try:
        yield store
    finally:
        await store.close()


# the file


async def test_each_commit_is_flushed_to_the_disk(store: SqliteStore) -> None:
    def pragmas(connection: sqlite3.Connection) -> tuple[list[Any], None]:
        names = ("journal_mode", "synchronous")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names], None

    full = 2
    assert await store._writer.submit(pragmas) == ["wal", full]


async def test_there_is_one_database_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await running(store)
        assert {file.name for file in tmp_path.iterdir()} == {
            DATABASE,
            f"{DATABASE}-wal",
            f"{DATABASE}-shm",
            "lock",
        }
    assert {file.name for file in tmp_path.iterdir()} == {DATABASE, "lock"}


async def test_a_closed_store_refuses_and_does_not_hang(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.close()
    async with asyncio.timeout(10):
        with pytest.raises(StorageUnavailable):
            await queued(store)
        await store.close()  # once more does no harm


async def test_closing_waits_for_what_was_handed_in(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    tasks = [asyncio.create_task(queued(store)) for _ in range(20)]
    await asyncio.sleep(0)  # each has handed in its change
    async with asyncio.timeout(10):
        await store.close()
        runs = await asyncio.gather(*tasks)
    async with opened(tmp_path) as again:
        assert {run.id for run in await again.runs(RunFilter(), 100)} == {run.id for run in runs}


async def test_readers_cannot_write(store: SqliteStore) -> None:
    with pytest.raises(StorageUnavailable, match="readonly"):
        await store._all("DELETE FROM runs")


# one owner


@pytest.mark.failure("V06")
async def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        with pytest.raises(DataDirInUse, match=rf"pid {os.getpid()}\b"):
            await SqliteStore.open(tmp_path)
        await queued(store)  # the first is not disturbed
    async with opened(tmp_path):
        pass


@pytest.mark.failure("V06")
async def test_the_end_of_the_owner_frees_the_directory(tmp_path: Path) -> None:
    async with committer(tmp_path) as process:
        await next_line(process)
        with pytest.raises(DataDirInUse, match=rf"pid {process.pid}\b"):
            await SqliteStore.open(tmp_path)
        process.kill()
        await process.wait()
        async with opened(tmp_path):
            pass


@pytest.mark.failure("V04")
async def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(StorageUnavailable, match=str(missing)):
        await SqliteStore.open(missing)


@pytest.mark.failure("V04")
async def test_a_file_that_is_no_database_is_named_and_the_directory_free_again(tmp_path: Path) -> None:
    file = tmp_path / DATABASE
    file.write_text("this is a diary, not a database\n" * 100)
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match=DATABASE):
            await SqliteStore.open(tmp_path)
    file.unlink()
    async with opened(tmp_path):
        pass


# the schema


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [number for number, _ in migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_migrations_apply_to_an_empty_file_and_once(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as connection:
        for _ in range(2):
            migrate(connection)
            assert connection.execute("PRAGMA user_version").fetchone() == (migrations()[-1][0],)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    assert tables >= {"runs", "attempts", "interactions", "events", "idempotency", "meta"}


@pytest.mark.failure("V10")
async def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        run = await queued(store)
    newest = migrations()[-1][0]
    set_version(tmp_path, newest + 1)
    with pytest.raises(SchemaTooNew, match=str(newest + 1)):
        await SqliteStore.open(tmp_path)
    set_version(tmp_path, newest)
    async with opened(tmp_path) as store:
        assert await store.run(run.id) == run


@pytest.mark.parametrize(
    ("sql", "way"),
    [
        (HOLDING, "runs USING INDEX runs_holding"),
        (ENDED, "runs USING INDEX runs_at_rest (state=? AND (updated_at,id)>(?,?) AND updated_at<?)"),
        (OWNED, "runs USING INDEX runs_ending (state=?)"),
        (questions(50), "interactions USING PRIMARY KEY (run_id=? AND interaction_id=?)"),
    ],
    ids=["those that hold a slot", "those that have ended", "those that are to end", "open questions"],
)
def test_few_are_found_without_a_look_at_all(sql: str, way: str) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", ("?",) * sql.count("?")).fetchall()
    assert any(way in detail for *_, detail in plan), plan


async def test_what_it_has_counted_is_what_there_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first, second = await queued(store), await queued(store)
        started = lifecycle.start_turn(first, LEASE, later(1))
        await store.commit(started)
        with pytest.raises(Stale):
            await store.commit(started)
        over = await place(store, bare(State.SUCCEEDED))
        await store.remove((await store.resting([State.SUCCEEDED], until=later(99), after=None, limit=1))[0])
        assert await store.run(over.id) is None
        await agrees(store, tmp_path)
        assert (await store.counts())[State.QUEUED] == 1
    async with opened(tmp_path) as store:
        assert await store.run(second.id) == second
        await agrees(store, tmp_path)


async def agrees(store: Store, data_dir: Path) -> None:
    reads = SqliteReads(data_dir)
    assert await store.counts() == await reads.counts()
    await reads.close()


def set_version(data_dir: Path, version: int) -> None:
    with closing(sqlite3.connect(data_dir / DATABASE, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


# crashes


@asynccontextmanager
async def committer(data_dir: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.store.committer",
        str(data_dir),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def next_line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    async with asyncio.timeout(20):
        return await process.stdout.readline()


@pytest.mark.failure("V01")
async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    promised: Counter[str] = Counter()
    for _ in range(3):  # each child finds what the one before it left
        async with committer(tmp_path) as process:
            lines = [await next_line(process) for _ in range(random.randint(1, 400))]
            process.send_signal(signal.SIGKILL)
            rest, _ = await process.communicate()
        assert process.returncode == -signal.SIGKILL
        for line in (*lines, *rest.splitlines(keepends=True)):
            if line.endswith(b"\n"):
                run_id, seq = line.decode().split()
                promised[run_id] = max(promised[run_id], int(seq))

        async with opened(tmp_path) as store:
            kept = {run.id: run for run in await store.runs(RunFilter(), 100_000)}
            assert promised.keys() <= kept.keys()
            for run in kept.values():
                assert run.last_seq >= promised[run.id]
            await check_logs(store, list(kept.values()))


async def check_logs(store: Store, runs: list[Run]) -> None:
    """State, attempts and log of each run agree: they were one write."""
    for run in runs:
        log = await log_of(store, run.id)
        assert [entry.seq for entry in log] == list(range(1, run.last_seq + 1))
        assert [json.loads(entry.body)["seq"] for entry in log] == [entry.seq for entry in log]
        assert len(await store.attempts(run.id)) == run.attempt_number


@pytest.mark.failure("V02")
async def test_a_torn_write_ahead_log_loses_only_its_end(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    async with opened(live) as store:
        runs = []
        for _ in range(12):
            run = await running(store)
            await store.append(output(run, "some", "output"))
            runs.append(run.id)
        wal = (live / f"{DATABASE}-wal").read_bytes()
        kept = []
        for part in range(9):
            torn = tmp_path / f"torn-{part}"
            torn.mkdir()
            shutil.copy(live / DATABASE, torn)
            cut = len(wal) * part // 8
            (torn / f"{DATABASE}-wal").write_bytes(wal[:cut])
            async with opened(torn) as survivor:
                found = {run.id: run for run in await survivor.runs(RunFilter(), 100)}
                assert set(found) == set(runs[: len(found)])  # what is left is how it once was
                await check_logs(survivor, list(found.values()))
                await running(survivor)
            kept.append(len(found))
    assert kept == sorted(kept)
    assert kept[-1] == len(runs)


# the disk


@contextmanager
def full_disk(data_dir: Path) -> Iterator[None]:
    """No file of this process can grow beyond the present size of the write-ahead log."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (data_dir / f"{DATABASE}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.failure("V03")
async def test_a_full_disk_refuses_and_changes_nothing(store: SqliteStore, tmp_path: Path) -> None:
    run = await running(store)
    before, stats = await memory_of(store, run.id), replace(store.stats)
    heard: list[Notice] = []
    store.listen(heard.append)
    new = lifecycle.create("run-new", job(), later(1))
    cancel = lifecycle.cancel(run, later(2), by="ann")
    assert cancel is not None

    with full_disk(tmp_path):
        for write in (store.commit(new), store.commit(cancel), store.append(output(run, "words"))):
            with pytest.raises(StorageUnavailable, match="nothing was changed"):
                await write
        outcomes = await asyncio.gather(*(queued(store) for _ in range(5)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StorageUnavailable] * 5
        assert await memory_of(store, run.id) == before  # reading goes on
        assert await store.run(new.after.id) is None
    assert heard == []
    assert store.stats == stats

    await store.append(output(run, "room again"))
    await store.commit(cancel)
    await store.commit(new)
    assert len(heard) == 3
    assert [entry.seq for entry in await log_of(store, run.id)] == [1, 2, 3]


@pytest.mark.failure("V03")
async def test_a_disk_with_little_room_refuses_the_large_only(store: SqliteStore) -> None:
    pages: int = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(StorageUnavailable):
        await queued(store, job(input={"text": "x" * 100_000}))
    small = await queued(store)
    assert await store.runs(RunFilter(), 10) == [small]


# other users of the file


@pytest.mark.failure("V05")
async def test_a_locked_database_does_not_block_the_loop(store: SqliteStore, tmp_path: Path) -> None:
    run = await queued(store)
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        commit = asyncio.create_task(store.commit(lifecycle.start_turn(run, LEASE, later(1))))
        for _ in range(200):
            assert await store.run(run.id) == run  # the loop turns, and reading goes on
        assert not commit.done()
        other.execute("COMMIT")
    async with asyncio.timeout(10):
        assert await commit == await store.run(run.id)


@pytest.mark.failure("V12")
async def test_a_copied_data_directory_has_an_id_of_its_own(tmp_path: Path) -> None:
    """Or a service on the copy would take the original's engines for its own leftovers."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    ids = []
    for _ in range(2):
        store = await SqliteStore.open(data_dir)
        ids.append(store.data_id)
        await store.close()
    shutil.copytree(data_dir, tmp_path / "copy")
    copy = await SqliteStore.open(tmp_path / "copy")
    ids.append(copy.data_id)
    await copy.close()
    assert ids[0] == ids[1] != ids[2]
