"""An agent that only the settings know, by its name and command: made with the official library of the protocol."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness import Json, Place, opened, states

AGENT = Path(__file__).parents[1] / "fakes" / "acp_agent.py"
COMMAND = [sys.executable, str(AGENT)]
DONE = '{"__SKILL_DONE__": true, "answer": "42"}'
INTERACTIVE: Json = {"execution_mode": "interactive"}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    agents = {"parrot": {"command": COMMAND, "asks": True}, "shy": {"command": COMMAND}}
    async with opened(tmp_path / "data", engines=agents) as place:
        yield place


async def test_it_is_an_engine_like_any_other(place: Place) -> None:
    known = (await place.client.http.get("/v1/engines")).json()["engines"]
    parrot = next(each for each in known if each["name"] == "parrot")
    assert (parrot["ready"], parrot["profiles"]) == (True, ["sticky_process"])
    assert parrot["permissions"] == ["allow", "ask", "deny"]
    assert parrot["resident"]["ready"] is True


async def test_a_conversation_is_one_process(place: Place) -> None:
    run_id = await place.client.create(engine="parrot", **INTERACTIVE)
    run = await place.client.settled(run_id)
    assert (run["status"], run["interactive_profile"]["kind"]) == ("waiting_user", "sticky_process")
    await place.client.reply(run_id, DONE)
    assert (await place.client.ended(run_id))["status"] == "succeeded"
    assert await place.client.result(run_id) == {"answer": "42"}
    attempts = (await place.client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"]
    assert len({attempt["pid"] for attempt in attempts}) == 1


async def test_in_auto_mode_it_plays_one_turn_and_leaves(place: Place) -> None:
    run_id = await place.client.create(engine="parrot", input={"question": "which?"})
    run = await place.client.ended(run_id)
    assert run["error"]["code"] == "OUTPUT_INVALID"  # it only repeats what it was told
    assert states(await place.client.events(run_id)) == ["queued", "running", "failed"]
    assert place.processes(run_id) == []


async def test_whether_it_asks_only_the_operator_can_tell(place: Place) -> None:
    asking = {**INTERACTIVE, "permissions": "ask"}
    refused = await place.client.post_job(engine="shy", **asking)
    assert (refused.status_code, refused.json()["code"]) == (400, "PERMISSION_POLICY_UNSUPPORTED")
    run_id = await place.client.create(engine="parrot", **asking)
    await place.client.settled(run_id)
    pending = await place.client.pending(run_id)
    assert [option["value"] for option in pending["options"]] == ["no", "yes"]
    await place.client.reply(run_id, "yes")
    await place.client.settled(run_id)
    assert (await place.client.pending(run_id))["kind"] == "open_text"
    await place.client.cancel(run_id)
    await place.client.ended(run_id)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"model": "x"}, "needs a command"),
        ({"command": ["x"], "config": {"a": 1}}, "it takes command"),
        ({"command": ["x"], "resident_command": ["y"]}, "it takes command"),
    ],
)
async def test_settings_that_it_cannot_have(tmp_path: Path, settings: Json, word: str) -> None:
    with pytest.raises(Exception, match=word):
        async with opened(tmp_path / "data", engines={"parrot": settings}):
            pass
