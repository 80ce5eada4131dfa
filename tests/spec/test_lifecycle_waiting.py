"""What waiting costs and how it ends: slots, processes and deadlines, by profile and strictness."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.harness import Client, Json, Place, states
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, LENIENT, STICKY, Latch, Notebook, script

YEAR = 365 * 24 * 3600

lenient_profiles = pytest.mark.parametrize(
    "job",
    [
        pytest.param(INTERACTIVE | LENIENT, marks=pytest.mark.spec("LIFE-10"), id="resumable"),
        pytest.param(STICKY | LENIENT, marks=pytest.mark.spec("LIFE-11"), id="sticky"),
    ],
)


async def when(client: Client, run_id: str, state: str) -> list[str]:
    """The moments at which the run came into that state, as its log tells."""
    return [
        event["ts"]
        for event in await client.events(run_id)
        if event["type"] == "conversation.state.changed" and event["data"]["to"] == state
    ]


async def time_to_reply(client: Client, run_id: str) -> timedelta:
    """From the question to the deadline that the API shows for it."""
    run, (question,) = await client.get(run_id), await client.history(run_id)
    assert (await client.pending(run_id))["expires_at"] == run["wait_deadline_at"]
    return datetime.fromisoformat(run["wait_deadline_at"]) - datetime.fromisoformat(question["asked_at"])


@pytest.mark.spec("LIFE-03")
async def test_resumable_run_frees_its_slot_while_it_waits(one_slot: Place, latch: Latch) -> None:
    client = one_slot.client
    asking = await client.create(script=script([*latch.steps, ASK]), **INTERACTIVE)
    await latch.reached()
    other = await client.create(script="done")
    assert (await client.get(other))["waiting_for"] == "slot"

    latch.open()
    assert (await client.settled(other))["status"] == "succeeded"
    assert (await client.get(asking))["status"] == "waiting_user"
    assert one_slot.processes(asking) == []
    assert await when(client, asking, "waiting_user") <= await when(client, other, "running")


@pytest.mark.spec("LIFE-04", "SSOT-02")
async def test_resumable_run_takes_a_slot_again_before_it_runs_on(one_slot: Place, latch: Latch) -> None:
    client = one_slot.client
    asking = await client.create(script="ask", **INTERACTIVE)
    await client.settled(asking)
    other = await client.create(script=script([*latch.steps, {"result": {"answer": "42"}}]))
    await latch.reached()

    await client.reply(asking, "blue")
    run = await client.get(asking)
    assert (run["status"], run["waiting_for"], run["queue_position"]) == ("queued", "slot", 1)
    assert run["attempt_number"] == 1
    assert one_slot.processes(asking) == []
    assert (await client.get(other))["status"] == "running"

    latch.open()
    assert (await client.settled(asking))["status"] == "succeeded"
    (other_ended,) = await when(client, other, "succeeded")
    (_, resumed) = await when(client, asking, "running")
    assert other_ended <= resumed


@pytest.mark.spec("LIFE-05")
async def test_sticky_run_keeps_slot_and_process_while_it_waits(one_slot: Place, notebook: Notebook) -> None:
    client = one_slot.client
    talks = script([notebook.step, ASK], [notebook.step, {"say": "And which size?"}], [notebook.step, ANSWER])
    asking = await client.create(script=talks, **STICKY)
    assert (await client.settled(asking))["interactive_profile"]["kind"] == "sticky_process"
    (resident,) = one_slot.processes(asking)

    other = await client.create(script="done")
    for reply in ("blue", "large"):
        run = await client.get(other)
        assert (run["status"], run["waiting_for"]) == ("queued", "slot")
        assert one_slot.processes(asking) == [resident]
        await client.reply(asking, reply)
        await client.settled(asking)

    assert (await client.get(asking))["status"] == "succeeded"
    assert notebook.pids == [resident.pid] * 3
    assert (await client.settled(other))["status"] == "succeeded"
    assert await when(client, asking, "succeeded") <= await when(client, other, "running")
    assert one_slot.processes(asking) == []


@pytest.mark.spec("LIFE-06", "LIFE-09")
@pytest.mark.parametrize(
    ("given", "seconds"),
    [({}, 1200), ({"session_timeout_sec": 30}, 30)],
    ids=["default", "given"],
)
async def test_strict_sticky_run_is_ended_at_its_deadline(one_slot: Place, given: Json, seconds: int) -> None:
    client = one_slot.client
    run_id = await client.create(script="ask", **STICKY, **given)
    await client.settled(run_id)
    assert await time_to_reply(client, run_id) == timedelta(seconds=seconds)
    (resident,) = one_slot.processes(run_id)

    assert await one_slot.pass_time(seconds - 10) == 0
    assert (await client.get(run_id))["status"] == "waiting_user"
    assert one_slot.processes(run_id) == [resident]

    assert await one_slot.pass_time(11) == 1
    run = await client.ended(run_id)
    assert one_slot.processes(run_id) == []
    assert (run["status"], run["error"]["code"]) == ("failed", "INTERACTION_WAIT_TIMEOUT")
    assert (run["pending_interaction_id"], run["wait_deadline_at"]) == (None, None)
    *_, changed, failed = await client.events(run_id)
    assert changed["data"]["trigger"] == "interaction.wait.timeout"
    assert failed["data"] == {"error": run["error"]}

    assert (await client.post_reply(run_id, 1, "too late")).status_code == 409
    assert [entry["response"] for entry in await client.history(run_id)] == [None]
    # The slot is free again.
    assert (await client.settled(await client.create(script="done")))["status"] == "succeeded"


@pytest.mark.spec("LIFE-06")
async def test_run_past_its_deadline_fails_only_when_its_process_is_gone(place: Place) -> None:
    client = place.client
    run_id = await client.create(script=script([{"ignore_signals": True}, ASK]), **STICKY)
    await client.settled(run_id)
    await place.pass_time(1201)

    run = await client.get(run_id)
    assert (run["status"], run["ending"]["why"]) == ("waiting_user", "wait_timeout")
    late = await client.post_reply(run_id, 1, "blue")
    assert (late.status_code, late.json()["code"]) == (409, "RUN_ENDING")
    assert (await client.ended(run_id))["status"] == "failed"
    assert place.processes(run_id) == []


@pytest.mark.spec("LIFE-06")
async def test_reply_in_time_lifts_the_deadline_of_a_sticky_run(place: Place, latch: Latch) -> None:
    client = place.client
    run_id = await client.create(script=script([ASK], [*latch.steps, ANSWER]), **STICKY)
    await client.settled(run_id)
    await client.reply(run_id, "blue")
    await latch.reached()

    assert await place.pass_time(YEAR) == 0
    latch.open()
    assert (await client.settled(run_id))["status"] == "succeeded"


@pytest.mark.spec("LIFE-06")
async def test_each_question_of_a_sticky_run_has_its_own_deadline(place: Place) -> None:
    client = place.client
    run_id = await client.create(script="ask_forever", **STICKY)
    first = await client.settled(run_id)
    await place.pass_time(1000)
    await client.reply(run_id, "blue")
    second = await client.settled(run_id)

    assert second["wait_deadline_at"] > first["wait_deadline_at"]
    await place.pass_time(1000)
    assert (await client.get(run_id))["status"] == "waiting_user"
    await place.pass_time(201)
    assert (await client.ended(run_id))["error"]["code"] == "INTERACTION_WAIT_TIMEOUT"


@pytest.mark.spec("LIFE-08")
@pytest.mark.parametrize(
    ("given", "way_out"), [({}, "reply"), ({"session_timeout_sec": 30}, "cancel")], ids=["reply", "cancel"]
)
async def test_strict_resumable_run_waits_for_ever(place: Place, given: Json, way_out: str) -> None:
    client = place.client
    run_id = await client.create(script="ask", **INTERACTIVE, **given)
    waiting = await client.settled(run_id)
    assert waiting["wait_deadline_at"] is None
    assert "expires_at" not in await client.pending(run_id)

    assert await place.pass_time(YEAR) == 0
    assert await client.get(run_id) == waiting

    if way_out == "reply":
        await client.reply(run_id, "blue")
        assert (await client.settled(run_id))["status"] == "succeeded"
        assert await client.result(run_id) == {"answer": "blue"}
    else:
        assert (await client.cancel(run_id))["status"] == "canceled"
        assert states(await client.events(run_id)) == ["queued", "running", "waiting_user", "canceled"]


@pytest.mark.spec("LIFE-10")
async def test_lenient_resumable_run_goes_on_by_itself(place: Place, notebook: Notebook) -> None:
    client = place.client
    talks = script([notebook.step, ASK], [notebook.step, {"result": {"answer": "green"}}])
    run_id = await client.create(script=talks, session_timeout_sec=30, **INTERACTIVE, **LENIENT)
    await client.settled(run_id)
    assert await time_to_reply(client, run_id) == timedelta(seconds=30)
    assert place.processes(run_id) == []

    assert await place.pass_time(20) == 0
    assert (await client.get(run_id))["status"] == "waiting_user"
    assert await place.pass_time(11) == 1
    run = await client.settled(run_id)
    assert (run["status"], run["attempt_number"]) == ("succeeded", 2)

    told = notebook.prompts[1]
    assert told.startswith("Nobody answered within 30 seconds.")
    assert "engine_judgement" in told
    assert notebook.arguments[1][0] == "--resume"
    assert [entry["response"] for entry in await client.history(run_id)] == [told]


@pytest.mark.spec("LIFE-11")
async def test_lenient_sticky_run_hears_the_decision_in_its_process(place: Place, notebook: Notebook) -> None:
    client = place.client
    asks = {"ask": {"prompt": "Which colour?", "default_decision_policy": "Take blue, as the logo."}}
    talks = script([notebook.step, asks], [notebook.step, {"result": {"answer": "blue"}}])
    run_id = await client.create(script=talks, session_timeout_sec=30, **STICKY, **LENIENT)
    await client.settled(run_id)
    assert await time_to_reply(client, run_id) == timedelta(seconds=30)
    (resident,) = place.processes(run_id)

    assert await place.pass_time(20) == 0
    assert place.processes(run_id) == [resident]
    assert await place.pass_time(11) == 1
    run = await client.settled(run_id)
    assert (run["status"], run["attempt_number"]) == ("succeeded", 2)

    assert notebook.pids == [resident.pid, resident.pid]
    assert notebook.prompts[1].startswith("Nobody answered within 30 seconds.")
    assert "Take blue, as the logo." in notebook.prompts[1]
    assert [entry["response"] for entry in await client.history(run_id)] == [notebook.prompts[1]]


@lenient_profiles
async def test_lenient_run_is_decided_again_at_each_question(place: Place, job: Json) -> None:
    client = place.client
    run_id = await client.create(script="ask_forever", **job)
    for turn in range(1, 4):
        run = await client.settled(run_id)
        assert (run["status"], run["attempt_number"]) == ("waiting_user", turn)
        assert await place.pass_time(1201) == 1
    await client.settled(run_id)
    resolved = [entry["resolution_mode"] for entry in await client.history(run_id)]
    assert resolved == ["auto_decide_timeout"] * 3 + [None]


@lenient_profiles
async def test_reply_to_a_lenient_run_comes_before_any_decision(place: Place, job: Json) -> None:
    client = place.client
    run_id = await client.create(script="ask", **job)
    await client.settled(run_id)
    await client.reply(run_id, "blue")
    await client.settled(run_id)

    assert await place.pass_time(YEAR) == 0
    assert await client.result(run_id) == {"answer": "blue"}
    assert [entry["resolution_mode"] for entry in await client.history(run_id)] == ["user_reply"]
