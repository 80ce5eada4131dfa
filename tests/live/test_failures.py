"""What goes wrong between a real CLI and its model, and the code that the run gets for it.

Some CLIs try again for minutes and say nothing meanwhile. Their turns are ended by the limit on silence, so all
runs of an engine are started together, and wait together.
"""

from __future__ import annotations

import re

import pytest

from tests.harness import Json, Place
from tests.live.clis import Live, each, each_engine, reaches, refusing

FAILED = frozenset({"ENGINE_FAILED"})
AUTH = frozenset({"ENGINE_AUTH_REQUIRED"})
PACED = frozenset({"ENGINE_RATE_LIMITED"})
QUOTA = frozenset({"ENGINE_QUOTA_EXHAUSTED"})
MODEL = frozenset({"ENGINE_MODEL_UNKNOWN"})
CONTEXT = frozenset({"ENGINE_CONTEXT_EXHAUSTED"})
STALLED = frozenset({"ENGINE_STALLED"})
"""Beside another: it may give up in time, or be ended before that."""

# fmt: off
CODES = {
    #           codex    claude   gemini   qwen              opencode
    "429":     (PACED,   PACED,   PACED,   PACED | STALLED,  PACED),
    "quota":   (QUOTA,   QUOTA,   QUOTA,   QUOTA | STALLED,  QUOTA | STALLED),
    "500":     (FAILED,  FAILED,  FAILED,  FAILED | STALLED, FAILED | STALLED),
    "refused": (FAILED,  FAILED,  FAILED,  FAILED | STALLED, FAILED | STALLED),
    "cut":     (FAILED,  FAILED,  FAILED,  FAILED | STALLED, FAILED | STALLED),
    "400":     (FAILED,  FAILED,  FAILED,  FAILED,           FAILED),
    "401":     (AUTH,    AUTH,    AUTH,    AUTH,             AUTH),
    "model":   (MODEL,   MODEL,   MODEL,   MODEL,            MODEL),
    "context": (CONTEXT, CONTEXT, CONTEXT, CONTEXT,          CONTEXT),
}
# fmt: on
COLUMNS = ("codex", "claude", "gemini", "qwen", "opencode")
MARKERS = {
    "429": "status:429",
    "quota": "fail:quota",
    "500": "status:500",
    "refused": "object",  # the model would answer, if it could be reached
    "cut": "drop",
    "400": "status:400",
    "401": "status:401",
    "model": "fail:model",
    "context": "fail:context",
}
RETRY_AFTER = {"gemini": 7.0, "opencode": 7.0}
"""Seconds, of a 429; the others keep them to themselves."""

WORDS = {
    "429": r"\b429\b|rate limit|retry in 7s",
    "quota": r"quota|credit balance",
    "500": r"high demand|server error|internal error|server had an error",
    "refused": r"refused|connection failed|fetch failed|unable to connect",
    "cut": r"stream disconnected|connection .*lost|terminated|closed",
    "400": r"unsupported value|should be a valid list|invalid argument",
    "401": r"api key|authentication",
    "model": r"\bmodel",
    "context": r"maximum context|too long|exceeds the maximum",
}
"""Of the error or its evidence: a person must be able to tell what happened."""
MUTE = ("qwen",)
"""Says nothing at all while it tries again."""
SILENCE: Json = {"timeouts": {"first_byte_sec": 20, "idle_sec": 20}}
AT_ONCE = 5


@pytest.mark.failure("Q01", "Q02", "Q08", "Q11")
@each_engine
async def test_failure_of_the_model_has_its_code_and_its_words(live: Live) -> None:
    async with live.service(slots=AT_ONCE) as place:
        with refusing() as nowhere:
            async with live.service("unreachable", nowhere) as unreachable:
                runs = {}
                for name, marker in MARKERS.items():
                    where = unreachable if name == "refused" else place
                    runs[name] = (where, await live.start(where, f"[[{marker}]]", **SILENCE))
                errors = {name: await failed(*run) for name, run in runs.items()}

    column = COLUMNS.index(live.engine)
    wrong = {name: error for name, error in errors.items() if error["code"] not in CODES[name][column]}
    assert not wrong, f"{live.engine}: {wrong}"
    unsaid = {name: error for name, error in errors.items() if not tells(live.engine, name, error)}
    assert not unsaid, f"{live.engine}: {unsaid}"
    if errors["429"]["code"] in PACED:
        assert errors["429"]["retry_after"] == RETRY_AFTER.get(live.engine)


@each("opencode")
async def test_model_that_the_cli_itself_does_not_know(live: Live) -> None:
    """The other four ask the provider about any name."""
    async with live.service() as place:
        error = await failed(place, await live.start(place, "[[object]]", model="scripted/none"))
    assert error["code"] == "ENGINE_MODEL_UNKNOWN"
    assert live.models.seen() == []


async def failed(place: Place, run_id: str) -> Json:
    return dict((await reaches(place, run_id, "failed"))["error"])


def tells(engine: str, name: str, error: Json) -> bool:
    said = f"{error['message']}\n{error['evidence']}"
    expected = "silent" if error["code"] in STALLED and engine in MUTE else WORDS[name]
    return re.search(expected, said, re.IGNORECASE) is not None
