"""Deleting what was an agent's: links stay closed, forbidden folders open, and no path is too long."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.descriptors import few_descriptors
from turnkeeper.skills.clearing import Space, clear, measure

MB = 1024 * 1024
PR_CAPBSET_DROP = 24
POWERS = (1, 2, 3)
"""Of root, over files whatever their mode: DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER."""


def a_run(root: Path) -> Path:
    run = root / "run"
    for name, size in {"home/a/session": 5000, "raw/1.1.stdout": 9000, "workspace/report.md": 10}.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(b"x" * size)
    return run


def used(path: Path) -> int:
    """As `du` counts."""
    inside = (each for each in path.rglob("*")) if path.is_dir() else ()
    return sum(each.lstat().st_blocks * 512 for each in (path, *inside))


def test_space_is_counted_by_kind(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run / "uploads.new").mkdir()
    space = measure(run)
    assert space.homes == used(run / "home") > 0
    assert space.logs == used(run / "raw") > 0
    assert space.files == used(run / "workspace") + used(run / "uploads.new") > 0
    assert space.total == space.homes + space.logs + space.files
    assert space + space == Space(2 * space.homes, 2 * space.logs, 2 * space.files)


def test_links_count_for_themselves(tmp_path: Path) -> None:
    treasure = a_run(tmp_path / "elsewhere")
    run = tmp_path / "run"
    (run / "workspace").mkdir(parents=True)
    (run / "workspace" / "out").symlink_to(treasure)
    own = (run / "workspace" / "out").lstat().st_blocks * 512
    assert measure(run).files == (run / "workspace").lstat().st_blocks * 512 + own
    (tmp_path / "link").symlink_to(treasure)
    assert measure(tmp_path / "link") == Space()


def test_what_is_not_there_takes_no_space(tmp_path: Path) -> None:
    assert measure(tmp_path / "nowhere") == Space()


class Meddler:
    """An agent at work: at the first listing that shows one of its names it does its deed, before anybody goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: set[str], deed: Callable[[], None]) -> None:
        self._names, self._deed, self._real = names, deed, os.scandir
        self.has_been = False
        monkeypatch.setattr(os, "scandir", self._scandir)

    @contextmanager
    def _scandir(self, where: Any) -> Iterator[list[os.DirEntry[str]]]:
        with self._real(where) as entries:
            listed = list(entries)
        if not self.has_been and self._names & {each.name for each in listed}:
            self.has_been = True
            self._deed()
        yield listed


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, workspace = tmp_path / "outside", tmp_path / "run" / "workspace"
    outside.mkdir()
    (outside / "large").write_bytes(bytes(10 * MB))
    (workspace / "bait").mkdir(parents=True)

    def swap() -> None:
        (workspace / "bait").rmdir()
        (workspace / "bait").symlink_to(outside)

    meddler = Meddler(monkeypatch, {"bait"}, swap)
    assert measure(tmp_path / "run").files < MB
    assert meddler.has_been


def test_a_folder_that_is_moved_away_meanwhile_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way up from it is not the way that led down."""
    outside, workspace = tmp_path / "outside", tmp_path / "run" / "workspace"
    for name in ("one", "two"):
        (workspace / name).mkdir(parents=True)
        (workspace / name / f"in_{name}").touch()
        (outside / name).mkdir(parents=True)
        (outside / name / "large").write_bytes(bytes(10 * MB))

    def move() -> None:
        for name in ("one", "two"):
            (workspace / name).rename(outside / f"{name}.moved")

    meddler = Meddler(monkeypatch, {"in_one", "in_two"}, move)
    assert measure(tmp_path / "run").files < MB
    assert meddler.has_been


def test_few_file_descriptors_are_enough(tmp_path: Path) -> None:
    """However deep and wide it is."""
    run = a_run(tmp_path)
    deep = run / "workspace" / Path(*"abcdefghijklmnopqrstuvwxyz")
    deep.mkdir(parents=True)
    for folder in (run / "workspace", deep):
        for number in range(20):
            (folder / f"wide{number}").mkdir()
            (folder / f"wide{number}" / "file").write_bytes(bytes(5000))
    with few_descriptors(6):
        space = measure(run)
    assert space.files == used(run / "workspace")


def test_all_of_it_goes_and_nothing_else(tmp_path: Path) -> None:
    run, other = a_run(tmp_path), a_run(tmp_path / "other")
    clear(tmp_path, "run")
    assert not run.exists()
    assert (other / "raw" / "1.1.stdout").exists()
    clear(tmp_path, "run")  # once more does no harm
    clear(tmp_path / "nowhere", "run")


def test_a_part_of_it(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    clear(tmp_path, "run", "home")
    assert {each.name for each in run.iterdir()} == {"raw", "workspace"}
    clear(tmp_path, "gone", "home")


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").write_text("ours")
    return treasure


def test_links_are_deleted_and_not_followed(tmp_path: Path, treasure: Path) -> None:
    run = a_run(tmp_path)
    (run / "workspace" / "out").symlink_to(treasure)
    (run / "workspace" / "deep" / "er").mkdir(parents=True)
    (run / "workspace" / "deep" / "er" / "out").symlink_to(treasure)
    (run / "top").symlink_to(treasure)
    (run / "dangling").symlink_to(tmp_path / "nowhere")
    clear(tmp_path, "run")
    assert not os.path.lexists(run)
    assert (treasure / "gold").read_text() == "ours"


def test_a_link_in_the_place_of_the_folder(tmp_path: Path, treasure: Path) -> None:
    (tmp_path / "run").symlink_to(treasure)
    with pytest.raises(OSError, match="run"):
        clear(tmp_path, "run", "gold")
    assert (treasure / "gold").exists()
    clear(tmp_path, "run")
    assert not os.path.lexists(tmp_path / "run")
    assert (treasure / "gold").exists()


def test_things_that_are_neither_file_nor_folder(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    os.mkfifo(run / "workspace" / "fifo")
    (run / "workspace" / os.fsdecode(b"\xff\n")).write_text("no UTF-8")
    clear(tmp_path, "run")
    assert not run.exists()


def test_deeper_than_any_path(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 50, dir_fd=at)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    leaf = os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=at)
    os.write(leaf, bytes(10 * MB))
    os.close(leaf)
    os.close(at)
    (tmp_path / ("d" * 50)).rename(tmp_path / "run")
    assert measure(tmp_path / "run").files >= 10 * MB
    clear(tmp_path, "run")
    assert list(tmp_path.iterdir()) == []


def weakly(code: str, *words: str) -> None:
    """In a process that modes apply to, also if root runs the tests."""

    def weaken() -> None:
        libc = ctypes.CDLL(None)
        for power in POWERS:
            libc.prctl(PR_CAPBSET_DROP, power, 0, 0, 0)

    ended = subprocess.run(
        [sys.executable, "-c", code, *words], preexec_fn=weaken, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_folders_that_their_owner_closed(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run / "workspace" / "deep" / "er").mkdir(parents=True)
    (run / "workspace" / "deep" / "er" / "file").write_text("x")
    closed = [run / "workspace" / "deep" / "er", run / "workspace" / "deep", run / "home", run]
    for folder in closed:
        folder.chmod(0o000)
    code = (
        "import os, sys; from pathlib import Path; from turnkeeper.skills.clearing import clear\n"
        "root = Path(sys.argv[1])\n"
        "try: os.listdir(root / 'run')\n"
        "except PermissionError: pass\n"
        "else: raise SystemExit('modes do not apply')\n"
        "clear(root, 'run')"
    )
    weakly(code, str(tmp_path))
    assert not run.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_what_cannot_go_is_told_and_the_rest_goes(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    theirs = run / "workspace" / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("x")
    theirs.chmod(0o555)
    os.chown(theirs, 65534, 65534)
    code = (
        "import sys; from pathlib import Path; from turnkeeper.skills.clearing import clear\n"
        "try: clear(Path(sys.argv[1]), 'run')\n"
        "except PermissionError as error: assert error.filename == 'theirs', error\n"
        "else: raise SystemExit('nothing was told')"
    )
    weakly(code, str(tmp_path))
    assert [each.name for each in run.rglob("*") if not each.is_dir()] == ["file"]
    clear(tmp_path, "run")
    assert not run.exists()


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o300, 0o400])
def test_folders_that_their_owner_closed_have_their_weight(tmp_path: Path, mode: int) -> None:
    """A limit on the disk would hold nobody otherwise."""
    run = a_run(tmp_path)
    (run / "workspace" / "deep").mkdir()
    (run / "workspace" / "deep" / "file").write_bytes(bytes(MB))
    size = used(run / "workspace")
    for folder in (run / "workspace" / "deep", run / "workspace"):
        folder.chmod(mode)
    code = (
        "import sys; from pathlib import Path; from turnkeeper.skills.clearing import measure, weigh\n"
        "run, own, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])\n"
        "assert weigh(run, 'workspace') == size - own, weigh(run, 'workspace')\n"
        "assert measure(run).files == size"
    )
    own = (run / "workspace").lstat().st_blocks * 512
    weakly(code, str(run), str(own), str(size))
