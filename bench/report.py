"""What was found, for a person at a terminal, for a program, and for the docs."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import Figure

ROOT = Path(__file__).parents[1]
HEAD = ("goal", "what", "floor", "measured", "ratio", "allowed", "")


@dataclass(frozen=True, slots=True)
class Report:
    figures: Sequence[Figure]
    at: str
    machine: str
    commit: str

    @classmethod
    def of(cls, figures: Sequence[Figure]) -> Report:
        return cls(figures, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), _machine(), _commit())

    def text(self) -> str:
        lines = [HEAD, *map(cells, self.figures)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
        table = "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
        missed = sum(not figure.passes for figure in self.figures)
        verdict = f"{missed} of {len(self.figures)} missed" if missed else f"all {len(self.figures)} hold"
        return f"{table}\n\n{verdict}; {self.at}, {self.machine}, commit {self.commit}"

    def json(self) -> str:
        figures = [
            {**asdict(figure), "ratio": figure.ratio, "passes": figure.passes} for figure in self.figures
        ]
        told = {"at": self.at, "machine": self.machine, "commit": self.commit, "figures": figures}
        return json.dumps(told, indent=2) + "\n"


def cells(figure: Figure) -> tuple[str, ...]:
    """The columns of `HEAD`."""
    sign = "≥" if figure.at_least else "≤"
    unit = "×" if figure.floor is not None else f" {figure.unit}"
    return (
        figure.goal,
        figure.what,
        "" if figure.floor is None else f"{number(figure.floor)} {figure.unit}",
        f"{number(figure.measured)} {figure.unit}",
        "" if figure.ratio is None else f"{number(figure.ratio)}×",
        "" if figure.limit is None else f"{sign} {number(figure.limit)}{unit}",
        "" if figure.limit is None else "pass" if figure.passes else "MISSED",
    )


def number(value: float) -> str:
    """With three digits that count."""
    if math.isinf(value):
        return "∞"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def _machine() -> str:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return f"{os.cpu_count()} × {cpu}, Linux {platform.release()}, Python {platform.python_version()}"


def _commit() -> str:
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "unknown"
