"""What an engine keeps of its sessions is weighed, and nothing else that lies in the home of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from turnkeeper.skills.workspace import RunFolder

MB = 1024 * 1024

pytestmark = pytest.mark.failure("R08")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / "r1")
    made.make()
    return made


def test_only_what_the_engine_keeps_weighs(tmp_path: Path, folder: RunFolder) -> None:
    (tmp_path / "elsewhere").write_bytes(bytes(3 * MB))
    for name in (".agent/a", ".agent/deep/b", ".agent/skills/s/c", ".tool/d"):
        (folder.home / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.home / name).write_bytes(bytes(MB))
    (folder.home / ".agent" / "link").symlink_to(tmp_path / "elsewhere")
    (folder.home / ".agent" / "up").symlink_to(tmp_path)
    assert folder.home_size(".agent", ".agent/skills") // MB == 2
    assert folder.home_size(".agent/up", ".agent/skills") == 0
    assert folder.home_size(".other", ".agent/skills") == 0


def test_a_hole_weighs_nothing(folder: RunFolder) -> None:
    with (folder.home / "sparse").open("wb") as file:
        file.truncate(10 * MB)
    assert folder.home_size(".", "skills") < MB


def test_levels_have_no_end(folder: RunFolder) -> None:
    deepest = folder.home / ".agent"
    try:
        for _ in range(sys.getrecursionlimit() + 100):
            deepest.mkdir(parents=True)
            deepest /= "d"
        (deepest.parent / "file").write_bytes(bytes(10 * MB))
        assert folder.home_size(".agent", ".agent/skills") >= 10 * MB
    finally:  # whoever tidies up behind the tests may not get that deep
        subprocess.run(["rm", "-rf", str(folder.home)], check=True)
