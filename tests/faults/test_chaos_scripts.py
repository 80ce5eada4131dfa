"""The scripts of the demo engine that play what tools, exits, time, providers and sessions do wrong."""

from __future__ import annotations

import pytest

from tests.faults.rows import AUTO, FAILED, SUCCEEDED, WAITING, Row, begin, each, play
from tests.harness import Place, wait_for_file

QUESTION = ("Which colour should I use?",)
SCRIPTS = {
    "a tool that never returns": Row(
        ids=("P08",),
        script="chaos/tool_never_returns",
        status=FAILED,
        code="ENGINE_STALLED",
        says=("its tool shell",),
        timeouts={"idle_sec": 1},
    ),
    "a tool that is rejected": Row(
        ids=("P03",), script="chaos/rejected_without_a_word", status=FAILED, code="OUTPUT_INVALID", job=AUTO
    ),
    "a tool that fails alike": Row(
        ids=("P07",),
        script="chaos/same_tool_error",
        status=FAILED,
        code="ENGINE_STALLED",
        says=("the tool shell failed 30 times in a row", "Read-only file system"),
    ),
    "an exit as by a signal": Row(
        ids=("X01",), script="chaos/exits_like_a_signal", status=FAILED, code="ENGINE_FAILED", says=("137",)
    ),
    "an exit without a reason": Row(
        ids=("X01",), script="chaos/exits_with_255", status=FAILED, code="ENGINE_FAILED", says=("255",)
    ),
    "a kill": Row(
        ids=("X01", "X10"), script="chaos/killed", status=FAILED, code="ENGINE_CRASHED", says=("SIGKILL",)
    ),
    "no ear for signals": Row(
        ids=("X02", "X08"),
        script="chaos/stubborn_after_the_end",
        status=SUCCEEDED,
        warned=("ENGINE_LINGERED_AFTER_RESULT",),
    ),
    "a trickle": Row(
        ids=("T01",),
        script="chaos/trickle",
        status=FAILED,
        code="TURN_TIMEOUT",
        timeouts={"idle_sec": 10, "turn_sec": 1},
    ),
    "a pause that is asked for": Row(
        ids=("Q01",), script="chaos/limit_of_a_minute", status=FAILED, code="ENGINE_RATE_LIMITED"
    ),
    "a plan that is used up": Row(
        ids=("Q01",), script="chaos/plan_used_up", status=FAILED, code="ENGINE_QUOTA_EXHAUSTED"
    ),
    "a model that is gone": Row(
        ids=("Q08",), script="chaos/model_withdrawn", status=FAILED, code="ENGINE_MODEL_UNKNOWN"
    ),
    "a refusal": Row(ids=("Q10",), script="chaos/refusal", status=WAITING, says=("I cannot help",)),
    "a refusal, nobody to ask": Row(
        ids=("Q10",), script="chaos/refusal", status=FAILED, code="OUTPUT_INVALID", job=AUTO
    ),
    "a full context": Row(
        ids=("Q11",), script="chaos/context_full", status=FAILED, code="ENGINE_CONTEXT_EXHAUSTED"
    ),
    "a login of somebody else": Row(
        ids=("Q12",), script="chaos/login_in_an_answer", status=WAITING, says=("Please log in to the portal",)
    ),
}


@each(SCRIPTS)
async def test_the_script_has_its_outcome(place: Place, row: Row) -> None:
    await play(place, row)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param("chaos/login_expires_later", "ENGINE_AUTH_REQUIRED", marks=pytest.mark.failure("Q04")),
        pytest.param("chaos/session_lost", "SESSION_LOST", marks=pytest.mark.failure("R01", "R02")),
    ],
)
async def test_what_is_lost_while_a_person_thinks(place: Place, script: str, code: str) -> None:
    run_id = (await play(place, Row(ids=(), script=script, status=WAITING, says=QUESTION)))["run_id"]
    await place.client.reply(run_id, "blue")
    run = await place.client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", code)


@pytest.mark.failure("X13")
async def test_a_turn_without_a_session_can_be_canceled(place: Place) -> None:
    run_id = await begin(place, Row(ids=(), script="chaos/hangs_without_a_session", status="canceled"))
    await wait_for_file(place.settings.data_dir / "runs" / run_id / "workspace" / "begun")
    await place.client.cancel(run_id)
    run = await place.client.ended(run_id)
    assert (run["status"], run["error"]) == ("canceled", None)
    assert place.processes(run_id) == []
