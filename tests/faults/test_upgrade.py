"""Data of every older version, with a run in each state: it is brought up, answers, and every run ends as it should."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.test_serve import turnkeeper
from tests.crash.restarts import Daemon, started
from tests.harness import TOKEN, Json
from tests.store.older.kept import VERSIONS, put
from turnkeeper.store.migrate import migrate, migrations

NEWEST = migrations()[-1][0]
EVERY_VERSION = pytest.mark.parametrize("version", VERSIONS)
DATABASE = "turnkeeper.db"
ROOT = Path(__file__).parents[2]


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    """Still to be started, on a directory that is still to be put there."""
    async with started(tmp_path / "data", at_once=False) as daemon:
        yield daemon


def logs(data: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(data / DATABASE)) as connection:
        found: dict[str, list[str]] = {}
        for run_id, body in connection.execute("SELECT run_id, body FROM events ORDER BY run_id, seq"):
            found.setdefault(run_id, []).append(body)
    return found


def schema(path: Path) -> dict[str, set[str]]:
    """Tables with their columns, whatever their order, and indexes with theirs."""
    with closing(sqlite3.connect(path)) as connection:
        named = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
        parts = {"table": "table_info", "index": "index_info"}
        return {
            name: {
                str(row[1:] if kind == "table" else row[2])
                for row in connection.execute(f"PRAGMA {parts[kind]}({name})")
            }
            for kind, name in named
        }


@pytest.mark.failure("V10")
@EVERY_VERSION
async def test_every_run_goes_on_where_it_was(daemon: Daemon, version: int) -> None:
    runs = put(version, daemon.data_dir)
    before = logs(daemon.data_dir)
    daemon.told_otherwise.add(runs["failed"])
    daemon.start()
    client = daemon.client
    listed = {run["run_id"]: run for run in await client.runs()}
    assert set(listed) == set(runs.values())

    # What was over is over, and what was said is what was said.
    for name in ("succeeded", "failed", "canceled"):
        run = listed[runs[name]]
        assert run["status"] == name
        assert [event["type"] for event in await client.events(run["run_id"])][-1].startswith("conversation.")
        assert len(await client.events(run["run_id"])) == len(before[run["run_id"]])
    assert await client.result(runs["succeeded"]) == {"answer": "blue"}
    assert listed[runs["failed"]]["error"]["code"] == "ENGINE_CRASHED"

    # What had a process has lost it.
    assert (await client.ended(runs["ending"]))["status"] == "canceled"
    if "permission" in runs:
        lost = await client.ended(runs["permission"])
        assert lost["error"]["code"] == "INTERACTION_PROCESS_LOST"

    # Who worked goes on, who stood in line has a turn, who waited hears an answer.
    for name in ("running", "hanging"):
        if name in runs:
            daemon.go_on(runs[name])
            assert await finished(daemon, runs[name]) == {"answer": "done"}
    for name in ("waiting", "sticky", "queued"):
        assert (await client.settled(runs[name]))["status"] == "waiting_user"
        assert (await client.pending(runs[name]))["prompt"] == "Which colour?"
        await client.reply(runs[name], f"{name} blue")
        assert await finished(daemon, runs[name]) == {"answer": f"{name} blue"}
    if "held" in runs:
        assert (await client.get(runs["held"]))["waiting_for"] == "upload"
        document = {"document": ("report.md", b"# Report\n")}
        answer = await client.http.post(f"/v1/jobs/{runs['held']}/upload", files=document)
        assert answer.status_code == 200, answer.text
        assert (await client.ended(runs["held"]))["status"] == "succeeded"

    for run_id, bodies in before.items():
        if run_id not in daemon.told_otherwise:
            assert await daemon.log(run_id)
        assert logs(daemon.data_dir)[run_id][: len(bodies)] == bodies


async def finished(daemon: Daemon, run_id: str) -> Json:
    run = await daemon.client.ended(run_id)
    assert run["status"] == "succeeded", run["error"]
    return await daemon.client.result(run_id)


@pytest.mark.failure("V10")
@EVERY_VERSION
def test_what_comes_of_it_is_what_a_new_one_is(tmp_path: Path, version: int) -> None:
    put(version, tmp_path / "data")
    for path in (tmp_path / "data" / DATABASE, tmp_path / "new.db"):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            migrate(connection)
            assert connection.execute("PRAGMA user_version").fetchone() == (NEWEST,)
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert schema(tmp_path / "data" / DATABASE) == schema(tmp_path / "new.db")


def contents(path: Path) -> dict[str, list[str]]:
    """Every row, in words."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {name: [str(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in tables}


def brought_up_to(version: int, path: Path) -> Path:
    """By the migrations up to this one, one by one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (at,) = connection.execute("PRAGMA user_version").fetchone()
        for number, script in migrations():
            if at < number <= version:
                connection.executescript(f"{script}\nPRAGMA user_version={number};")
    return path


@pytest.mark.failure("V10")
@EVERY_VERSION
def test_a_kill_in_the_middle_leaves_one_version_or_the_next(tmp_path: Path, version: int) -> None:
    put(version, tmp_path / "data")
    database = tmp_path / "data" / DATABASE
    expected = {}
    for number in range(version, NEWEST + 1):
        shutil.copy(database, tmp_path / f"{number}.db")
        whole = brought_up_to(number, tmp_path / f"{number}.db")
        expected[number] = (schema(whole), contents(whole))

    command = [sys.executable, "-m", "tests.faults.migrating", str(database)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    lines = [line.rsplit(" ", 1) for line in ended.stdout.splitlines()]
    assert [how for _, how in lines] == ["killed"] * (len(lines) - 1) + ["done"]
    assert len(lines) > 3 * (NEWEST - version)
    found = []
    for path, _ in lines:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            (at,) = connection.execute("PRAGMA user_version").fetchone()
            found.append(at)
        assert (schema(Path(path)), contents(Path(path))) == expected[at], f"between two versions: {path}"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            migrate(connection)
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert (schema(Path(path)), contents(Path(path))) == expected[NEWEST]
    assert found == sorted(found)
    assert set(found) == set(range(version, NEWEST + 1))


# the way back


def everything(data: Path) -> dict[str, bytes]:
    """Of the directory, but for the lock, which says who looked last."""
    files = (path for path in sorted(data.rglob("*")) if path.is_file() and path.name != "lock")
    return {str(path.relative_to(data)): path.read_bytes() for path in files}


@pytest.mark.failure("V10")
@pytest.mark.parametrize("command", ["serve", "show", "audit", "doctor"])
def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path, command: str) -> None:
    data = tmp_path / "data"
    runs = put(NEWEST - 1, data)
    with closing(sqlite3.connect(data / DATABASE, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    (data / "token").write_text(TOKEN)
    (data / "token").chmod(0o600)
    before = everything(data)
    words = {"show": [runs["waiting"]], "audit": [runs["waiting"]], "serve": ["--port", "0"]}.get(command, [])
    ended = turnkeeper(tmp_path, command, *words, "--data-dir", str(data))
    told = (
        f"the database has schema {NEWEST + 1}, this Turnkeeper knows {NEWEST}: start the newer version again"
    )
    assert told in (ended.stdout if command == "doctor" else ended.stderr)
    assert ended.returncode == (1 if command == "doctor" else 2)
    if command != "doctor":
        assert ended.stderr == f"turnkeeper: {told}\n"
    assert everything(data) == before
