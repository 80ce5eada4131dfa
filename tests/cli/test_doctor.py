"""`turnkeeper doctor` as a person or a script meets it: beside a service, without one, and after a kill."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cli.test_serve import by_the_rules, served, turnkeeper
from tests.crash.restarts import Daemon, started
from tests.harness import TOKEN
from tests.spec.scripts import ASK, STICKY, script
from tests.surroundings import SETTLED
from tests.walls import needs_walls
from turnkeeper import __version__, beacon
from turnkeeper.beacon import Beacon
from turnkeeper.cli import app
from turnkeeper.lock import DirectoryLock

__all__ = ["by_the_rules"]  # a fixture


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


def look(data_dir: Path, *words: str, **env: str | None) -> Ended:
    """In this process: starting one for each costs more than all the rest."""
    others = dict.fromkeys(os.environ, None)
    given = {
        **others,
        **SETTLED,
        "HOME": str(data_dir.parent),
        "PATH": "/nowhere",
        "TURNKEEPER_TOKEN": TOKEN,
        **env,
    }
    ended = CliRunner().invoke(app, ["doctor", "--data-dir", str(data_dir), *words], env=given)
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return Ended(ended.exit_code, ended.stdout, ended.stderr)


def look_from_outside(data_dir: Path, *, by: Sequence[str] = (), **env: str) -> Ended:
    ended = turnkeeper(data_dir.parent, "doctor", "--data-dir", str(data_dir), by=by, **env)
    assert "Traceback" not in ended.stderr
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def line(ended: Ended, name: str, code: int = 0) -> str:
    """What is said under that name, with what stands below it."""
    assert ended.code == code, ended.stdout + ended.stderr
    found = re.search(rf"^  (\S+ +{name} .*(?:\n {{18}}.*)*)$", ended.stdout, re.MULTILINE)
    assert found is not None, ended.stdout
    return re.sub(r"\s+", " ", found[1])


def told(ended: Ended, code: int = 0) -> Any:
    assert (ended.code, ended.stderr) == (code, "")
    return json.loads(ended.stdout)


async def held(daemon: Daemon, *, more: int) -> str:
    """A run that holds a slot while it waits, and others in line behind it."""
    run_id = await daemon.client.create("answer", script([ASK]), **STICKY)
    await daemon.client.settled(run_id)
    for _ in range(more):
        await daemon.client.create("answer", script([ASK]), **STICKY)
    return run_id


async def look_at(daemon: Daemon, *words: str) -> Ended:
    return await asyncio.to_thread(look, daemon.data_dir, *words)


class TestRunning:
    def test_it_is_found_with_the_token_that_it_keeps(self, tmp_path: Path) -> None:
        data_dir = tmp_path / "data"
        proxy = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
        with served(tmp_path, "--data-dir", str(data_dir)) as (said, process):
            ended = look_from_outside(data_dir, **proxy)
        service = line(ended, "service")
        address = re.search(r"http://\S+", said)
        assert address is not None
        assert service.startswith(
            f"ok service {address[0]}, pid {process.pid}, version {__version__}, up since "
        )
        assert line(ended, "folder") == f"ok folder {data_dir}, writable"
        assert line(ended, "database") == "ok database readable, of this version, with 0 runs"
        assert line(ended, "disk").endswith(" GB free")
        assert "; 0 held by runs that wait for a person" in line(ended, "slots")
        assert line(ended, "queue") == "ok queue 0 runs in line"
        assert "\nengines, as the service sees them\n" in ended.stdout
        assert line(ended, "demo") == "ok demo version 1.0.0, login: not needed"
        assert line(ended, "codex").startswith(
            "- codex there is no program 'codex' on the PATH of the service"
        )
        assert ended.stdout.splitlines()[-1] == f"Turnkeeper {__version__}: good, 1 warning"

    def test_whatever_address_it_listens_on(self, tmp_path: Path) -> None:
        """Given in other words, it is none that the service answers for."""
        data_dir = tmp_path / "data"
        with served(tmp_path, "--data-dir", str(data_dir), "--host", "127.2", TURNKEEPER_TOKEN=TOKEN):
            assert line(look(data_dir), "service").startswith("ok service http://127.0.0.2:")

    def test_on_another_machine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A folder that machines share: who listens at that address here is a stranger, and is not told the token."""
        data_dir = tmp_path / "data"
        with served(tmp_path, "--data-dir", str(data_dir), TURNKEEPER_TOKEN=TOKEN):
            there = socket.gethostname()
            monkeypatch.setattr(socket, "gethostname", lambda: "here")
            ended = look(data_dir)
        said = line(ended, "service")
        assert said.startswith("warn service the server with pid ")
        assert said.endswith(f"fix: ask there: turnkeeper doctor on {there}")

    def test_wrong_token(self, tmp_path: Path) -> None:
        data_dir = tmp_path / "data"
        with served(tmp_path, "--data-dir", str(data_dir), TURNKEEPER_TOKEN=TOKEN):
            ended = look(data_dir, TURNKEEPER_TOKEN="another-token-entirely")
            (data_dir / "token").write_text("é\u2028 of no use")
            strange = look(data_dir, TURNKEEPER_TOKEN=None)
        for each, words in (
            (ended, ": the service refuses the token; "),
            (strange, ": the token has a line break "),
        ):
            said = line(each, "service", code=1)
            assert said.startswith("fail service http://127.0.0.1:")
            assert words in said
            assert said.endswith(" fix: set TURNKEEPER_TOKEN to the one that it was started with")

    def test_token_that_nobody_knows_here(self, tmp_path: Path) -> None:
        data_dir = tmp_path / "data"
        with served(tmp_path, "--data-dir", str(data_dir), TURNKEEPER_TOKEN=TOKEN):
            ended = look(data_dir, TURNKEEPER_TOKEN=None)
            assert " is not known here; " in line(ended, "service", code=1)
            assert not (data_dir / "token").exists(), "who only looks makes none"


@pytest.mark.failure("V03")
def test_a_disk_that_is_almost_full(tmp_path: Path) -> None:
    shown = line(look(tmp_path / "data", TURNKEEPER_MIN_FREE_MB="1000000000"), "disk", code=1)
    assert shown.startswith("fail disk ")
    assert "GB free, and no new work is taken: " in shown
    assert "fix: make room (turnkeeper prune deletes old runs)" in shown


class TestSandbox:
    def test_as_the_service_has_it(self, tmp_path: Path) -> None:
        with served(tmp_path, "--data-dir", str(tmp_path / "data"), TURNKEEPER_TOKEN=TOKEN):
            said = line(look(tmp_path / "data", TURNKEEPER_SANDBOX__MODE="auto"), "sandbox")
        assert said.startswith("warn sandbox agents have none: it is switched off")
        assert said.endswith("fix: set sandbox.mode (or TURNKEEPER_SANDBOX__MODE) to auto or required")

    @pytest.mark.parametrize(
        ("mode", "code", "words"),
        [
            ("auto", 0, "warn sandbox agents have none: bubblewrap is not installed"),
            ("required", 1, "FAIL sandbox sandbox.mode is required, and there is no sandbox here"),
        ],
    )
    def test_without_a_service_it_is_tried(self, tmp_path: Path, mode: str, code: int, words: str) -> None:
        ended = look(tmp_path / "data", TURNKEEPER_SANDBOX__MODE=mode)
        said = line(ended, "sandbox", code=code)
        assert said.lower().startswith(words.lower())
        assert "apt install bubblewrap" in said
        assert not (tmp_path / "data").exists()

    @needs_walls
    @pytest.mark.parametrize("mode", ["auto", "required"])
    def test_where_there_is_one(self, tmp_path: Path, mode: str) -> None:
        ended = look(tmp_path / "data", TURNKEEPER_SANDBOX__MODE=mode, PATH=os.environ["PATH"])
        assert line(ended, "sandbox") == f"ok sandbox bubblewrap (sandbox.mode is {mode})"


class TestSlots:
    async def test_held_by_a_run_that_waits(self, tmp_path: Path) -> None:
        async with started(tmp_path / "data", TURNKEEPER_SLOTS="3", TURNKEEPER_STICKY_SLOTS="2") as daemon:
            run_id = await held(daemon, more=0)
            run = await daemon.client.get(run_id)
            ended = await look_at(daemon)
            since, until = (f"{run[name][:19]}Z" for name in ("updated_at", "wait_deadline_at"))
            assert line(ended, "slots") == (
                "ok slots 1 of 3 busy (sticky: 1 of 2); 1 held by runs that wait for a person "
                f"{run_id} answer on demo, since {since}, until {until}"
            )
            assert line(ended, "queue") == "ok queue 0 runs in line"

    async def test_every_sticky_slot_is_held(self, tmp_path: Path) -> None:
        async with started(tmp_path / "data", TURNKEEPER_SLOTS="3", TURNKEEPER_STICKY_SLOTS="1") as daemon:
            run_id = await held(daemon, more=2)
            ended = await look_at(daemon)
            assert run_id in line(ended, "slots")
            assert line(ended, "queue") == (
                "warn queue 2 runs in line for a sticky slot, and every sticky slot is taken "
                "fix: answer or cancel the runs that wait, or raise TURNKEEPER_STICKY_SLOTS"
            )
            assert ended.stdout.splitlines()[-1] == f"Turnkeeper {__version__}: good, 2 warnings"
            assert [run["run_id"] for run in told(await look_at(daemon, "--json"))["status"]["held"]] == [
                run_id
            ]

    async def test_every_slot_is_held(self, tmp_path: Path) -> None:
        async with started(tmp_path / "data", TURNKEEPER_SLOTS="1") as daemon:
            await held(daemon, more=0)
            await daemon.client.create("answer", "auto_done")
            assert line(await look_at(daemon), "queue") == (
                "warn queue 1 run in line for a slot, and every slot is taken "
                "fix: answer or cancel the runs that wait, or raise TURNKEEPER_SLOTS"
            )
            await daemon.client.create("answer", script([ASK]), **STICKY)
            assert line(await look_at(daemon), "queue").endswith(
                "or raise TURNKEEPER_SLOTS and TURNKEEPER_STICKY_SLOTS"
            )


class TestNotRunning:
    def test_nothing_is_there_yet(self, tmp_path: Path) -> None:
        data_dir = tmp_path / "it's here"
        ended = look(data_dir)
        assert line(ended, "folder") == f"ok folder there is no {data_dir} yet; the first start makes it"
        assert line(ended, "database") == "ok database there is none yet; the first start makes it"
        start = f"turnkeeper serve --data-dir '{tmp_path}/it'\"'\"'s here'"
        assert line(ended, "service") == f"warn service it does not run fix: {start}"
        assert "\nengines, as they are seen from here\n" in ended.stdout
        assert ended.stdout.splitlines()[-1] == f"Turnkeeper {__version__}: good, 2 warnings"
        assert list(tmp_path.iterdir()) == [], "who only looks leaves nothing"

    async def test_stopped_and_killed(self, tmp_path: Path) -> None:
        async with started(tmp_path / "data") as daemon:
            assert await daemon.stop() == 0
            assert beacon.seen(daemon.data_dir) is None
            assert line(await look_at(daemon), "service").startswith("warn service it does not run fix: ")
            daemon.start()
            killed = daemon.pid
            await daemon.kill()
            left = beacon.seen(daemon.data_dir)
            assert left is not None
            assert left.pid == killed
            assert line(await look_at(daemon), "service").startswith(
                f"warn service it does not run; the last one, pid {killed}, was killed, "
                "and the next start takes up its runs fix: turnkeeper serve "
            )
            shown = told(await look_at(daemon, "--json"))
            assert (shown["good"], shown["service"], shown["status"]) == (True, None, None)
            daemon.start()
            assert f", pid {daemon.pid}, " in line(await look_at(daemon), "service")

    def test_stranger_on_its_old_port_is_not_asked(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as stranger:
            leave_behind(tmp_path, f"http://127.0.0.1:{stranger.getsockname()[1]}")
            assert "was killed" in line(look(tmp_path), "service")
            stranger.setblocking(False)
            with pytest.raises(BlockingIOError):
                stranger.accept()


class TestTrouble:
    def test_it_is_starting_or_stopping(self, tmp_path: Path) -> None:
        with locked(tmp_path):
            words = "has the data directory and does not answer: it is starting or stopping"
            said = line(look(tmp_path), "service")
            assert said.startswith(f"warn service the server with pid {os.getpid()} on ")
            assert words in said
            leave_behind(tmp_path, "http://127.0.0.1:9", pid=os.getpid() + 1)  # of one before it
            assert words in line(look(tmp_path), "service")

    @pytest.mark.parametrize(
        ("url", "words"),
        [
            ("http://127.0.0.1:9", "does not answer"),
            *((url, "is no address") for url in ("http://x:y", "gopher://127.0.0.1", "")),
        ],
    )
    def test_nobody_answers(self, tmp_path: Path, url: str, words: str) -> None:
        with locked(tmp_path):
            leave_behind(tmp_path, url)
            said = line(look(tmp_path), "service", code=1)
        assert words in said
        assert said.endswith(f"fix: look into its log, or end process {os.getpid()} and start it again")

    @pytest.mark.parametrize(
        ("status", "body", "words"),
        [
            (500, b"{}", "the answer was 500"),
            (200, b"{}", "the answer is not understood"),
            (200, b"[", "the answer is not understood"),
            (200, b"\xff", "the answer is not understood"),
        ],
    )
    def test_it_answers_something_else(self, tmp_path: Path, status: int, body: bytes, words: str) -> None:
        with locked(tmp_path), answering(status, body) as url:
            leave_behind(tmp_path, url)
            ended = look(tmp_path)
        assert words in line(ended, "service", code=1)
        assert ended.stdout.splitlines()[-1] == f"Turnkeeper {__version__}: not good, 1 warning"

    def test_file_in_place_of_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "data").write_text("precious")
        for where in ("data", "data/below"):
            said = line(look(tmp_path / where, HOME=str(tmp_path)), "folder", code=1)
            assert said.startswith(f"fail folder {tmp_path / 'data'} is not a folder fix: ")

    def test_folder_that_is_not_writable(self, tmp_path: Path, by_the_rules: Sequence[str]) -> None:
        (tmp_path / "data").mkdir(mode=0o500)
        said = line(look_from_outside(tmp_path / "data", by=by_the_rules), "folder", code=1)
        assert said.startswith(f"fail folder {tmp_path / 'data'} is not writable fix: ")

    def test_database_that_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "turnkeeper.db").write_bytes(b"precious words, and no database" * 1000)
        said = line(look(tmp_path), "database", code=1)
        assert said.endswith(" cannot be read: file is not a database")

    def test_database_of_another_version(self, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "turnkeeper.db")) as other:
            other.execute("PRAGMA user_version = 1")
            assert "is of an older version: start the service once" in line(
                look(tmp_path), "database", code=1
            )
            other.execute("PRAGMA user_version = 999")
            assert "has schema 999" in line(look(tmp_path), "database", code=1)

    def test_wrong_setting_is_a_usage_error(self, tmp_path: Path) -> None:
        ended = look(tmp_path / "data", TURNKEEPER_SLOTS="many")
        assert (ended.code, ended.stdout) == (2, "")
        assert ended.stderr.startswith("turnkeeper: TURNKEEPER_SLOTS = 'many': ")
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "turnkeeper.db").touch()
        ended = look(tmp_path / "data", TURNKEEPER_ENGINES__CODX__MODEL="x")
        assert (ended.code, ended.stdout) == (2, "")


def test_json(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with served(tmp_path, "--data-dir", str(data_dir), TURNKEEPER_TOKEN=TOKEN) as (said, process):
        shown = told(look(data_dir, "--json"))
    assert set(shown) == {"good", "version", "data_dir", "checks", "service", "status", "engines"}
    assert (shown["good"], shown["version"], shown["data_dir"]) == (True, __version__, str(data_dir))
    names = ["folder", "database", "disk", "sandbox", "service", "slots", "queue"]
    assert [check["name"] for check in shown["checks"]] == names
    assert all(set(check) == {"name", "outcome", "message", "fix"} for check in shown["checks"])
    assert set(shown["service"]) == {"url", "pid", "version", "started_at", "cert"}
    assert shown["service"]["pid"] == process.pid
    assert shown["service"]["url"] in said
    assert shown["service"]["started_at"] == shown["status"]["started_at"]
    assert (shown["status"]["status"], shown["status"]["held"]) == ("ready", [])
    assert [engine["name"] for engine in shown["engines"] if engine["ready"]] == ["demo"]


def leave_behind(data_dir: Path, url: str, pid: int | None = None) -> None:
    """The file of a service, with nobody who would take it away."""
    left = Beacon(url=url, pid=pid or os.getpid(), version=__version__, started_at=datetime.now(UTC))
    with beacon.lit(data_dir, left):
        text = (data_dir / beacon.NAME).read_bytes()
    (data_dir / beacon.NAME).write_bytes(text)


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """As by a service that says nothing."""
    lock = DirectoryLock(data_dir)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
