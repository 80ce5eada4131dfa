"""A turn without evidence of completion waits for a person, whatever became of its ask block, and is remembered."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from tests.harness import Client, Json, opened, states
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, QUESTION, STICKY, script

WAITED = ["queued", "running", "waiting_user"]


@pytest.mark.spec("LIFE-01")
@pytest.mark.parametrize(
    ("first_turn", "job"),
    [("ask", INTERACTIVE), ("invalid_no_marker", INTERACTIVE), ("ask", STICKY)],
    ids=["words", "invalid output", "sticky"],
)
async def test_turn_without_marker_and_valid_output_waits(client: Client, first_turn: str, job: Json) -> None:
    run_id = await client.create(script=first_turn, **job)

    run = await client.settled(run_id)
    assert run["status"] == "waiting_user"
    assert run["waiting_for"] == "user"
    assert run["pending_interaction_id"] == 1
    assert run["error"] is None
    assert states(await client.events(run_id)) == WAITED
    pending = await client.pending(run_id)
    assert (pending["interaction_id"], pending["source"]) == (1, "backend")

    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"
    assert await client.result(run_id) == {"answer": "blue"}


@pytest.mark.spec("LIFE-01")
@pytest.mark.parametrize(
    ("first_turn", "code"),
    [("exit_nonzero", "ENGINE_FAILED"), ("crash", "ENGINE_CRASHED"), ("no_terminal", "ENGINE_FAILED")],
)
async def test_interrupted_turn_does_not_wait(client: Client, first_turn: str, code: str) -> None:
    question_only = {"no_terminal": script([ASK, {"no_terminal": True}])}
    run_id = await client.create(script=question_only.get(first_turn, first_turn), **INTERACTIVE)

    run = await client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", code)
    assert states(await client.events(run_id)) == ["queued", "running", "failed"]
    assert await client.history(run_id) == []


@pytest.mark.spec("LIFE-01", "LIFE-07")
async def test_question_and_answer_outlive_the_service(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as before:
        run_id = await before.client.create(script="ask_block", **INTERACTIVE)
        await before.client.settled(run_id)
        question = await before.client.pending(run_id)
    async with opened(tmp_path / "data") as after:
        assert await after.client.pending(run_id) == question
        await after.client.reply(run_id, "blue")
        await after.client.settled(run_id)
        history = await after.client.history(run_id)
    async with opened(tmp_path / "data") as later:
        assert await later.client.history(run_id) == history
        assert [(entry["prompt"], entry["response"]) for entry in history] == [(QUESTION, "blue")]


MALFORMED = {
    "not YAML": 'interaction_id: 1\nprompt: "Which colour\noptions: [blue, {green',
    "empty": "",
    "a list": "- interaction_id: 1\n- prompt: Which?",
    "no prompt": "interaction_id: 1\nkind: choose_one\noptions: [blue, green]",
    "prompt is a number": "interaction_id: 1\nprompt: 7\noptions: [blue, green]",
    "no interaction_id": "prompt: Which?\noptions: [blue, green]",
    "options are a text": "interaction_id: 1\nprompt: Which?\noptions: blue or green",
    "an option without label": "interaction_id: 1\nprompt: Which?\noptions: [blue, [green]]",
    "aliases": "interaction_id: 1\nprompt: Which?\noptions: [&a blue, *a]",
    "a Python object": "interaction_id: 1\nprompt: !!python/object/apply:os.getcwd []\noptions: [blue]",
}


@pytest.mark.spec("LIFE-02")
@pytest.mark.parametrize("block", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_ask_block_never_fails_the_run(client: Client, block: str) -> None:
    says = f"{QUESTION}\n\n<ASK_USER_YAML>\n{block}\n</ASK_USER_YAML>"
    run_id = await client.create(script=script([{"say": says}], [ANSWER]), **INTERACTIVE)

    run = await client.settled(run_id)
    assert (run["status"], run["error"]) == ("waiting_user", None)
    pending = await client.pending(run_id)
    assert pending == {
        "interaction_id": 1,
        "kind": "open_text",
        "prompt": QUESTION,
        "default_decision_policy": "engine_judgement",
        "source": "backend",
    }
    assert [warning["code"] for warning in run["warnings"]] == ["ASK_BLOCK_INVALID"]
    types = [event["type"] for event in await client.events(run_id)]
    assert types.index("diagnostic.warning") < types.index("user.input.required")

    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"


UNREADABLE = {
    "tag that does not fit": "context: !!bool maybe",
    "number without digits": "context: !!int ''",
    "key that is nothing": "context: {null: 1}",
    "half a character": r'context: "\uD83D"',
}


@pytest.mark.spec("LIFE-02")
@pytest.mark.parametrize("line", UNREADABLE.values(), ids=UNREADABLE.keys())
async def test_value_that_json_cannot_hold_never_fails_the_run(client: Client, line: str) -> None:
    block = f"<ASK_USER_YAML>\ninteraction_id: 1\nprompt: Which?\n{line}\n</ASK_USER_YAML>"
    asks = script([{"say": f"{QUESTION}\n\n{block}"}], [ANSWER])
    run_id = await client.create(script=asks, **INTERACTIVE)

    run = await client.settled(run_id)
    assert (run["status"], run["error"]) == ("waiting_user", None)
    assert (await client.pending(run_id))["prompt"] == QUESTION
    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"


@pytest.mark.spec("LIFE-02")
@pytest.mark.parametrize(
    "ask",
    [
        "<ASK_USER_YAML>\ninteraction_id: 1\nprompt: Which?",
        '```json\n{"ask_user": {"interaction_id": 1, "prompt": 7}}\n```',
        '{"ask_user": {"interaction_id": 1, "prompt": "Which?"}}',
    ],
    ids=["never closed", "fenced JSON", "bare JSON"],
)
async def test_ask_structure_that_is_no_block_is_plain_words(client: Client, ask: str) -> None:
    run_id = await client.create(script=script([{"say": ask}], [ANSWER]), **INTERACTIVE)

    assert (await client.settled(run_id))["status"] == "waiting_user"
    pending = await client.pending(run_id)
    assert (pending["prompt"], pending["source"]) == (ask, "backend")
    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"


@pytest.mark.spec("LIFE-07")
async def test_history_keeps_each_question_with_its_answer_and_times(client: Client) -> None:
    asks_twice = script([ASK], [{"say": "And which size?"}], [ANSWER])
    run_id = await client.create(script=asks_twice, **INTERACTIVE)
    await client.settled(run_id)
    (open_question,) = await client.history(run_id)
    assert (open_question["response"], open_question["resolved_at"]) == (None, None)

    first = await client.reply(run_id, "blue")
    await client.settled(run_id)
    second = await client.reply(run_id, {"text": "large"})
    await client.settled(run_id)

    history = await client.history(run_id)
    assert [(entry["interaction_id"], entry["prompt"], entry["response"]) for entry in history] == [
        (1, QUESTION, "blue"),
        (2, "And which size?", "large"),
    ]
    assert [entry["resolved_at"] for entry in history] == [first["accepted_at"], second["accepted_at"]]
    assert history[0]["asked_at"] == open_question["asked_at"]
    times = [datetime.fromisoformat(entry[name]) for entry in history for name in ("asked_at", "resolved_at")]
    assert times == sorted(times)
    asked = [event["ts"] for event in await client.events(run_id) if event["type"] == "user.input.required"]
    assert [entry["asked_at"] for entry in history] == asked
