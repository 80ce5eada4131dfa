"""What the sandbox costs each process: `python -m tests.sandbox_cost [ROUNDS]` prints a line for docs/operate.md.

The same program with walls and without, in turns, so that what else the machine does slows down both. Figures of one
machine at one moment: only those of one run can be compared.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.walls import room_in, walls, words_for

ROUNDS = 200
PROGRAM = ("true",)


@dataclass(frozen=True)
class Cost:
    """Medians, in seconds."""

    bare: float
    walled: float
    looked: float
    """To find out what is to be inside, before each start."""

    @property
    def ratio(self) -> float:
        return self.walled / self.bare

    def __str__(self) -> str:
        bare, walled, looked = (each * 1000 for each in (self.bare, self.walled, self.looked))
        return (
            f"a start takes {bare:.1f} ms without walls and {walled:.1f} ms with them ({self.ratio:.1f} times), "
            f"and {looked:.1f} ms to find out what is inside"
        )


def measure(rounds: int = ROUNDS) -> Cost:
    bare: list[float] = []
    walled: list[float] = []
    looked: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        sandbox, room = walls(Path(folder)), room_in(Path(folder) / "runs" / "one")
        for _ in range(rounds):
            began = time.perf_counter()
            words = words_for(sandbox, room, sys.executable)
            looked.append(time.perf_counter() - began)
            bare.append(_taken(PROGRAM))
            walled.append(_taken((*words, *PROGRAM)))
    return Cost(*map(statistics.median, (bare, walled, looked)))


def _taken(argv: tuple[str, ...]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.stdout.write(f"{measure(int(sys.argv[1]) if sys.argv[1:] else ROUNDS)}\n")
