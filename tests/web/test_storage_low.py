"""A disk that is almost full: no new work, while everything that was accepted goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness import Client, Json, Place, opened
from tests.skills.archives import zipped
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, script
from tests.web.problems import assert_problem
from tests.web.test_service import gauges, status
from turnkeeper.core.errors import Code, StorageLow, StorageUnavailable
from turnkeeper.runtime.disk import MIB, Disk, Space

FULL = 1_000_000_000
"""MiB that no disk has: to the service every disk is almost full."""
KEY = {"Idempotency-Key": "once"}
JOB: Json = {"skill_id": "filed", "engine": "demo", "input": {"title": "Bees"}}


async def accepted(client: Client) -> tuple[str, str, str]:
    """While there was room: two runs that wait for a person, one that waits for its files."""
    first, second = [await client.create("answer", script([ASK], [ANSWER]), **INTERACTIVE) for _ in range(2)]
    for run_id in (first, second):
        assert (await client.settled(run_id))["status"] == "waiting_user"
    held = await client.http.post("/v1/jobs", json=JOB, headers=KEY)
    return first, second, str(held.json()["run_id"])


def files_of(place: Place) -> set[Path]:
    return set(place.settings.data_dir.rglob("*"))


@pytest.mark.failure("V03")
async def test_new_work_is_refused_and_what_was_accepted_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as place:
        first, second, held = await accepted(place.client)
    async with opened(tmp_path / "data", min_free_mb=FULL) as place:
        client, before = place.client, files_of(place)
        paper, skill = zipped({"document.txt": b"Bees."}), zipped({"new/SKILL.md": b"Do it."})
        for answer in (
            await client.post_job("answer", "done"),
            await client.http.post(f"/v1/jobs/{held}/upload", files={"file": ("a.zip", paper)}),
            await client.http.post("/v1/skills", files={"file": ("a.zip", skill)}),
        ):
            problem = assert_problem(answer, 507, Code.STORAGE_LOW)
            assert f"TURNKEEPER_MIN_FREE_MB={FULL}" in problem["detail"]
            assert "turnkeeper prune" in problem["detail"]
            assert int(answer.headers["retry-after"]) > 0
        assert files_of(place) == before
        assert {run["run_id"] for run in await client.runs()} == {first, second, held}
        assert (await client.get(held))["waiting_for"] == "upload"

        again = await client.http.post("/v1/jobs", json=JOB, headers=KEY)
        assert (again.status_code, again.json()["run_id"]) == (200, held), "it was accepted before"
        await client.reply(first, "blue")
        assert (await client.settled(first))["status"] == "succeeded"
        assert await client.result(first) == {"answer": "blue"}
        for run_id in (second, held):
            await client.cancel(run_id)
            assert (await client.ended(run_id))["status"] == "canceled"


async def test_what_is_wrong_with_a_job_is_said_first(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", min_free_mb=FULL) as place:
        assert_problem(await place.client.post_job("no-such-skill"), 404, Code.SKILL_NOT_FOUND)


async def test_it_is_shown_wherever_an_operator_looks(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", min_free_mb=FULL) as place:
        assert (await place.client.http.get("/readyz")).status_code == 200
        told, metrics = (await status(place.client))["storage"], await gauges(place.client)
        assert (told["low"], told["min_free_bytes"]) == (True, FULL * MIB)
        assert 0 < told["free_bytes"] < FULL * MIB
        assert metrics["turnkeeper_storage_low"] == 1
        assert 0 < metrics["turnkeeper_storage_free_bytes"] < FULL * MIB


async def test_nothing_is_refused_where_there_is_room_or_no_limit(tmp_path: Path) -> None:
    for limit in (0, 1):
        async with opened(tmp_path / str(limit), min_free_mb=limit) as place:
            run_id = await place.client.create("answer", "done")
            assert (await place.client.settled(run_id))["status"] == "succeeded"
            assert (await gauges(place.client))["turnkeeper_storage_low"] == 0


@pytest.mark.parametrize(
    ("space", "short_of"),
    [
        (Space(100 * MIB, 1600), None),
        (Space(100 * MIB - 1, 10**6), "100 MiB are free"),
        (Space(0, 10**6), "0 MiB are free"),
        (Space(10**12, 1599), "1599 files can still be made"),
        (Space(10**12, 0), "0 files can still be made"),
        (Space(10**12, None), None),
    ],
)
def test_bytes_and_files_both_count(space: Space, short_of: str | None) -> None:
    found = Disk(Path("/data"), 100).shortage(space)
    assert (found or "").startswith(short_of or "")
    assert (found is None) == (short_of is None)


def test_it_asks_the_disk_of_the_data(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    assert Disk(tmp_path, 1).space().free == pytest.approx(found.f_bavail * found.f_frsize, rel=0.05)
    with pytest.raises(StorageLow, match="no new work"):
        Disk(tmp_path, FULL).require_room()
    Disk(tmp_path / "gone", 0).require_room()
    with pytest.raises(StorageUnavailable, match="No such file"):
        Disk(tmp_path / "gone", 1).require_room()
