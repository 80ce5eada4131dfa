"""One statechart for every run: its path, its events in their order, its restarts, and auto as a policy over it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.harness import Client, Daemon, Json, Place, assert_log, opened, states
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, LENIENT, QUESTION, STICKY, Latch, Notebook, script

SIX = ["queued", "running", "waiting_user", "succeeded", "failed", "canceled"]
TALKED = ["queued", "running", "waiting_user", "queued", "running"]

both_profiles = pytest.mark.parametrize("job", [INTERACTIVE, STICKY], ids=["resumable", "sticky"])


def changes(events: list[Json]) -> list[tuple[str, str, str]]:
    changed = [event["data"] for event in events if event["type"] == "conversation.state.changed"]
    return [(data["from"], data["to"], data["trigger"]) for data in changed]


def after(events: list[Json], cause: str) -> tuple[Json, Json]:
    """The one event of that type, and the event that follows it."""
    (position,) = [number for number, event in enumerate(events) if event["type"] == cause]
    return events[position], events[position + 1]


@pytest.mark.spec("SSOT-01")
async def test_normal_run_goes_this_way_and_tells_it(client: Client) -> None:
    run_id = await client.create(script="ask", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"

    followed = [event async for event in client.follow(run_id)]
    assert followed == await client.events(run_id)
    assert [(event["type"], event["meta"]["attempt"]) for event in followed] == [
        ("conversation.started", 0),
        ("conversation.state.changed", 1),
        ("assistant.message.final", 1),
        ("usage.reported", 1),
        ("conversation.state.changed", 1),
        ("user.input.required", 1),
        ("interaction.reply.accepted", 1),
        ("conversation.state.changed", 1),
        ("conversation.state.changed", 2),
        ("assistant.message.final", 2),
        ("usage.reported", 2),
        ("conversation.state.changed", 2),
        ("conversation.completed", 2),
    ]
    assert changes(followed) == [
        ("queued", "running", "turn.started"),
        ("running", "waiting_user", "turn.needs_input"),
        ("waiting_user", "queued", "interaction.reply.accepted"),
        ("queued", "running", "turn.started"),
        ("running", "succeeded", "turn.succeeded"),
    ]
    required, asked = followed[4]["data"], followed[5]["data"]
    assert required["pending_interaction_id"] == asked["interaction_id"] == 1
    assert asked["prompt"] == QUESTION


@pytest.mark.spec("SSOT-01")
@pytest.mark.parametrize(
    ("terminal", "job"),
    [("succeeded", STICKY), ("failed", INTERACTIVE), ("canceled", INTERACTIVE), ("canceled", STICKY)],
    ids=["succeeded", "failed", "canceled", "canceled, sticky"],
)
async def test_normal_way_leads_to_each_terminal_state(
    client: Client, latch: Latch, terminal: str, job: Json
) -> None:
    second_turn = {
        "succeeded": [ANSWER],
        "failed": [{"result": {"answer": 7}}],
        "canceled": [*latch.steps, ANSWER],
    }
    run_id = await client.create(script=script([ASK], second_turn[terminal]), **job)
    await client.settled(run_id)
    await client.reply(run_id, "blue")
    if terminal == "canceled":
        await latch.reached()
        await client.cancel(run_id)

    assert (await client.settled(run_id))["status"] == terminal
    assert states(await client.events(run_id)) == [*TALKED, terminal]


@pytest.mark.spec("SSOT-01")
async def test_six_states_are_all_that_the_api_knows(client: Client) -> None:
    schemas = (await client.http.get("/v1/openapi.json")).json()["components"]["schemas"]
    shown = {name: shape["properties"]["status"] for name, shape in schemas.items() if "RunOut" in name}
    assert [status["enum"] for status in shown.values()] == [SIX]
    for state in SIX:
        assert (await client.http.get("/v1/jobs", params={"status": state})).status_code == 200
    for stranger in ("paused", "QUEUED", "waiting", "completed"):
        assert (await client.http.get("/v1/jobs", params={"status": stranger})).status_code == 400


@pytest.mark.spec("SSOT-02", "SSOT-07")
@both_profiles
async def test_accepted_reply_queues_the_run_and_is_told(client: Client, job: Json) -> None:
    run_id = await client.create(script="ask", **job)
    await client.settled(run_id)
    receipt = await client.reply(run_id, "blue")
    assert receipt["status"] == "queued"

    await client.settled(run_id)
    told, changed = after(await client.events(run_id), "interaction.reply.accepted")
    assert told["data"] == {
        "interaction_id": 1,
        "resolution_mode": "user_reply",
        "accepted_at": receipt["accepted_at"],
        "response_preview": "blue",
        "by": "token",
    }
    assert changed["type"] == "conversation.state.changed"
    assert changed["data"] == {
        "from": "waiting_user",
        "to": "queued",
        "trigger": "interaction.reply.accepted",
        "updated_at": receipt["accepted_at"],
    }


@pytest.mark.spec("SSOT-02")
async def test_refused_reply_is_no_event(client: Client) -> None:
    run_id = await client.create(script="ask", **INTERACTIVE)
    await client.settled(run_id)
    before = await client.events(run_id)

    stale = await client.post_reply(run_id, 7, "blue")
    assert (stale.status_code, stale.json()["code"]) == (409, "INTERACTION_STALE")
    assert stale.json()["pending_interaction_id"] == 1
    assert await client.events(run_id) == before


@pytest.mark.spec("SSOT-03", "SSOT-08")
@both_profiles
async def test_automatic_decision_queues_the_run_and_is_told(place: Place, job: Json) -> None:
    client = place.client
    run_id = await client.create(script="ask_block", session_timeout_sec=30, **job, **LENIENT)
    await client.settled(run_id)
    await place.pass_time(31)

    await client.settled(run_id)
    events = await client.events(run_id)
    told, changed = after(events, "interaction.auto_decide.timeout")
    assert told["data"] == {
        "interaction_id": 1,
        "resolution_mode": "auto_decide_timeout",
        "accepted_at": told["ts"],
        "policy": "Take blue, the colour of the logo.",
        "timeout_sec": 30,
    }
    assert changed["type"] == "conversation.state.changed"
    assert changed["data"] == {
        "from": "waiting_user",
        "to": "queued",
        "trigger": "interaction.auto_decide.timeout",
        "updated_at": told["ts"],
    }
    assert "interaction.reply.accepted" not in [event["type"] for event in events]
    assert states(events) == [*TALKED, "succeeded"]


@pytest.mark.spec("SSOT-03")
@both_profiles
async def test_strict_run_is_never_decided_automatically(place: Place, job: Json) -> None:
    client = place.client
    run_id = await client.create(script="ask", **job)
    await client.settled(run_id)
    await place.pass_time(10 * 1200)

    kept_waiting = job is INTERACTIVE
    run = await (client.get(run_id) if kept_waiting else client.ended(run_id))
    assert run["status"] == ("waiting_user" if kept_waiting else "failed")
    assert "interaction.auto_decide.timeout" not in [event["type"] for event in await client.events(run_id)]


@pytest.mark.spec("SSOT-04")
@pytest.mark.parametrize(
    "job", [INTERACTIVE, INTERACTIVE | LENIENT, STICKY], ids=["resumable", "lenient", "sticky"]
)
async def test_stopped_service_finds_its_waiting_run_again(
    tmp_path: Path, notebook: Notebook, job: Json
) -> None:
    talks = script([notebook.step, ASK], [notebook.step, ANSWER])
    async with opened(tmp_path / "data") as before:
        run_id = await before.client.create(script=talks, **job)
        waiting = await before.client.settled(run_id)
        assert waiting["recovery"] is None
        events = await before.client.events(run_id)
        question = await before.client.pending(run_id)

    async with opened(tmp_path / "data") as again:
        client = again.client
        run = await client.get(run_id)
        assert run["status"] == "waiting_user"
        assert run["recovery"]["trigger"] == "restart.preserve_waiting"
        assert run["wait_deadline_at"] == waiting["wait_deadline_at"]
        assert await client.pending(run_id) == question
        assert await client.events(run_id) == events
        assert again.processes() == []

        await client.reply(run_id, "blue")
        assert (await client.settled(run_id))["status"] == "succeeded"
        assert notebook.prompts[1] == "blue"
        assert states(await client.events(run_id)) == [*TALKED, "succeeded"]


@pytest.mark.spec("SSOT-04")
@both_profiles
async def test_killed_service_finds_its_waiting_run_again(
    daemon: Daemon, notebook: Notebook, job: Json
) -> None:
    talks = script([notebook.step, ASK], [notebook.step, ANSWER])
    run_id = await daemon.client.create(script=talks, **job)
    await daemon.client.settled(run_id)
    events = await daemon.client.events(run_id)
    await daemon.kill()
    daemon.start()

    client = daemon.client
    run = await client.get(run_id)
    assert (run["status"], run["recovery"]["trigger"]) == ("waiting_user", "restart.preserve_waiting")
    assert await client.events(run_id) == events

    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"
    first, second = notebook.pids
    assert first != second
    assert_log(await client.events(run_id), await client.get(run_id))


@pytest.mark.spec("SSOT-05")
async def test_killed_service_fails_a_run_whose_session_went_with_it(daemon: Daemon) -> None:
    run_id = await daemon.client.create(script="unloadable", **STICKY)
    assert (await daemon.client.settled(run_id))["status"] == "waiting_user"
    await daemon.kill()
    daemon.start()

    await assert_reconciled(daemon.client, run_id)


INVALID = {
    "the question is gone": "DELETE FROM interactions",
    "the run names no question": "UPDATE runs SET pending_interaction_id = NULL",
    "no session handle": "UPDATE runs SET handle_id = NULL, handle_loadable = NULL",
    "session cannot be loaded": "UPDATE runs SET handle_loadable = 0",
}


@pytest.mark.spec("SSOT-05")
@pytest.mark.parametrize("damage", INVALID.values(), ids=INVALID.keys())
async def test_invalid_wait_fails_at_the_next_start(tmp_path: Path, damage: str) -> None:
    async with opened(tmp_path / "data") as before:
        run_id = await before.client.create(script="ask", **INTERACTIVE)
        await before.client.settled(run_id)
    database = sqlite3.connect(tmp_path / "data" / "turnkeeper.db")
    with database:
        assert database.execute(damage).rowcount == 1
    database.close()

    async with opened(tmp_path / "data") as again:
        await assert_reconciled(again.client, run_id)


async def assert_reconciled(client: Client, run_id: str) -> None:
    run = await client.get(run_id)
    assert run["status"] == "failed"
    assert run["recovery"]["trigger"] == "restart.reconcile_failed"
    assert run["error"]["message"]
    assert (run["pending_interaction_id"], run["wait_deadline_at"]) == (None, None)
    events = await client.events(run_id)
    assert changes(events)[-1] == ("waiting_user", "failed", "restart.reconcile_failed")
    assert (events[-1]["type"], events[-1]["data"]) == ("conversation.failed", {"error": run["error"]})
    assert (await client.post_reply(run_id, 1, "blue")).status_code == 409


TERMINAL = {
    "succeeded": "conversation.completed",
    "failed": "conversation.failed",
    "canceled": "conversation.canceled",
}


@pytest.mark.spec("SSOT-06")
@pytest.mark.parametrize("profile", ["resumable", "sticky_process"])
@pytest.mark.parametrize("terminal", TERMINAL)
async def test_both_modes_end_alike(place: Place, terminal: str, profile: str) -> None:
    """The way to the end and the events that tell it do not depend on the mode."""
    plays = {"succeeded": "done", "failed": "invalid_output", "canceled": "hang"}
    endings = []
    for mode in ("auto", "interactive"):
        run_id = await place.client.create(
            script=plays[terminal], execution_mode=mode, interactive_profile=profile
        )
        if terminal == "canceled":
            await place.client.until(run_id, "running")
            await place.client.cancel(run_id)
        run = await place.client.settled(run_id)
        events = await place.client.events(run_id)
        assert (run["execution_mode"], run["status"]) == (mode, terminal)
        assert events[-1]["type"] == TERMINAL[terminal]
        assert place.processes(run_id) == []
        endings.append((changes(events), sorted(events[-1]["data"]), run["error"], run["ending"] is None))

    in_auto, in_interactive = endings
    assert in_auto == in_interactive
    assert [to for _, to, _ in in_auto[0]] == ["running", terminal]


@pytest.mark.spec("SSOT-06")
@pytest.mark.parametrize(
    ("plays", "profile"),
    [("ask", "resumable"), ("ask", "sticky_process"), ("ask_block", "resumable"), ("soft_done", "resumable")],
)
async def test_auto_run_never_waits_for_a_user(client: Client, plays: str, profile: str) -> None:
    run_id = await client.create(script=plays, execution_mode="auto", interactive_profile=profile)

    assert (await client.settled(run_id))["error"]["code"] == "OUTPUT_INVALID"
    events = await client.events(run_id)
    assert states(events) == ["queued", "running", "failed"]
    assert "user.input.required" not in [event["type"] for event in events]
    assert await client.history(run_id) == []
