"""Permissions in the middle of a turn, from the agent's request to what it was told, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Json, Place, opened, states

ASK: Json = {"execution_mode": "interactive", "permissions": "ask"}
AFTERWARDS: Json = {"say": "Which colour?"}
HEARD: Json = {"result": {"answer": "{{reply}}"}}
PAUSED = ["queued", "running", "waiting_user", "queued", "running"]


async def asking(place: Place, script: Any = "permission", **options: Any) -> str:
    run_id = await place.client.create(script=script, **ASK, **options)
    run = await place.client.settled(run_id)
    assert run["status"] == "waiting_user", run
    return run_id


async def said(place: Place, run_id: str) -> str:
    run = await place.client.ended(run_id)
    assert run["status"] == "succeeded", run
    return str((await place.client.result(run_id))["answer"])


def then(*turns: list[Json]) -> Json:
    """A script that asks for a permission and goes on with these turns."""
    request = {"permission": {"tool": "shell", "title": "touch note.txt"}}
    return {"turns": [[request, *turns[0]], *turns[1:]]}


async def test_a_request_is_shown_and_what_was_chosen_is_told(place: Place) -> None:
    run_id = await asking(place)
    run, pending = await place.client.get(run_id), await place.client.pending(run_id)
    assert (run["attempt_number"], run["permissions"]) == (1, "ask")
    assert run["interactive_profile"]["kind"] == "sticky_process"
    assert (pending["kind"], pending["source"]) == ("permission", "permission")
    assert "touch note.txt" in pending["prompt"]
    assert [option["value"] for option in pending["options"]] == ["allow", "always", "reject"]
    assert pending["context"]["input"] == {"command": "touch note.txt"}
    assert place.house.worker.resident == 1
    assert len(place.processes(run_id)) == 1

    await place.client.reply(run_id, "allow")
    assert await said(place, run_id) == "allow"
    events = await place.client.events(run_id)
    assert states(events) == [*PAUSED, "succeeded"]
    triggers = [event["data"]["trigger"] for event in events if "trigger" in event["data"]]
    assert triggers.count("turn.needs_permission") == 1
    (attempt,) = (await place.client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"]
    assert (attempt["attempt"], attempt["try"]) == (1, 1)
    (answered,) = await place.client.history(run_id)
    assert (answered["kind"], answered["response"]) == ("permission", "allow")


async def test_a_rejected_agent_goes_on(place: Place) -> None:
    run_id = await asking(place)
    await place.client.reply(run_id, "Reject")
    assert await said(place, run_id) == "reject"
    tools = [e["data"]["status"] for e in await place.client.events(run_id) if "call_id" in e["data"]]
    assert tools == ["pending", "failed"]


async def test_other_words_reject_and_are_the_next_prompt_of_the_same_turn(place: Place) -> None:
    run_id = await asking(place, then([AFTERWARDS], [HEARD]))
    await place.client.reply(run_id, "use a branch instead")
    assert await said(place, run_id) == "use a branch instead"
    run = await place.client.get(run_id)
    assert run["attempt_number"] == 1
    assert run["usage"]["input_tokens"] > 0


async def test_a_question_after_a_permission_is_an_ordinary_one(place: Place) -> None:
    run_id = await asking(place, then([AFTERWARDS], [HEARD]))
    await place.client.reply(run_id, "always")
    pending = await place.client.settled(run_id)
    assert (pending["pending_interaction_id"], pending["attempt_number"]) == (2, 1)
    assert (await place.client.pending(run_id))["prompt"] == "Which colour?"
    await place.client.reply(run_id, "blue")
    assert await said(place, run_id) == "blue"
    assert (await place.client.get(run_id))["attempt_number"] == 2
    pids = {a["pid"] for a in (await place.client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"]}
    assert len(pids) == 1


async def test_two_at_once_are_asked_one_after_the_other(place: Place) -> None:
    run_id = await asking(place, "permissions")
    first = await place.client.pending(run_id)
    await place.client.reply(run_id, "allow")
    await place.client.settled(run_id)
    second = await place.client.pending(run_id)
    assert (first["interaction_id"], second["interaction_id"]) == (1, 2)
    assert "note.txt" in first["prompt"]
    assert "example.org" in second["prompt"]
    await place.client.reply(run_id, "reject")
    assert await said(place, run_id) == "allow,reject"
    assert states(await place.client.events(run_id)) == [*PAUSED, *PAUSED[2:], "succeeded"]


@pytest.mark.failure("P06")
async def test_answered_late_and_twice(place: Place) -> None:
    run_id = await asking(place)
    answers = await asyncio.gather(
        *(place.client.post_reply(run_id, 1, choice) for choice in ("allow", "always", "reject"))
    )
    (won,) = [answer for answer in answers if answer.status_code == 200]
    lost = [answer.json()["code"] for answer in answers if answer is not won]
    assert lost == ["INTERACTION_ANSWERED"] * 2
    (answered,) = await place.client.history(run_id)
    assert await said(place, run_id) == answered["response"]
    late = await place.client.post_reply(run_id, 1, "something else")
    assert (late.status_code, late.json()["code"]) == (409, "INTERACTION_ANSWERED")


@pytest.mark.failure("P06")
async def test_an_agent_that_gave_up_waiting_goes_on_without_an_answer(place: Place) -> None:
    request = {"tool": "shell", "title": "touch note.txt", "allowed_for_sec": 0.01}
    script = {"turns": [[{"permission": request}, {"result": {"answer": "alone"}}]]}
    run_id = await place.client.create(script=script, **ASK)
    assert await said(place, run_id) == "alone"
    (asked,) = await place.client.history(run_id)
    assert (asked["resolution_mode"], asked["response"], asked["resolved_by"]) == ("withdrawn", "", "demo")
    events = await place.client.events(run_id)
    assert states(events) == [*PAUSED, "succeeded"]
    assert "interaction.withdrawn" in [event["type"] for event in events]
    late = await place.client.post_reply(run_id, 1, "allow")
    assert (late.status_code, late.json()["code"]) == (409, "INTERACTION_ANSWERED")
    assert "withdrawn" in late.json()["detail"]


async def test_a_cancel_is_told_to_the_agent_and_ends_the_run(place: Place) -> None:
    run_id = await asking(place)
    await place.client.cancel(run_id)
    run = await place.client.ended(run_id)
    assert run["status"] == "canceled"
    assert not place.processes(run_id)
    assert place.house.dispatcher.busy == 0
    refused = await place.client.post_reply(run_id, 1, "allow")
    assert refused.status_code == 409


@pytest.mark.failure("P01")
async def test_nobody_answers(place: Place) -> None:
    patient = await asking(place, session_timeout_sec=60)
    lenient = await asking(place, interactive_require_user_reply=False, session_timeout_sec=60)
    await place.pass_time(61)
    assert await said(place, lenient) == "reject"
    (answered,) = await place.client.history(lenient)
    assert answered["resolution_mode"] == "auto_decide_timeout"
    ended = await place.client.ended(patient)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "INTERACTION_WAIT_TIMEOUT")
    assert not place.processes(patient)


@pytest.mark.failure("H14")
async def test_a_process_that_dies_takes_its_request_with_it(place: Place) -> None:
    """Its session could be loaded, and still nobody would hear the answer."""
    run_id = await asking(place)
    (process,) = place.processes(run_id)
    os.kill(process.pid, signal.SIGKILL)
    run = await place.client.ended(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "INTERACTION_PROCESS_LOST")
    assert states(await place.client.events(run_id)) == ["queued", "running", "waiting_user", "failed"]
    (attempt,) = (await place.client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"]
    assert attempt["verdict"] == {"verdict": "interrupted"}
    late = await place.client.post_reply(run_id, 1, "allow")
    assert (late.status_code, late.json()["state"]) == (409, "failed")
    assert place.house.dispatcher.busy == 0


async def test_a_service_that_stops_loses_the_request(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as place:
        run_id = await asking(place)
    async with opened(tmp_path / "data") as place:
        run = await place.client.get(run_id)
        assert (run["status"], run["error"]["code"]) == ("failed", "INTERACTION_PROCESS_LOST")


# Without a person


@pytest.mark.failure("P01")
async def test_deny_rejects_whatever_is_asked_for(place: Place) -> None:
    for mode in ("auto", "interactive"):
        run_id = await place.client.create(script="permission", execution_mode=mode, permissions="deny")
        assert await said(place, run_id) == "reject"
        run = await place.client.get(run_id)
        assert [warning["code"] for warning in run["warnings"]][:1] == ["PERMISSION_DENIED"]
        assert "waiting_user" not in states(await place.client.events(run_id))


async def test_allow_is_the_default(place: Place) -> None:
    sticky = {"execution_mode": "interactive", "interactive_profile": "sticky_process"}
    assert await said(place, await place.client.create(script="permissions", **sticky)) == "allow,allow"
    headless = await place.client.create(script="permission", permissions="allow")
    assert await said(place, headless) == "allow"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"permissions": "ask"}, "auto mode"),
        ({**ASK, "interactive_profile": "resumable"}, "sticky_process"),
        ({"permissions": "deny", "interactive_profile": "resumable"}, "sticky_process"),
    ],
)
async def test_what_could_not_be_held_is_refused(place: Place, options: Json, word: str) -> None:
    refused = await place.client.post_job(script="permission", **options)
    assert (refused.status_code, refused.json()["code"]) == (400, "PERMISSION_POLICY_UNSUPPORTED")
    assert word in refused.json()["detail"]
    assert await place.client.runs() == []
