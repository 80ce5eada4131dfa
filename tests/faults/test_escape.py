"""An agent that means harm, with walls and without: what it reaches without shows that it tries, and inside it fails.

A real service plays each attack. Where it would hurt the machine, it is bounded, or asked for and not done.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.clis import warned
from tests.harness import Json, Place, opened, settings_for
from tests.walls import needs_walls, room_in, words_for
from turnkeeper.wiring import DATABASE, known_sandbox

pytestmark = needs_walls

HOSTILE = Path(__file__).parent.parent / "fakes" / "hostile.py"
ASKING = HOSTILE.with_name("asking_agent.py")
STAY_SEC = 30
"""How long an agent stays that takes too much: nobody waits for that, unless nothing ends it."""
SMALL = {"max_processes": 40, "max_memory_mb": 256, "max_file_mb": 4, "max_disk_mb": 16}

each_mode = pytest.mark.parametrize("mode", ["off", "required"])


@asynccontextmanager
async def attacked(tmp_path: Path, mode: str, *, stay_sec: float = 0, **sandbox: Any) -> AsyncIterator[Place]:
    engine: Json = {
        "command": [sys.executable, "-I", "-S", str(HOSTILE)],
        "env": ["OPENAI_API_KEY=a-key-for-tests", f"STAY_SEC={stay_sec}"],
        "login_home": tmp_path / "logins",
    }
    walls = {"mode": mode, **sandbox}
    async with opened(tmp_path / "data", slots=4, engines={"codex": engine}, sandbox=walls) as place:
        yield place


async def played(place: Place, attack: str) -> Json:
    run_id = await place.client.create("answer", engine="codex", input={"task": f"[[{attack}]]"})
    run = await place.client.settled(run_id)
    assert run["sandbox"] == place.service.house.sandbox.kind
    return run


async def outcome(place: Place, attack: str) -> str:
    run = await played(place, attack)
    assert run["status"] == "succeeded", run["error"]
    return str((await place.client.result(run["run_id"]))["answer"])


def told(run: Json) -> list[str]:
    """Beside that nobody has tested this version of Codex."""
    return [code for code in warned(run) if code != "ENGINE_VERSION_UNTESTED"]


@dataclass(frozen=True)
class Prey:
    """What there is to get at: a secret in each of these files, and a place to write in each of those folders."""

    secret: str
    files: dict[str, Path]
    folders: dict[str, Path]


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "operator"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


async def hunted(place: Place, operator: Path) -> Prey:
    """With another run, which has ended, and whose files are still there."""
    other = await place.client.create("answer", script="done", engine="demo")
    await place.client.settled(other)
    data, secret = place.settings.data_dir, uuid.uuid4().hex
    run = data / "runs" / other
    files = {
        "workspace": run / "workspace" / "secret",
        "home": run / "home" / "secret",
        "raw log": run / "raw" / "secret",
        "token": data / "token",
        "service": data / "secrets.json",
        "key": operator / ".ssh" / "id_ed25519",
    }
    for path in files.values():
        path.write_text(secret)
    folders = {"workspace": run / "workspace", "home": run / "home", "data": data, "operator": operator}
    return Prey(secret, files, folders)


@each_mode
async def test_nothing_of_others_is_read(tmp_path: Path, operator: Path, mode: str) -> None:
    async with attacked(tmp_path, mode) as place:
        prey = await hunted(place, operator)
        said = await asyncio.gather(*(outcome(place, f"read {path}") for path in prey.files.values()))
        got = {name for name, words in zip(prey.files, said, strict=True) if words == prey.secret}
        assert got == (set(prey.files) if mode == "off" else set()), said
        database = await outcome(place, f"read {place.settings.data_dir / DATABASE}")
        assert database.startswith("SQLite format 3") == (mode == "off")


@each_mode
async def test_nothing_of_others_is_written(tmp_path: Path, operator: Path, mode: str) -> None:
    """Inside it may seem to work, where an empty folder is in the place of one: nothing of it is seen outside."""
    async with attacked(tmp_path, mode) as place:
        prey = await hunted(place, operator)
        stray = [folder / "stray" for folder in prey.folders.values()]
        await asyncio.gather(*(outcome(place, f"write {path}") for path in stray))
        there = {name for name, path in zip(prey.folders, stray, strict=True) if path.exists()}
        assert there == (set(prey.folders) if mode == "off" else set())


def test_keys_and_logins_in_a_folder_that_is_read_are_not(tmp_path: Path) -> None:
    data, shared = tmp_path / "data", tmp_path / "shared"
    data.mkdir()
    files = {name: shared / name for name in ("notes.txt", "key.pem", "cert.pem", "logins/.codex/auth.json")}
    for name, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"what is in {name}\n")
    tls = {"tls_key": files["key.pem"], "tls_cert": files["cert.pem"]}
    engines = {"codex": {"login_home": shared / "logins"}}
    walls = {"mode": "required", "read": (shared,)}
    found = known_sandbox(settings_for(data, sandbox=walls, engines=engines, **tls), data)
    inside = words_for(found, room_in(data / "runs" / "one"), "cat")
    said = subprocess.run([*inside, "cat", *files.values()], capture_output=True, text=True, check=False)
    assert said.stdout == "what is in notes.txt\n"


@each_mode
async def test_the_machine_is_not_open(tmp_path: Path, mode: str) -> None:
    """A stranger's processes, what runs there, the system's own files."""
    me = os.getpid()
    attacks = {
        "see": f"see {me}",
        "see the first": f"names /proc/{me}/fd",
        "strike": f"strike {me}",
        "run": "names /run",
        "etc": "writable /etc",
        "usr": "writable /usr",
        "root": "writable /",
        "kernel": "writable /proc/sys/kernel/core_pattern",
        "own": "writable .",
    }
    async with attacked(tmp_path, mode) as place:
        said = dict(
            zip(attacks, await asyncio.gather(*(outcome(place, a) for a in attacks.values())), strict=True)
        )
    is_root = os.geteuid() == 0
    open_to_us = {"see", "see the first", "strike", "run", "own"} | (
        {"etc", "usr", "root", "kernel"} if is_root else set()
    )
    got = {name for name, words in said.items() if not words.startswith(("refused", "closed"))}
    assert got == (open_to_us if mode == "off" else {"own"}), said


async def test_nobody_has_any_rights_inside(tmp_path: Path) -> None:
    async with attacked(tmp_path, "required") as place:
        said = await outcome(place, "rights .")
        assert said.count("0000000000000000") == said.count("Cap") == 5


@each_mode
async def test_a_file_can_be_too_large(tmp_path: Path, mode: str) -> None:
    async with attacked(tmp_path, mode, **SMALL) as place:
        said = await outcome(place, "stretch large.bin 5")
        assert said == ("stretched" if mode == "off" else "refused: OSError")


@pytest.mark.parametrize(
    ("attack", "setting"),
    [
        ("breed 60", "sandbox.max_processes"),
        ("gorge 400", "sandbox.max_memory_mb"),
        ("melt 400", "sandbox.max_memory_mb"),
        ("hoard . 32", "sandbox.max_disk_mb"),
        ("unname 32", "sandbox.max_disk_mb"),
        ("lock 32", "sandbox.max_disk_mb"),
        ("hoard /tmp 32", "sandbox.max_disk_mb"),
        ("hoard /dev/shm 32", "sandbox.max_disk_mb"),
    ],
)
async def test_who_takes_too_much_is_ended(tmp_path: Path, attack: str, setting: str) -> None:
    async with attacked(tmp_path, "required", stay_sec=STAY_SEC, **SMALL) as place:
        run = await played(place, attack)
        assert (run["status"], run["error"]["code"]) == ("failed", "ENGINE_LIMIT_EXCEEDED"), run["error"]
        assert setting in run["error"]["message"]
        assert "allowed" in run["error"]["message"]
        assert told(run) == []


# Between its words, when nobody plays it


def fill(place: Place, run_id: str) -> None:
    """As a process of the run could that works on while everybody waits."""
    path = place.service.house.stage.folder(run_id).workspace / "large.bin"
    path.write_bytes(os.urandom((SMALL["max_disk_mb"] + 1) * 1024 * 1024))


async def test_a_resident_that_takes_too_much_while_it_waits_is_ended(tmp_path: Path) -> None:
    """Its session is on the disk, and the question stays open."""
    async with opened(tmp_path / "data", sandbox={"mode": "required", **SMALL}) as place:
        job = {"execution_mode": "interactive", "interactive_profile": "sticky_process"}
        run_id = await place.client.create("answer", script="ask", **job)
        assert (await place.client.settled(run_id))["status"] == "waiting_user"
        assert place.service.house.worker.resident == 1
        fill(place, run_id)
        async with asyncio.timeout(STAY_SEC):
            while not warned(run := await place.client.get(run_id)):  # noqa: ASYNC110 (told by the API alone)
                await asyncio.sleep(0.1)
        assert (run["status"], warned(run)) == ("waiting_user", ["RESIDENT_PROCESS_LOST"])


async def test_an_agent_that_takes_too_much_while_it_waits_for_a_permission_is_ended(tmp_path: Path) -> None:
    agent = {
        "command": [sys.executable, str(ASKING), json.dumps(["ask first", "hear first", "end"])],
        "asks": True,
    }
    walls = {"mode": "required", **SMALL}
    async with opened(tmp_path / "data", engines={"agent": agent}, sandbox=walls) as place:
        job = {"execution_mode": "interactive", "permissions": "ask"}
        run_id = await place.client.create(engine="agent", **job)
        assert (await place.client.settled(run_id))["status"] == "waiting_user"
        fill(place, run_id)
        async with asyncio.timeout(STAY_SEC):
            run = await place.client.ended(run_id)
        assert (run["status"], run["error"]["code"]) == ("failed", "ENGINE_LIMIT_EXCEEDED"), run["error"]


@pytest.mark.parametrize("attack", ["breed 60", "gorge 400", "hoard . 32"])
async def test_without_walls_nobody_counts(tmp_path: Path, attack: str) -> None:
    async with attacked(tmp_path, "off", **SMALL) as place:
        run = await played(place, attack)
        assert run["status"] == "succeeded", run["error"]


@each_mode
async def test_a_daemon_does_not_get_away(tmp_path: Path, mode: str) -> None:
    """Out of its session, without its parent and with nothing in its environment: without walls it is a stranger."""
    seconds = f"600.{uuid.uuid4().int % 10**9}"
    async with attacked(tmp_path, mode) as place:
        run = await played(place, f"leave {seconds}")
        alive = daemons(seconds)
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert run["status"] == "succeeded"
        if mode == "off":
            assert (len(alive), told(run)) == (1, [])
        else:
            assert (alive, told(run)) == ([], ["ENGINE_LEFT_PROCESSES"])
            assert "1 process(es) outlived the engine and were ended: sleep" in run["warnings"][-1]["message"]


def daemons(seconds: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if process.read_bytes() == b"sleep\0" + seconds.encode() + b"\0":
                found.append(int(process.parent.name))
    return found


# What is told of it


async def test_each_turn_tells_what_it_was_played_in(tmp_path: Path) -> None:
    """Also after the walls were taken down between two turns: the run goes on, at the same paths."""
    async with opened(tmp_path / "data", sandbox={"mode": "required"}) as place:
        run_id = await place.client.create("answer", script="ask", execution_mode="interactive")
        assert (await place.client.settled(run_id))["sandbox"] == "bubblewrap"
    async with opened(tmp_path / "data", sandbox={"mode": "off"}) as place:
        await place.client.reply(run_id, "blue")
        run = await place.client.ended(run_id)
        assert (run["status"], run["sandbox"]) == ("succeeded", "off")
        assert run["warnings"] == []
        told = (await place.client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"]
        assert [each["launch"]["sandbox"] for each in told] == ["bubblewrap", "off"]


async def test_a_resident_waits_behind_walls(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", sandbox={"mode": "required"}) as place:
        job = {"execution_mode": "interactive", "interactive_profile": "sticky_process"}
        run_id = await place.client.create("answer", script="ask", **job)
        waiting = await place.client.settled(run_id)
        assert (waiting["status"], waiting["sandbox"]) == ("waiting_user", "bubblewrap")
        await place.client.reply(run_id, "blue")
        assert (await place.client.ended(run_id))["status"] == "succeeded"


async def test_where_there_is_none_each_run_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with opened(tmp_path / "data", sandbox={"mode": "auto"}) as place:
        run_id = await place.client.create("answer", script="ask", execution_mode="interactive")
        await place.client.settled(run_id)
        await place.client.reply(run_id, "blue")
        run = await place.client.ended(run_id)
        assert (run["status"], run["sandbox"], warned(run)) == ("succeeded", "off", ["SANDBOX_UNAVAILABLE"])
        assert "apt install bubblewrap" in run["warnings"][0]["message"]
        status = (await place.client.http.get("/v1/status")).json()["sandbox"]
        assert (status["mode"], status["effective"]) == ("auto", "off")
        assert "not installed" in status["reason"]


async def test_a_program_that_is_not_inside_is_not_ready(tmp_path: Path) -> None:
    """A script that starts another, which it has only outside. That is told, and not that some engine failed."""
    wrapper, behind = tmp_path / "wrapper", tmp_path / "behind"
    wrapper.write_text(f'#!/bin/sh\nexec {behind} "$@"\n')
    behind.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {HOSTILE} "$@"\n')
    for path in (wrapper, behind):
        path.chmod(0o755)
    engine = {"command": [str(wrapper)], "env": ["OPENAI_API_KEY=a-key-for-tests"], "login_home": tmp_path}
    for read, status in (((), "failed"), ((behind, HOSTILE, sys.prefix, sys.base_prefix), "succeeded")):
        walls = {"mode": "required", "read": read}
        async with opened(tmp_path / "data", engines={"codex": engine}, sandbox=walls) as place:
            run = await played(place, "names .")
            assert run["status"] == status, run["error"]
            if read:
                continue
            assert run["error"]["code"] == "ENGINE_NOT_READY"
            assert str(behind) in run["error"]["message"]
            assert "sandbox.read" in run["error"]["message"]
