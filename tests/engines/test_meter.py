"""What a turn uses: counted below its first process alone, and held against the limits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engines.processes import engine, python, soon
from tests.walls import GENEROUS
from turnkeeper.engines.meter import Excess, Meter, load
from turnkeeper.engines.sandbox import MB, Limits

TREE = (
    "import threading\n"
    "stop = threading.Event()\n"
    "threads = [threading.Thread(target=stop.wait, daemon=True) for _ in range(3)]\n"
    "for each in threads: each.start()\n"
    "children = [subprocess.Popen(['sleep', '600'], start_new_session=True) for _ in range(2)]\n"
    "held = bytearray(os.urandom(1)) * (64 * 1024 * 1024)\n"
    "print('up'); time.sleep(600)"
)


class Tree:
    def __init__(self, pid: int | None) -> None:
        self.keeper_pid = pid


async def first_over(pid: int | None, limits: Limits, weigh: Callable[[], int] = lambda: 0) -> Excess:
    with Meter(Tree(pid), limits, weigh, look_sec=0.01, weigh_sec=0.01) as meter:
        return await soon(meter.over)


async def test_all_that_is_below_counts(tmp_path: Path) -> None:
    async with engine(tmp_path, *python(TREE)) as it:
        await it.says(b"up")
        seen = load(it.process.pid)
        assert seen.tasks == 6
        assert 64 * MB < seen.memory < 200 * MB


HOLD = (
    "memory = os.memfd_create('held'); os.write(memory, bytes(40 * 1024 * 1024))\n"
    "file = os.open('held', os.O_CREAT | os.O_WRONLY); os.unlink('held')\n"
    "os.write(file, os.urandom(20 * 1024 * 1024)); os.fsync(file)\n"
    "kept = os.open('kept', os.O_CREAT | os.O_WRONLY); os.write(kept, os.urandom(30 * 1024 * 1024))\n"
    "children = [subprocess.Popen(['sleep', '600'], pass_fds=(memory, file)) for _ in range(2)]\n"
    "print('up'); time.sleep(600)"
)


async def test_what_is_only_held_open_counts_once(tmp_path: Path) -> None:
    """Memory as memory, files as disk; a file with a name is weighed where it is."""
    async with engine(tmp_path, *python(HOLD)) as it:
        await it.says(b"up")
        seen = load(it.process.pid)
        assert 40 * MB < seen.memory < 80 * MB
        assert 20 * MB <= seen.unnamed < 25 * MB
        over = await first_over(it.process.pid, replace(GENEROUS, disk=30 * MB), lambda: 15 * MB)
        assert over.setting == "sandbox.max_disk_mb"


@pytest.mark.parametrize(
    ("limits", "words", "setting"),
    [
        (
            replace(GENEROUS, processes=5),
            "6 processes and threads, and 5 are allowed",
            "sandbox.max_processes",
        ),
        (replace(GENEROUS, memory=10 * MB), "MB of memory, and 10 are allowed", "sandbox.max_memory_mb"),
    ],
)
async def test_more_than_is_allowed_is_told(tmp_path: Path, limits: Limits, words: str, setting: str) -> None:
    async with engine(tmp_path, *python(TREE)) as it:
        await it.says(b"up")
        over = await first_over(it.process.pid, limits)
        assert words in over.words
        assert over.setting == setting


async def test_the_disk_counts_too() -> None:
    sizes = iter([0, 1024 * MB, 1025 * MB])
    over = await first_over(None, GENEROUS, lambda: next(sizes))
    assert over == Excess(
        "1025 MB of disk, in its workspace and its home, and 1024 are allowed", "sandbox.max_disk_mb"
    )


async def test_a_look_that_fails_is_followed_by_another() -> None:
    def weigh() -> int:
        raises.append(1)
        if len(raises) == 1:
            raise OSError("no descriptor left")
        return 2048 * MB

    raises: list[int] = []
    assert (await first_over(None, GENEROUS, weigh)).setting == "sandbox.max_disk_mb"


async def test_without_limits_nobody_looks() -> None:
    def weigh() -> int:
        raise AssertionError

    before = len(asyncio.all_tasks())
    with Meter(Tree(os.getpid()), None, weigh) as meter:
        assert len(asyncio.all_tasks()) == before
    assert meter.over.cancelled()


def test_a_process_that_is_gone_uses_nothing() -> None:
    assert load(2**22 + 1).tasks == 0
