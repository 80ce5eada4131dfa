"""How a run ended, in words: whoever reads it can type what it says."""

from __future__ import annotations

import re

import msgspec
import pytest

from turnkeeper.cli.outcome import summary
from turnkeeper.client import RunInfo
from turnkeeper.core.errors import Code

FAILED = {
    "run_id": "01a1ebb8524b7b12031827520d6f7bba",
    "status": "failed",
    "skill_id": "answer",
    "engine": "codex",
    "attempt_number": 2,
    "created_at": "2026-01-02T03:04:05.000006Z",
    "updated_at": "2026-01-02T03:04:05.000006Z",
}


def told(code: str) -> str:
    error = {"code": code, "message": "it went wrong"}
    return "\n".join(summary(msgspec.convert(FAILED | {"error": error}, RunInfo, strict=False), []))


@pytest.mark.parametrize("code", Code)
def test_what_to_do_can_be_typed_as_it_stands(code: Code) -> None:
    words = told(code)
    assert "\n  fix: " in words
    assert not re.search(r"`|\b(NAME|RUN|N)\b", words)


def test_with_the_names_of_this_run() -> None:
    assert "turnkeeper engines doctor codex --turn" in told("ENGINE_AUTH_REQUIRED")
    assert "turnkeeper show 01a1ebb8524b --attempt 2" in told("OUTPUT_INVALID")


def test_a_newer_service_may_know_more_codes() -> None:
    assert told("NEVER_HEARD_OF").endswith("it went wrong [NEVER_HEARD_OF]")
