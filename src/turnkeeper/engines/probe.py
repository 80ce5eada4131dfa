"""Whether there is a sandbox here: tried, with the words that a run would have, and not told by the looks of it.

Kernels, containers and distributions forbid parts of it in many ways; one that lets something through would be worse
than none, since people would rely on it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from turnkeeper.core.errors import SettingsInvalid
from turnkeeper.core.run import SandboxMode
from turnkeeper.engines import sandbox
from turnkeeper.engines.mounts import Places, Room, mounts
from turnkeeper.engines.sandbox import Limits, Sandbox, Tools

PREFIX = "probe-"
TRY_SEC = 20
SECRET, STRAY, KEPT = "secret", "stray", "kept"
FEW = 4
"""Processes inside: the first, and the one that looks. More are others'."""
SWITCHED_OFF = "it is switched off (sandbox.mode = off)"
FIX = f"{sandbox.PACKAGE}, allow user namespaces, or set sandbox.mode to auto or off"
# What a run may do it must be able to do, and what it may not must not happen. A word for each that went wrong, but for
# the write: inside it may seem to work, as long as nothing of it is seen outside.
ATTACK = f"""
cat "$1/{SECRET}" >/dev/null 2>&1 && echo read
[ -w /proc/sys/kernel/core_pattern ] && echo kernel
{{ echo x >"$1/{STRAY}"; }} 2>/dev/null
echo x >"$2/{KEPT}" || echo workspace
echo x >"$TMPDIR/{KEPT}" || echo scratch
read -r me rest </proc/self/stat
set -- /proc/[0-9]*
[ "$me" = "$$" ] && [ $# -le {FEW} ] || echo processes
exit 0
"""
MEANS = {
    "read": "an agent in it could read the data of the service",
    "kernel": "an agent in it could change the kernel's own settings",
    "written": "an agent in it could write where nothing may be written",
    "processes": "an agent in it could see the processes of others",
    "workspace": "an agent in it could not write into its workspace",
    "scratch": "an agent in it could not write temporary files",
}


def settle(mode: SandboxMode, places: Places, limits: Limits) -> Sandbox:
    """What there is, of what is wanted. Blocking: it starts processes."""
    if mode is SandboxMode.OFF:
        return Sandbox(mode=mode, reason=SWITCHED_OFF)
    found = sandbox.tools()
    held = limits.within_ours()
    reason = found if isinstance(found, str) else _trouble(found, places, held)
    if reason is None:
        assert isinstance(found, Tools)
        return Sandbox(mode=mode, tools=found, places=places, limits=held)
    if mode is SandboxMode.REQUIRED:
        raise SettingsInvalid(
            f"sandbox.mode is required, and there is no sandbox here: {reason}. To fix it: {FIX}"
        )
    return Sandbox(mode=mode, reason=reason)


def tidy(data_dir: Path) -> None:
    """Of starts that were cut off. For who has the data directory. Blocking."""
    with suppress(OSError):  # empty folders that the next start finds as well
        for left in data_dir.glob(f"{PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)


def _trouble(tools: Tools, places: Places, limits: Limits) -> str | None:
    """Why no run can be put into it; None if one can."""
    try:
        with tempfile.TemporaryDirectory(
            prefix=PREFIX, dir=places.data_dir, ignore_cleanup_errors=True
        ) as folder:
            return _tried(tools, places, limits, Path(folder))
    except (OSError, subprocess.SubprocessError) as error:
        return f"bubblewrap cannot be tried: {error}"


def _tried(tools: Tools, places: Places, limits: Limits, folder: Path) -> str | None:
    room = Room(workspace=folder / "workspace", home=folder / "home", scratch=folder / "home" / ".scratch")
    for place in (room.workspace, room.home, room.scratch):
        place.mkdir()
    (folder / SECRET).write_text("not for agents")
    env = {"PATH": os.environ.get("PATH", os.defpath), "TMPDIR": str(room.scratch)}
    there = mounts(places, room, ["true", "sh", "cat", tools.prlimit], (), env)
    for command in (("true",), ("sh", "-c", ATTACK, "sh", str(folder), str(room.workspace))):
        ended = subprocess.run(
            sandbox.wrap(command, tools, there, limits),
            cwd=room.workspace,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRY_SEC,
            check=False,
        )
        if ended.returncode:
            words = " ".join(ended.stderr.split()) or f"it ended with {ended.returncode}"
            return f"bubblewrap does not work here: {words}"
        for word in ended.stdout.split():
            return f"bubblewrap does not hold here: {MEANS.get(word, word)}"
    if (folder / STRAY).exists():
        return f"bubblewrap does not hold here: {MEANS['written']}"
    is_kept = (room.workspace / KEPT).exists() and (room.scratch / KEPT).exists()
    return None if is_kept else f"bubblewrap does not work here: {MEANS['workspace']}"
