"""Killing a resident engine, its service or both leaks nothing: no process, no slot, no reply."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.cycles import KINDS, Tally, deal, play, service


# One restart serves as many cycles as there are slots: those with many are cheap, those with one tell the most.
@pytest.mark.failure("V01", "H14", "X05")
@pytest.mark.parametrize(("slots", "cycles"), [(1, 6), (2, 12), (6, 2 * len(KINDS))])
async def test_a_killed_resident_leaves_nothing_behind(tmp_path: Path, slots: int, cycles: int) -> None:
    seed = random.getrandbits(32)  # the same for the same --randomly-seed
    tally = Tally()
    try:
        async with service(tmp_path / "data", slots) as daemon:
            for together in deal(seed, cycles, slots):
                await play(daemon, together, tally)
    except Exception as error:
        error.add_note(
            f"once more: python -m tests.crash.soak --cycles {cycles} --seed {seed} --slots {slots}"
        )
        raise
    assert tally.cycles.total() == cycles
