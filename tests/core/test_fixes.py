"""Whoever meets a code is told what to do about it."""

from __future__ import annotations

import pytest

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.fixes import FIX


def test_every_code_has_one() -> None:
    assert list(FIX) == [*Code, *Warn], "in the order of the codes"


@pytest.mark.parametrize("code", FIX)
def test_it_is_a_sentence(code: Code | Warn) -> None:
    assert FIX[code].endswith(".")
    assert "\n" not in FIX[code]
