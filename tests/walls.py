"""Whether there can be a sandbox on this machine, for the tests of one. Where CI runs there must be."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from turnkeeper.core.run import SandboxMode
from turnkeeper.engines import probe
from turnkeeper.engines.mounts import Places
from turnkeeper.engines.sandbox import MB, Limits, Sandbox

GENEROUS = Limits(processes=2048, memory=64 * 1024 * MB, open_files=4096, file=1024 * MB, disk=1024 * MB)


def walls(data_dir: Path) -> Sandbox:
    """As a service with this data directory would have it."""
    return probe.settle(SandboxMode.AUTO, Places(data_dir=data_dir, home=Path.home()), GENEROUS)


def _obstacle() -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        return walls(Path(folder)).reason


OBSTACLE = None if os.environ.get("CI") else _obstacle()
needs_walls = pytest.mark.skipif(OBSTACLE is not None, reason=f"no sandbox can be built here: {OBSTACLE}")
