"""Kills the service at its failpoints, for as long as one likes: `python -m tests.crash.kills --kills 5000 --seed 7`.

Scenario, moment and whether the next start is killed, too, are drawn by the seed. Several services run side by side.
It stops at the first violation, says how to repeat it, and keeps the data directory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from tests.crash.armed import Kill
from tests.crash.scenarios import SCENARIOS
from tests.crash.sweep import Played, memory, plan_of, play
from tests.harm import Harm, Violation
from turnkeeper.failpoints import Deed, When

TWICE = 0.3
"""How often the start after a kill is killed as well."""
RECOVERING = "crashed"
"""The scenario whose swept start comes by most of what a start does."""
EVERY_SEC = 30

Traces = Mapping[str, Sequence[Kill]]


@dataclass(frozen=True, slots=True)
class Draw:
    number: int
    scenario: str
    plan: tuple[Kill | None, ...]

    def __str__(self) -> str:
        kills = " ".join(f"--kill {written(kill)}" for kill in self.plan)
        return f'python -m tests.crash.kills --scenario "{self.scenario}" {kills}'


@dataclass(frozen=True, slots=True)
class Outcome:
    draw: Draw
    played: Played | None
    harm: Harm | None = None
    story: str = ""


@dataclass(slots=True)
class Tally:
    kills: Counter[tuple[When, Deed]] = field(default_factory=Counter)
    plays: Counter[str] = field(default_factory=Counter)
    doubles: int = 0
    runs: int = 0
    replies: int = 0
    restarts: int = 0
    harms: Counter[Harm] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        if outcome.harm is not None:
            self.harms[outcome.harm] += 1
        played = outcome.played
        if played is not None:
            self.kills.update(kill.point for kill in played.kills)
            self.plays[outcome.draw.scenario] += 1
            self.doubles += len(played.kills) > 1
            self.runs += played.runs
            self.replies += played.replies
            self.restarts += played.starts - 1


def written(kill: Kill | None) -> str:
    return f"{kill.point[0]}:{kill.point[1].name}:{kill.hit}" if kill else "none"


def read(text: str) -> Kill | None:
    if text == "none":
        return None
    when, deed, hit = text.split(":")
    return Kill((When(when), Deed[deed]), int(hit))


def draws(seed: int, traces: Traces) -> Iterator[Draw]:
    """Without end. Each deed of a scenario is as likely as any other, however often it is done."""
    number = 0
    while True:
        number += 1
        chance = random.Random(f"{seed}/{number}")
        scenario = SCENARIOS[chance.choice(list(SCENARIOS))]
        plan = plan_of(scenario, _moment(chance, traces[scenario.name]))
        if chance.random() < TWICE:
            plan.append(_moment(chance, traces[RECOVERING]))
        yield Draw(number, scenario.name, tuple(plan))


def _moment(chance: random.Random, trace: Sequence[Kill]) -> Kill:
    point = chance.choice(list(dict.fromkeys(kill.point for kill in trace)))
    return chance.choice([kill for kill in trace if kill.point == point])


def strike(draw: Draw, folder: Path) -> Outcome:
    """In a process of its own, which plays one after the other."""
    root = folder / str(draw.number)
    root.mkdir()
    try:
        played = asyncio.run(play(SCENARIOS[draw.scenario], draw.plan, root))
    except Exception as error:  # noqa: BLE001 (whatever it is, it has found something)
        harm = error.harm if isinstance(error, Violation) else Harm.WRONG
        return Outcome(draw, None, harm, "".join(traceback.format_exception(error)))
    shutil.rmtree(root)
    return Outcome(draw, played)


class Pool:
    """As many services as the machine can play side by side; each spends half of its time waiting."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._size = size
        spawn = get_context("spawn")
        self._workers = ProcessPoolExecutor(size, mp_context=spawn, initializer=_leave_signals)

    def play(self, todo: Iterator[Draw]) -> Iterator[Outcome]:
        """As they come. No more are drawn when whoever asked has enough."""
        playing: set[Future[Outcome]] = set()
        try:
            while True:
                while len(playing) < self._size and (draw := next(todo, None)):
                    playing.add(self._workers.submit(strike, draw, self._folder))
                if not playing:
                    return
                ended, playing = wait(playing, return_when=FIRST_COMPLETED)
                yield from (each.result() for each in ended)
        finally:
            wait(playing)

    def close(self) -> None:
        self._workers.shutdown(cancel_futures=True)


def _leave_signals() -> None:
    """A play is short, and ends by itself: it leaves nothing alive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def soak(pool: Pool, kills: int, seed: int, tally: Tally) -> Outcome | None:
    """The first outcome that must not be, if there is one."""
    traces: dict[str, Sequence[Kill]] = {}
    undisturbed = (
        Draw(-n, name, tuple(plan_of(each, None))) for n, (name, each) in enumerate(SCENARIOS.items())
    )
    for outcome in pool.play(undisturbed):
        if outcome.played is None:
            return outcome
        name = outcome.draw.scenario
        traces[name] = outcome.played.traces[SCENARIOS[name].start]
    begun = said = time.monotonic()
    for outcome in pool.play(draws(seed, traces)):
        tally.add(outcome)
        if outcome.harm is not None:
            return outcome
        done = tally.kills.total()
        if time.monotonic() - said > EVERY_SEC or done >= kills:
            said = time.monotonic()
            say(f"{done:6} of {kills} kills, {tally.restarts} restarts, {said - begun:.0f} s\n")
        if done >= kills:
            break
    return None


def again(pool: Pool, draw: Draw, times: int, tally: Tally) -> Outcome | None:
    todo = (Draw(number, draw.scenario, draw.plan) for number in range(1, times + 1))
    for outcome in pool.play(todo):
        tally.add(outcome)
        if outcome.harm is not None:
            return outcome
    return None


def table(tally: Tally) -> str:
    width = max(len(deed) for deed in Deed)
    lines = [f"{'killed':{width}}  before   after"]
    for deed in Deed:
        counts = (tally.kills[when, deed] for when in When)
        lines.append("  ".join((f"{deed:{width}}", *(f"{count or '':>6}" for count in counts))).rstrip())
    sums = {"kills": tally.kills.total(), "of them in a row": tally.doubles, "plays": tally.plays.total()}
    sums |= {"runs": tally.runs, "replies": tally.replies, "restarts": tally.restarts}
    sums |= {harm.value: tally.harms[harm] for harm in Harm}
    return "\n".join((*lines, "", *(f"{name:16} {count:6}" for name, count in sums.items())))


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=5000, help="that come about, all in all")
    parser.add_argument("--seed", type=int, default=None, help="the same seed draws the same plays")
    parser.add_argument("--services", type=int, default=2 * (os.cpu_count() or 1), help="side by side")
    parser.add_argument("--scenario", choices=SCENARIOS, help="this one alone, with the kills that are given")
    parser.add_argument(
        "--kill", action="append", default=[], help="for each start, as after:COMMIT:3, or none"
    )
    parser.add_argument("--times", type=int, default=20, help="that the one scenario is played")
    return parser.parse_args()


def main() -> int:
    given, tally, begun = arguments(), Tally(), time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = random.randrange(2**32) if given.seed is None else given.seed
    folder = Path(tempfile.mkdtemp(prefix="turnkeeper-kills-", dir=memory()))
    pool, found, is_whole = Pool(folder, given.services), None, False
    say(f"seed {seed}, data in {folder}\n")
    try:
        if given.scenario is None:
            found = soak(pool, given.kills, seed, tally)
        else:
            plan = tuple(read(text) for text in given.kill)
            found = again(pool, Draw(0, given.scenario, plan), given.times, tally)
        is_whole = True
    except KeyboardInterrupt:
        say("\nstopped before the end\n")
    pool.close()
    say(f"\n{table(tally)}\n\nseed {seed}, {time.monotonic() - begun:.0f} s\n")
    if found is not None:
        say(f"\n{found.story}\nnumber {found.draw.number} of seed {seed}; once more: {found.draw}\n")
        say(f"the data is kept in {folder / str(found.draw.number)}\n")
        return 1
    shutil.rmtree(folder)
    return 0 if is_whole else 130


if __name__ == "__main__":
    sys.exit(main())
