"""Creating a job: the mode and the engine it may ask for, and what is refused before anything is stored."""

from __future__ import annotations

import httpx
import pytest

from tests.harness import Client, Json, states
from tests.spec.scripts import INTERACTIVE


async def assert_refused(client: Client, answer: httpx.Response, code: str) -> None:
    """A 400 that says why in both places, and leaves nothing behind."""
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["status"], body["code"], body["error"]["code"]) == (400, code, code)
    assert body["error"]["message"] == body["detail"] != ""
    assert (await client.http.get("/v1/jobs")).json() == {"jobs": [], "next_cursor": None}


@pytest.mark.spec("API-01")
async def test_job_without_a_mode_runs_as_auto(client: Client) -> None:
    answer = await client.post_job(script="auto_done")
    assert answer.status_code == 200
    body = answer.json()
    run_id = body["run_id"]
    assert body == {"request_id": run_id, "run_id": run_id, "status": "queued", "cache_hit": False}
    assert answer.headers["location"] == f"/v1/jobs/{run_id}"

    run = await client.settled(run_id)
    assert (run["execution_mode"], run["status"]) == ("auto", "succeeded")
    assert await client.result(run_id) == {"answer": "42"}


@pytest.mark.spec("API-01")
async def test_job_without_a_mode_never_asks(client: Client) -> None:
    run_id = await client.create(script="ask")

    assert (await client.settled(run_id))["status"] == "failed"
    assert states(await client.events(run_id)) == ["queued", "running", "failed"]
    pending = (await client.http.get(f"/v1/jobs/{run_id}/interaction/pending")).json()
    assert (pending["status"], pending["pending"]) == ("failed", None)
    assert await client.history(run_id) == []


@pytest.mark.spec("API-02")
@pytest.mark.parametrize(
    "mode", [INTERACTIVE, {"runtime_options": INTERACTIVE}], ids=["at the top", "in runtime_options"]
)
async def test_job_may_ask_for_interactive(client: Client, mode: Json) -> None:
    answer = await client.post_job(script="ask", **mode)
    assert answer.status_code == 200

    run = await client.settled(answer.json()["run_id"])
    assert (run["execution_mode"], run["status"]) == ("interactive", "waiting_user")


@pytest.mark.spec("API-05")
@pytest.mark.parametrize(
    ("skill", "mode"),
    [
        ("answer", "auto"),
        ("answer", "interactive"),
        ("talk-only", "interactive"),
        ("auto-only", "auto"),
        ("auto-only", None),
    ],
)
async def test_mode_that_the_skill_allows_is_accepted(client: Client, skill: str, mode: str | None) -> None:
    run_id = await client.create(skill, "done", execution_mode=mode)

    run = await client.settled(run_id)
    assert (run["execution_mode"], run["status"]) == (mode or "auto", "succeeded")


@pytest.mark.spec("API-06")
@pytest.mark.parametrize(
    ("skill", "mode"), [("talk-only", "auto"), ("talk-only", None), ("auto-only", "interactive")]
)
async def test_mode_that_the_skill_does_not_allow_is_refused(
    client: Client, skill: str, mode: str | None
) -> None:
    answer = await client.post_job(skill, "done", execution_mode=mode)
    await assert_refused(client, answer, "SKILL_EXECUTION_MODE_UNSUPPORTED")


@pytest.mark.spec("API-12")
@pytest.mark.parametrize("skill", ["answer", "demo-listed", "plain"])
async def test_engine_that_the_skill_allows_is_accepted(client: Client, skill: str) -> None:
    offered = (await client.http.get(f"/v1/skills/{skill}")).json()["engines"]
    assert "demo" in offered

    run = await client.settled(await client.create(skill, "done", engine="demo"))
    assert (run["engine"], run["status"]) == ("demo", "succeeded")


@pytest.mark.spec("API-13")
@pytest.mark.parametrize("mode", ["auto", "interactive"])
async def test_engine_that_the_skill_excludes_is_refused(client: Client, mode: str) -> None:
    assert "demo" not in (await client.http.get("/v1/skills/no-demo")).json()["engines"]

    answer = await client.post_job("no-demo", "done", engine="demo", execution_mode=mode)
    await assert_refused(client, answer, "SKILL_ENGINE_UNSUPPORTED")


@pytest.mark.spec("API-14")
@pytest.mark.parametrize(
    ("skill", "engine"),
    [("codex-only", "demo"), ("demo-withdrawn", "demo"), ("demo-listed", "codex")],
    ids=["not listed", "listed and excluded", "excluded beside another"],
)
async def test_engine_that_the_skill_does_not_list_is_refused(
    client: Client, skill: str, engine: str
) -> None:
    assert engine not in (await client.http.get(f"/v1/skills/{skill}")).json()["engines"]

    answer = await client.post_job(skill, "done", engine=engine)
    await assert_refused(client, answer, "SKILL_ENGINE_UNSUPPORTED")
