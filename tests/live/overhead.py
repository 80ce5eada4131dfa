"""What a turn costs beside the model: `python -m tests.live.overhead [ENGINE…]` prints the table of docs/engines.md.

The scripted model answers at once, so a turn takes what the CLI and we take. Installed are the engines of `make
test-live`. Figures of one machine at one moment: only those of one run can be compared.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from tests.harness import Json, Place
from tests.live.clis import ENGINES, INTERACTIVE, Live, attempts, reaches
from tests.live.conftest import cache
from tests.live.model_server import ModelServer

RUNS, REPLIES = 3, 4
RESIDENT: Json = INTERACTIVE | {"interactive_profile": "sticky_process"}
HEADER = """| engine | headless, each turn | resident, first turn | resident, later turns | memory while it waits |
|---|---|---|---|---|"""


async def measure(live: Live) -> str:
    headless: list[float] = []
    first: list[float] = []
    later: list[float] = []
    memory: list[float] = []
    async with live.service() as place:
        for _ in range(RUNS):  # in turns: what else the machine does slows down both
            _, *resumed = await _talk(live, place, INTERACTIVE, [])
            opening, *others = await _talk(live, place, RESIDENT, memory)
            headless += resumed
            first.append(opening)
            later += others
    seconds = (f"{statistics.median(found):.2f} s" for found in (headless, first, later))
    return f"| {live.engine} | {' | '.join(seconds)} | {max(memory):.0f} MB |"


async def _talk(live: Live, place: Place, profile: Json, memory: list[float]) -> list[float]:
    """The lengths of its turns, in order."""
    run_id = await live.start(place, "[[ask]]", **profile)
    for left in reversed(range(REPLIES)):
        await reaches(place, run_id, "waiting_user")
        memory.append(sum(_resident(each.pid) for each in place.processes(run_id)))
        await place.client.reply(run_id, "blue [[ask]]" if left else "blue [[done]]")
    await reaches(place, run_id, "succeeded")
    return [_length(attempt) for attempt in await attempts(place, run_id)]


def _length(attempt: Json) -> float:
    began, ended = (datetime.fromisoformat(attempt[name]) for name in ("started_at", "ended_at"))
    return (ended - began).total_seconds()


def _resident(pid: int) -> float:
    """Megabytes of a process that are its own: what several share is counted in none of them."""
    try:
        found = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0  # it was a moment's
    private = (line.split() for line in found.splitlines() if line.startswith("Private_"))
    return sum(int(size) for _, size, _ in private) / 1000


def main(engines: list[str]) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        del os.environ[name]
    folder = cache()
    os.environ |= {"NO_PROXY": "127.0.0.1,localhost", "HTTPS_PROXY": "http://127.0.0.1:9"}
    sys.stdout.write(f"{HEADER}\n")
    for engine in engines or ENGINES:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root, ModelServer() as models:
            os.environ |= {"HOME": root, "TMPDIR": root}
            row = asyncio.run(measure(Live(engine, models, Path(root), folder)))
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
