"""What is measured: a module for each subject, with `measure`, and the goals that its figures are about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from bench.bench import Bench
from bench.figures import Figure
from bench.measures import counts, growth, intake, output, rate, reads, start, stream, turn, waiting, walls

Measure = Callable[[Bench], Awaitable[list[Figure]]]

MEASURES: Mapping[Measure, tuple[str, ...]] = {
    turn.measure: ("G1", "G2", "G4", "G5"),
    intake.measure: ("G3", "G13"),
    rate.measure: ("G2", "G6"),
    counts.measure: ("G7",),
    stream.measure: ("G10",),
    output.measure: ("G11",),
    reads.measure: ("G12",),
    waiting.measure: ("G8", "G9"),
    start.measure: ("G14",),
    growth.measure: ("G15",),
    walls.measure: ("sandbox",),
}
