"""The walls around an engine: bubblewrap's words for what is inside, the limits there, and what its end means.

Others look at the machine: `mounts.py` for what is inside, `probe.py` for whether it works, `meter.py` for what
limits cannot hold. The network is not walled off: the models are out there.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from turnkeeper.core.run import SandboxKind, SandboxMode
from turnkeeper.engines.base import Launch, TurnPlan, scratch
from turnkeeper.engines.mounts import Mounts, Places, Room, mounts

PACKAGE = "apt install bubblewrap"
MB = 1024 * 1024
SHARED = ("/tmp", "/var/tmp", "/dev/shm")
"""Places where every program may leave things about; inside they are one folder of the run, so that a disk limit counts
it and nothing is kept in memory."""
NOBODY = "65534"
"""Who root is inside. As root an agent could build no walls of its own there: the kernel wants a capability for that
which nobody has inside, and Codex asks for a permission only where it can."""
UNSHARED = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
KERNEL = tuple(
    f"/proc/{name}"
    for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "dynamic_debug")
)
"""Where the kernel itself is set. To it, root is root under any name and without any capability: who may write there
can have a program of theirs run outside. Anybody else can write nothing there anyway."""
COUNTED_INSIDE = (5, 14)
_REFUSED = re.compile(r"^bwrap: .+", re.MULTILINE)
_NOT_FOUND = (126, 127)
"""What a shell, and whoever starts a program for another, exits with if it cannot be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one run at a time: of all its processes together, but for the two that the kernel counts for each."""

    processes: int
    """Threads count."""
    memory: int
    open_files: int
    """Of each process."""
    file: int
    """Bytes of each file."""
    disk: int
    """Bytes of workspace and home."""

    def within_ours(self) -> Limits:
        """Nobody may allow more than was allowed to them."""
        return replace(
            self,
            open_files=_least(self.open_files, resource.RLIMIT_NOFILE),
            file=_least(self.file, resource.RLIMIT_FSIZE),
            processes=_least(self.processes, resource.RLIMIT_NPROC),
        )


def _least(wanted: int, which: int) -> int:
    hard = resource.getrlimit(which)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


@dataclass(frozen=True, slots=True)
class Tools:
    """What builds the walls, and what sets the limits behind them."""

    bwrap: str
    prlimit: str
    is_root: bool = False
    """Whoever builds them is."""
    counts_inside: bool = True
    """The kernel counts the processes of a user for each sandbox by itself."""


def tools() -> Tools | str:
    """Or what is missing, in words."""
    bwrap, prlimit = shutil.which("bwrap"), shutil.which("prlimit")
    if bwrap is None:
        return f"bubblewrap is not installed ({PACKAGE})"
    if prlimit is None:
        return "prlimit is not installed (apt install util-linux)"
    return Tools(bwrap, prlimit, os.geteuid() == 0, counts_inside(os.uname().release))


def counts_inside(release: str) -> bool:
    """Since Linux 5.14. Before, all of a user's processes on the machine count: the limit of one run would hold the
    others, and the service itself. There the meter has to do."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return found is not None and (int(found[1]), int(found[2])) >= COUNTED_INSIDE


def words(tools: Tools, there: Mounts, limits: Limits) -> tuple[str, ...]:
    """What stands before a command that is to be inside. No `--die-with-parent`: who outlives us is found by its mark,
    and ended in its own time."""
    return (
        tools.bwrap,
        *UNSHARED,
        *("--cap-drop", "ALL"),
        *(("--uid", NOBODY, "--gid", NOBODY) if tools.is_root else ()),
        *("--proc", "/proc"),
        *(_kernel_kept() if tools.is_root else ()),
        *("--dev", "/dev"),
        *_laid(there),
        *_closed(there),
        *("--chdir", str(there.room.workspace), "--"),
        *_limited(tools, limits),
    )


def wrap(argv: Sequence[str], tools: Tools, there: Mounts, limits: Limits) -> tuple[str, ...]:
    return (*words(tools, there, limits), *argv)


def _kernel_kept() -> Iterable[str]:
    """Right over the new /proc, and before anything that is laid deeper."""
    return (word for path in KERNEL for word in ("--ro-bind-try", path, path))


def _laid(there: Mounts) -> Iterable[str]:
    """From the top down: what is deeper is laid over what it is in."""
    room = there.room
    ops: list[tuple[str, tuple[str, ...]]] = [
        *((path, ("--tmpfs", path)) for path in there.hidden),
        *((path, ("--ro-bind", "/dev/null", path)) for path in there.blank),
        *((path, ("--ro-bind", path, path)) for path in there.read),
        *((path, ("--symlink", target, path)) for path, target in there.links.items()),
        *((path, ("--bind", str(room.scratch), path)) for path in SHARED),
        *((path, ("--bind", path, path)) for path in map(str, (room.workspace, room.home))),
    ]
    if room.skill_dir is not None:
        ops.append((str(room.skill_dir), ("--ro-bind", str(room.skill_dir), str(room.skill_dir))))
    ordered = sorted(ops, key=lambda op: (op[0].count("/") if op[0] != "/" else 0, op[0]))
    return (word for _, op in ordered for word in op)


def _closed(there: Mounts) -> Iterable[str]:
    """When everything is in its place. What is left of them is memory that nobody would count."""
    return (word for path in (*sorted(there.hidden), "/dev", "/") for word in ("--remount-ro", path))


def _limited(tools: Tools, limits: Limits) -> tuple[str, ...]:
    """Set inside: there the kernel counts the processes of this run alone."""
    return (
        tools.prlimit,
        "--core=0",
        f"--nofile={limits.open_files}",
        f"--fsize={limits.file}",
        *((f"--nproc={limits.processes}",) if tools.counts_inside else ()),
        "--",
    )


def refusal(code: int | None, stderr: str) -> str | None:
    """Why the engine was never started, if it was not: there is no way but through the walls."""
    told = _REFUSED.findall(stderr) if code not in _NOT_FOUND else stderr.strip().splitlines()
    if not code or not (told or code in _NOT_FOUND):
        return None
    words = told[-1].strip() if told else f"exit code {code}"
    return (
        f"the engine could not be started in its sandbox: {words}. If it needs files that are not there, "
        "name them in the setting sandbox.read; `turnkeeper doctor` tries the sandbox itself"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What the operator wants, and what there is."""

    mode: SandboxMode = SandboxMode.OFF
    reason: str | None = None
    """Why there is none; None: there is one."""
    tools: Tools | None = None
    places: Places | None = None
    limits: Limits | None = None

    @property
    def kind(self) -> SandboxKind:
        return SandboxKind.OFF if self.tools is None else SandboxKind.BUBBLEWRAP

    @property
    def is_missed(self) -> bool:
        """It was wanted, and there is none."""
        return self.mode is SandboxMode.AUTO and self.kind is SandboxKind.OFF

    def words(self, launch: Launch, plan: TurnPlan) -> tuple[str, ...]:
        """Before the command of a turn; none without a sandbox. Blocking."""
        if self.tools is None or self.places is None or self.limits is None:
            return ()
        room = Room(
            workspace=plan.workspace,
            home=plan.home,
            scratch=scratch(plan.home),
            skill_dir=plan.skill_dir if plan.skill_dir.exists() else None,
        )
        started = [*launch.argv[:1], *launch.program, self.tools.prlimit]
        there = mounts(self.places, room, started, launch.reads, launch.env)
        return words(self.tools, there, self.limits)


NONE = Sandbox()
"""Nobody has looked for one."""
