"""What the sandbox adds: to the start of a program, and to a run of two turns; with it and without, in turns."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from bench import runs
from bench.bench import Bench
from bench.figures import Figure, median
from bench.floors.spawn import ended
from bench.wire import Connection, connected
from turnkeeper.core.run import SandboxMode
from turnkeeper.engines import probe
from turnkeeper.engines.mounts import Places, Room, mounts
from turnkeeper.engines.sandbox import MB, Limits, Sandbox, words

PROGRAM = ("true",)
LIMITS = Limits(processes=2048, memory=64 * 1024 * MB, open_files=4096, file=1024 * MB, disk=1024 * MB)


async def measure(bench: Bench) -> list[Figure]:
    data_dir = bench.fresh()
    sandbox = probe.settle(SandboxMode.AUTO, Places(data_dir=data_dir, home=Path.home()), LIMITS)
    if sandbox.tools is None:
        print(f"no sandbox can be built here: {sandbox.reason}", file=sys.stderr)
        return []
    return [*await _starts(bench, sandbox, _room(data_dir / "runs" / "one")), await _whole(bench)]


async def _starts(bench: Bench, sandbox: Sandbox, room: Room) -> list[Figure]:
    bare: list[float] = []
    walled: list[float] = []
    looked: list[float] = []
    for _ in range(bench.rounds(200, 50)):
        began = time.perf_counter()
        around = _words(sandbox, room)
        looked.append(time.perf_counter() - began)
        bare.append(await ended(*PROGRAM))
        walled.append(await ended(*around, *PROGRAM))
    return [
        Figure(
            goal="sandbox",
            what="start of `true` in the sandbox, p50",
            unit="ms",
            measured=median(walled) * 1e3,
            floor=median(bare) * 1e3,
        ),
        Figure(
            goal="sandbox",
            what="to find out what is to be inside, p50",
            unit="ms",
            measured=median(looked) * 1e3,
        ),
    ]


async def _whole(bench: Bench) -> Figure:
    # The engine's own notes would have to be outside.
    quiet = {"ENGINES__CODEX__ENV": ""}
    required = {**quiet, "SANDBOX__MODE": "required"}
    with bench.service(None, **required) as walled, bench.service(None, **quiet) as bare:
        async with connected(walled) as inside, connected(bare) as outside:
            taken: dict[Connection, list[float]] = {outside: [], inside: []}
            for wire in taken:
                await runs.two_turns(wire)
            for _ in range(bench.rounds(100, 20)):
                for wire, seconds in taken.items():
                    began = time.perf_counter()
                    await runs.two_turns(wire)
                    seconds.append(time.perf_counter() - began)
    return Figure(
        goal="sandbox",
        what="a run of two turns in the sandbox, p50",
        unit="ms",
        measured=median(taken[inside]) * 1e3,
        floor=median(taken[outside]) * 1e3,
    )


def _room(folder: Path) -> Room:
    """Like a run's."""
    home = folder / "home"
    room = Room(workspace=folder / "workspace", home=home, scratch=home / ".scratch")
    for place in (room.workspace, room.home, room.scratch):
        place.mkdir(parents=True)
    return room


def _words(sandbox: Sandbox, room: Room) -> tuple[str, ...]:
    assert sandbox.tools is not None
    assert sandbox.places is not None
    there = mounts(sandbox.places, room, [sys.executable, sandbox.tools.prlimit], (), dict(os.environ))
    return words(sandbox.tools, there, LIMITS.within_ours())
