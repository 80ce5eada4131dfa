"""Pages that are read with a terminal beside them: every command works, and prints what the page shows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import steps

ROOT = Path(__file__).parents[2]
WALKS = ["README.md", "docs/quickstart.md", "docs/http.md", "docs/operate.md", "docs/write-a-skill.md"]


@pytest.mark.parametrize("page", WALKS)
def test_a_reader_who_types_it_gets_what_is_shown(page: str, play: Callable[[str], None]) -> None:
    if shutil.which("curl") is None and any("curl " in step.script for step in steps(ROOT / page)):
        pytest.skip("curl is not installed")
    play(page)
