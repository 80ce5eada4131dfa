"""The service stops around an upload: the job still waits for its files, or has them whole."""

from __future__ import annotations

import httpx
import pytest

from tests.crash.restarts import RECORD, Daemon
from tests.harness import Json

PLAY: Json = {"turns": [[{"record": RECORD}, {"result": {"answer": "{{input.document}}"}}]]}


async def held(daemon: Daemon) -> str:
    return await daemon.client.create("filed", PLAY, input={"title": "Bees"})


async def upload(daemon: Daemon, run_id: str) -> httpx.Response:
    files = {"document": ("bees.txt", b"All about bees.")}
    return await daemon.client.http.post(f"/v1/jobs/{run_id}/upload", files=files)


@pytest.mark.failure("V01")
async def test_a_held_job_waits_on_with_its_deadline(daemon: Daemon) -> None:
    run_id = await held(daemon)
    before = await daemon.client.get(run_id)
    await daemon.restart()
    assert await daemon.client.get(run_id) == before
    assert (await upload(daemon, run_id)).status_code == 200
    run = await daemon.client.ended(run_id)
    assert run["status"] == "succeeded"
    assert await daemon.client.result(run_id) == {"answer": "uploads/bees.txt"}


@pytest.mark.parametrize("left", ["uploads.new", "workspace/uploads"])
async def test_an_upload_that_was_cut_off_leaves_no_trace(daemon: Daemon, left: str) -> None:
    """Whether it was being checked or already in its place: nobody was told of it, so it does not count."""
    run_id = await held(daemon)
    await daemon.power_cut()
    half = daemon.data_dir / "runs" / run_id / left
    half.mkdir(parents=True)
    (half / "old.txt").write_text("from the upload that was cut off")
    daemon.start()
    assert (await daemon.client.get(run_id))["waiting_for"] == "upload"
    assert (await upload(daemon, run_id)).status_code == 200
    assert (await daemon.client.ended(run_id))["status"] == "succeeded"
    assert [path.name for path in (daemon.workspace(run_id) / "uploads").iterdir()] == ["bees.txt"]


async def test_an_accepted_upload_survives(narrow: Daemon) -> None:
    busy = await narrow.client.create(script={"turns": [[{"hang": True}]]})
    run_id = await held(narrow)
    assert (await upload(narrow, run_id)).json()["waiting_for"] == "slot"
    await narrow.restart()
    run = await narrow.client.get(run_id)
    assert (run["status"], run["waiting_for"], run["files"]) == (
        "queued",
        "slot",
        {"document": "uploads/bees.txt"},
    )
    await narrow.client.cancel(busy)
    assert (await narrow.client.ended(run_id))["status"] == "succeeded"
