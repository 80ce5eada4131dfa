"""Which processes on this machine are ours, and how they are ended.

Each engine process carries `TURNKEEPER_RUN=<data-dir id>/<run>/<attempt>.<try>` in its environment, and its
children inherit it, also those that left its session or outlived it. What cannot be proven ours is never
signalled. Needs Linux 5.4 (pidfd); runs and attempts are left to others.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from signal import Signals
from typing import NamedTuple, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

MARK = "TURNKEEPER_RUN"
LADDER = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
KILL_ROUNDS = 10
ALONE_SEC = 0.5
"""How long keepers may take to go that keep nobody any more, or to let somebody in."""
LISTINGS = 3
EXEC_LOOKS = 200
EMPTY_LOOKS = 2
EXEC_PAUSE_SEC = 0.001
SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
SHORT_PAUSE_SEC = 0.5
"""How often a machine that is short of descriptors or memory is asked again."""

_MARK = f"\0{MARK}=".encode()
_KERNEL_THREAD = 0x00200000
_READ = 32 * 1024
_DEAD = (b"Z", b"X", b"x")
_AT_WORK = (b"R", b"D")
_CPU = slice(11, 15)
"""Where /proc/PID/stat tells the time on the processor, in user and system mode, its own and its children's."""
_TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")
_ENV_START, _ENV_END = 47, 48
"""Where /proc/PID/stat tells the addresses of the environment, counted behind the command."""


@dataclass(frozen=True, slots=True)
class Found:
    """A process. A pid may be reused; with `start_time` (clock ticks since boot) it names one for good."""

    pid: int
    start_time: int
    mark: str | None
    command: str


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a tree of processes had done by some moment: two of them tell whether it works."""

    members: frozenset[tuple[int, int]]
    """By pid and start time."""
    cpu_sec: float
    """Of all of them, and of those they have waited for."""
    commands: tuple[str, ...]


class _Entry(NamedTuple):
    pid: int
    ppid: int
    session: int
    start_time: int
    ticks: int
    command: str
    is_dead: bool
    is_kernel: bool


def find(prefix: str, *, roots: Collection[Found] = ()) -> list[Found]:
    """Processes whose mark is `prefix` or lies below it, and all that belongs to them; oldest first.

    A prefix ends at a `/` or a `.`: `id/run/1` finds `id/run/1.2`, never `id/run/10.1`. To a process belong
    its descendants and the members of its session: both are proven while it lives, even with a scrubbed
    environment. `roots` are processes known to be ours by other means; a zombie among them still vouches for
    its session. We ourselves and our ancestors are never listed, nor are zombies.
    """
    listed, marks = _belonging(prefix, roots)
    return [Found(entry.pid, entry.start_time, marks.get(entry.pid), entry.command) for entry in listed]


async def patiently(look: Callable[[], T]) -> T:
    """In a thread: reading the environment of a process that hangs in the kernel may hang too. As often as it takes:
    without a file descriptor nobody knows who is alive, and to say that nobody is would be a lie."""
    while True:
        try:
            return await asyncio.to_thread(look)
        except OSError as error:
            if error.errno not in SHORT:
                raise
            log.warning("the processes of a run cannot be looked at yet: %s", error.strerror)
        await asyncio.sleep(SHORT_PAUSE_SEC)


def pulse(prefix: str, *, roots: Collection[Found] = (), unnamed: Collection[Found] = ()) -> Pulse:
    """Of all that `find` would list. The commands of some say nothing to anybody."""
    listed, _ = _belonging(prefix, roots)
    silent = {_name(each) for each in unnamed}
    return Pulse(
        members=frozenset((entry.pid, entry.start_time) for entry in listed),
        cpu_sec=sum(entry.ticks for entry in listed) / _TICKS_PER_SEC,
        commands=tuple(entry.command for entry in listed if (entry.pid, entry.start_time) not in silent),
    )


def identify(pid: int, mark: str | None = None) -> Found | None:
    """The process that has this pid now, be it a zombie; None if there is none."""
    entry = _entry(pid)
    return entry and Found(pid, entry.start_time, mark, entry.command)


async def end(
    found: Iterable[Found],
    *,
    signals: Sequence[Signals] = (signal.SIGTERM, signal.SIGKILL),
    step_sec: float,
) -> list[Found]:
    """Sends each signal in turn to those still alive, `step_sec` apart; returns those that would not die."""
    left = list(found)
    for number in signals:
        left = await _climb(left, number, step_sec)
    return left


def kill(found: Found) -> None:
    """At once, and only if it still is who it was. What that means to others is found out by looking."""
    with contextlib.suppress(OSError):
        if (pidfd := _hold(found)) is not None:
            try:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            finally:
                os.close(pidfd)


async def end_all(
    prefix: str,
    *,
    first: Signals = signal.SIGTERM,
    step_sec: float,
    roots: Collection[Found] = (),
    keepers: Collection[Found] = (),
) -> list[Found]:
    """Ends all that `find` finds, up the ladder from `first`, and looks again until nothing is left.

    `keepers` are the walls around the others, and go with the last of them. They hear nothing of the polite signals,
    which would tear the walls down before anybody inside has tidied up; and they are the first to be killed, which
    ends all inside at once.

    Each rung takes a new census, since a process can fork while it is being ended. What was found once stays
    on the list, even if its parent, the only proof, has died meanwhile. Returns the survivors: those stuck in
    the kernel, or of another user.
    """
    rungs = (*LADDER[LADDER.index(first) :], *(signal.SIGKILL,) * KILL_ROUNDS)
    left: list[Found] = []
    killed: set[tuple[int, int]] = set()
    walls = {_name(each) for each in keepers}
    for number in rungs:
        if number == signal.SIGKILL and keepers:
            await end(keepers, signals=(number,), step_sec=step_sec)
        there = await patiently(partial(find, prefix, roots=(*roots, *left)))
        if all(_name(each) in killed for each in there):
            return there
        if number == signal.SIGKILL or not walls:
            left = await end(there, signals=(number,), step_sec=step_sec)
        else:
            left = await _climb(there, number, step_sec, spared=walls)
        if number == signal.SIGKILL:
            killed.update(_name(each) for each in left)
    return await patiently(partial(find, prefix, roots=(*roots, *left)))


def _name(found: Found) -> tuple[int, int]:
    return found.pid, found.start_time


def same(one: Found, other: Found) -> bool:
    return _name(one) == _name(other)


def _belonging(prefix: str, roots: Collection[Found]) -> tuple[list[_Entry], dict[int, str]]:
    """The living members, oldest first, and the marks that were seen."""
    if not prefix:
        raise ValueError("an empty prefix would find every engine of every data directory")
    there = _everybody()
    for pid in _self_and_ancestors(there):
        there.pop(pid, None)

    marks = _marks(entry.pid for entry in there.values() if not (entry.is_dead or entry.is_kernel))
    ours = {pid for pid, mark in marks.items() if _is_below(mark, prefix)}
    ours.update(root.pid for root in roots if _same(there.get(root.pid), root))

    belongs = defaultdict(list)
    for entry in there.values():
        belongs[entry.ppid].append(entry.pid)
        belongs[entry.session].append(entry.pid)
    unvisited = list(ours)
    while unvisited:
        new = [pid for pid in belongs[unvisited.pop()] if pid not in ours]
        ours.update(new)
        unvisited += new

    listed = [there[pid] for pid in ours if not there[pid].is_dead]
    listed.sort(key=lambda entry: (entry.start_time, entry.pid))
    return listed, marks


async def _climb(
    found: Iterable[Found], number: Signals, step_sec: float, spared: Collection[tuple[int, int]] = ()
) -> list[Found]:
    """One rung: the signal for each of them, and a step's time to follow it. Returns those that live on. Who is spared
    the signal is waited for all the same.

    It counts only for those it reached. With too few file descriptors for all it takes some after the others, and
    with none it waits for one: whoever was never signalled has survived nothing.
    """
    alive: list[Found] = []
    unreached = deque(found)
    if all(_name(each) in spared for each in unreached):
        step_sec = min(step_sec, ALONE_SEC)
    while unreached:
        with contextlib.ExitStack() as pidfds:
            reached: dict[int, Found] = {}
            try:
                while unreached:
                    if (pidfd := _hold(unreached[0])) is not None:
                        pidfds.callback(os.close, pidfd)
                        reached[pidfd] = unreached[0]
                    unreached.popleft()
            except OSError as error:
                if error.errno not in SHORT:
                    alive.append(unreached.popleft())  # out of reach for good: a bare pid is never signalled
                elif not reached:
                    log.warning("the processes of a run cannot be reached yet: %s", error.strerror)
                    await asyncio.sleep(SHORT_PAUSE_SEC)
            for pidfd in (pidfd for pidfd, each in reached.items() if _name(each) not in spared):
                # Gone already, or not ours to signal: the wait tells.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(pidfd, number)
            alive += [reached[pidfd] for pidfd in await _wait(reached, step_sec)]
    return alive


def _hold(found: Found) -> int | None:
    """A pidfd of it; None if it is gone."""
    try:
        pidfd = os.pidfd_open(found.pid)
    except ProcessLookupError:
        return None
    is_it = False
    try:
        # In this order: a process with the right start time had this pid at the open too.
        is_it = _same(_entry(found.pid), found)
        return pidfd if is_it else None
    finally:
        if not is_it:
            os.close(pidfd)


async def _wait(pidfds: Collection[int], within_sec: float) -> list[int]:
    """Waits for the exit of all; returns the pidfds of those that live on."""
    loop = asyncio.get_running_loop()
    waiting = dict.fromkeys(pidfds)
    all_gone = loop.create_future()

    def gone(pidfd: int) -> None:
        loop.remove_reader(pidfd)
        del waiting[pidfd]
        if not waiting and not all_gone.done():
            all_gone.set_result(None)

    for pidfd in pidfds:
        loop.add_reader(pidfd, gone, pidfd)
    try:
        if waiting:
            await asyncio.wait((all_gone,), timeout=within_sec)
    finally:
        for pidfd in waiting:
            loop.remove_reader(pidfd)
    return list(waiting)


def _same(entry: _Entry | None, found: Found) -> bool:
    return entry is not None and entry.start_time == found.start_time


def _is_below(mark: str, prefix: str) -> bool:
    rest = mark.removeprefix(prefix)
    return mark.startswith(prefix) and (not rest or prefix[-1] in "/." or rest[0] in "/.")


def _self_and_ancestors(there: dict[int, _Entry]) -> list[int]:
    """Nothing follows from these: a service started by an engine has a mark, its children need their own."""
    line = [os.getpid()]
    while (entry := there.get(line[-1])) is not None and entry.ppid not in (0, *line):
        line.append(entry.ppid)
    return line


def _everybody() -> dict[int, _Entry]:
    """One that vanishes while we read may have left a child that was not there when we listed: list again."""
    there: dict[int, _Entry] = {}
    seen: set[int] = set()
    for _ in range(LISTINGS):
        new = [pid for pid in _pids() if pid not in seen]
        seen.update(new)
        entries = [entry for pid in new if (entry := _entry(pid)) is not None]
        there |= {entry.pid: entry for entry in entries}
        if len(entries) == len(new):
            break
    return there


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 (a thousand Paths for nothing)


def _marks(pids: Iterable[int]) -> dict[int, str]:
    """In the middle of an exec a process has no environment for a moment; it is looked at again until it has."""
    marks: dict[int, str] = {}
    for look in range(EXEC_LOOKS):
        in_exec = []
        for pid in pids:
            environment = _read(pid, "environ")
            if (mark := _mark(environment)) is not None:
                marks[pid] = mark
            elif not environment and _may_be_in_exec(pid, look):
                in_exec.append(pid)
        if not in_exec:
            break
        pids = in_exec
        time.sleep(EXEC_PAUSE_SEC)
    return marks


def _may_be_in_exec(pid: int, look: int) -> bool:
    """Whether an empty environment is one that is still to come, as far as the kernel tells."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if len(fields) <= _ENV_END or fields[0] in _DEAD:
        return False
    start, end = fields[_ENV_START], fields[_ENV_END]
    if start != b"0":
        # It has come since, or is being written just now, which takes as long as others have the processor. Some have
        # none for good: those are at rest, as a rule.
        return start != end or look < EMPTY_LOOKS or fields[0] in _AT_WORK
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()  # noqa: PTH116 (strangers show us no address at all)
    except OSError:
        return False


def _mark(environment: bytes) -> str | None:
    _, found, rest = (b"\0" + environment).partition(_MARK)
    return os.fsdecode(rest.partition(b"\0")[0]) if found else None


def _entry(pid: int) -> _Entry | None:
    # The command stands in parentheses and may itself contain some, and spaces.
    before, _, after = _read(pid, "stat").rpartition(b")")
    if not after:
        return None
    fields = after.split()
    return _Entry(
        pid=pid,
        ppid=int(fields[1]),
        session=int(fields[3]),
        start_time=int(fields[19]),
        ticks=sum(map(int, fields[_CPU])),
        command=before.partition(b"(")[2].decode("utf-8", "replace"),
        # A main thread that ended before its other threads looks like a zombie too, and is none.
        is_dead=fields[0] in _DEAD and int(fields[17]) < 2,
        is_kernel=bool(int(fields[6]) & _KERNEL_THREAD),
    )


def _read(pid: int, name: str) -> bytes:
    """A file of /proc; empty if the process is gone or closed to us.

    Other errors are raised: with no file descriptor left, an empty census would be a lie.
    """
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
    try:
        data = os.read(fd, _READ)
        while len(data) % _READ == 0 and (more := os.read(fd, _READ)):
            data += more
        return data
    except (ProcessLookupError, PermissionError):
        return b""
    finally:
        os.close(fd)
