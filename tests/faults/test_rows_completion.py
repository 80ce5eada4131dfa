"""Evidence of completion: what an agent must have said, and where, for a run to be over."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.faults.rows import AUTO, FAILED, INTERACTIVE, SUCCEEDED, WAITING, Row, each, play
from tests.harness import Json, Place, opened

SOFT = ("INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER",)


def says(*texts: str) -> Json:
    return {"turns": [[{"say": text} for text in texts]]}


EVIDENCE = {
    "marker in tool output and reasoning": Row(ids=("C02",), script="tool_echo", status=WAITING),
    "marker only named": Row(ids=("C03",), script="chaos/marker_named", status=WAITING),
    "marker negated in words": Row(
        ids=("C03",),
        script=says('It is not true that "__SKILL_DONE__" holds. Shall I go on?'),
        status=WAITING,
    ),
    "marker with other values": Row(ids=("C04",), script="chaos/marker_values", status=WAITING),
    "marker false": Row(ids=("C04",), script=says('{"__SKILL_DONE__": false, "note": 1}'), status=WAITING),
    "marker in a list": Row(
        ids=("C04",), script=says('["__SKILL_DONE__", true] Shall I go on?'), status=WAITING
    ),
    "marker nested": Row(
        ids=("C04",),
        script="chaos/marker_nested",
        status=FAILED,
        code="OUTPUT_INVALID",
        says=("notes",),
    ),
    "marker in an object of the prose": Row(
        ids=("C04",), script=says('Done. {"__SKILL_DONE__" :\n true, "answer": "42"} Bye.'), status=SUCCEEDED
    ),
    "marker escaped once": Row(ids=("C05",), script="chaos/marker_escaped", status=SUCCEEDED),
    "marker escaped twice": Row(ids=("C05",), script="chaos/marker_escaped_twice", status=WAITING),
    "marker in two deltas": Row(ids=("C06",), script="chaos/marker_in_pieces", status=SUCCEEDED),
    "marker in two messages": Row(ids=("C06",), script="chaos/marker_in_two_messages", status=WAITING),
    "marker before a question": Row(
        ids=("C07",),
        script="chaos/marker_then_question",
        status=SUCCEEDED,
        warned=("MARKER_BEFORE_LAST_MESSAGE",),
    ),
    "marker without valid output": Row(
        ids=("C08",), script="invalid_output", status=FAILED, code="OUTPUT_INVALID", says=("answer",)
    ),
    "valid output without marker": Row(
        ids=("C09",), script=says('{"answer": "42"}'), status=SUCCEEDED, warned=SOFT
    ),
    "an example in a question": Row(ids=("C10",), script="chaos/example_in_a_question", status=WAITING),
    "an example in a question, nobody to ask": Row(
        ids=("C10",), script="chaos/example_in_a_question", status=FAILED, code="OUTPUT_INVALID", job=AUTO
    ),
    "prose and two blocks": Row(ids=("C14",), script="chaos/answer_in_prose", status=SUCCEEDED),
    "nearly JSON": Row(ids=("C14",), script="chaos/answer_not_json", status=FAILED, code="OUTPUT_INVALID"),
    "NaN": Row(
        ids=("C14",),
        script=says('{"__SKILL_DONE__": true, "answer": NaN}'),
        status=FAILED,
        code="OUTPUT_INVALID",
    ),
    "an ask block that looks like an answer": Row(
        ids=("C18",),
        script="chaos/ask_block_as_result",
        status=WAITING,
        says=("Which one?",),
        warned=("ASK_BLOCK_INVALID",),
    ),
    "an ask block that is no YAML": Row(
        ids=("C18",), script="ask_malformed", status=WAITING, warned=("ASK_BLOCK_INVALID",)
    ),
    "an empty message": Row(
        ids=("C19",), script="chaos/empty_message", status=WAITING, warned=("QUESTION_EMPTY",)
    ),
    "no message at all": Row(
        ids=("C19",), script={"turns": [[{"think": "Hm."}]]}, status=WAITING, warned=("QUESTION_EMPTY",)
    ),
}


@each(EVIDENCE)
async def test_what_completes_a_run(place: Place, row: Row) -> None:
    await play(place, row)


LADDER = {
    '{"__SKILL_DONE__": true, "answer": "42"}': "whole_message",
    'It is this:\n\n```json\n{"__SKILL_DONE__": true, "answer": "42"}\n```\n': "fenced_object",
    'It is {"__SKILL_DONE__": true, "answer": "42"}, I think.': "balanced_object",
}


@pytest.mark.failure("C14")
@pytest.mark.parametrize(("text", "rung"), LADDER.items(), ids=LADDER.values())
async def test_where_the_answer_was_found_is_recorded(place: Place, text: str, rung: str) -> None:
    run = await play(place, Row(ids=(), script=says(text), status=SUCCEEDED))
    (attempt,) = await attempts(place, run["run_id"])
    assert attempt["evidence"]["output_rung"] == rung


@pytest.mark.failure("C18", "C19")
@pytest.mark.parametrize("name", ["an ask block that looks like an answer", "an empty message"])
async def test_a_question_of_ours_has_no_options_and_can_be_answered(place: Place, name: str) -> None:
    run_id = (await play(place, EVIDENCE[name]))["run_id"]
    pending = await place.client.pending(run_id)
    assert pending["source"] == "backend"
    assert pending["prompt"].strip()
    assert "options" not in pending
    await place.client.reply(run_id, "blue")
    assert (await place.client.settled(run_id))["status"] == "succeeded"


@pytest.mark.failure("C12", "C13")
@pytest.mark.parametrize(
    ("last", "status", "code"),
    [
        ({"result": {"answer": "42"}}, "succeeded", None),
        ({"say": "And which size?"}, "failed", "INTERACTIVE_MAX_ATTEMPT_EXCEEDED"),
    ],
    ids=["marker", "no evidence"],
)
async def test_the_last_allowed_turn(place: Place, last: Json, status: str, code: str | None) -> None:
    script = {"turns": [[{"say": "Which colour?"}], [last]]}
    run_id = await place.client.create("limited", script, **INTERACTIVE)
    await place.client.settled(run_id)
    await place.client.reply(run_id, "blue")
    run = await place.client.settled(run_id)
    assert (run["status"], run["error"] and run["error"]["code"]) == (status, code)


@pytest.mark.failure("C17")
async def test_a_marker_does_not_outweigh_our_own_limit(place: Place) -> None:
    row = Row(
        ids=(), script="chaos/marker_then_hang", status=FAILED, code="TURN_TIMEOUT", timeouts={"turn_sec": 4}
    )
    run = await play(place, row)
    assert run["candidate_result"] == {"answer": "42"}
    assert (await place.client.http.get(f"/v1/jobs/{run['run_id']}/result")).status_code == 409


async def attempts(place: Place, run_id: str) -> list[Json]:
    return list((await place.client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"])


# Files: only what the run's own turns have left in its workspace

REPORT = {"write_file": {"path": "report.md", "text": "# A report"}}
RESULT = {"result": {"answer": "42"}}


async def report_of_another(place: Place) -> Path:
    other = await place.client.create("papers", {"turns": [[REPORT, RESULT]]})
    assert (await place.client.settled(other))["status"] == "succeeded"
    return place.settings.data_dir / "runs" / other / "workspace" / "report.md"


async def artifacts(place: Place, run_id: str) -> list[str]:
    listed = (await place.client.http.get(f"/v1/jobs/{run_id}/artifacts")).json()["artifacts"]
    return [each["path"] for each in listed if each["kind"] == "file"]


@pytest.mark.failure("C16")
@pytest.mark.parametrize("kind", ["copy", "link", "linked workspace"])
async def test_a_file_from_before_the_run_is_no_result(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path / "data", slots=1) as place:
        theirs = await report_of_another(place)
        busy = await place.client.create(script={"turns": [[{"wait_for": str(tmp_path / "go")}, RESULT]]})
        run_id = await place.client.create("papers", {"turns": [[{"touch": "mine"}, RESULT]]})
        folder = theirs.parents[2] / run_id
        folder.mkdir(exist_ok=True)
        if kind == "linked workspace":
            (folder / "workspace").symlink_to(theirs.parent)
        else:
            (folder / "workspace").mkdir()
            mine = folder / "workspace" / "report.md"
            mine.write_bytes(theirs.read_bytes()) if kind == "copy" else mine.symlink_to(theirs)
        (tmp_path / "go").touch()
        await place.client.settled(busy)

        run = await place.client.settled(run_id)
        assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")
        assert "report.md" in run["error"]["message"]
        assert await artifacts(place, run_id) == []
        assert theirs.read_text() == "# A report"
        assert not (theirs.parent / "mine").exists()
        assert (folder / "workspace" / "mine").exists()


@pytest.mark.failure("C16")
async def test_a_link_to_the_file_of_another_run_is_no_result(place: Place) -> None:
    theirs = await report_of_another(place)
    link = {"link": {"path": "report.md", "to": str(theirs)}}
    run_id = await place.client.create("papers", {"turns": [[link, RESULT]]})
    run = await place.client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")
    assert await artifacts(place, run_id) == []


@pytest.mark.failure("C16")
async def test_words_of_an_earlier_turn_are_no_result(place: Place) -> None:
    script = {"turns": [[{"say": '{"answer": 7}'}], [{"say": '{"__SKILL_DONE__": true}'}]]}
    run_id = await place.client.create(script=script, **INTERACTIVE)
    assert (await place.client.settled(run_id))["status"] == "waiting_user"
    await place.client.reply(run_id, "go on")
    run = await place.client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")


@pytest.mark.failure("C16")
async def test_a_file_of_an_earlier_turn_of_the_run_counts(place: Place) -> None:
    """It is one conversation with one workspace: a person may just have approved of that file."""
    script = {"turns": [[REPORT, {"say": "Is report.md as you want it?"}], [RESULT]]}
    run_id = await place.client.create("papers", script, **INTERACTIVE)
    assert (await place.client.settled(run_id))["status"] == "waiting_user"
    await place.client.reply(run_id, "yes")
    assert (await place.client.settled(run_id))["status"] == "succeeded"
    assert await artifacts(place, run_id) == ["report.md"]


# Schemas


def packed(name: str, schema: Any) -> bytes:
    files = {
        "SKILL.md": f"---\nname: {name}\ndescription: A skill of a test.\n---\nAnswer.\n",
        "assets/runner.json": json.dumps(
            {"id": name, "version": "1.0.0", "schemas": {"output": "assets/output.schema.json"}}
        ),
        "assets/output.schema.json": json.dumps(schema),
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return out.getvalue()


async def install(place: Place, archive: bytes) -> Any:
    return await place.client.http.post(
        "/v1/skills", files={"file": ("skill.zip", archive, "application/zip")}
    )


@pytest.mark.failure("C11")
async def test_a_schema_that_takes_a_placeholder_is_warned_of(place: Place) -> None:
    loose = {"type": "object", "properties": {"answer": {"type": "string"}}}
    installed = await install(place, packed("loose", loose))
    assert installed.status_code in (200, 201), installed.text
    assert "OUTPUT_SCHEMA_TOO_LOOSE" in installed.text
    assert "OUTPUT_SCHEMA_TOO_LOOSE" in (await place.client.http.get("/v1/skills/loose")).text
    # And a placeholder alone is no answer while the agent has not said that it is done.
    run_id = await place.client.create("loose", says("{}"), **INTERACTIVE)
    assert (await place.client.settled(run_id))["status"] == "waiting_user"


@pytest.mark.failure("C15")
async def test_a_schema_that_takes_the_marker_for_its_own_is_refused(place: Place) -> None:
    own = {
        "type": "object",
        "properties": {"__SKILL_DONE__": {"type": "boolean"}},
        "required": ["__SKILL_DONE__"],
    }
    refused = await install(place, packed("own-marker", own))
    assert refused.status_code >= 400
    assert "__SKILL_DONE__" in refused.text
    assert (await place.client.http.get("/v1/skills/own-marker")).status_code == 404
