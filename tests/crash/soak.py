"""Kills residents, their service and both, for as long as one likes: `python -m tests.crash.soak --cycles 1000`.

It stops at the first violation, says how to repeat it, and keeps the data directory.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from tests.crash.cycles import ENDS, KINDS, Tally, deal, play, service
from tests.harm import Harm, Violation
from tests.harness import settings_for
from turnkeeper import wiring

SLOTS = (1, 2, 4, 8)
BLOCK = 50
"""Cycles that share their slots; then the service is stopped in peace and started with other ones."""


@dataclass(frozen=True, slots=True)
class Block:
    seed: int
    cycles: int
    slots: int

    def __str__(self) -> str:
        return f"--cycles {self.cycles} --seed {self.seed} --slots {self.slots}"


def blocks(cycles: int, seed: int, slots: int | None) -> Iterator[Block]:
    sizes = cycle(SLOTS if slots is None else (slots,))
    for number, begin in enumerate(range(0, cycles, BLOCK)):
        yield Block(seed + number, min(BLOCK, cycles - begin), next(sizes))


async def soak(folder: Path, todo: Sequence[Block], tally: Tally) -> None:
    stop_by_signal()
    total, begun = sum(block.cycles for block in todo), time.monotonic()
    for block in todo:
        try:
            async with service(folder / "data", block.slots) as daemon:
                for cycles in deal(block.seed, block.cycles, block.slots):
                    await play(daemon, cycles, tally)
                    if sys.stdout.isatty():
                        say(f"\r{progress(tally, total, begun)}")
        except Exception as error:
            error.add_note(f"once more: python -m tests.crash.soak {block}")
            raise
        if not sys.stdout.isatty():
            say(f"{progress(tally, total, begun)}\n")
    async with wiring.archive(settings_for(folder / "data")) as archive:
        stored = sum((await archive.store.counts()).values())
    if stored != tally.runs:
        raise Violation(Harm.LOST, f"{tally.runs} runs were made, {stored} are stored")


def stop_by_signal() -> None:
    """Also in the background, where a shell lets INT be ignored: the service and its engines must not stay."""
    soaking = asyncio.current_task()
    assert soaking is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, soaking.cancel)


def progress(tally: Tally, total: int, begun: float) -> str:
    done, seconds = tally.cycles.total(), time.monotonic() - begun
    return f"{done:5} of {total} cycles, {tally.restarts} restarts, {seconds:.0f} s"


def table(tally: Tally) -> str:
    width = max(len(str(kind)) for kind in KINDS)
    names = [end.code or end.status for end in ENDS]
    lines = ["  ".join((f"{'killed, when, session':{width}}", "cycles", *names))]
    for kind in KINDS:
        counts = [tally.ends[kind, end] for end in ENDS]
        cells = [f"{count or '':>{len(name)}}" for count, name in zip(counts, names, strict=True)]
        lines.append("  ".join((f"{kind!s:{width}}", f"{tally.cycles[kind]:6}", *cells)).rstrip())
    sums = {"cycles": tally.cycles.total(), "runs": tally.runs, "replies": tally.replies}
    sums |= {"kills": tally.kills, "restarts": tally.restarts}
    sums |= {harm.value: tally.harms[harm] for harm in Harm}
    return "\n".join((*lines, "", *(f"{name:16} {count:6}" for name, count in sums.items())))


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.soak", description=__doc__)
    parser.add_argument("--cycles", type=int, default=1000, help="runs that are struck, each once")
    parser.add_argument("--seed", type=int, default=None, help="the same seed deals the same cycles")
    parser.add_argument("--slots", type=int, default=None, help=f"instead of {SLOTS}, one after the other")
    given = parser.parse_args()
    seed = random.randrange(2**32) if given.seed is None else given.seed
    folder, tally = Path(tempfile.mkdtemp(prefix="turnkeeper-soak-")), Tally()
    say(f"seed {seed}, data in {folder}\n")
    begun = time.monotonic()
    try:
        asyncio.run(soak(folder, list(blocks(given.cycles, seed, given.slots)), tally))
    except asyncio.CancelledError:
        say("\nstopped before the end\n")
    except Exception as error:  # noqa: BLE001 (whatever it is, the soak has found something)
        tally.harms[error.harm if isinstance(error, Violation) else Harm.WRONG] += 1
        say("\n")
        traceback.print_exception(error, file=sys.stdout)
    say(f"\n{table(tally)}\n\nseed {seed}, {time.monotonic() - begun:.0f} s\n")
    if tally.harms.total():
        say(f"the data is kept in {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0 if tally.cycles.total() == given.cycles else 130


if __name__ == "__main__":
    sys.exit(main())
