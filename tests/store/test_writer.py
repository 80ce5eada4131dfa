"""The writer thread alone: groups, the refusal of one, the failure of all."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.store.base import Notice, Stale, Stats
from turnkeeper.store.writer import GROUP, GroupWriter, Op


class Bench:
    """A writer on a table of numbers. It starts when told to, so that a test decides what is one group."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.stats = Stats()
        self.writer = GroupWriter(connection, asyncio.get_running_loop(), self.stats)

    async def write(self, *ops: Op) -> list[Any]:
        """All of them in one group."""
        futures = [self.writer.submit(op) for op in ops]
        self.writer.start()
        async with asyncio.timeout(10):
            return await asyncio.gather(*futures, return_exceptions=True)

    def numbers(self) -> list[int]:
        return [number for (number,) in self.connection.execute("SELECT n FROM numbers ORDER BY n")]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    with closing(
        sqlite3.connect(tmp_path / "numbers.db", isolation_level=None, check_same_thread=False)
    ) as connection:
        connection.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
        bench = Bench(connection)
        yield bench
        bench.writer.stop()
        if bench.writer.ident is not None:
            await asyncio.to_thread(bench.writer.join)


def add(number: int, refusal: Exception | None = None) -> Op:
    def op(connection: sqlite3.Connection) -> tuple[int, Notice]:
        connection.execute("INSERT INTO numbers VALUES (?)", (number,))
        if refusal is not None:
            raise refusal
        return number, Notice(str(number), ())

    return op


async def test_a_group_is_one_transaction(bench: Bench) -> None:
    assert await bench.write(*(add(n) for n in range(100))) == list(range(100))
    assert bench.stats.transactions == 1


async def test_a_group_has_a_limit(bench: Bench) -> None:
    await bench.write(*(add(n) for n in range(2 * GROUP + 1)))
    assert bench.stats.transactions == 3


async def test_a_refused_write_leaves_nothing_and_the_others_stand(bench: Bench) -> None:
    refusal = Stale("moved on")
    assert await bench.write(add(1), add(2, refusal), add(3)) == [1, refusal, 3]
    assert bench.numbers() == [1, 3]
    assert bench.stats.transactions == 1


async def test_a_fault_of_ours_stops_neither_the_group_nor_the_thread(bench: Bench) -> None:
    fault = KeyError("a fault of ours")
    assert await bench.write(add(1), add(2, fault), add(3)) == [1, fault, 3]
    assert bench.numbers() == [1, 3]
    async with asyncio.timeout(10):
        assert await bench.writer.submit(add(4)) == 4


async def test_an_error_of_the_database_refuses_the_whole_group(bench: Bench) -> None:
    outcomes = await bench.write(add(1), add(2, sqlite3.OperationalError("disk I/O error")), add(3))
    assert [type(outcome) for outcome in outcomes] == [StorageUnavailable] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3
    assert bench.numbers() == []
    assert bench.stats.transactions == 0
    async with asyncio.timeout(10):
        assert await bench.writer.submit(add(1)) == 1


async def test_listeners_hear_a_group_in_order_and_nothing_of_the_refused(bench: Bench) -> None:
    heard: list[str] = []
    bench.writer.listeners.append(lambda notice: heard.append(notice.run_id))
    await bench.write(add(3), add(1), add(9, Stale("moved on")), add(2))
    assert heard == ["3", "1", "2"]


async def test_what_was_handed_in_before_the_stop_is_written(bench: Bench) -> None:
    futures = [bench.writer.submit(add(n)) for n in range(3)]
    bench.writer.stop()
    with pytest.raises(StorageUnavailable):
        bench.writer.submit(add(4))
    bench.writer.start()
    async with asyncio.timeout(10):
        assert await asyncio.gather(*futures) == [0, 1, 2]
    assert bench.numbers() == [0, 1, 2]


async def test_a_write_alone_is_refused_with_its_transaction(bench: Bench) -> None:
    (refused,) = await bench.write(add(1, Stale("1")))
    assert isinstance(refused, Stale)
    assert bench.numbers() == []
    assert bench.stats.transactions == 0
    async with asyncio.timeout(10):
        assert await bench.writer.submit(add(2)) == 2
    assert bench.numbers() == [2]


class Starved(sqlite3.Connection):
    """There is no memory for one of its statements, once."""

    starving = ""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == self.starving:
            self.starving = ""
            raise MemoryError
        return super().execute(sql, *values)


@pytest.mark.failure("V09")
@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "SAVEPOINT one", "RELEASE one", "COMMIT"])
async def test_no_memory_for_a_moment_ends_no_thread(tmp_path: Path, statement: str) -> None:
    """Whoever writes would wait for ever."""
    path = tmp_path / "numbers.db"
    with closing(
        sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Starved)
    ) as connection:
        connection.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
        bench = Bench(connection)
        connection.starving = statement
        refused = await bench.write(add(1), add(3))
        assert all(isinstance(each, StorageUnavailable) for each in refused)
        assert bench.numbers() == []
        async with asyncio.timeout(10):
            assert await bench.writer.submit(add(2)) == 2
        assert bench.numbers() == [2]
        bench.writer.stop()
        await asyncio.to_thread(bench.writer.join)
