"""One turn of an engine: what its words prove, what an ask block may add, and when the turn completes the run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.fakes.clis import each_engine, engaged, printed, start, warned
from tests.fakes.scripted_cli import words as played
from tests.harness import Client, Json, Place, states
from tests.spec.scripts import ANSWER, INTERACTIVE, QUESTION, script
from turnkeeper.runtime.audit import judge_again

SOFT = "INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER"
AUTO: Json = {"execution_mode": "auto"}
DONE = '{"__SKILL_DONE__": true, "answer": "42"}'


@pytest.fixture(scope="module")
async def clis(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """A service whose engines are scripted CLIs."""
    async with engaged(tmp_path_factory.mktemp("clis") / "data") as place:
        yield place


# ask_user


@pytest.mark.spec("TURN-01")
@each_engine
async def test_ask_block_enriches_the_question(clis: Place, engine: str) -> None:
    client = clis.client
    enriched = await start(clis, engine, "[[ask_block]]", **INTERACTIVE)
    plain = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    for run_id in (enriched, plain):  # the block is not what makes a run wait
        assert (await client.settled(run_id))["status"] == "waiting_user"

    pending = await client.pending(enriched)
    assert [option["value"] for option in pending["options"]] == ["blue", "green"]
    assert pending["ui_hints"] == {"widget": "swatches"}
    assert pending["context"] == "The banner is on a white page."
    bare = await client.pending(plain)
    assert bare["prompt"] == pending["prompt"] == played.QUESTION
    assert not {"options", "ui_hints", "context"} & bare.keys()


BLOCK = "<ASK_USER_YAML>\ninteraction_id: 1\nprompt: Which?\noptions: [blue, green]\n</ASK_USER_YAML>"
OUTWEIGHED = {
    "marker in the same message": ([{"say": f"{BLOCK}\n\n{DONE}"}], INTERACTIVE, "succeeded"),
    "marker in an earlier message": ([{"say": DONE}, {"say": BLOCK}], INTERACTIVE, "succeeded"),
    "marker and invalid output": (
        [{"say": f'{BLOCK}\n\n{{"__SKILL_DONE__": true}}'}],
        INTERACTIVE,
        "failed",
    ),
    "failed engine": ([{"say": BLOCK}, {"exit": 7}], INTERACTIVE, "failed"),
    "auto mode": ([{"say": BLOCK}], AUTO, "failed"),
}


@pytest.mark.spec("TURN-01")
@pytest.mark.parametrize(("turn", "job", "status"), OUTWEIGHED.values(), ids=OUTWEIGHED.keys())
async def test_ask_block_alone_decides_nothing(
    client: Client, turn: list[Json], job: Json, status: str
) -> None:
    run_id = await client.create(script=script(turn), **job)
    assert (await client.settled(run_id))["status"] == status
    assert await client.history(run_id) == []


HIDDEN = {
    "JSON in the block": 'context: {"answer": "42"}',
    "fenced JSON in the block": 'context: |\n  ```json\n  {"answer": "42"}\n  ```',
    "options like the result": 'options: [{"label": "Blue", "value": {"answer": "42"}}]',
}
FORMS = {
    "tagged": "<ASK_USER_YAML>\n{}\n</ASK_USER_YAML>",
    "fenced": "```ask_user_yaml\n{}\n```",
}


@pytest.mark.spec("TURN-02")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("field", HIDDEN.values(), ids=HIDDEN.keys())
async def test_what_stands_in_an_ask_block_is_never_the_result(client: Client, form: str, field: str) -> None:
    if "```json" in field and form.startswith("```"):
        form = form.replace("```", "````")
    says = {"say": f"{QUESTION}\n\n" + form.replace("{}", f"interaction_id: 1\nprompt: Which?\n{field}")}
    run_id = await client.create(script=script([says], [ANSWER]), **INTERACTIVE)
    in_auto_mode = await client.create(script=script([says]), **AUTO)

    assert (await client.settled(run_id))["status"] == "waiting_user"
    assert (await client.pending(run_id))["source"] == "ask_user"
    run = await client.settled(in_auto_mode)
    assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")
    await client.reply(run_id, "blue")
    await client.settled(run_id)
    assert await client.result(run_id) == {"answer": "blue"}


@pytest.mark.spec("TURN-02")
async def test_the_form_that_agents_are_told_to_use_is_not_json(place: Place) -> None:
    run_id = await place.client.create(script="ask", **INTERACTIVE)
    await place.client.settled(run_id)
    (path,) = (place.settings.data_dir / "runs" / run_id / "home").rglob("SKILL.md")

    text = path.read_text()
    example = text[text.index("<ASK_USER_YAML>") : text.index("</ASK_USER_YAML>")]
    body = example.removeprefix("<ASK_USER_YAML>").strip()
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(body)
    # And it is one that we understand: an agent that copies it asks a real question.
    says = {"say": f"{QUESTION}\n{example}</ASK_USER_YAML>"}
    copied = await place.client.create(script=script([says], [ANSWER]), **INTERACTIVE)
    assert (await place.client.settled(copied))["warnings"] == []
    assert (await place.client.pending(copied))["source"] == "ask_user"


INCOMPLETE = {
    "no interaction_id": "prompt: Which?\noptions: [blue]",
    "no prompt": "interaction_id: 1\noptions: [blue]",
    "prompt of another type": "interaction_id: 1\nprompt: [Which?]\noptions: [blue]",
    "interaction_id of another type": "interaction_id: [1]\nprompt: Which?\noptions: [blue]",
    "options of another type": "interaction_id: 1\nprompt: Which?\noptions: blue",
    "hints of another type": "interaction_id: 1\nprompt: Which?\noptions: [blue]\nui_hints: [radio]",
    "kind of another type": "interaction_id: 1\nprompt: Which?\noptions: [blue]\nkind: 7",
    "no mapping": "Which colour, blue or green?",
    "no YAML": "interaction_id: 1\nprompt: 'Which\noptions: [blue",
}


@pytest.mark.spec("TURN-03")
@pytest.mark.parametrize("body", INCOMPLETE.values(), ids=INCOMPLETE.keys())
async def test_incomplete_ask_block_is_ignored_and_the_run_waits(client: Client, body: str) -> None:
    says = f"{QUESTION}\n\n<ASK_USER_YAML>\n{body}\n</ASK_USER_YAML>"
    run_id = await client.create(script=script([{"say": says}], [ANSWER]), **INTERACTIVE)

    run = await client.settled(run_id)
    assert (run["status"], run["error"], warned(run)) == ("waiting_user", None, ["ASK_BLOCK_INVALID"])
    pending = await client.pending(run_id)
    assert (pending["interaction_id"], pending["kind"], pending["source"]) == (1, "open_text", "backend")
    assert pending["prompt"] == QUESTION
    assert not {"options", "ui_hints", "context"} & pending.keys()
    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"


@pytest.mark.spec("TURN-03")
@each_engine
async def test_incomplete_ask_block_of_any_engine_is_ignored(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[ask_broken]]", **INTERACTIVE)
    run = await clis.client.settled(run_id)
    assert (run["status"], warned(run)) == ("waiting_user", ["ASK_BLOCK_INVALID"])
    assert (await clis.client.pending(run_id))["prompt"] == played.QUESTION


# completion


@pytest.mark.spec("TURN-12")
@each_engine
@pytest.mark.parametrize("turn", ["[[done]]", "[[note]] [[tool]] [[done]]"], ids=["at once", "after a tool"])
async def test_marker_and_valid_output_end_the_run(clis: Place, engine: str, turn: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, turn, **INTERACTIVE)

    run = await client.settled(run_id)
    assert (run["status"], run["warnings"]) == ("succeeded", [])
    assert await client.result(run_id) == {"answer": "42"}
    *_, completed = await client.events(run_id)
    assert completed["data"] == {"state": "succeeded", "reason_code": "DONE_MARKER", "warnings": []}


@pytest.mark.spec("TURN-12")
@each_engine
async def test_marker_brings_the_final_validation(clis: Place, engine: str) -> None:
    without_report = await start(clis, engine, "[[done]]", skill="papers", **INTERACTIVE)
    with_report = await start(clis, engine, "[[file:report.md]] [[done]]", skill="papers", **INTERACTIVE)

    failed = await clis.client.settled(without_report)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "OUTPUT_INVALID")
    assert "report.md" in failed["error"]["message"]
    assert (await clis.client.settled(with_report))["status"] == "succeeded"


@pytest.mark.spec("TURN-13")
@pytest.mark.parametrize("engine", ["codex", "gemini", "opencode"])
async def test_marker_escaped_by_the_stream_is_found(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[done]]", **INTERACTIVE)

    run = await clis.client.settled(run_id)
    assert (run["status"], run["warnings"]) == ("succeeded", [])
    raw = await printed(clis, run_id, attempt=1)
    assert r"\"__SKILL_DONE__" in raw
    assert '"__SKILL_DONE__' not in raw.replace(r"\"", "")  # in the bytes every quotation mark is escaped


@pytest.mark.spec("TURN-13")
async def test_marker_in_the_response_of_gemini_is_found(clis: Place) -> None:
    """Not a stream of events, but the one object `{session_id, response, stats}`."""
    run_id = await start(clis, "gemini", "[[response]]", **INTERACTIVE)
    run = await clis.client.settled(run_id)
    assert (run["status"], run["warnings"]) == ("succeeded", [])
    assert await clis.client.result(run_id) == {"answer": "42"}


@pytest.mark.spec("TURN-13")
@each_engine
async def test_marker_escaped_in_the_words_is_found(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[escaped]]", **INTERACTIVE)
    run = await clis.client.settled(run_id)
    assert (run["status"], run["warnings"]) == ("succeeded", [])
    assert await clis.client.result(run_id) == {"answer": "42"}


NOT_THE_ASSISTANT = {
    "tool output": ("[[tool_marker]]", ["codex", "gemini", "opencode"]),
    "tool output that looks like an answer": ("[[tool_forgery]]", ["codex", "gemini", "opencode"]),
    "reasoning": ("[[think]]", ["codex", "opencode"]),
    "the echoed prompt": (DONE, ["gemini"]),
}
"""And the CLIs that print it."""


@pytest.mark.spec("TURN-13")
@pytest.mark.parametrize(
    ("source", "engine"),
    [(source, engine) for source, (_, engines) in NOT_THE_ASSISTANT.items() for engine in engines],
)
async def test_marker_of_anybody_else_proves_nothing(clis: Place, engine: str, source: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, f"{NOT_THE_ASSISTANT[source][0]} [[ask]]")

    run = await client.settled(run_id)
    assert (run["status"], run["attempt_number"]) == ("waiting_user", 2)
    assert (await client.pending(run_id))["prompt"] == played.QUESTION
    assert "__SKILL_DONE__" in await printed(clis, run_id, attempt=2)


VERDICTS = {
    "[[done]]": "succeeded",
    "[[soft]]": "succeeded",
    "[[escaped]]": "succeeded",
    "[[noise]] [[tool]] [[done]]": "succeeded",
    "[[done]] [[exit:7]]": "succeeded",
    "[[ask]]": "waiting_user",
    "[[escaped:2]]": "waiting_user",
    "[[tool_forgery]] [[ask]]": "waiting_user",
    "[[invalid]]": "failed",
    "[[fail:400]]": "failed",
    "[[ask]] [[stop]]": "failed",
    "[[ask]] [[die]]": "failed",
}


@pytest.mark.spec("TURN-13")
@each_engine
async def test_audit_comes_to_the_same_verdicts(clis: Place, engine: str) -> None:
    """Read again from the stored bytes, turn by turn."""
    for words, verdict in VERDICTS.items():
        run_id = await start(clis, engine, words, **INTERACTIVE)
        assert (await clis.client.settled(run_id))["status"] == verdict, words
        run = await clis.house.store.run(run_id)
        assert run is not None
        (attempt,) = await clis.house.store.attempts(run_id)
        opinion = judge_again(clis.house.stage, run, attempt, ())
        assert opinion is not None
        assert opinion.again == opinion.stored, words
        assert opinion.stored["verdict"] == verdict


@pytest.mark.spec("TURN-14")
@each_engine
async def test_valid_output_without_marker_completes_with_a_warning(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "[[tool]] [[soft:blue]]")

    run = await client.settled(run_id)
    assert (run["status"], warned(run)) == ("succeeded", [SOFT])
    assert await client.result(run_id) == {"answer": "blue"}


@pytest.mark.spec("TURN-15")
@each_engine
@pytest.mark.parametrize("turn", ["[[ask]]", "[[loose]]", "[[note]] [[tool]] [[ask]]"])
async def test_turn_without_evidence_waits(clis: Place, engine: str, turn: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, turn, **INTERACTIVE)

    run = await client.settled(run_id)
    assert (run["status"], run["error"]) == ("waiting_user", None)
    assert states(await client.events(run_id)) == ["queued", "running", "waiting_user"]
    await client.reply(run_id, "[[done]]")
    assert (await client.settled(run_id))["status"] == "succeeded"


@pytest.mark.spec("TURN-15")
@each_engine
@pytest.mark.parametrize(
    "turn", ["[[ask]] [[stop]]", "[[ask]] [[die]]", "[[ask]] [[exit:1]]", "[[fail:500]]"]
)
async def test_interrupted_turn_does_not_wait(clis: Place, engine: str, turn: str) -> None:
    run = await clis.client.settled(await start(clis, engine, turn, **INTERACTIVE))
    assert run["status"] == "failed"


@pytest.mark.spec("TURN-16")
@each_engine
async def test_auto_run_needs_no_marker(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[tool]] [[soft]]", **AUTO)

    run = await clis.client.settled(run_id)
    assert (run["status"], run["warnings"]) == ("succeeded", [])
    assert await clis.client.result(run_id) == {"answer": "42"}
    *_, completed = await clis.client.events(run_id)
    assert completed["data"]["reason_code"] == "OUTPUT_VALID"


@pytest.mark.spec("TURN-17")
@each_engine
@pytest.mark.parametrize("job", [AUTO, INTERACTIVE], ids=["auto", "interactive"])
async def test_marker_is_removed_before_validation(clis: Place, engine: str, job: Json) -> None:
    """The skill's schema forbids any field but `answer`."""
    run_id = await start(clis, engine, "[[done]]", **job)
    assert (await clis.client.settled(run_id))["status"] == "succeeded"
    assert await clis.client.result(run_id) == {"answer": "42"}


@pytest.mark.spec("TURN-17")
@pytest.mark.parametrize("job", [AUTO, INTERACTIVE], ids=["auto", "interactive"])
async def test_marker_replaces_no_business_field(client: Client, job: Json) -> None:
    run_id = await client.create(script=script([{"say": '{"__SKILL_DONE__": true}'}]), **job)
    run = await client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")
    assert "answer" in run["error"]["message"]
    assert "__SKILL_DONE__" not in run["error"]["message"]


@pytest.mark.spec("TURN-18")
@each_engine
@pytest.mark.parametrize("turn", ["[[invalid]]", "[[unparsed]]"], ids=["schema", "parsing"])
@pytest.mark.parametrize("first", ["", "[[ask]]"], ids=["first turn", "later turn"])
async def test_marker_with_invalid_output_fails(clis: Place, engine: str, turn: str, first: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, first or turn, **INTERACTIVE)
    if first:
        await client.settled(run_id)
        await client.reply(run_id, turn)

    run = await client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")
    asked = ["waiting_user", "queued", "running"] if first else []
    assert states(await client.events(run_id)) == ["queued", "running", *asked, "failed"]
