"""Every input of the corpus plays again, and new ones are drawn: of bytes, of words, and out of the corpus.

`python -m tests.fuzz` does the same for as long as one likes.
"""

from __future__ import annotations

from itertools import repeat
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import seeds
from tests.fuzz.mutation import minimized, mutate
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.work import TooMuchWork, bounded

EXAMPLES = 60
CARRIED = {
    "lines": ("B04", "B05", "B07", "B08"),
    "plain": ("B07", "B09"),
    "cursor": ("E03",),
    "marker": ("C03", "C04", "C05"),
    "candidate": ("C10", "C14", "B13"),
    "ask": ("C18",),
    "yaml": ("A11",),
    "front": ("A11",),
    "runner": ("A10",),
    "archive": ("A01", "A02", "A03", "A04", "A05"),
}
DIALECT = ("B04", "B07", "B10", "B11", "B13", "M01")

each = pytest.mark.parametrize(
    "target",
    [
        pytest.param(target, id=name, marks=[pytest.mark.failure(*ids)] if ids else [])
        for name, target in TARGETS.items()
        for ids in [CARRIED.get(name, DIALECT if name.startswith("dialect") else ())]
    ],
)


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    known = list(seeds.of(target.name).values())
    chances = st.integers(0, 2**32).map(Random)
    mutated = st.builds(
        lambda data, chance: mutate(data, known, target.words, chance), st.sampled_from(known), chances
    )
    words = st.lists(st.sampled_from(target.words) | st.binary(max_size=3), max_size=30).map(b"".join)
    return mutated | mutated | words | st.binary(max_size=300)


@each
def test_what_is_kept(target: Target) -> None:
    known = seeds.of(target.name)
    assert known
    for name, data in known.items():
        try:
            with bounded():
                target.check(data)
        except Exception as error:
            error.add_note(f"with tests/fuzz/corpus/{target.name}/{name}")
            raise


@each
def test_what_is_new(target: Target) -> None:
    @settings(max_examples=EXAMPLES)
    @given(inputs(target))
    def check(data: bytes) -> None:
        with bounded():
            target.check(data)

    check()


def test_every_folder_of_the_corpus_has_a_target() -> None:
    assert {path.name for path in seeds.FOLDER.iterdir()} == set(TARGETS)


def test_what_fails_is_made_small() -> None:
    assert minimized(b"a lot of words, and needle, and more", lambda data: b"needle" in data) == b"needle"


def test_too_much_work_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.work.MOST_SECONDS", 0.05)
    with pytest.raises(TooMuchWork), bounded():
        _work_for_ever()


def _work_for_ever() -> None:
    for _ in repeat(None):
        pass
