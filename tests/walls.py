"""Whether there can be a sandbox on this machine, for the tests of one. Where CI runs there must be."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from turnkeeper.core.run import SandboxMode
from turnkeeper.engines import probe
from turnkeeper.engines.mounts import Places, Room, mounts
from turnkeeper.engines.sandbox import MB, Limits, Sandbox, words

GENEROUS = Limits(processes=2048, memory=64 * 1024 * MB, open_files=4096, file=1024 * MB, disk=1024 * MB)


def walls(data_dir: Path) -> Sandbox:
    """As a service with this data directory would have it."""
    return probe.settle(SandboxMode.AUTO, Places(data_dir=data_dir, home=Path.home()), GENEROUS)


def room_in(folder: Path) -> Room:
    """Like a run's."""
    home = folder / "home"
    room = Room(workspace=folder / "workspace", home=home, scratch=home / ".scratch")
    for place in (room.workspace, room.home, room.scratch):
        place.mkdir(parents=True)
    return room


def words_for(sandbox: Sandbox, room: Room, *programs: str, limits: Limits | None = None) -> tuple[str, ...]:
    assert sandbox.tools is not None, sandbox.reason
    assert sandbox.places is not None
    there = mounts(sandbox.places, room, [*programs, sandbox.tools.prlimit], (), dict(os.environ))
    return words(sandbox.tools, there, (limits or GENEROUS).within_ours())


def _obstacle() -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        return walls(Path(folder)).reason


OBSTACLE = None if os.environ.get("CI") else _obstacle()
needs_walls = pytest.mark.skipif(OBSTACLE is not None, reason=f"no sandbox can be built here: {OBSTACLE}")
