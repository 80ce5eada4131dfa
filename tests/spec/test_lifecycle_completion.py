"""When a run is done: marker and valid output, in either mode, and how many turns it may take."""

from __future__ import annotations

import pytest

from tests.harness import Client, Json, Place, states
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, LENIENT, STICKY, script

SOFT = "INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER"
EXCEEDED = "INTERACTIVE_MAX_ATTEMPT_EXCEEDED"
TALKED = ["queued", "running", "waiting_user", "queued", "running"]

both_profiles = pytest.mark.parametrize("job", [INTERACTIVE, STICKY], ids=["resumable", "sticky"])


def valid_output(*, marker: bool) -> Json:
    return {"result": {"answer": "42"}, "done": marker}


@pytest.mark.spec("LIFE-12")
@pytest.mark.parametrize(
    ("profile", "marker"), [("resumable", False), ("resumable", True), ("sticky_process", False)]
)
async def test_auto_run_succeeds_on_valid_output(client: Client, profile: str, marker: bool) -> None:
    job = {"execution_mode": "auto", "interactive_profile": profile}
    run_id = await client.create(script=script([valid_output(marker=marker)]), **job)

    run = await client.settled(run_id)
    assert (run["status"], run["warnings"]) == ("succeeded", [])
    assert await client.result(run_id) == {"answer": "42"}
    assert states(await client.events(run_id)) == ["queued", "running", "succeeded"]


@pytest.mark.spec("LIFE-12")
@pytest.mark.parametrize(
    ("turn", "code"),
    [
        ([valid_output(marker=True), {"exit": 7}], "ENGINE_FAILED"),
        ([{"result": {"answer": 7}}], "OUTPUT_INVALID"),
    ],
    ids=["bad exit", "invalid output"],
)
async def test_auto_run_needs_a_good_exit_and_valid_output(
    client: Client, turn: list[Json], code: str
) -> None:
    run = await client.settled(await client.create(script=script(turn)))
    assert (run["status"], run["error"]["code"]) == ("failed", code)


@pytest.mark.spec("LIFE-13")
@both_profiles
async def test_marker_and_valid_output_succeed(client: Client, job: Json) -> None:
    run_id = await client.create(script="done", **job)

    run = await client.settled(run_id)
    assert (run["status"], run["warnings"], run["error"]) == ("succeeded", [], None)
    assert await client.result(run_id) == {"answer": "42"}
    *_, completed = await client.events(run_id)
    assert completed["data"] == {"state": "succeeded", "reason_code": "DONE_MARKER", "warnings": []}


@pytest.mark.spec("LIFE-13")
@both_profiles
async def test_marker_and_valid_output_succeed_after_a_reply(client: Client, job: Json) -> None:
    run_id = await client.create(script=script([ASK], [{"say": "Thank you."}, ANSWER]), **job)
    await client.settled(run_id)
    await client.reply(run_id, "blue")

    run = await client.settled(run_id)
    assert (run["status"], run["warnings"]) == ("succeeded", [])
    assert await client.result(run_id) == {"answer": "blue"}


MARKED_INVALID = {
    "wrong type": '{"__SKILL_DONE__": true, "answer": 7}',
    "field missing": '{"__SKILL_DONE__": true}',
    "field unknown": '{"__SKILL_DONE__": true, "answer": "42", "mood": "good"}',
    "not closed": 'Done: {"__SKILL_DONE__": true, "answer": "42"',
    "in a list": '[{"__SKILL_DONE__": true}]',
}


@pytest.mark.spec("LIFE-14")
@pytest.mark.parametrize("says", MARKED_INVALID.values(), ids=MARKED_INVALID.keys())
async def test_marker_without_valid_output_fails_and_never_waits(client: Client, says: str) -> None:
    run_id = await client.create(script=script([{"say": says}]), **INTERACTIVE)

    run = await client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")
    assert states(await client.events(run_id)) == ["queued", "running", "failed"]
    assert await client.history(run_id) == []


@pytest.mark.spec("LIFE-14")
@both_profiles
async def test_marker_without_valid_output_fails_after_a_reply_too(client: Client, job: Json) -> None:
    run_id = await client.create(script=script([ASK], [{"result": {"answer": 7}}]), **job)
    await client.settled(run_id)
    await client.reply(run_id, "blue")

    run = await client.settled(run_id)
    assert run["error"]["code"] == "OUTPUT_INVALID"
    assert "/answer" in run["error"]["message"]
    assert states(await client.events(run_id)) == [*TALKED, "failed"]


@pytest.mark.spec("LIFE-15")
@both_profiles
async def test_valid_output_without_marker_succeeds_with_a_warning(client: Client, job: Json) -> None:
    run_id = await client.create(script="auto_done", **job)

    run = await client.settled(run_id)
    assert run["status"] == "succeeded"
    assert [warning["code"] for warning in run["warnings"]] == [SOFT]
    assert await client.result(run_id) == {"answer": "42"}
    assert states(await client.events(run_id)) == ["queued", "running", "succeeded"]


@pytest.mark.spec("LIFE-15")
async def test_valid_output_without_marker_succeeds_after_a_reply(client: Client) -> None:
    run_id = await client.create(script="soft_done", **INTERACTIVE)
    assert (await client.settled(run_id))["warnings"] == []
    await client.reply(run_id, "blue")

    run = await client.settled(run_id)
    assert run["status"] == "succeeded"
    assert [warning["code"] for warning in run["warnings"]] == [SOFT]
    assert await client.result(run_id) == {"answer": "blue"}


@pytest.mark.spec("LIFE-16")
@pytest.mark.parametrize(
    ("last", "job"),
    [({"say": "I am still not sure."}, INTERACTIVE), ({"result": {"answer": 7}, "done": False}, STICKY)],
    ids=["words", "invalid output, sticky"],
)
async def test_last_allowed_turn_without_evidence_fails(place: Place, last: Json, job: Json) -> None:
    client = place.client
    run_id = await client.create("limited", script([ASK], [last], [ANSWER]), **job)
    run = await client.settled(run_id)
    assert (run["status"], run["attempt_number"], run["max_attempt"]) == ("waiting_user", 1, 2)
    await client.reply(run_id, "blue")

    run = await client.settled(run_id)
    assert (run["status"], run["attempt_number"]) == ("failed", 2)
    assert run["error"]["code"] == EXCEEDED
    assert states(await client.events(run_id)) == [*TALKED, "failed"]
    assert place.processes(run_id) == []


@pytest.mark.spec("LIFE-16")
@pytest.mark.parametrize("marker", [True, False], ids=["marker", "no marker"])
async def test_last_allowed_turn_with_evidence_succeeds(client: Client, marker: bool) -> None:
    run_id = await client.create("limited", script([ASK], [valid_output(marker=marker)]), **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "blue")

    run = await client.settled(run_id)
    assert run["status"] == "succeeded"
    assert [warning["code"] for warning in run["warnings"]] == ([] if marker else [SOFT])


@pytest.mark.spec("LIFE-16")
async def test_turns_decided_automatically_count(place: Place) -> None:
    run_id = await place.client.create("limited", "ask_forever", **INTERACTIVE, **LENIENT)
    await place.client.settled(run_id)
    await place.pass_time(1201)
    assert (await place.client.settled(run_id))["error"]["code"] == EXCEEDED


@pytest.mark.spec("LIFE-16")
async def test_auto_run_knows_no_limit_of_turns(client: Client) -> None:
    run = await client.settled(await client.create("limited", "invalid_no_marker"))
    assert run["error"]["code"] == "OUTPUT_INVALID"


@pytest.mark.spec("LIFE-17")
@both_profiles
async def test_without_max_attempt_the_turns_have_no_limit(client: Client, job: Json) -> None:
    run_id = await client.create(script="ask_forever", **job)
    for turn in range(1, 8):
        run = await client.settled(run_id)
        assert (run["status"], run["max_attempt"]) == ("waiting_user", None)
        assert (run["attempt_number"], run["pending_interaction_id"]) == (turn, turn)
        await client.reply(run_id, f"reply {turn}")

    await client.settled(run_id)
    history = await client.history(run_id)
    assert [entry["response"] for entry in history] == [*(f"reply {turn}" for turn in range(1, 8)), None]
