"""`python -m bench [--quick] [--only G1 G6] [--json FILE] [--docs]` measures, and prints what it has found.

Ends with 0 if every goal is met, with 1 if one is not. Figures of one machine at one moment: of a busy one they say
little, but for the ratios, whose floor is measured in alternation.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from bench import page
from bench.bench import Bench, made_engine, spread
from bench.figures import Figure
from bench.goals import GOALS
from bench.measures import MEASURES
from bench.report import Report


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds of each, less than 90 seconds in all"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="GOAL", default=list(GOALS), choices=list(GOALS), help="only these"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turnkeeper-bench-") as folder:
        spread(Path(folder))
        bench = Bench(made_engine(Path(folder)), Path(folder), given.quick)
        figures = asyncio.run(measured(bench, given.only))
    told = Report.of(figures)
    print(told.text())
    if given.json is not None:
        given.json.write_text(told.json(), encoding="utf-8")
    if given.docs:
        page.write(told)
    return 0 if all(figure.passes for figure in figures) else 1


async def measured(bench: Bench, goals: Collection[str]) -> list[Figure]:
    """In the order of the goals."""
    figures: list[Figure] = []
    for measure, about in MEASURES.items():
        if not set(about) & set(goals):
            continue
        print(f"{', '.join(about)} …", end=" ", file=sys.stderr, flush=True)
        began = time.monotonic()
        found = await measure(bench)
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        figures += [figure for figure in found if figure.goal in goals]
    return sorted(figures, key=lambda figure: list(GOALS).index(figure.goal))


if __name__ == "__main__":
    sys.exit(main())
