"""What a process is given before it starts, on a machine that is short of something."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.descriptors import few_descriptors
from tests.engines.recordings import ENGINES, a_plan
from turnkeeper.core.run import Timeouts
from turnkeeper.engines.spawn import Command
from turnkeeper.runtime.session import Session, Start


@pytest.fixture
def session(tmp_path: Path) -> Session:
    home = tmp_path / "home"
    home.mkdir()
    start = Start(
        command=Command((os.devnull,), {}, tmp_path),
        home=home,
        scratch=home / ".scratch",
        note=tmp_path / "note",
    )
    return Session(start, ENGINES["codex"].dialect(a_plan()), Timeouts())


@pytest.mark.failure("S04", "V09")
def test_what_keeps_the_old_scratch_from_going_is_told(session: Session, tmp_path: Path) -> None:
    """And not that there is one: who is told that tries no second time."""
    left = tmp_path / "home" / ".scratch" / "of a turn that was cut off"
    left.mkdir(parents=True)
    with few_descriptors(), pytest.raises(OSError, match="Too many open files"):
        session.move_in()
    session.move_in()
    assert list((tmp_path / "home" / ".scratch").iterdir()) == []
