"""Question and reply over HTTP, and what the API tells about completion and its limits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import Client, Json, Place
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, LENIENT, QUESTION, STICKY, script

SOFT = "INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER"
EXCEEDED = "INTERACTIVE_MAX_ATTEMPT_EXCEEDED"


def asks(**question: Any) -> Json:
    """Asks with a block, then answers with the reply."""
    return script([{"ask": {"prompt": QUESTION} | question}], [ANSWER])


BLOCK_ALONE = "<ASK_USER_YAML>\ninteraction_id: 9\nprompt: Which?\n</ASK_USER_YAML>"
OUR_WORDS = "The agent is waiting for you."
USABLE = {
    "words": ("ask", "backend", QUESTION),
    "ask block": ("ask_block", "ask_user", QUESTION),
    "block without words": (script([{"say": BLOCK_ALONE}], [ANSWER]), "ask_user", "Which?"),
    "invalid output": ("invalid_no_marker", "backend", '{"answer": 7}'),
    "nothing said": (script([], [ANSWER]), "backend", OUR_WORDS),
    "only a thought": (script([{"think": "Hm."}], [ANSWER]), "backend", OUR_WORDS),
}


@pytest.mark.spec("API-03")
@pytest.mark.parametrize(("plays", "source", "prompt"), USABLE.values(), ids=USABLE.keys())
async def test_waiting_run_always_shows_a_usable_question(
    client: Client, plays: Any, source: str, prompt: str
) -> None:
    run_id = await client.create(script=plays, **INTERACTIVE)
    run = await client.settled(run_id)

    shown = (await client.http.get(f"/v1/jobs/{run_id}/interaction/pending")).json()
    assert (shown["request_id"], shown["status"]) == (run_id, "waiting_user")
    pending = shown["pending"]
    assert pending["interaction_id"] == run["pending_interaction_id"] == 1
    assert pending["prompt"].startswith(prompt)
    assert pending["source"] == source

    answer = await client.post_reply(run_id, pending["interaction_id"], "blue")
    assert answer.status_code == 200
    await client.settled(run_id)
    assert await client.result(run_id) == {"answer": "blue"}


@pytest.mark.spec("API-03")
@pytest.mark.parametrize("stranger", [2, 10**30])
async def test_reply_to_a_question_that_was_never_asked_is_refused(client: Client, stranger: int) -> None:
    run_id = await client.create(script="ask", **INTERACTIVE)
    await client.settled(run_id)

    assert (await client.post_reply(run_id, stranger, "blue")).status_code in (400, 409)
    assert (await client.pending(run_id))["interaction_id"] == 1


@pytest.mark.spec("API-04")
@pytest.mark.parametrize("kind", ["choose_one", "fill_fields", "mood_ring", "Wähle 1"])
async def test_kind_is_shown_as_given_and_asks_for_no_form(client: Client, kind: str) -> None:
    schema = {"type": "object", "required": ["colour"], "properties": {"colour": {"type": "string"}}}
    offered = [{"label": "Blue", "value": "blue"}, {"label": "Green", "value": "green"}]
    run_id = await client.create(
        script=asks(kind=kind, options=offered, requested_schema=schema), **INTERACTIVE
    )
    await client.settled(run_id)

    pending = await client.pending(run_id)
    assert (pending["kind"], pending["options"]) == (kind, offered)
    await client.reply(run_id, "neither, rather something warm")
    await client.settled(run_id)
    assert await client.result(run_id) == {"answer": "neither, rather something warm"}


@pytest.mark.spec("API-07")
@pytest.mark.parametrize("given", [None, True], ids=["not given", "given"])
async def test_strict_is_the_default(place: Place, given: bool | None) -> None:
    client = place.client
    run_id = await client.create(script="ask", **INTERACTIVE, interactive_require_user_reply=given)
    run = await client.settled(run_id)
    assert run["interactive_require_user_reply"] is True

    assert await place.pass_time(10 * 1200) == 0
    assert (await client.get(run_id))["status"] == "waiting_user"


@pytest.mark.spec("API-08")
@pytest.mark.parametrize(
    "lenient", [LENIENT, {"runtime_options": LENIENT}], ids=["at the top", "in runtime_options"]
)
async def test_strict_can_be_turned_off(place: Place, lenient: Json) -> None:
    client = place.client
    run_id = await client.create(script="ask", **INTERACTIVE, **lenient)
    run = await client.settled(run_id)
    assert run["interactive_require_user_reply"] is False
    assert run["wait_deadline_at"] is not None

    assert await place.pass_time(1201) == 1
    assert (await client.settled(run_id))["status"] == "succeeded"


FREE = {
    "lines in any script": ("blue,\n  藍色 · أزرق · 🟦\n", "blue,\n  藍色 · أزرق · 🟦\n"),
    "like JSON": ('{"answer": 7}', '{"answer": 7}'),
    "like a placeholder": ("{{reply}} {{input.x}}", "{{reply}} {{input.x}}"),
    "text in an object": ({"text": "blue"}, "blue"),
    "an object": ({"colour": "blue", "tone": [1, 2]}, '{"colour":"blue","tone":[1,2]}'),
}


@pytest.mark.spec("API-09")
@pytest.mark.parametrize(("response", "heard"), FREE.values(), ids=FREE.keys())
async def test_reply_is_free_text(client: Client, response: Any, heard: str) -> None:
    run_id = await client.create(script=asks(kind="choose_one", options=["red"]), **INTERACTIVE)
    await client.settled(run_id)

    receipt = await client.reply(run_id, response)
    assert (receipt["accepted"], receipt["interaction_id"]) == (True, 1)
    await client.settled(run_id)
    assert await client.result(run_id) == {"answer": heard}
    assert [entry["response"] for entry in await client.history(run_id)] == [heard]


@pytest.mark.spec("API-10", "API-11")
@pytest.mark.parametrize("job", [INTERACTIVE, STICKY], ids=["resumable", "sticky"])
async def test_history_tells_a_user_from_a_timeout(place: Place, job: Json) -> None:
    client = place.client
    run_id = await client.create(script="ask_forever", **job, **LENIENT)
    await client.settled(run_id)
    receipt = await client.reply(run_id, "blue")
    assert receipt["resolution_mode"] == "user_reply"
    await client.settled(run_id)
    await place.pass_time(1201)
    await client.settled(run_id)

    by_user, by_timeout, still_open = await client.history(run_id)
    assert (by_user["resolution_mode"], by_user["response"]) == ("user_reply", "blue")
    assert by_timeout["resolution_mode"] == "auto_decide_timeout"
    assert "Nobody answered" in by_timeout["response"]
    assert by_timeout["resolved_by"] != by_user["resolved_by"]
    assert (still_open["resolution_mode"], still_open["response"]) == (None, None)


@pytest.mark.spec("API-11")
async def test_reply_after_an_automatic_decision_is_refused(place: Place) -> None:
    client = place.client
    run_id = await client.create(script="ask", **INTERACTIVE, **LENIENT)
    await client.settled(run_id)
    await place.pass_time(1201)
    await client.settled(run_id)

    late = await client.post_reply(run_id, 1, "blue")
    assert (late.status_code, late.json()["code"]) == (409, "INTERACTION_ANSWERED")
    assert late.json()["resolution_mode"] == "auto_decide_timeout"
    assert [entry["resolution_mode"] for entry in await client.history(run_id)] == ["auto_decide_timeout"]


@pytest.mark.spec("API-15")
@pytest.mark.parametrize("job", [INTERACTIVE, STICKY], ids=["resumable", "sticky"])
async def test_waiting_and_replying_need_no_ask_block(client: Client, job: Json) -> None:
    run_id = await client.create(script=script([ASK], [{"say": "Sure?"}], [ANSWER]), **job)
    for reply, prompt in (("blue", QUESTION), ("yes, blue", "Sure?")):
        run = await client.settled(run_id)
        assert (run["status"], run["warnings"]) == ("waiting_user", [])
        pending = await client.pending(run_id)
        assert (pending["prompt"], pending["source"]) == (prompt, "backend")
        assert (await client.post_reply(run_id, pending["interaction_id"], reply)).status_code == 200

    assert (await client.settled(run_id))["status"] == "succeeded"
    assert await client.result(run_id) == {"answer": "yes, blue"}


@pytest.mark.spec("API-16")
async def test_soft_completion_shows_its_warning_everywhere(client: Client) -> None:
    run_id = await client.create(script="auto_done", **INTERACTIVE)
    run = await client.settled(run_id)
    assert run["status"] == "succeeded"

    (warning,) = run["warnings"]
    assert warning["code"] == SOFT
    assert warning["message"]
    result = (await client.http.get(f"/v1/jobs/{run_id}/result")).json()
    assert (result["result"], result["warnings"]) == ({"answer": "42"}, [warning])
    listed = (await client.http.get("/v1/jobs")).json()["jobs"]
    assert [each["warnings"] for each in listed] == [[warning]]
    *_, diagnostic, _, completed = await client.events(run_id)
    assert (diagnostic["type"], diagnostic["data"]) == ("diagnostic.warning", warning)
    assert completed["data"]["warnings"] == [SOFT]


@pytest.mark.spec("API-17")
async def test_exceeded_limit_of_turns_shows_its_reason_everywhere(client: Client) -> None:
    run_id = await client.create("limited", "ask_forever", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "blue")
    run = await client.settled(run_id)

    assert (run["status"], run["error"]["code"]) == ("failed", EXCEEDED)
    assert EXCEEDED in run["error"]["message"]
    *_, failed = await client.events(run_id)
    assert (failed["type"], failed["data"]) == ("conversation.failed", {"error": run["error"]})
    result = await client.http.get(f"/v1/jobs/{run_id}/result")
    assert result.status_code == 409
    assert EXCEEDED in result.json()["detail"]
