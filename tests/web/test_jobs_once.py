"""A job is accepted once, or not at all: idempotency keys, and a queue that is full."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.harness import Client, opened
from tests.spec.scripts import ANSWER, Latch, script
from tests.web.patience import settle
from tests.web.problems import assert_problem
from tests.web.requests import DONE, JOB, post, waiting
from turnkeeper.core.errors import Code


class TestIdempotency:
    async def test_same_request_gets_the_same_run(self, client: Client) -> None:
        headers = {"Idempotency-Key": "same"}
        first = await post(client, JOB | {"parameter": {"demo_script": "done"}}, **headers)
        run_id = first.json()["run_id"]
        await client.ended(run_id)
        again = await post(client, {"parameter": {"demo_script": "done"}} | JOB, **headers)
        assert again.status_code == 200
        assert again.json() == {
            "request_id": run_id,
            "run_id": run_id,
            "status": "succeeded",
            "cache_hit": False,
        }
        assert again.headers["location"] == first.headers["location"] == f"/v1/jobs/{run_id}"

    async def test_other_request_under_the_same_key_is_refused(self, client: Client) -> None:
        headers = {"Idempotency-Key": "other"}
        assert (await post(client, JOB, **headers)).status_code == 200
        for body in (JOB | {"model": "m"}, JOB | {"input": {"a": 1}}, JOB | {"skill_id": "plain"}):
            problem = assert_problem(await post(client, body, **headers), 409, Code.IDEMPOTENCY_KEY_REUSED)
            assert "'other'" in problem["detail"]

    async def test_refused_request_leaves_its_key_free(self, client: Client) -> None:
        headers = {"Idempotency-Key": "free"}
        assert (await post(client, JOB | {"skill_id": "nobody"}, **headers)).status_code == 404
        assert (await post(client, JOB, **headers)).status_code == 200

    async def test_key_is_kept_for_a_day(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            headers = {"Idempotency-Key": "daily"}
            first = (await post(place.client, JOB, **headers)).json()["run_id"]
            place.clock.advance(23 * 3600)
            assert (await post(place.client, JOB, **headers)).json()["run_id"] == first
            place.clock.advance(2 * 3600)
            assert (await post(place.client, JOB, **headers)).json()["run_id"] != first
            await settle(place.client)

    @pytest.mark.parametrize("key", ["", "x" * 201])
    async def test_key_of_a_wrong_length_is_refused(self, client: Client, key: str) -> None:
        assert_problem(await post(client, JOB, **{"Idempotency-Key": key}), 400, Code.INVALID_REQUEST)

    @pytest.mark.failure("E08")
    async def test_twenty_at_once_make_one_run(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            headers = {"Idempotency-Key": "crowd"}
            answers = await asyncio.gather(*(post(place.client, JOB, **headers) for _ in range(20)))
            assert {answer.status_code for answer in answers} == {200}
            assert len({answer.json()["run_id"] for answer in answers}) == 1
            await settle(place.client)
            listed = (await place.client.http.get("/v1/jobs")).json()["jobs"]
            assert len(listed) == 1


class TestFullQueue:
    async def test_refused_before_anything_is_stored(self, tmp_path: Path) -> None:
        latch = Latch(tmp_path)
        async with opened(tmp_path / "data", slots=1, max_queued=1) as place:
            client = place.client
            asking = await waiting(client, [ANSWER])
            busy = await client.create("answer", script([*latch.steps, DONE]))
            await latch.reached()
            key = {"Idempotency-Key": "first in the queue"}
            queued = (await post(client, JOB, **key)).json()["run_id"]
            folders = sorted(path.name for path in (tmp_path / "data" / "runs").iterdir())

            for _ in range(3):
                answer = await post(client, JOB, **{"Idempotency-Key": "refused"})
                assert_problem(answer, 429, Code.QUEUE_FULL)
                assert int(answer.headers["retry-after"]) > 0
            answer = await post(client, JOB | {"skill_id": "nobody"})
            assert_problem(answer, 429, Code.QUEUE_FULL)  # nothing was looked at
            assert (await post(client, JOB, **key)).json()["run_id"] == queued, "it is known already"
            listed = (await client.http.get("/v1/jobs")).json()["jobs"]
            assert {run["run_id"] for run in listed} == {asking, busy, queued}
            assert sorted(path.name for path in (tmp_path / "data" / "runs").iterdir()) == folders

            receipt = await client.reply(asking, "a reply is never refused")
            assert receipt["status"] == "queued"
            run = await client.get(asking)
            assert (run["waiting_for"], run["queue_position"]) == ("slot", 2)

            latch.open()
            for run_id in (busy, queued, asking):
                await client.ended(run_id)
            assert (await client.result(asking))["answer"] == "a reply is never refused"
            late = await post(client, JOB, **{"Idempotency-Key": "refused"})
            assert late.status_code == 200
            await client.ended(late.json()["run_id"])
