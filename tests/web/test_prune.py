"""Removal by the API: by age, size and state; what lives stays, what is gone is not there for anybody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, Json, Place, opened
from tests.spec.scripts import ASK, STICKY, Latch, script
from tests.web.problems import assert_problem
from tests.web.requests import DONE, waiting
from tests.web.sse import connected
from turnkeeper.core.errors import Code
from turnkeeper.runtime.audit import judge_again, why_not

LEAVES = [{"write_file": {"path": "report.txt", "text": "words " * 2000}}, DONE]
DAY = 24 * 3600


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Of its own: what one test removes, another would miss."""
    async with opened(tmp_path / "data", slots=3) as place:
        yield place


@pytest.fixture
def client(place: Place) -> Client:
    return place.client


async def prune(client: Client, **body: Any) -> Json:
    answer = await client.http.post("/v1/prune", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def ended(client: Client, *steps: Json) -> str:
    run_id = await client.create(script=script(list(steps or LEAVES)))
    await client.ended(run_id)
    return run_id


def folder(place: Place, run_id: str) -> Path:
    return place.house.stage.folder(run_id).root


def picture(place: Place) -> set[str]:
    return {str(path) for path in (place.settings.data_dir / "runs").rglob("*")}


async def left(client: Client) -> list[str]:
    return [run["run_id"] for run in reversed(await client.runs())]


async def test_by_age_from_the_end_of_the_run(place: Place, client: Client) -> None:
    old = await ended(client)
    place.clock.advance(10 * DAY)
    young = await ended(client)
    place.clock.advance(DAY)
    before = picture(place)
    would = await prune(client, older_than_sec=5 * DAY, dry_run=True)
    assert (would["dry_run"], would["only"], would["count"]) == (True, "runs", 1)
    (found,) = would["runs"]
    assert (found["run_id"], found["status"], found["skill_id"]) == (old, "succeeded", "answer")
    assert found["since"] == (await client.get(old))["finished_at"]
    assert found["bytes"] == would["bytes"]["total"] > 0
    assert all(would["bytes"][kind] > 0 for kind in ("homes", "logs", "files"))
    assert (picture(place), await left(client)) == (before, [old, young])

    was = await prune(client, older_than_sec=5 * DAY)
    assert was == would | {"dry_run": False}
    assert await left(client) == [young]
    assert not folder(place, old).exists()
    assert await place.house.store.removals() == []
    assert (await prune(client, older_than_sec=5 * DAY))["count"] == 0


async def test_by_size_the_oldest_go_until_the_rest_fits(place: Place, client: Client) -> None:
    runs = [await ended(client) for _ in range(4)]
    sizes = {
        each["run_id"]: each["bytes"]
        for each in (await prune(client, older_than_sec=0, dry_run=True))["runs"]
    }
    assert list(sizes) == runs
    keep = sum(sizes[run_id] for run_id in runs[2:])
    found = await prune(client, keep_bytes=keep)
    assert [each["run_id"] for each in found["runs"]] == runs[:2]
    assert found["remaining_bytes"] == keep
    assert await left(client) == runs[2:]
    assert (await prune(client, keep_bytes=keep))["count"] == 0
    both = await prune(client, keep_bytes=keep, older_than_sec=0, dry_run=True)
    assert both["count"] == 2, "with both, both hold"


async def test_by_state(place: Place, client: Client) -> None:
    good, bad = await ended(client), await ended(client, {"exit": 7})
    canceled = await waiting(client)
    await client.cancel(canceled)
    assert (await client.get(bad))["status"] == "failed"
    found = await prune(client, older_than_sec=0, status=["failed", "canceled", "failed"])
    assert {each["run_id"] for each in found["runs"]} == {bad, canceled}
    assert await left(client) == [good]


async def test_what_lives_stays_and_what_waits_unless_told(
    place: Place, client: Client, latch: Latch
) -> None:
    asking = await waiting(client, [DONE])
    resident = await client.create(script=script([ASK], [DONE]), **STICKY)
    await client.settled(resident)
    working = [await client.create(script=script([*latch.steps, DONE])) for _ in range(2)]
    await latch.reached()
    queued, held = await client.create(script="done"), await client.create("filed", input={"title": "Bees"})
    alive = sorted([asking, resident, *working, queued, held])
    assert (await prune(client, older_than_sec=0))["count"] == 0
    assert (await prune(client, keep_bytes=0))["count"] == 0
    assert sorted(await left(client)) == alive
    every = ["succeeded", "failed", "canceled", "waiting_user"]
    found = await prune(client, older_than_sec=0, status=every)
    assert [each["run_id"] for each in found["runs"]] == [asking], "one with a process is not at rest"
    assert found["runs"][0]["status"] == "waiting_user"
    latch.open()
    for run_id in (*working, queued):
        assert (await client.ended(run_id))["status"] == "succeeded"
    await client.reply(resident, "blue")
    await client.cancel(held)


async def test_a_wait_counts_from_its_question(place: Place, client: Client) -> None:
    run_id = await waiting(client, [ASK])
    place.clock.advance(10 * DAY)
    await client.reply(run_id, "blue")
    await client.settled(run_id)
    place.clock.advance(DAY)
    told = {"status": ["waiting_user"]}
    assert (await prune(client, older_than_sec=2 * DAY, **told))["count"] == 0
    assert (await prune(client, older_than_sec=DAY, **told))["count"] == 1


async def test_who_follows_a_run_that_is_removed_is_let_go(place: Place, client: Client) -> None:
    run_id = await waiting(client)
    async with connected(client, run_id) as frames:
        assert (await anext(frames)).event == "snapshot"
        await prune(client, older_than_sec=0, status=["waiting_user"])
        async with asyncio.timeout(30):
            rest = [frame.event async for frame in frames]
    assert "end" not in rest
    for path in ("", "/events", "/events/history", "/interaction/pending", "/artifacts", "/logs", "/request"):
        answer = await client.http.get(f"/v1/jobs/{run_id}{path}")
        assert_problem(answer, 404, Code.RUN_NOT_FOUND)
    assert_problem(await client.post_reply(run_id, 1, "blue"), 404, Code.RUN_NOT_FOUND)
    assert_problem(await client.http.post(f"/v1/jobs/{run_id}/cancel"), 404, Code.RUN_NOT_FOUND)


@pytest.mark.parametrize("part", ["homes", "logs"])
async def test_only_a_part_and_the_record_stays(place: Place, client: Client, part: str) -> None:
    run_id, asking = await ended(client), await waiting(client)
    before = await client.get(run_id), await client.result(run_id), await client.events(run_id)
    name = {"homes": "home", "logs": "raw"}[part]
    found = await prune(client, older_than_sec=0, only=part)
    assert (found["only"], found["count"]) == (part, 1)
    assert found["bytes"] == dict.fromkeys(("homes", "logs", "files"), 0) | {
        part: found["bytes"]["total"],
        "total": found["bytes"]["total"],
    }
    assert not (folder(place, run_id) / name).exists()
    assert (folder(place, asking) / name).exists()
    assert (await client.get(run_id), await client.result(run_id), await client.events(run_id)) == before
    artifacts = (await client.http.get(f"/v1/jobs/{run_id}/artifacts")).json()["artifacts"]
    assert [each["path"] for each in artifacts] == ["report.txt"]
    assert (await prune(client, older_than_sec=0, only=part))["count"] == 0, "once is enough"
    run, (attempt,) = await place.house.store.run(run_id), await place.house.store.attempts(run_id)
    assert run is not None
    opinion = judge_again(place.house.stage, run, attempt, ())
    if part == "homes":
        assert opinion is not None
        assert opinion.agrees
    else:
        assert opinion is None
        assert why_not(place.house.stage, run, attempt) == (
            "its raw log was deleted, so it can no longer be judged"
        )
        assert (await client.http.get(f"/v1/jobs/{run_id}/logs")).json()["logs"] == []
        gone = await client.http.get(f"/v1/jobs/{run_id}/logs/1/1/stdout")
        assert_problem(gone, 404, Code.FILE_NOT_FOUND)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"dry_run": True},
        {"older_than_sec": None},
        {"older_than_sec": -1},
        {"older_than_sec": "30d"},
        {"keep_bytes": True},
        {"keep_bytes": 0.5},
        {"older_than_sec": 0, "status": []},
        {"older_than_sec": 0, "status": ["running"]},
        {"older_than_sec": 0, "status": ["queued"]},
        {"older_than_sec": 0, "only": "workspaces"},
        {"older_than_sec": 0, "only": "homes", "status": ["waiting_user"]},
        {"older_than_sec": 0, "dry_run": 1},
    ],
)
async def test_what_is_not_understood_removes_nothing(place: Place, client: Client, body: Json) -> None:
    assert_problem(await client.http.post("/v1/prune", json=body), 400, Code.INVALID_REQUEST)


async def test_the_same_job_again_after_its_run_was_removed(client: Client) -> None:
    job = {"skill_id": "answer", "engine": "demo", "parameter": {"demo_script": "done"}}
    key = {"Idempotency-Key": "order-1"}
    first = (await client.http.post("/v1/jobs", json=job, headers=key)).json()["run_id"]
    await client.ended(first)
    await prune(client, older_than_sec=0)
    second = (await client.http.post("/v1/jobs", json=job, headers=key)).json()["run_id"]
    assert second != first
    assert (await client.ended(second))["status"] == "succeeded"
