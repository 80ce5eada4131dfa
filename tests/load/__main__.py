"""`python -m tests.load --seconds 300 --waiting 10000 --in-flight 200 --listeners 500 --rivals 20 --seed 7`

Thousands of runs wait, hundreds are on their way, everybody listens, everybody answers, and engines and service are
killed meanwhile. In the end everything must add up, or it ends with 1, says the seed and keeps the data.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

from tests.harm import Harm, Violation
from tests.load.load import load
from tests.load.plan import Book, Plan

KILL_EVERY_SEC = 25


def table(book: Book, states: Counter[str]) -> str:
    told = book.told
    rows: list[tuple[str, str]] = [
        ("runs accepted", f"{len(book.accepted)}"),
        ("runs stored", f"{states.total()}"),
        *((f"  {state}", f"{count}") for state, count in sorted(states.items())),
        ("replies accepted", f"{told['replies accepted']}"),
        ("rivals refused", f"{told['rivals refused']}"),
        ("jobs sent again", f"{told['jobs sent again']}"),
        ("kills of engines", f"{told['engine kills']}"),
        ("kills of the service", f"{told['service kills']}"),
        ("engines it left", f"{told['engines left by a kill']}"),
        ("streams opened", f"{told['streams opened']}"),
        ("events heard", f"{told['events heard']}"),
        *((harm.value, f"{book.harms[harm]}") for harm in Harm),
        ("", ""),
        ("runs ended", f"{len(book.ended) / max(book.lasted, 1):.1f} /s in {book.lasted:.0f} s"),
        *((call, quantiles(seconds)) for call, seconds in sorted(book.took.items())),
        ("start of the service", f"first {book.starts[0]:.1f} s, longest {max(book.starts):.1f} s"),
        ("memory", f"most {max(book.rss_mb, default=0):.0f} MB, last {(book.rss_mb or [0])[-1]:.0f} MB"),
        ("open files", f"most {max(book.fds, default=0)}, last {(book.fds or [0])[-1]}"),
    ]
    return "\n".join(f"{name:22} {value}".rstrip() for name, value in rows)


def quantiles(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    half, most = (ordered[int(len(ordered) * part)] for part in (0.5, 0.99))
    return f"p50 {half * 1000:.0f} ms, p99 {most * 1000:.0f} ms of {len(ordered)}"


async def _until_told(folder: Path, plan: Plan, book: Book) -> Counter[str]:
    """Also in the background, where a shell lets INT be ignored: the service and its engines must not stay."""
    this = asyncio.current_task()
    assert this is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, this.cancel)
    return await load(folder, plan, book, say)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def planned() -> Plan:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--in-flight", type=int, default=200)
    parser.add_argument("--listeners", type=int, default=500)
    parser.add_argument("--rivals", type=int, default=20)
    parser.add_argument("--service-kills", type=int, default=None, help="one in 25 seconds by default")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    kills = round(given.seconds / KILL_EVERY_SEC) if given.service_kills is None else given.service_kills
    seed = random.randrange(2**32) if given.seed is None else given.seed
    return Plan(**{**vars(given), "service_kills": kills, "seed": seed})


def main() -> int:
    plan = planned()
    folder, book = Path(tempfile.mkdtemp(prefix="turnkeeper-load-")), Book(random.Random(plan.seed))
    states: Counter[str] = Counter()
    say(f"python -m tests.load {plan}\ndata in {folder}")
    try:
        states = asyncio.run(_until_told(folder, plan, book))
    except asyncio.CancelledError:
        say("stopped before the end")
        shutil.rmtree(folder)
        return 130
    except Exception as error:  # noqa: BLE001 (whatever it is, the load has found something)
        book.harms.update(harm for harm in _harms(error))
        traceback.print_exception(error, file=sys.stdout)
    if book.starts:
        say(f"\n{table(book, states)}\n")
    if book.harms.total():
        say(f"once more: python -m tests.load {plan}\nthe data is kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _harms(error: BaseException) -> list[Harm]:
    """Of all that a group of tasks has found."""
    if isinstance(error, BaseExceptionGroup):
        return [harm for each in error.exceptions for harm in _harms(each)]
    return [error.harm if isinstance(error, Violation) else Harm.WRONG]


if __name__ == "__main__":
    sys.exit(main())
