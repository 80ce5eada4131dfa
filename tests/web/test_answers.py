"""What is written down without FastAPI's check is what its model describes: every member, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.harness import Client, Json, opened
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, Latch, script
from tests.web.patience import settle
from tests.web.requests import DONE, waiting
from turnkeeper.web import schemas


def members(model: type[BaseModel], value: Any) -> Json:
    """As the model reads it and FastAPI would write it down."""
    return model.model_validate(value, strict=True).model_dump(mode="json", exclude_unset=True)


def assert_as_described(model: type[BaseModel], answer: Json) -> None:
    assert members(model, answer) == answer
    required = {name for name, field in model.model_fields.items() if field.is_required()}
    assert required <= set(answer) <= set(model.model_fields)


@pytest.fixture(scope="module")
async def runs(client: Client) -> dict[str, str]:
    """By what has become of them."""
    failed = await client.create("answer", script([{"exit": 3}]))
    done = await client.create("answer", "auto_done")
    for run_id in (failed, done):
        await client.ended(run_id)
    asked = await waiting(client)
    gone = await waiting(client)
    await client.http.post(f"/v1/jobs/{gone}/cancel")
    await client.ended(gone)
    return {"failed": failed, "succeeded": done, "waiting_user": asked, "canceled": gone}


@pytest.mark.parametrize("state", ["failed", "succeeded", "waiting_user", "canceled"])
async def test_a_run(client: Client, runs: dict[str, str], state: str) -> None:
    run = await client.get(runs[state])
    assert run["status"] == state
    assert_as_described(schemas.RunOut, run)


async def test_runs_that_have_not_ended(tmp_path: Path, latch: Latch) -> None:
    async with opened(tmp_path / "data", slots=1) as place:
        client = place.client
        running = await client.create("answer", script([*latch.steps, DONE]))
        await latch.reached()
        queued = await client.create("answer", script([DONE]))
        for run_id, state in ((running, "running"), (queued, "queued")):
            run = await client.get(run_id)
            assert run["status"] == state
            assert_as_described(schemas.RunOut, run)
        latch.open()
        await settle(client)


async def test_the_list(client: Client, runs: dict[str, str]) -> None:
    listed = (await client.http.get("/v1/jobs", params={"limit": len(runs) - 1})).json()
    assert listed["next_cursor"] is not None
    assert any(run["pending"] for run in listed["jobs"])
    assert_as_described(schemas.RunList, listed)


async def test_a_question_and_none(client: Client, runs: dict[str, str]) -> None:
    for run_id in runs.values():
        answer = (await client.http.get(f"/v1/jobs/{run_id}/interaction/pending")).json()
        assert_as_described(schemas.PendingOut, answer)


async def test_what_a_job_and_a_reply_are_answered_with(client: Client) -> None:
    created = await client.post_job("answer", script([ASK], [ANSWER]), **INTERACTIVE)
    assert_as_described(schemas.Created, created.json())
    assert created.headers["location"] == f"/v1/jobs/{created.json()['run_id']}"
    run_id = created.json()["run_id"]
    await client.settled(run_id)
    assert_as_described(schemas.ReplyOut, (await client.post_reply(run_id, 1, "blue")).json())
    await client.ended(run_id)
