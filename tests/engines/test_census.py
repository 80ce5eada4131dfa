"""The census: all that is ours is found and ended, and nothing else is ever signalled."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.descriptors import few_descriptors
from turnkeeper.engines import census
from turnkeeper.engines.census import Found

SOURCE = str(Path(census.__file__).parents[2])


class Engines:
    """Starts small programs under a mark of this test, and takes all of them away at the end."""

    def __init__(self) -> None:
        self.home = uuid.uuid4().hex
        self.mark = f"{self.home}/run/1.1"
        self._started: list[subprocess.Popen[bytes]] = []

    def python(self, code: str, *, mark: str | None = None, ready: bool = True) -> subprocess.Popen[bytes]:
        """The program prints a line when it is ready."""
        popen = subprocess.Popen(
            [sys.executable, "-c", f"import os, signal, subprocess, sys, time\n{code}"],
            env={**os.environ, "PYTHONPATH": SOURCE, census.MARK: mark or self.mark},
            stdout=subprocess.PIPE,
        )
        self._started.append(popen)
        if ready:
            assert popen.stdout is not None
            assert popen.stdout.readline().strip() == b"ready"
        return popen

    def stranger(self) -> subprocess.Popen[bytes]:
        popen = subprocess.Popen(["sleep", "60"])
        self._started.append(popen)
        return popen

    def close(self) -> None:
        for found in census.find(self.home):
            with suppress(ProcessLookupError):
                pidfd = os.pidfd_open(found.pid)
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                select.select([pidfd], [], [], 10)
                os.close(pidfd)
        for popen in self._started:
            popen.kill()
            popen.communicate()
        assert census.find(self.home) == []


@pytest.fixture
def engines() -> Iterator[Engines]:
    engines = Engines()
    yield engines
    engines.close()


def open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


WAIT = "print('ready', flush=True); time.sleep(60)"
STUBBORN = (
    f"signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN); {WAIT}"
)
# Leaves the session and the parent; the grandchild says when it is there.
DAEMON = """
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
"""


def test_finds_by_mark(engines: Engines) -> None:
    popen = engines.python(WAIT)
    stranger = engines.stranger()
    (found,) = census.find(engines.mark)
    assert found == census.identify(popen.pid, engines.mark)
    assert found.command.startswith("python")
    assert stranger.pid not in {each.pid for each in census.find(engines.home)}


def test_a_prefix_ends_where_a_part_ends(engines: Engines) -> None:
    one = engines.python(WAIT, mark=f"{engines.home}/run/1.1")
    eleven = engines.python(WAIT, mark=f"{engines.home}/run/1.11")
    ten = engines.python(WAIT, mark=f"{engines.home}/run/10.1")

    def pids(prefix: str) -> set[int]:
        return {each.pid for each in census.find(prefix)}

    assert pids(f"{engines.home}/run/1.1") == {one.pid}
    assert pids(f"{engines.home}/run/1") == pids(f"{engines.home}/run/1.") == {one.pid, eleven.pid}
    assert pids(f"{engines.home}/run") == pids(f"{engines.home}/") == {one.pid, eleven.pid, ten.pid}
    assert pids(f"{engines.home}/ru") == set()
    with pytest.raises(ValueError, match="empty prefix"):
        census.find("")


@pytest.mark.failure("X05")
def test_finds_a_daemon(engines: Engines) -> None:
    root = engines.python(DAEMON + WAIT)
    root.wait(10)
    (found,) = census.find(engines.mark)
    assert found.mark == engines.mark
    assert found.pid != root.pid
    assert os.getsid(found.pid) != root.pid


@pytest.mark.failure("X05")
def test_finds_scrubbed_children_of_a_living_parent(engines: Engines) -> None:
    tool = "['setsid', 'sh', '-c', 'sleep 60 & echo ready; wait']"
    root = engines.python(f"subprocess.Popen({tool}, env={{'PATH': os.defpath}}); time.sleep(60)")
    found = census.find(engines.mark)
    assert [each.mark for each in found] == [engines.mark, None, None]
    assert found[0].pid == root.pid


@pytest.mark.failure("X04")
def test_finds_scrubbed_orphans_by_their_session(engines: Engines) -> None:
    """The leader is a zombie, and no parent is left: the session is the only proof, and it is one."""
    orphan = "subprocess.Popen(['env', '-i', '/bin/sh', '-c', 'echo ready; exec sleep 60'])"
    root = engines.python(f"os.setsid(); {orphan}; time.sleep(60)")
    leader = census.identify(root.pid)
    assert leader is not None
    root.kill()
    os.waitid(os.P_PID, root.pid, os.WEXITED | os.WNOWAIT)
    assert census.find(engines.mark) == []
    (orphaned,) = census.find(engines.mark, roots=(leader,))
    assert orphaned.mark is None
    assert census.find(engines.mark, roots=(replace(leader, start_time=leader.start_time + 1),)) == []
    os.kill(orphaned.pid, signal.SIGKILL)


def test_zombies_are_not_listed(engines: Engines) -> None:
    popen = engines.python("print('ready')")
    os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
    assert census.identify(popen.pid) is not None
    assert census.find(engines.mark) == []


async def test_main_thread_that_ended_first(engines: Engines) -> None:
    """It looks like a zombie, and its environment is gone, but the process lives on in another thread."""
    thread = "threading.Thread(target=lambda: (wait_for_main(), print('ready', flush=True), time.sleep(60))).start()"
    code = f"""
import ctypes, threading
def wait_for_main():
    while open('/proc/self/stat').read().rpartition(')')[2].split()[0] != 'Z': time.sleep(0.01)
{thread}
ctypes.CDLL(None).pthread_exit(None)
"""
    popen = engines.python(code)
    root = census.identify(popen.pid)
    assert root is not None
    assert [each.pid for each in census.find(engines.mark, roots=(root,))] == [popen.pid]
    assert await census.end_all(engines.mark, step_sec=0.3, roots=(root,)) == []
    assert popen.wait(10) == -signal.SIGTERM


def test_never_ourselves_nor_our_ancestors(engines: Engines) -> None:
    """A service that an engine started has that engine's mark; so have its parents, and its siblings."""
    look = "from turnkeeper.engines import census; print([f.command for f in census.find(sys.argv[1])])"
    code = f"""
subprocess.Popen([sys.executable, "-c", "import sys; {look}", {engines.home!r}]).wait()
subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
subprocess.Popen([sys.executable, "-c", "import sys; {look}", {engines.home!r}]).wait()
"""
    popen = engines.python(code, ready=False)
    assert popen.stdout is not None
    assert popen.stdout.read().splitlines() == [b"[]", b"['sleep']"]


def test_strange_names(engines: Engines) -> None:
    """The command is set by the process itself: parentheses, spaces and newlines must not confuse anybody."""
    rename = "open('/proc/self/comm', 'w').write(') S 1 (\\n ')"
    popen = engines.python(f"{rename}; {WAIT}")
    (found,) = census.find(engines.mark)
    assert (found.pid, found.command) == (popen.pid, ") S 1 (\n ")


async def test_end_takes_the_first_signal(engines: Engines) -> None:
    popen = engines.python(WAIT)
    before = open_files()
    assert await census.end(census.find(engines.mark), step_sec=10) == []
    assert popen.wait(10) == -signal.SIGTERM
    assert open_files() == before


@pytest.mark.failure("X02")
async def test_end_kills_what_does_not_listen(engines: Engines) -> None:
    popen = engines.python(STUBBORN)
    assert await census.end(census.find(engines.mark), step_sec=0.2) == []
    assert popen.wait(10) == -signal.SIGKILL


@pytest.mark.failure("X03")
async def test_end_returns_those_that_would_not_die(engines: Engines) -> None:
    engines.python(STUBBORN)
    mild = engines.python(WAIT)
    before = open_files()
    found = census.find(engines.mark)
    stubborn = [each for each in found if each.pid != mild.pid]
    assert await census.end(found, signals=(signal.SIGINT, signal.SIGTERM), step_sec=0.2) == stubborn
    assert open_files() == before


@pytest.mark.failure("X07")
async def test_a_reused_pid_is_never_signalled(engines: Engines) -> None:
    stranger = engines.stranger()
    there = census.identify(stranger.pid)
    assert there is not None
    before = open_files()
    stale = replace(there, start_time=there.start_time - 1, mark=engines.mark)
    assert await census.end([stale], signals=(signal.SIGKILL,), step_sec=0.2) == []
    assert await census.end_all(engines.mark, step_sec=0.2, roots=(stale,)) == []
    assert stranger.poll() is None
    assert open_files() == before


async def test_end_of_what_is_gone(engines: Engines) -> None:
    popen = engines.python(WAIT)
    found = census.find(engines.mark)
    popen.kill()
    popen.wait()
    assert await census.end(found, step_sec=10) == []
    assert await census.end([], step_sec=10) == []
    assert await census.end([Found(2**22 + 1, 1, None, "nobody")], step_sec=10) == []
    assert await census.end_all(engines.mark, step_sec=10) == []


@pytest.mark.failure("X02", "X05")
async def test_end_all_sees_what_is_forked_meanwhile(engines: Engines) -> None:
    """Each generation answers TERM with a new daemon; the last one listens to nothing."""
    code = """
def flee(*_):
    generation.append(1)
    if os.fork(): os._exit(0)
    os.setsid()
    if len(generation) == 2: signal.signal(signal.SIGTERM, signal.SIG_IGN)
generation = []
signal.signal(signal.SIGTERM, flee)
print('ready', flush=True)
while True: time.sleep(0.05)
"""
    engines.python(code)
    assert await census.end_all(engines.mark, step_sec=0.3) == []
    assert census.find(engines.home) == []


@pytest.mark.failure("X04")
async def test_end_all_keeps_scrubbed_children_whose_parent_died_first(engines: Engines) -> None:
    """The parent goes at INT, its child without a mark does not; then nothing points to the child any more."""
    ignore = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    child = f"import signal, time; {ignore}; {WAIT}"
    spawn = f"subprocess.Popen([sys.executable, '-c', {child!r}], env={{}}, start_new_session=True)"
    engines.python(f"{spawn}; time.sleep(60)")
    root, orphan = census.find(engines.mark)
    assert (root.mark, orphan.mark) == (engines.mark, None)
    assert await census.end_all(engines.mark, first=signal.SIGINT, step_sec=0.3) == []
    assert census.find(engines.mark, roots=(orphan,)) == []


async def test_end_can_be_cancelled(engines: Engines) -> None:
    popen = engines.python(STUBBORN)
    before = open_files()
    ending = asyncio.create_task(census.end(census.find(engines.mark), step_sec=60))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert popen.poll() is None
    assert open_files() == before


def test_without_file_descriptors_the_census_does_not_lie(engines: Engines) -> None:
    engines.python(WAIT)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        with pytest.raises(OSError, match="Too many open files"):
            census.find(engines.mark)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(census.find(engines.mark)) == 1


@pytest.mark.failure("V09")
async def test_with_one_file_descriptor_nobody_is_given_up(engines: Engines) -> None:
    """One is not enough for a process and its entry: it is waited for a second one, and no signal is skipped."""
    popen = engines.python(WAIT)
    await asyncio.to_thread(engines.stranger)  # whatever the loop needs for a thread is there
    with few_descriptors(1):
        ending = asyncio.create_task(census.end_all(engines.mark, step_sec=0.2))
        await asyncio.wait((ending,), timeout=3 * census.SHORT_PAUSE_SEC)
        assert not ending.done(), "nobody was signalled"
        assert popen.poll() is None
    assert await ending == []
    assert popen.wait(10) == -signal.SIGTERM


@pytest.mark.failure("V09")
async def test_with_few_file_descriptors_one_after_the_other_is_ended(engines: Engines) -> None:
    popens = [engines.python(WAIT) for _ in range(5)]
    stubborn = engines.python(STUBBORN)
    found = census.find(engines.mark)
    await asyncio.to_thread(engines.stranger)
    before = open_files()
    with few_descriptors(3):
        left = await census.end(found, signals=(signal.SIGTERM,), step_sec=0.2)
        assert [each.pid for each in left] == [stubborn.pid]
        assert await census.end_all(engines.mark, step_sec=0.2) == []
    assert open_files() == before
    assert {popen.wait(10) for popen in popens} == {-signal.SIGTERM}
    assert stubborn.wait(10) == -signal.SIGKILL


@pytest.mark.failure("X05")
def test_process_in_the_middle_of_an_exec_is_seen(tmp_path: Path) -> None:
    """Its environment reads as empty then, many times in a row when a shell hands over to a shell."""
    chain = tmp_path / "chain.sh"
    chain.write_text('[ "$1" -gt 0 ] || exec sleep 60\nexec sh "$0" $(($1 - 1))\n')
    mark = f"census-{uuid.uuid4().hex}/run/1.1"
    for _ in range(10):
        process = subprocess.Popen(["sh", str(chain), "100"], env={**os.environ, census.MARK: mark})
        try:
            assert [[found.pid for found in census.find(mark)] for _ in range(20)] == [[process.pid]] * 20
        finally:
            process.kill()
            process.wait()
