"""Fuzzes one target, or all in turns, for a while: `python -m tests.fuzz --target archive --seconds 600`.

An input that breaks a promise is made small and put into the corpus, where every run of the tests plays it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

from tests.fuzz import seeds
from tests.fuzz.mutation import LONGEST, minimized, mutate
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.work import bounded

SLICE = 5.0
"""Seconds for one target before it is the next one's turn."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--target", choices=TARGETS, action="append", help="may be given several times; all by default"
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    chosen = [TARGETS[name] for name in options.target or TARGETS]
    chance = random.Random(options.seed)
    _say(f"seed {options.seed}")
    end, tried, found = time.monotonic() + options.seconds, 0, 0
    while time.monotonic() < end:
        for target in chosen:
            part = min(SLICE, options.seconds / len(chosen), end - time.monotonic())
            more, failed = fuzz(target, part, chance)
            tried, found = tried + more, found + failed
    _say(f"{tried} inputs, {found} found")
    return 1 if found else 0


def fuzz(target: Target, seconds: float, chance: random.Random) -> tuple[int, int]:
    """How many inputs were tried, and whether one failed: the first find ends the target's turn."""
    known = list(seeds.of(target.name).values())
    end, tried = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        tried += 1
        data = _drawn(target, known, chance)
        if (kind := _failure(target, data)) is not None:
            small = minimized(data, lambda less: _failure(target, less) == kind)
            _say(f"{target.name}: {seeds.keep(target.name, small)}")
            _explain(target, small)
            return tried, 1
    return tried, 0


def _drawn(target: Target, known: list[bytes], chance: random.Random) -> bytes:
    if chance.random() < 0.05:
        return chance.randbytes(chance.randint(0, 200))
    if chance.random() < 0.1:
        return b"".join(chance.choices(target.words, k=chance.randint(1, 30)))[:LONGEST]
    return mutate(chance.choice(known), known, target.words, chance)


def _failure(target: Target, data: bytes) -> str | None:
    """What is raised, and where: a smaller input must fail in the same way."""
    try:
        with bounded():
            target.check(data)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is what we look for)
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {where.filename}:{where.lineno}"
    return None


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def _explain(target: Target, data: bytes) -> None:
    try:
        with bounded():
            target.check(data)
    except Exception:  # noqa: BLE001
        traceback.print_exc()


if __name__ == "__main__":
    sys.exit(main())
