"""Processes behind walls: seen, ended, and their ends understood, as without; and nobody gets away."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.descriptors import few_descriptors
from tests.engines.processes import PATIENCE_SEC, engine, open_files, python, sh
from tests.walls import GENEROUS, needs_walls, room_in, walls, words_for
from turnkeeper.engines import census, sandbox
from turnkeeper.engines.mounts import Room
from turnkeeper.engines.process import Exit, Process
from turnkeeper.engines.sandbox import Limits
from turnkeeper.engines.spawn import Command, SpawnFailed

pytestmark = needs_walls

DAEMON = (
    "if not os.fork():\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "    os.execve('/bin/sleep', ['sleep', '600'], {})\n"
    "os.wait()\n"
)
"""Leaves session and parent, and nothing in its environment tells whose it is."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def room(data: Path) -> Room:
    return room_in(data / "runs" / "one")


@pytest.fixture
def inside(data: Path, room: Room) -> tuple[str, ...]:
    return words_for(walls(data), room, sys.executable)


async def test_an_exit_code_comes_through(room: Room, inside: tuple[str, ...]) -> None:
    async with engine(room.workspace, *sh("echo hello; exit 7"), walls=inside) as it:
        assert await it.exits() == Exit(7, None)
        assert it.said() == [b"hello"]
        assert await it.process.leftovers() == []
        assert census.find(it.mark) == []


@pytest.mark.parametrize(
    ("number", "ended"),
    [
        (signal.SIGKILL, Exit(None, signal.SIGKILL)),
        (signal.SIGSEGV, Exit(None, signal.SIGSEGV)),
        (signal.SIGABRT, Exit(None, signal.SIGABRT)),
        # Programs that tidy up end with this number themselves: which it was, nobody can tell.
        (signal.SIGTERM, Exit(128 + signal.SIGTERM, None)),
    ],
)
async def test_a_signal_comes_through(
    room: Room, inside: tuple[str, ...], number: signal.Signals, ended: Exit
) -> None:
    async with engine(room.workspace, *sh(f"kill -{int(number)} $$"), walls=inside) as it:
        assert await it.exits() == ended


async def test_who_is_asked_to_stop_can_tidy_up(room: Room, inside: tuple[str, ...]) -> None:
    """The polite signals go to who is inside. Heard by the walls they would end them first, and all with them."""
    code = (
        "def stop(*_): time.sleep(0.3); print('tidied', flush=True); sys.exit(3)\n"
        "signal.signal(signal.SIGINT, stop)\nprint('up'); time.sleep(600)"
    )
    async with engine(room.workspace, *python(code), walls=inside) as it:
        await it.says(b"up")
        assert await it.process.end(step_sec=PATIENCE_SEC) == []
        assert await it.exits() == Exit(3, None)
        assert it.said() == [b"up", b"tidied"]


async def test_who_does_not_stop_is_killed(room: Room, inside: tuple[str, ...]) -> None:
    code = (
        "for each in (signal.SIGINT, signal.SIGTERM): signal.signal(each, signal.SIG_IGN)\n"
        "subprocess.Popen(['sleep', '600'], start_new_session=True)\nprint('up'); time.sleep(600)"
    )
    async with engine(room.workspace, *python(code), walls=inside) as it:
        await it.says(b"up")
        assert await it.process.end(step_sec=0.2) == []
        assert (await it.exits()).signal == signal.SIGKILL
        assert census.find(it.mark) == []


async def test_it_can_be_ended_at_once(room: Room, inside: tuple[str, ...]) -> None:
    """Before anybody is inside, or while the walls are being built: nothing begins after that."""
    async with engine(room.workspace, *sh("echo up; exec sleep 600"), walls=inside) as it:
        assert await it.process.end(step_sec=0.5) == []
        assert census.find(it.mark) == []


async def test_a_daemon_is_found_and_named(room: Room, inside: tuple[str, ...]) -> None:
    async with engine(room.workspace, *python(DAEMON), walls=inside) as it:
        assert await it.exits() == Exit(0, None)
        assert [left.command for left in await it.process.leftovers()] == ["sleep"]
        assert await it.process.end(step_sec=PATIENCE_SEC) == []
        assert census.find(it.mark) == []


async def test_the_first_inside_is_known_whatever_becomes_of_its_mark(
    room: Room, inside: tuple[str, ...]
) -> None:
    """Its own environment could be overwritten from inside: what we were told at the start stays."""
    async with engine(room.workspace, *python(f"{DAEMON}print('up')"), walls=inside) as it:
        await it.exits()
        keeper = it.process.keeper_pid
        assert keeper is not None
        assert f"NSpid:\t{keeper}\t1\n" in Path(f"/proc/{keeper}/status").read_text()
        roots = [found] if (found := census.identify(keeper)) else []
        assert "sleep" in [each.command for each in census.find("another-mark", roots=roots)]


async def test_the_walls_are_not_spoken_of(room: Room, inside: tuple[str, ...]) -> None:
    async with engine(room.workspace, *python("print('up'); time.sleep(600)"), walls=inside) as it:
        await it.says(b"up")
        pulse = await it.process.pulse()
        assert pulse.commands == (Path(sys.executable).name,)
        assert len(pulse.members) == 3


@pytest.mark.parametrize("program", ["/no/such/program", "no-such-program"])
async def test_a_program_that_is_not_inside_is_told(
    room: Room, inside: tuple[str, ...], program: str
) -> None:
    async with engine(room.workspace, program, walls=inside) as it:
        ended = await it.exits()
        words = b"\n".join(it.said("stderr")).decode()
        told = sandbox.refusal(ended.code, words)
        assert told is not None
        assert program in told
        assert "sandbox.read" in told


async def test_walls_that_cannot_be_built_let_nobody_run(room: Room, inside: tuple[str, ...]) -> None:
    broken = tuple("/no/such/folder" if word == str(room.scratch) else word for word in inside)
    async with engine(room.workspace, *sh("echo ran"), walls=broken) as it:
        ended = await it.exits()
        assert sandbox.refusal(ended.code, b"\n".join(it.said("stderr")).decode()) is not None
        assert it.said() == []


async def test_without_its_builder_nothing_is_started(tmp_path: Path) -> None:
    with pytest.raises(SpawnFailed) as caught:
        Process.spawn(
            Command(("true",), dict(os.environ), tmp_path, frozenset(), ("/no/such/bwrap",)),
            mark="no-such/run/1.1",
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
            on_line=lambda *_: None,
        )
    assert caught.value.reason == "ENOENT"
    assert "/no/such/bwrap" in str(caught.value)


@pytest.mark.failure("S04")
@pytest.mark.parametrize("left", range(9))
async def test_without_files_nothing_is_started_and_nothing_left_open(
    room: Room, inside: tuple[str, ...], left: int
) -> None:
    mark, before = f"few-{left}/run/1.1", open_files()
    command = Command(("sleep", "600"), dict(os.environ), room.workspace, frozenset(), inside)
    with few_descriptors(left), pytest.raises(SpawnFailed) as caught:
        Process.spawn(
            command, mark=mark, stdout=room.home / "out", stderr=room.home / "err", on_line=lambda *_: None
        )
    assert caught.value.reason == errno.errorcode[errno.EMFILE]
    assert caught.value.is_passing
    assert census.find(mark) == []
    assert open_files() == before


async def test_limits_hold_inside(data: Path, room: Room) -> None:
    small = Limits(processes=77, memory=GENEROUS.memory, open_files=99, file=1_000_000, disk=GENEROUS.disk)
    inside = words_for(walls(data), room, sys.executable, limits=small)
    names = ("RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CORE")
    code = f"import resource\nprint([resource.getrlimit(getattr(resource, each)) for each in {names}])"
    async with engine(room.workspace, *python(code), walls=inside) as it:
        await it.exits()
        assert it.said() == [b"[(77, 77), (99, 99), (1000000, 1000000), (0, 0)]"]


def test_nobody_is_allowed_more_than_we_are() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = Limits(processes=1, memory=1, open_files=hard + 1, file=1, disk=1)
    assert wanted.within_ours().open_files == hard


# An ordinary user


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Where an ordinary user may come in."""
    with tempfile.TemporaryDirectory(prefix="walls-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="whoever runs the tests is an ordinary user already")
def test_it_works_for_an_ordinary_user_and_is_seen_by_one(open_place: Path) -> None:
    """Also who is inside: the census of an ordinary user reads their marks, or nobody would ever be ended."""
    ordinary = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    found = sandbox.tools()
    assert isinstance(found, sandbox.Tools)
    room = room_in(open_place / "run")
    (open_place / "token").write_text("secret")
    known = words_for(walls(open_place), room, "sh")
    # As an ordinary user would write them.
    words = [word for word in known if word not in ("--uid", "--gid", sandbox.NOBODY)]
    shutil.copy(census.__file__, open_place / "census.py")
    for path in (open_place / "run", *(open_place / "run").rglob("*")):
        os.chown(path, 65534, 65534)
    script = (
        f"cat {open_place}/token; touch {open_place}/stray; touch ~/kept\n"
        "setsid env -i sh -c 'echo up; exec sleep 600' & wait"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(room.home), census.MARK: "ordinary/run/1.1"}
    look = (
        f"import asyncio, signal, sys; sys.path.insert(0, {str(open_place)!r}); import census\n"
        "print(len(census.find('ordinary/run')))\n"
        "print(asyncio.run(census.end_all('ordinary/run', first=signal.SIGKILL, step_sec=20)))"
    )
    with subprocess.Popen(
        [*ordinary, *words, "sh", "-c", script], stdout=subprocess.PIPE, env=env, cwd=room.workspace
    ) as it:
        assert it.stdout is not None
        assert it.stdout.readline() == b"up\n"
        seen = subprocess.run(
            [*ordinary, "/usr/bin/python3", "-I", "-c", look], capture_output=True, text=True, check=True
        )
    assert seen.stdout.split() == ["4", "[]"]
    assert census.find("ordinary/run") == []
    assert (room.home / "kept").exists()
    assert not (open_place / "stray").exists()
