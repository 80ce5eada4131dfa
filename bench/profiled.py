"""`python -m bench.profiled [RUNS]` tells where the service's time goes in runs of two turns, by room and by library.

Shares of all time on a processor, of every thread, without what was waited for. The profiler makes small functions look
larger than they are, so these tell where to look, and not how much there is to gain.
"""

from __future__ import annotations

import asyncio
import cProfile
import os
import pstats
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

from bench import runs
from bench.bench import Bench, made_engine
from bench.service import PROFILES, profiled_service
from bench.wire import connected

RUNS = 300
WAITS = ("'poll' of 'select", "'get' of '_queue", "'acquire' of '_thread", "'epoll'")
PARTS = {
    "/turnkeeper/": "",  # by its rooms
    "/fastapi/": "FastAPI, Starlette, pydantic",
    "/starlette/": "FastAPI, Starlette, pydantic",
    "/pydantic/": "FastAPI, Starlette, pydantic",
    "/uvicorn/": "uvicorn and its parser",
    "/h11/": "uvicorn and its parser",
    "httptools": "uvicorn and its parser",
    "/asyncio/": "asyncio",
    "/selectors.py": "asyncio",
    "/subprocess.py": "subprocess",
    "/logging/": "logging",
    "/pathlib.py": "paths",
    "posixpath": "paths",
    "posix.fsync": "syncs of raw logs, mostly waiting",
    "'commit' of": "SQLite, with its syncs",
    "posix.": "calls to the kernel: files, processes, pipes",
    "fork_exec": "starts of processes, until they run",
    "_socket": "calls to the kernel: sockets, wake-ups",
    "sqlite3": "SQLite, with its syncs",
    "dataclasses": "records",
}
"""The first that fits."""
OTHERS = "Python's own"


def main() -> None:
    """As a service that is profiled, or as who starts one."""
    if PROFILES in os.environ:
        _serve(Path(os.environ.pop(PROFILES)))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory(prefix="turnkeeper-bench-") as folder:
        bench = Bench(made_engine(Path(folder)), Path(folder))
        for part, share in asyncio.run(_shares(bench, count)):
            print(f"{share:6.1%}  {part}")


def _serve(folder: Path) -> None:
    profiles = [cProfile.Profile()]
    begin = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]  # `run` is overridden by some

    def begin_profiled(thread: threading.Thread) -> None:
        profile = cProfile.Profile()
        profiles.append(profile)
        profile.runcall(begin, thread)

    threading.Thread._bootstrap_inner = begin_profiled  # type: ignore[attr-defined]
    from turnkeeper.__main__ import main as turnkeeper

    sys.argv[0] = "turnkeeper"
    try:
        profiles[0].runcall(turnkeeper)
    finally:
        for number, profile in enumerate(profiles):
            profile.dump_stats(folder / f"{number}.pstats")


async def _shares(bench: Bench, count: int) -> list[tuple[str, float]]:
    """What the start takes is in none of them: it is measured beside, and taken off."""
    spent = [await _spent(bench, each) for each in (1, count + 1)]
    parts = {part: max(0.0, spent[1][part] - spent[0][part]) for part in spent[1]}
    whole = sum(parts.values())
    return sorted(((part, took / whole) for part, took in parts.items()), key=lambda each: -each[1])


async def _spent(bench: Bench, count: int) -> Counter[str]:
    folder = bench.fresh()
    with profiled_service(folder, bench.engine) as service:
        async with connected(service) as wire:
            for _ in range(count):
                await runs.two_turns(wire)
    spent: Counter[str] = Counter()
    for file in folder.glob("*.pstats"):
        for (path, _, name), (_, _, took, *_) in pstats.Stats(str(file)).stats.items():  # type: ignore[attr-defined]
            place = f"{path}:{name}"
            if not any(wait in place for wait in WAITS):
                spent[_part(place)] += took
    return spent


def _part(place: str) -> str:
    for mark, part in PARTS.items():
        if mark in place:
            return (
                part
                or f"our {place.rpartition(mark)[2].split('/')[0].removesuffix('.py').partition('.py:')[0]}"
            )
    return OTHERS


if __name__ == "__main__":
    main()
