"""The example skills, each played through a real service on the demo engine, as a newcomer would."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from jsonschema_rs import Draft202012Validator

from tests.harness import Client, Json, Place, opened
from turnkeeper import engines
from turnkeeper.skills.lint import lint

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
AUTO: Json = {"execution_mode": "auto"}
RESUMABLE: Json = {"execution_mode": "interactive", "interactive_profile": "resumable"}
STICKY: Json = {"execution_mode": "interactive", "interactive_profile": "sticky_process"}

in_every_mode = pytest.mark.parametrize(
    "mode", [AUTO, RESUMABLE, STICKY], ids=["auto", "resumable", "sticky"]
)
in_conversation = pytest.mark.parametrize("mode", [RESUMABLE, STICKY], ids=["resumable", "sticky"])

REPORT = "# Third quarter\n\nSales fell by 3.8 %.\nWhy, the board will hear in May.\n"
SUMMARY = """\
# Summary of report.md

The document begins with “Third quarter”. The demo engine counts words and does not understand them: a real engine \
writes the {length} summary for {audience} here.

## Key points

- It has 15 words in 4 lines.

## Open

- What the document says.
"""


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    data_dir = tmp_path_factory.mktemp("service") / "data"
    async with opened(data_dir, skills_dir=(EXAMPLES,), slots=3) as place:
        yield place


@pytest.fixture(scope="module")
def client(place: Place) -> Client:
    return place.client


async def asked(client: Client, run_id: str) -> Json:
    run = await client.settled(run_id)
    assert run["status"] == "waiting_user", run
    return await client.pending(run_id)


async def finished(client: Client, run_id: str) -> Json:
    """The result of a run that succeeded without a warning, checked against the schema that the API shows."""
    run = await client.settled(run_id)
    assert (run["status"], run["warnings"]) == ("succeeded", []), run
    result = await client.result(run_id)
    schemas = (await client.http.get(f"/v1/skills/{run['skill_id']}/schemas")).json()
    assert not list(Draft202012Validator(schemas["output"]).iter_errors(result))
    return result


def options(question: Json) -> Sequence[str]:
    return [option["value"] for option in question["options"]]


async def test_every_sample_is_offered_without_complaint(client: Client) -> None:
    skills = {skill["id"]: skill for skill in (await client.http.get("/v1/skills")).json()["skills"]}
    assert skills.keys() == {root.name for root in EXAMPLES.iterdir()}
    for skill in skills.values():
        assert "demo" in skill["engines"]
        assert not skill.get("problems")
        assert not skill["warnings"]


@pytest.mark.parametrize("root", sorted(EXAMPLES.iterdir()), ids=lambda root: root.name)
def test_the_linter_has_nothing_to_say(root: Path) -> None:
    assert lint(root, engines.names()) == []


# interview


@in_conversation
async def test_interview(client: Client, mode: Json) -> None:
    run_id = await client.create("interview", input={"topic": "the alarm clock"}, **mode)
    first = await asked(client, run_id)
    assert first["kind"] == "open_text"
    assert first["prompt"].endswith("What is the alarm clock, in one sentence?")
    await client.reply(run_id, "It glows.")
    assert (await asked(client, run_id))["kind"] == "open_text"
    await client.reply(run_id, "couples.")
    third = await asked(client, run_id)
    assert (third["kind"], third["source"], len(third["options"])) == ("choose_one", "ask_user", 2)
    await client.reply(run_id, options(third)[1])
    assert await finished(client, run_id) == {
        "project": "It glows.",
        "audience": "couples.",
        "success": "it saves an hour a day",
        "brief": "Project: It glows. – For: couples. – Success: it saves an hour a day",
    }


async def test_interview_without_a_topic(client: Client) -> None:
    run_id = await client.create("interview", **RESUMABLE)
    assert (await asked(client, run_id))["prompt"].endswith("What is the project, in one sentence?")


# meeting-notes


@in_every_mode
async def test_meeting_notes(client: Client, mode: Json) -> None:
    run_id = await client.create("meeting-notes", input={"notes": "We ship on Friday."}, **mode)
    assert await finished(client, run_id) == {
        "title": "Meeting",
        "decisions": ["We ship on Friday."],
        "actions": [{"what": "Send these notes around", "owner": "nobody yet"}],
    }


# document-summary


def zipped(name: str, text: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(name, text)
    return data.getvalue()


async def waiting_for_upload(client: Client, **body: Json) -> str:
    run_id = await client.create("document-summary", **body)
    run = await client.get(run_id)
    assert (run["status"], run["waiting_for"]) == ("queued", "upload")
    return run_id


async def upload(client: Client, run_id: str, key: str, name: str, data: bytes) -> None:
    answer = await client.http.post(f"/v1/jobs/{run_id}/upload", files={key: (name, data)})
    assert answer.status_code == 200, answer.text


@in_every_mode
async def test_document_summary(client: Client, mode: Json) -> None:
    run_id = await waiting_for_upload(client, **mode)
    await upload(client, run_id, "document", "report.md", REPORT.encode())
    result = await finished(client, run_id)
    assert result["title"] == "Summary of report.md"
    assert result["key_points"] == ["It has 15 words in 4 lines."]
    listed = (await client.http.get(f"/v1/jobs/{run_id}/artifacts")).json()["artifacts"]
    text = SUMMARY.format(length="medium", audience="a colleague who has not read it")
    size = len(text.encode())
    found = {"path": "summary.md", "kind": "file", "target": None}
    assert listed == [{**found, "size": size, "mime": "text/markdown", "role": "summary"}]
    file = await client.http.get(f"/v1/jobs/{run_id}/artifacts/summary.md")
    assert file.text == text


async def test_document_summary_for_somebody(client: Client) -> None:
    body = {"input": {"audience": "the board"}, "parameter": {"length": "short"}}
    run_id = await waiting_for_upload(client, **body)
    await upload(client, run_id, "file", "upload.zip", zipped("document.md", REPORT))
    result = await finished(client, run_id)
    assert result["title"] == "Summary of document.md"
    assert result["summary"].endswith("the short summary for the board here.")


async def test_document_summary_wants_a_known_length(client: Client) -> None:
    answer = await client.post_job("document-summary", parameter={"length": "endless"})
    assert (answer.status_code, answer.json()["code"]) == (400, "INPUT_INVALID")


# trip-plan


@in_conversation
async def test_trip_plan(client: Client, mode: Json) -> None:
    run_id = await client.create("trip-plan", input={"destination": "Riga"}, **mode)
    choice = await asked(client, run_id)
    assert (choice["kind"], choice["source"]) == ("choose_one", "ask_user")
    assert choice["prompt"] == "A weekend in Riga for two adults: how should it feel?"
    assert options(choice) == ["slow", "full", "outdoors"]
    assert choice["default_decision_policy"] == "Take the slow one."
    await client.reply(run_id, "outdoors")
    draft = await asked(client, run_id)
    assert (draft["kind"], options(draft)) == ("confirm", ["yes", "no"])
    assert draft["prompt"].startswith("Here is the draft for Riga (outdoors).\n\nSaturday: ")
    await client.reply(run_id, "yes")
    plan = await finished(client, run_id)
    assert (plan["destination"], plan["pace"]) == ("Riga", "outdoors")
    assert [day["day"] for day in plan["days"]] == ["Saturday", "Sunday"]


async def test_trip_plan_takes_other_words(client: Client) -> None:
    run_id = await client.create("trip-plan", input={"destination": "Riga"}, **RESUMABLE)
    for reply in ("no museums, please", "as it is, but later on Sunday"):
        await asked(client, run_id)
        await client.reply(run_id, reply)
    plan = await finished(client, run_id)
    assert plan["pace"] == "no museums, please"
    assert "as it is, but later on Sunday" in plan["to_check"][1]


@pytest.mark.parametrize("skill", ["interview", "trip-plan"])
async def test_a_conversation_needs_a_person(client: Client, skill: str) -> None:
    answer = await client.post_job(
        skill, input={"destination": "Riga"} if skill == "trip-plan" else {}, **AUTO
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "SKILL_EXECUTION_MODE_UNSUPPORTED")
