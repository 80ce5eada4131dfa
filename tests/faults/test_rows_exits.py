"""Exits, signals and trees of processes: what a code means, and that nothing lives on."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import pytest

from tests.crash.restarts import Daemon, started
from tests.fakes.clis import each_engine, engaged, notes, start
from tests.fakes.puppets import played, recorded, run, warned
from tests.harness import PATIENCE, Json, Place, states, wait_for_file
from tests.web.patience import eventually

INTERACTIVE: Json = {"execution_mode": "interactive"}
CODES = (0, 1, 2, 42, 52, 53, 55, 124, 126, 127, 130, 137, 141, 143, 255)
SIGNALS = (signal.SIGINT, signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)
OWN = {("gemini", 55): "ENGINE_TRUST_REQUIRED"}
"""What a code says by itself; all others stay what they are, a number."""
THREAD = {"type": "thread.started", "thread_id": "01-thread"}
DONE = (
    {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": '{"answer": "42"}'}},
    {"type": "turn.completed", "usage": {}},
)


def home(place: Place, run_id: str) -> Path:
    return place.settings.data_dir / "runs" / run_id / "home"


def workspace(place: Place, run_id: str) -> Path:
    return place.settings.data_dir / "runs" / run_id / "workspace"


# Codes


@each_engine
@pytest.mark.failure("X01")
async def test_each_exit_code_means_what_the_engine_means_by_it(tmp_path: Path, engine: str) -> None:
    """Without its closing event no code is a success, not even 0."""
    async with engaged(tmp_path / "data", slots=4) as place:
        starts = (start(place, engine, f"[[note]] [[stop:{code}]]", **INTERACTIVE) for code in CODES)
        ended = await asyncio.gather(*map(place.client.settled, await asyncio.gather(*starts)))
        for code, failed in zip(CODES, ended, strict=True):
            assert failed["status"] == "failed", failed
            assert failed["error"]["code"] == OWN.get((engine, code), "ENGINE_FAILED"), (
                code,
                failed["error"],
            )
            told = "without closing its turn" if code == 0 else f"exit code {code}"
            assert told in failed["error"]["message"], failed["error"]


@each_engine
@pytest.mark.failure("X01", "X09")
async def test_each_signal_is_named(tmp_path: Path, engine: str) -> None:
    """iflow does not listen to some of them: nothing of ours ends it either, so it is not asked about those."""
    async with engaged(tmp_path / "data", slots=4) as place:
        deaf = (signal.SIGINT, signal.SIGTERM) if engine in ("iflow", "gemini", "claude", "qwen") else ()
        numbers = [number for number in SIGNALS if number not in deaf]
        starts = (
            start(place, engine, f"[[note]] [[die:{int(number)}]]", **INTERACTIVE) for number in numbers
        )
        ended = await asyncio.gather(*map(place.client.settled, await asyncio.gather(*starts)))
        for number, failed in zip(numbers, ended, strict=True):
            assert (failed["status"], failed["error"]["code"]) == ("failed", "ENGINE_CRASHED"), failed[
                "error"
            ]
            assert number.name in failed["error"]["message"]


# Trees


ORPHAN = """
if os.fork() == 0:
    {before}
    (workspace / "orphan").write_text(str(os.getpid()))
    {after}
    sleep()
"""
SEEN = "\nwhile not (workspace / 'orphan').exists(): time.sleep(0.01)\n"


async def pid_in(path: Path) -> int:
    """Written in one go, after the file was made."""
    await eventually(lambda: path.exists() and path.read_text().strip().isdigit())
    return int(path.read_text())


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.failure("X04", "X05")
@pytest.mark.parametrize("before", ["", "os.setsid()"], ids=["in its session", "in one of its own"])
async def test_child_that_lost_its_parent_is_ended_with_the_turn(tmp_path: Path, before: str) -> None:
    """It hangs at process 1 by then; its mark, or the session that it is in, says whose it is."""
    code = ORPHAN.format(before=before, after="") + SEEN + f"say({THREAD!r}, *{DONE!r})"
    async with played(tmp_path, "codex", code) as place:
        ended = await run(place, "codex")
        assert (ended["status"], warned(ended)) == ("succeeded", ["ENGINE_LEFT_PROCESSES"])
        assert not is_alive(await pid_in(workspace(place, ended["run_id"]) / "orphan"))


@pytest.mark.failure("X06")
@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize(
    "before",
    ["", "os.environ.clear(); os.execv('/bin/sh', ['sh', '-c', REAL])"],
    ids=["marked", "without our mark"],
)
async def test_wrapper_that_leaves_first_takes_the_real_one_along(
    tmp_path: Path, code: int, before: str
) -> None:
    """As sudo and some launchers do. What is left speaks and answers on, and nobody listens: it is ended.

    Without our mark it is known by the session that the wrapper made, whose number nobody else can have yet.
    """
    real = "REAL = 'echo $$ > orphan; while :; do sleep 0.05; done'\n"
    speak = f"time.sleep(0.2); say({THREAD!r}, *{DONE!r})"
    wrapper = real + ORPHAN.format(before=before, after=speak) + SEEN + f"leave({code})"
    async with played(tmp_path, "codex", wrapper) as place:
        ended = await run(place, "codex")
        assert (ended["status"], ended["error"]["code"]) == ("failed", "ENGINE_FAILED")
        assert warned(ended) == ["ENGINE_LEFT_PROCESSES"]
        assert not is_alive(await pid_in(workspace(place, ended["run_id"]) / "orphan"))


DEAF = "signal.signal(signal.SIGTERM, lambda *_: (workspace / 'asked').touch())"


@pytest.mark.failure("X06", "X04")
@pytest.mark.parametrize("before", ["", "os.setsid()"], ids=["in its session", "in one of its own"])
async def test_cancel_reaches_the_real_one_behind_a_wrapper(tmp_path: Path, before: str) -> None:
    """The wrapper is killed from outside and the real one goes on, deaf to the first request; then somebody cancels."""
    code = ORPHAN.format(before=f"{before}; {DEAF}" if before else DEAF, after="") + "\nsleep()"
    async with played(tmp_path, "codex", code) as place:
        run_id = await place.client.create(engine="codex", timeouts={"step_sec": 2})
        orphan = await pid_in(workspace(place, run_id) / "orphan")
        (wrapper,) = {found.pid for found in place.processes(run_id)} - {orphan}
        os.kill(wrapper, signal.SIGKILL)
        await wait_for_file(workspace(place, run_id) / "asked")
        assert (is_alive(wrapper), is_alive(orphan)) == (False, True)
        await place.client.cancel(run_id)
        assert (await place.client.ended(run_id))["status"] == "canceled"
        assert not is_alive(orphan)


# Those that do not die, and those that are not ours


@pytest.fixture
def freezer() -> Iterator[Path]:
    """Whoever is frozen in it is uninterruptible: not even SIGKILL gets through before the thaw."""
    group = Path("/sys/fs/cgroup/freezer") / f"turnkeeper-test-{uuid.uuid4().hex}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("processes cannot be frozen here: no writable freezer cgroup of the first version")
    yield group
    (group / "freezer.state").write_text("THAWED")
    deadline = time.monotonic() + PATIENCE
    while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    group.rmdir()


@pytest.mark.failure("X03")
async def test_process_that_cannot_die_is_reported_and_its_run_is_over(tmp_path: Path, freezer: Path) -> None:
    join = f"pathlib.Path({str(freezer / 'cgroup.procs')!r}).write_text(str(os.getpid()))"
    async with played(tmp_path, "codex", f"{join}\nsay({THREAD!r})\nreach()\nsleep()") as place:
        client = place.client
        run_id = await client.create(engine="codex", timeouts={"step_sec": 0.1})
        await wait_for_file(home(place, run_id) / "reached")
        (stuck,) = place.processes(run_id)
        (freezer / "freezer.state").write_text("FROZEN")
        await eventually(lambda: (freezer / "freezer.state").read_text().strip() == "FROZEN")
        await client.cancel(run_id)
        ended = await client.ended(run_id)
        assert (ended["status"], "PROCESS_NOT_REAPED" in warned(ended)) == ("canceled", True)
        (told,) = [each["message"] for each in ended["warnings"] if each["code"] == "PROCESS_NOT_REAPED"]
        assert f"process {stuck.pid} " in told
        assert place.house.dispatcher.busy == 0
        other = await client.create(script="done")
        assert (await client.ended(other))["status"] == "succeeded"
        (freezer / "freezer.state").write_text("THAWED")
        await eventually(lambda: not is_alive(stuck.pid))


TRACER = """
import ctypes, sys, time

ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
SEIZE, STOP_AT_EXIT = 0x4206, 0x40
sys.exit(1) if ptrace(SEIZE, int(sys.argv[1]), None, STOP_AT_EXIT) else print("holds", flush=True)
time.sleep(600)
"""
LETS_BE_TRACED = "import ctypes; ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1))"
"""Where only parents may trace; elsewhere nothing happens."""


@asynccontextmanager
async def held(pid: int) -> AsyncIterator[None]:
    """Who is traced stops in the middle of its death until the tracer lets go: SIGKILL does not reach it there."""
    tracer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", TRACER, str(pid), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert tracer.stdout is not None
        if await tracer.stdout.readline() != b"holds\n":
            pytest.skip("processes cannot be traced here")
        yield
    finally:
        with suppress(ProcessLookupError):
            tracer.kill()
        await tracer.wait()


@pytest.mark.failure("X03")
@pytest.mark.parametrize("how", ["cancel", "timeout"])
async def test_process_that_stops_in_the_middle_of_its_death_is_reported(tmp_path: Path, how: str) -> None:
    code = f"{LETS_BE_TRACED}\nsay({THREAD!r})\nreach()\nsleep()"
    async with played(tmp_path, "codex", code) as place:
        client = place.client
        limits = {"step_sec": 0.1, "turn_sec": 4 if how == "timeout" else 60}
        run_id = await client.create(engine="codex", timeouts=limits)
        await wait_for_file(home(place, run_id) / "reached")
        (stuck,) = place.processes(run_id)
        async with held(stuck.pid):
            if how == "cancel":
                await client.cancel(run_id)
            ended = await client.ended(run_id)
            error = ended["error"] and ended["error"]["code"]
            assert (ended["status"], error) == (
                ("canceled", None) if how == "cancel" else ("failed", "TURN_TIMEOUT")
            )
            (told,) = [each["message"] for each in ended["warnings"] if each["code"] == "PROCESS_NOT_REAPED"]
            assert f"process {stuck.pid} " in told
            assert is_alive(stuck.pid)
            assert place.house.dispatcher.busy == 0
            other = await client.create(script="done")
            assert (await client.ended(other))["status"] == "succeeded"
        await eventually(lambda: not is_alive(stuck.pid))


@pytest.mark.failure("X07")
async def test_stranger_with_the_pid_of_an_engine_is_left_alone(tmp_path: Path) -> None:
    """The service and its engine are killed, and the engine's number goes to somebody else before the next start."""
    async with started(tmp_path / "data", at_once=True) as daemon:
        run_id = await daemon.client.create(
            script={"turns": [[{"think": "hm"}, {"touch": "in"}, {"hang": True}]]}
        )
        await wait_for_file(tmp_path / "data" / "runs" / run_id / "workspace" / "in")
        await stored_pid(daemon, run_id)
        await daemon.power_cut()
        for left in daemon.processes():
            os.kill(left.pid, signal.SIGKILL)
        stranger = subprocess.Popen(["sleep", "600"])
        try:
            with closing(sqlite3.connect(tmp_path / "data" / "turnkeeper.db")) as database, database:
                database.execute("UPDATE attempts SET pid = ? WHERE run_id = ?", (stranger.pid, run_id))
            daemon.start()
            await daemon.client.cancel(run_id)
            assert (await daemon.client.ended(run_id))["status"] == "canceled"
            assert stranger.poll() is None
        finally:
            stranger.kill()
            stranger.wait()


async def stored_pid(daemon: Daemon, run_id: str) -> int:
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await daemon.client.http.get(f"/v1/jobs/{run_id}/attempts")
            (attempt,) = answer.json()["attempts"]
            if attempt["pid"]:
                return int(attempt["pid"])
            await asyncio.sleep(0.01)


# Ends


HOLDS = """
lock = workspace / "index.lock"
lock.touch()
def tidy(*_):
    {on_int}
signal.signal(signal.SIGINT, tidy)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""


@pytest.mark.failure("X11")
@pytest.mark.parametrize("how", ["cancel", "timeout"])
@pytest.mark.parametrize(
    ("on_int", "is_left", "warnings"),
    [("lock.unlink(); leave(130)", False, []), ("pass", True, ["ENGINE_ENDED_BY_FORCE"])],
    ids=["tidies up", "does not listen"],
)
async def test_engine_may_tidy_up_and_one_that_must_be_killed_is_told_of(
    tmp_path: Path, how: str, on_int: str, is_left: bool, warnings: list[str]
) -> None:
    code = HOLDS.format(on_int=on_int) + f"say({THREAD!r})\nreach()\nsleep()"
    async with played(tmp_path, "codex", code) as place:
        limits = {"step_sec": 0.3, "turn_sec": 4 if how == "timeout" else 60}
        run_id = await place.client.create(engine="codex", timeouts=limits)
        await wait_for_file(home(place, run_id) / "reached")
        if how == "cancel":
            await place.client.cancel(run_id)
        ended = await place.client.ended(run_id)
        assert ended["status"] == ("canceled" if how == "cancel" else "failed")
        assert (workspace(place, run_id) / "index.lock").exists() == is_left
        assert warned(ended) == warnings


@pytest.mark.failure("X12", "X02")
@pytest.mark.parametrize("cancels", [True, False], ids=["and cancel", "alone"])
async def test_cancel_outweighs_a_limit_which_outweighs_the_exit(tmp_path: Path, cancels: bool) -> None:
    """The limit has ended the turn, its process is on its way out with a code of its own, and somebody cancels."""
    slow = "(home / 'told').touch(); until('leave'); leave(3)"
    code = HOLDS.format(on_int=slow) + f"say({THREAD!r})\nsleep()"
    async with played(tmp_path, "codex", code) as place:
        client = place.client
        run_id = await client.create(engine="codex", timeouts={"turn_sec": 3, "step_sec": 20})
        await wait_for_file(home(place, run_id) / "told")
        if cancels:
            assert (await client.cancel(run_id))["ending"]["why"] == "cancel"
        (home(place, run_id) / "leave").touch()
        ended = await client.ended(run_id)
        error = ended["error"] and ended["error"]["code"]
        assert (ended["status"], error) == (("canceled", None) if cancels else ("failed", "TURN_TIMEOUT"))
        (attempt,) = await place.house.store.attempts(run_id)
        assert attempt.evidence is not None
        assert attempt.evidence["exit"]["code"] == 3
        assert attempt.evidence["timeout"]["code"] == "TURN_TIMEOUT"
        assert attempt.evidence["canceled"] is cancels


@each_engine
@pytest.mark.failure("X13")
async def test_stop_before_the_session_has_a_name_says_that_nothing_can_be_resumed(
    tmp_path: Path, engine: str
) -> None:
    async with played(tmp_path, engine, "reach()\nsleep()") as place:
        run_id = await place.client.create(engine=engine, timeouts={"step_sec": 0.5}, **INTERACTIVE)
        await wait_for_file(home(place, run_id) / "reached")
        await place.client.cancel(run_id)
        ended = await place.client.ended(run_id)
        assert (ended["status"], ended["error"], warned(ended)) == ("canceled", None, ["SESSION_NOT_NAMED"])
        stored = await place.house.store.run(run_id)
        assert stored is not None
        assert stored.handle is None
        assert states(await place.client.events(run_id)) == ["queued", "running", "canceled"]


@pytest.mark.failure("X13")
async def test_stop_after_the_session_has_a_name_has_nothing_to_add(tmp_path: Path) -> None:
    async with engaged(tmp_path / "data") as place:
        run_id = await start(place, "codex", "[[note]] [[hang]]")
        await notes(place, run_id).reached()
        async for event in place.client.follow(run_id):
            if event["type"].startswith("assistant.message"):
                break
        await place.client.cancel(run_id)
        ended = await place.client.ended(run_id)
        assert (ended["status"], warned(ended)) == ("canceled", [])


@each_engine
@pytest.mark.failure("X13")
async def test_service_that_stops_before_the_session_has_a_name_fails_the_run_and_says_why(
    tmp_path: Path, engine: str
) -> None:
    async with played(tmp_path, engine, "reach()\nsleep()", recorded(engine, "ask")) as place:
        run_id = await place.client.create(engine=engine, **INTERACTIVE)
        await wait_for_file(home(place, run_id) / "reached")
    async with played(tmp_path, engine, "reach()\nsleep()", recorded(engine, "ask")) as place:
        ended = await place.client.get(run_id)
        assert (ended["status"], ended["error"]["code"]) == ("failed", "RUN_INTERRUPTED")
        assert "before the engine had named its session" in ended["error"]["message"]
