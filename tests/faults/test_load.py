"""The load of `python -m tests.load`, small enough for every day: the same code, the same accounts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.load.load import load
from tests.load.plan import Book, Plan


@pytest.mark.failure("H01", "H02", "H07", "H15")
async def test_everything_adds_up_under_load(tmp_path: Path) -> None:
    seed = random.getrandbits(32)  # the same for the same --randomly-seed
    plan = Plan(seconds=15, waiting=1000, in_flight=40, listeners=60, rivals=5, service_kills=2, seed=seed)
    book, said = Book(random.Random(seed)), list[str]()
    try:
        states = await load(tmp_path, plan, book, said.append)
    except BaseException as error:
        error.add_note("\n".join((*said, f"once more: python -m tests.load {plan}")))
        raise
    # Otherwise the accounts would be of nothing.
    assert states["waiting_user"] == 1000
    assert states["succeeded"] > 0
    assert book.told["service kills"] == 2
    assert book.told["rivals refused"] == 4 * book.told["replies accepted"] > 0
    assert book.told["events heard"] > 0
