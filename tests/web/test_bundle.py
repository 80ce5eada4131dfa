"""A run's outcome as one zip: everything in it is named and checked, and nothing else is in it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile

import httpx

from tests.harness import Client, Json, Place
from tests.spec.scripts import INTERACTIVE, script
from tests.web.problems import assert_problem
from tests.web.requests import DONE, waiting
from turnkeeper.core.errors import Code

PAPERS = [
    {"write_file": {"path": "report.md", "text": "# Report – ü"}},
    {"write_file": {"path": "charts/new/a.svg", "text": ""}},
    {"write_file": {"path": "scrap.txt", "text": "not declared"}},
]


async def bundle(client: Client, run_id: str) -> httpx.Response:
    return await client.http.get(f"/v1/jobs/{run_id}/bundle")


def read(answer: httpx.Response) -> tuple[dict[str, bytes], Json]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name) for name in archive.namelist()}
    return files, json.loads(files.pop("manifest.json"))


async def test_result_artifacts_and_checksums(client: Client) -> None:
    run_id = await client.create("papers", script([*PAPERS, DONE]))
    run = await client.settled(run_id)
    assert run["status"] == "succeeded", run
    answer = await bundle(client, run_id)
    files, manifest = read(answer)
    listed = (await client.http.get(f"/v1/jobs/{run_id}/artifacts")).json()["artifacts"]
    assert set(files) == {"result.json", *(f"artifacts/{each['path']}" for each in listed)}
    assert "artifacts/scrap.txt" not in files
    assert json.loads(files["result.json"]) == await client.result(run_id)
    assert {each["path"]: (each["size"], each["sha256"]) for each in manifest["files"]} == {
        name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()
    }
    roles = {each["path"]: each["role"] for each in manifest["files"]}
    assert roles == {
        "result.json": "result",
        **{f"artifacts/{each['path']}": each["role"] for each in listed},
    }
    told = ("run_id", "status", "skill_id", "skill_version", "engine", "finished_at", "warnings", "error")
    assert {name: manifest[name] for name in told} == {name: run[name] for name in told}
    assert answer.headers["content-disposition"] == f'attachment; filename="{run_id}.zip"'
    assert (await bundle(client, run_id)).content == answer.content


async def test_a_failed_run_has_its_files_and_its_error(client: Client) -> None:
    run_id = await client.create("papers", script([PAPERS[0], {"say": "I give up."}]))
    await client.settled(run_id)
    files, manifest = read(await bundle(client, run_id))
    assert files == {"artifacts/report.md": "# Report – ü".encode()}
    assert (manifest["status"], manifest["error"]["code"]) == ("failed", "OUTPUT_INVALID")


async def test_a_run_that_never_started_has_an_empty_one(client: Client) -> None:
    run_id = await client.create("filed", input={"title": "x"})
    await client.cancel(run_id)
    files, manifest = read(await bundle(client, run_id))
    assert (files, manifest["status"], manifest["files"]) == ({}, "canceled", [])


async def test_only_when_nothing_can_change_any_more(client: Client) -> None:
    run_id = await waiting(client)
    problem = assert_problem(await bundle(client, run_id), 409, Code.RUN_NOT_ENDED)
    assert problem["state"] == "waiting_user"
    await client.cancel(run_id)
    assert (await bundle(client, run_id)).status_code == 200
    assert_problem(await bundle(client, "nobody"), 404, Code.RUN_NOT_FOUND)


async def test_no_link_leads_out(place: Place, client: Client) -> None:
    run_id = await client.create(
        "plain", script([{"write_file": {"path": "x", "text": "x"}}, {"say": "Done."}])
    )
    await client.settled(run_id)
    folder = place.house.stage.folder(run_id)
    (folder.root / "secret").write_text("secret")
    (folder.workspace / "link").symlink_to(folder.root / "secret")
    (folder.workspace / "folder").symlink_to(folder.root)
    (folder.workspace / "bad\udce4name").write_text("x")
    os.mkfifo(folder.workspace / "pipe")
    files, _ = read(await bundle(client, run_id))
    assert set(files) == {"result.json", "artifacts/x"}


async def test_clients_that_hang_up_keep_nobody_waiting(place: Place, client: Client) -> None:
    """However large the files are: each piece is made when somebody takes it."""
    run_id = await client.create("plain", script([{"say": "Done."}]))
    await client.settled(run_id)
    with (place.house.stage.folder(run_id).workspace / "huge").open("wb") as huge:
        huge.truncate(2**40)
    for _ in range(10):
        async with client.http.stream("GET", f"/v1/jobs/{run_id}/bundle") as answer:
            assert answer.status_code == 200
            await anext(answer.aiter_raw())
    assert (await client.settled(await client.create("answer")))["status"] == "succeeded"


async def test_a_bundle_can_be_the_upload_of_the_next_job(client: Client) -> None:
    run_id = await client.create("papers", script([*PAPERS, DONE]))
    await client.settled(run_id)
    given = {"title": "again", "document": "artifacts/report.md"}
    again = await client.create("filed", script([DONE]), input=given)
    files = {"file": ("bundle.zip", (await bundle(client, run_id)).content)}
    answer = await client.http.post(f"/v1/jobs/{again}/upload", files=files)
    assert answer.status_code == 200, answer.text
    assert (await client.settled(again))["status"] == "succeeded"


async def test_nothing_stays_behind_on_disk(place: Place, client: Client) -> None:
    run_id = await client.create("plain", script([{"say": "Done."}]), **INTERACTIVE)
    await client.settled(run_id)
    await client.cancel(run_id)
    root = place.house.stage.folder(run_id).root
    before = {path.relative_to(root) for path in root.rglob("*")}
    await bundle(client, run_id)
    assert {path.relative_to(root) for path in root.rglob("*")} == before
