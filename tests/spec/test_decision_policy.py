"""How questions are shaped, what may be answered, and which evidence decides before anybody is asked."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.harness import Client, Json, Place, states
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, LENIENT, QUESTION, STICKY, Notebook, script

SOFT = "INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER"
EXCEEDED = "INTERACTIVE_MAX_ATTEMPT_EXCEEDED"
STRAIGHT = ["queued", "running", "succeeded"]

both_profiles = pytest.mark.parametrize("job", [INTERACTIVE, STICKY], ids=["resumable", "sticky"])

KINDS = ("open_text", "choose_one", "confirm", "fill_fields", "risk_ack")
OPTIONS = [{"label": "Blue", "value": "blue"}, {"label": "Green", "value": 2}]
HINTS = {"widget": "swatches", "columns": 2}


def asks(**question: Any) -> Json:
    """Asks with a block, then answers with the reply."""
    return script([{"ask": {"prompt": QUESTION} | question}], [ANSWER])


@pytest.mark.spec("DEC-01")
@pytest.mark.parametrize(
    ("kind", "shown"),
    [({}, "open_text"), ({"kind": "mood_ring"}, "mood_ring"), ({"kind": ""}, "open_text")],
    ids=["missing", "unknown", "empty"],
)
@both_profiles
async def test_missing_or_unknown_kind_goes_on_as_plain_text(
    client: Client, kind: Json, shown: str, job: Json
) -> None:
    run_id = await client.create(script=asks(**kind), **job)
    assert (await client.settled(run_id))["status"] == "waiting_user"

    pending = await client.pending(run_id)
    assert (pending["kind"], pending["prompt"]) == (shown, QUESTION)
    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"
    assert await client.result(run_id) == {"answer": "blue"}


@pytest.mark.spec("DEC-02")
@pytest.mark.parametrize("kind", KINDS)
async def test_question_has_kind_and_prompt_and_what_else_was_given(client: Client, kind: str) -> None:
    run_id = await client.create(script=asks(kind=kind, options=OPTIONS, ui_hints=HINTS), **INTERACTIVE)
    await client.settled(run_id)

    pending = await client.pending(run_id)
    assert (pending["kind"], pending["prompt"]) == (kind, QUESTION)
    assert (pending["options"], pending["ui_hints"]) == (OPTIONS, HINTS)
    *_, told = [e["data"] for e in await client.events(run_id) if e["type"] == "user.input.required"]
    assert told == pending
    (remembered,) = await client.history(run_id)
    assert {name: remembered[name] for name in ("kind", "prompt")} == {"kind": kind, "prompt": QUESTION}


@pytest.mark.spec("DEC-02")
@both_profiles
async def test_question_in_plain_words_has_kind_and_prompt_too(client: Client, job: Json) -> None:
    run_id = await client.create(script=script([ASK], [ANSWER]), **job)
    await client.settled(run_id)

    pending = await client.pending(run_id)
    assert (pending["kind"], pending["prompt"]) == ("open_text", QUESTION)
    assert not {"options", "ui_hints"} & pending.keys()


@pytest.mark.spec("DEC-03")
@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        *((kind, "neither, rather something warm") for kind in (*KINDS, "single_select", "mood_ring")),
        *(("choose_one", reply) for reply in ("7", '["blue"]', "no")),
    ],
)
async def test_free_text_is_accepted_for_every_kind(client: Client, kind: str, reply: str) -> None:
    schema = {"type": "object", "required": ["colour"], "properties": {"colour": {"type": "string"}}}
    question = asks(kind=kind, options=OPTIONS, requested_schema=schema)
    run_id = await client.create(script=question, **INTERACTIVE)
    await client.settled(run_id)

    answer = await client.post_reply(run_id, 1, reply)
    assert (answer.status_code, answer.json()["accepted"]) == (200, True)
    await client.settled(run_id)
    assert await client.result(run_id) == {"answer": reply}


def patch_of(place: Place, run_id: str, skill: str = "answer") -> str:
    """What was added to the skill's own words in the home of a run."""
    (path,) = (place.settings.data_dir / "runs" / run_id / "home").rglob("SKILL.md")
    own = (place.settings.skills_dir[0] / skill / "SKILL.md").read_text().rstrip()
    text = path.read_text()
    assert text.startswith(own)
    return text.removeprefix(own)


ASKING = "You can ask whenever the work needs it"
NO_FORM = "Plain words are enough; no special form is needed."
OPTIONAL = "you may add a block"


@pytest.mark.spec("DEC-04")
@pytest.mark.parametrize("skill", ["answer", "papers", "plain"])
@both_profiles
async def test_interactive_patch_allows_questions_and_demands_no_form(
    place: Place, skill: str, job: Json
) -> None:
    run_id = await place.client.create(skill, script([ASK], [ANSWER]), **job)
    run = await place.client.settled(run_id)
    assert run["status"] == "waiting_user"  # plain words were enough

    patch = " ".join(patch_of(place, run_id, skill).split())
    assert ASKING in patch
    assert NO_FORM in patch
    assert OPTIONAL in patch
    asking = patch[patch.index(ASKING) :]
    assert not re.search(r"\b(must|always|have to|required)\b", asking, re.IGNORECASE)
    assert "YAML, never JSON" in asking


@pytest.mark.spec("DEC-05")
@pytest.mark.parametrize("skill", ["answer", "papers", "plain"])
async def test_auto_patch_keeps_its_rules_and_says_nothing_of_questions(place: Place, skill: str) -> None:
    run_id = await place.client.create(skill, "auto_done")
    await place.client.ended(run_id)

    patch = patch_of(place, run_id, skill)
    assert "Carry the work through to the end in this turn." in patch
    assert "Do not ask anything" in patch
    assert ASKING not in patch
    fields = r"\b(kind|prompt|options|ui_hints|interaction_id|default_decision_policy)\b|ASK_USER"
    assert not re.search(fields, patch, re.IGNORECASE)


@pytest.mark.spec("DEC-06")
@pytest.mark.parametrize(
    ("policy", "shown"),
    [({"default_decision_policy": "prefer_the_cheapest"}, "prefer_the_cheapest"), ({}, "engine_judgement")],
    ids=["given", "by default"],
)
@both_profiles
async def test_automatic_decision_goes_by_the_questions_policy(
    place: Place, notebook: Notebook, policy: Json, shown: str, job: Json
) -> None:
    client = place.client
    question = {"prompt": QUESTION} | policy
    plays = script([{"ask": question}], [notebook.step, {"result": {"answer": "42"}}])
    run_id = await client.create(script=plays, **job, **LENIENT)
    await client.settled(run_id)
    assert (await client.pending(run_id))["default_decision_policy"] == shown

    assert await place.pass_time(1201) == 1
    assert (await client.settled(run_id))["status"] == "succeeded"
    (heard,) = notebook.prompts
    assert shown in heard
    (decided,) = [e for e in await client.events(run_id) if e["type"] == "interaction.auto_decide.timeout"]
    assert decided["data"]["policy"] == shown


@pytest.mark.spec("DEC-06")
async def test_question_in_plain_words_has_a_policy_too(client: Client) -> None:
    run_id = await client.create(script="ask", **INTERACTIVE)
    await client.settled(run_id)
    assert (await client.pending(run_id))["default_decision_policy"] == "engine_judgement"


STRONG = {
    "alone": [{"result": {"answer": "42"}}],
    "after a question": [ASK, {"result": {"answer": "42"}}],
    "before a question": [{"result": {"answer": "42"}}, ASK],
    "beside an ask block": [{"ask": {"prompt": QUESTION}}, {"result": {"answer": "42"}}],
}


@pytest.mark.spec("DEC-07")
@pytest.mark.parametrize("turn", STRONG.values(), ids=STRONG.keys())
@both_profiles
async def test_marker_completes_and_nobody_is_asked(client: Client, turn: list[Json], job: Json) -> None:
    run_id = await client.create(script=script(turn), **job)

    assert (await client.settled(run_id))["status"] == "succeeded"
    assert await client.result(run_id) == {"answer": "42"}
    assert states(await client.events(run_id)) == STRAIGHT
    assert await client.history(run_id) == []


@pytest.mark.spec("DEC-07")
async def test_marker_on_the_way_to_failure_asks_nobody_either(client: Client) -> None:
    run_id = await client.create(script=script([ASK, {"result": {"answer": 7}}]), **INTERACTIVE)
    assert (await client.settled(run_id))["error"]["code"] == "OUTPUT_INVALID"
    assert await client.history(run_id) == []


@pytest.mark.spec("DEC-08")
@pytest.mark.parametrize("fenced", [False, True], ids=["whole message", "fenced"])
@both_profiles
async def test_valid_output_completes_with_a_warning(client: Client, fenced: bool, job: Json) -> None:
    soft = {"result": {"answer": "42"}, "done": False, "fenced": fenced}
    run_id = await client.create(script=script([ASK, soft]), **job)

    run = await client.settled(run_id)
    assert (run["status"], [each["code"] for each in run["warnings"]]) == ("succeeded", [SOFT])
    assert states(await client.events(run_id)) == STRAIGHT
    assert await client.history(run_id) == []


@pytest.mark.spec("DEC-09")
@pytest.mark.parametrize(
    ("last", "code"),
    [
        ([ASK], EXCEEDED),
        ([{"ask": {"prompt": QUESTION}}], EXCEEDED),
        ([{"result": {"answer": 7}, "done": False}], EXCEEDED),
        ([{"result": {"answer": 7}}], "OUTPUT_INVALID"),
        ([{"result": {"answer": "42"}, "done": False}], None),
        ([{"result": {"answer": "42"}}], None),
    ],
    ids=["words", "ask block", "invalid", "marker, invalid", "valid", "marker, valid"],
)
@both_profiles
async def test_last_allowed_turn_ends_the_run_one_way_or_the_other(
    client: Client, last: list[Json], code: str | None, job: Json
) -> None:
    run_id = await client.create("limited", script([ASK], last), **job)
    await client.settled(run_id)
    await client.reply(run_id, "blue")

    run = await client.settled(run_id)
    assert (run["attempt_number"], run["max_attempt"]) == (2, 2)
    assert run["status"] == ("failed" if code else "succeeded")
    assert (run["error"] and run["error"]["code"]) == code
    assert len(await client.history(run_id)) == 1
