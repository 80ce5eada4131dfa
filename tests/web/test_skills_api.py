"""Skills that come and go over HTTP, while jobs run on them."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness import Client, Json, Place, opened
from tests.skills.archives import Member, build, zipped
from tests.skills.folders import OBJECT, skill_at
from tests.spec.scripts import ASK, INTERACTIVE
from tests.web.problems import assert_problem
from turnkeeper.core.errors import Code

OF_THE_OPERATOR = "answer"


def skill(skill_id: str, version: str = "1", **more: Any) -> bytes:
    """Asks one question and answers with its version: by this one can tell whose script was played."""
    script = {"turns": [[ASK], [{"result": {"answer": f"by {version}"}}]]}
    runner = {"id": skill_id, "version": version, "schemas": {"output": "assets/output.json"}} | more
    files = {
        "SKILL.md": f"---\nname: Installed\ndescription: Version {version}.\n---\nDo it.\n",
        "assets/runner.json": json.dumps(runner),
        "assets/output.json": json.dumps(OBJECT),
        "assets/demo.json": json.dumps(script),
    }
    return zipped({f"folder/{name}": text for name, text in files.items()})


async def post(client: Client, data: bytes, **params: Any) -> httpx.Response:
    files = {"file": ("skill.zip", data, "application/zip")}
    return await client.http.post("/v1/skills", files=files, params=params)


async def installed(client: Client, data: bytes) -> Json:
    answer = await post(client, data)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def listed(client: Client) -> dict[str, Json]:
    return {each["id"]: each for each in (await client.http.get("/v1/skills")).json()["skills"]}


def managed(place: Place) -> Path:
    return place.settings.data_dir / "skills"


def assert_nothing_left(place: Place) -> None:
    assert not list(managed(place).glob(".moving/*"))


async def test_installed_skill_is_listed_and_can_be_run(place: Place, client: Client) -> None:
    answer = await post(client, skill("first", "1.2", execution_modes=["interactive"]))
    assert answer.status_code == 200
    assert answer.headers["location"] == "/v1/skills/first"
    body = answer.json()
    assert (body["id"], body["version"], body["name"]) == ("first", "1.2", "Installed")
    assert (body["description"], body["execution_modes"], body["problems"]) == (
        "Version 1.2.",
        ["interactive"],
        [],
    )
    assert (await client.http.get("/v1/skills/first")).json() == body
    assert (await listed(client))["first"] == body
    assert (await client.http.get("/v1/skills/first/schemas")).json()["output"] == OBJECT

    run_id = await client.create("first", **INTERACTIVE)
    assert (await client.settled(run_id))["status"] == "waiting_user"
    await client.reply(run_id, "blue")
    assert (await client.settled(run_id))["status"] == "succeeded"
    assert await client.result(run_id) == {"answer": "by 1.2"}
    assert_nothing_left(place)


async def test_higher_version_replaces_at_once(place: Place, client: Client) -> None:
    await installed(client, skill("grows", "1.9"))
    assert (await installed(client, skill("grows", "1.10")))["version"] == "1.10"
    assert (await client.http.get("/v1/skills/grows")).json()["description"] == "Version 1.10."
    run_id = await client.create("grows", **INTERACTIVE)
    assert (await client.settled(run_id))["skill_version"] == "1.10"
    await client.reply(run_id, "blue")
    await client.settled(run_id)
    assert await client.result(run_id) == {"answer": "by 1.10"}
    assert_nothing_left(place)


@pytest.mark.parametrize("version", ["2", "2.0", "1.99", "3-beta"])
async def test_other_version_is_refused(place: Place, client: Client, version: str) -> None:
    skill_id = f"stays-{version}"
    await installed(client, skill(skill_id, "2"))
    problem = assert_problem(await post(client, skill(skill_id, version)), 409, Code.SKILL_VERSION_NOT_HIGHER)
    assert (problem["installed_version"], problem["version"]) == ("2", version)
    assert (await client.http.get(f"/v1/skills/{skill_id}")).json()["description"] == "Version 2."
    assert_nothing_left(place)


async def test_any_version_replaces_if_it_is_asked_to(place: Place, client: Client) -> None:
    await installed(client, skill("edited", "1.0"))
    again = await post(client, skill("edited", "1.0", max_attempt=7), replace=True)
    assert (again.status_code, again.json()["max_attempt"]) == (200, 7)
    lower = await post(client, skill("edited", "0.9"), replace=True)
    assert (lower.status_code, lower.json()["version"]) == (200, "0.9")
    other = await post(client, skill(OF_THE_OPERATOR, "9"), replace=True)
    assert_problem(other, 409, Code.SKILL_NOT_MANAGED)
    assert_nothing_left(place)


async def test_who_may_change_it_is_told(client: Client) -> None:
    await installed(client, skill("ours", "1.0"))
    skills = await listed(client)
    assert (skills["ours"]["managed"], skills[OF_THE_OPERATOR]["managed"]) == (True, False)
    assert (await client.http.get("/v1/skills/ours")).json() == skills["ours"]


async def test_findings_of_the_linter(place: Place, client: Client) -> None:
    await installed(client, skill("dubious", "one", extra_field=1))
    found = (await client.http.get("/v1/skills/dubious/lint")).json()
    assert found["skill_id"] == "dubious"
    codes = {each["code"] for each in found["findings"]}
    assert "VERSION_NOT_NUMBERS" in codes
    (managed(place) / "dubious" / "assets" / "output.json").write_text("[]")
    broken = (await client.http.get("/v1/skills/dubious/lint")).json()["findings"]
    assert broken[0]["severity"] == "error"
    assert broken[0]["where"] == "assets/output.json"
    assert (await listed(client))["dubious"]["managed"] is True
    assert_problem(await client.http.get("/v1/skills/nobody/lint"), 404, Code.SKILL_NOT_FOUND)


@pytest.mark.failure("V13")
async def test_waiting_run_keeps_its_own_copy(client: Client) -> None:
    await installed(client, skill("kept", "1"))
    replaced, removed = [await client.create("kept", **INTERACTIVE) for _ in range(2)]
    for run_id in (replaced, removed):
        assert (await client.settled(run_id))["status"] == "waiting_user"
    await installed(client, skill("kept", "2"))
    await client.reply(replaced, "blue")
    assert (await client.settled(replaced))["status"] == "succeeded"
    assert await client.result(replaced) == {"answer": "by 1"}

    assert (await client.http.delete("/v1/skills/kept")).status_code == 200
    await client.reply(removed, "blue")
    assert (await client.settled(removed))["status"] == "succeeded"
    assert await client.result(removed) == {"answer": "by 1"}


async def test_removed_skill_is_gone(place: Place, client: Client) -> None:
    await installed(client, skill("goes", "5"))
    answer = await client.http.delete("/v1/skills/goes")
    assert (answer.status_code, answer.json()) == (200, {"id": "goes", "removed": True})
    assert "goes" not in await listed(client)
    assert_problem(await client.http.get("/v1/skills/goes"), 404, Code.SKILL_NOT_FOUND)
    assert_problem(await client.post_job("goes"), 404, Code.SKILL_NOT_FOUND)
    assert_problem(await client.http.delete("/v1/skills/goes"), 404, Code.SKILL_NOT_FOUND)
    assert (await installed(client, skill("goes", "1")))["version"] == "1"
    assert_nothing_left(place)


@pytest.mark.parametrize("name", ["nobody", "..%2Fruns", "%2e%2e", ".moving", "a%00b", "x" * 300])
async def test_only_a_skill_can_be_removed(client: Client, name: str) -> None:
    answer = await client.http.delete(f"/v1/skills/{name}")
    assert answer.status_code in (404, 405)
    assert answer.json()["code"] in ("SKILL_NOT_FOUND", "NOT_FOUND", "METHOD_NOT_ALLOWED")


async def test_operators_skill_is_changed_by_the_operator(place: Place, client: Client) -> None:
    (folder,) = place.settings.skills_dir
    before = (await client.http.get(f"/v1/skills/{OF_THE_OPERATOR}")).json()
    for answer in (
        await post(client, skill(OF_THE_OPERATOR, "999")),
        await client.http.delete(f"/v1/skills/{OF_THE_OPERATOR}"),
    ):
        problem = assert_problem(answer, 409, Code.SKILL_NOT_MANAGED)
        assert problem["folder"] == str(folder)
    assert (await client.http.get(f"/v1/skills/{OF_THE_OPERATOR}")).json() == before
    assert_nothing_left(place)


async def test_broken_skill_is_refused_with_everything_that_is_wrong(place: Place, client: Client) -> None:
    data = skill("bad", schemas={"output": "gone.json"}, max_attempt=0)
    problem = assert_problem(await post(client, data), 400, Code.SKILL_BROKEN)
    assert len(problem["problems"]) == 2
    assert "bad" not in await listed(client)
    assert_nothing_left(place)


@pytest.mark.parametrize(
    ("data", "entry"),
    [
        pytest.param(b"", None, id="empty"),
        pytest.param(b"#!/bin/sh\n", None, id="not a zip"),
        pytest.param(skill("cut")[:-1], None, id="cut off"),
        pytest.param(build(Member("SKILL.md", b"x"), Member("../evil", b"x")), "../evil", id="leads out"),
        pytest.param(build(Member("SKILL.md", b"x"), Member("x\r\ny", b"x")), "x\\r\\ny", id="line break"),
        pytest.param(build(Member("SKILL.md", b"a"), Member("SKILL.md", b"b")), "SKILL.md", id="twice"),
        pytest.param(build(Member("b", bytes(10**7))), "b", id="bomb"),
    ],
)
async def test_hostile_archive_is_refused(
    place: Place, client: Client, data: bytes, entry: str | None
) -> None:
    problem = assert_problem(await post(client, data), 400, Code.ARCHIVE_REFUSED)
    assert problem.get("entry") == entry
    assert_nothing_left(place)


ZIP = ("skill.zip", skill("never"), "application/zip")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([("skill", ZIP)], "'skill'"),
        ([("file", ZIP), ("file", ZIP)], "'file', 'file'"),
        ([("file", ZIP), ("more", ZIP)], "'file', 'more'"),
        ([("file", (None, b"text"))], "is a text and not a file"),
        ([("file", ZIP), ("force", (None, b"true"))], "'force' is a text"),
    ],
)
async def test_body_has_one_part_and_that_is_a_file(
    client: Client, parts: list[tuple[str, Any]], words: str
) -> None:
    problem = assert_problem(await client.http.post("/v1/skills", files=parts), 400, Code.INVALID_REQUEST)
    assert words in problem["detail"]
    assert "never" not in await listed(client)


CUT_OFF = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nPK'


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param("application/zip", skill("never"), id="zip"),
        pytest.param("application/json", b"{}", id="json"),
        pytest.param("application/x-www-form-urlencoded", b"file=x", id="form"),
        pytest.param("multipart/form-data", b"no boundary", id="no boundary"),
        pytest.param("multipart/form-data; boundary=b", b"", id="empty"),
        pytest.param("multipart/form-data; boundary=b", b"--b--\r\n", id="no parts"),
        pytest.param("multipart/form-data; boundary=b", b"garbage", id="garbage"),
        pytest.param("multipart/form-data; boundary=b", CUT_OFF, id="cut off"),
    ],
)
async def test_other_bodies_are_refused_in_words(client: Client, kind: str, body: bytes) -> None:
    answer = await client.http.post("/v1/skills", content=body, headers={"Content-Type": kind})
    assert_problem(answer, 400, Code.INVALID_REQUEST)


async def test_of_many_at_once_one_wins(place: Place, client: Client) -> None:
    data = [skill("raced", "1", marker=n) for n in range(6)]
    answers = await asyncio.gather(*(post(client, each) for each in data))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409, 409]
    winner = next(n for n, answer in enumerate(answers) if answer.status_code == 200)
    assert json.loads((managed(place) / "raced" / "assets" / "runner.json").read_text())["marker"] == winner
    assert_nothing_left(place)


async def test_last_of_many_versions_is_the_highest(place: Place, client: Client) -> None:
    """In whatever order they come, a lower one never lands on a higher one."""
    await asyncio.gather(*(post(client, skill("climbs", str(n))) for n in (3, 1, 6, 2, 5, 4)))
    found = (await client.http.get("/v1/skills/climbs")).json()
    assert (found["version"], found["description"]) == ("6", "Version 6.")
    assert json.loads((managed(place) / "climbs/assets/demo.json").read_text())["turns"][1] == [
        {"result": {"answer": "by 6"}}
    ]
    assert_nothing_left(place)


async def test_upload_may_be_larger_than_other_bodies(client: Client, tmp_path: Path) -> None:
    large = zipped({"large/SKILL.md": "Do it.", "large/model.bin": os.urandom(6 * 1024 * 1024)})
    assert (await installed(client, large))["id"] == "large"
    async with opened(tmp_path / "data", max_upload_mb=5) as place:
        assert_problem(await post(place.client, large), 413, Code.BODY_TOO_LARGE)
        assert "large" not in await listed(place.client)


async def test_disk_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as place:
        managed(place).write_text("in the way")
        problem = assert_problem(await post(place.client, skill("any")), 503, Code.STORAGE_UNAVAILABLE)
        assert "installed skills cannot be written" in problem["detail"]
        managed(place).unlink()
        await installed(place.client, skill("any"))


@pytest.mark.failure("A06")
async def test_restart_finds_whole_skills_and_clears_the_rest(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as place:
        await installed(place.client, skill("stays"))
        moving = managed(place) / ".moving"
    skill_at(moving / "old-lost", runner={"id": "lost", "version": "1"})
    skill_at(moving / "new-1" / "(unnamed)", runner={"id": "half"})
    skill_at(moving / "gone-1", runner={"id": "gone"})
    async with opened(tmp_path / "data") as place:
        found = await listed(place.client)
        assert {"stays", "lost"} <= set(found)
        assert not {"half", "gone"} & set(found)
        assert_nothing_left(place)


async def test_a_run_that_starts_while_its_skill_is_replaced_has_one_version(
    place: Place, client: Client
) -> None:
    """Its copy is made without holding anybody up, so it may have to be made again."""
    await installed(client, skill("busy", "1"))

    async def replace() -> None:
        for version in range(2, 25):
            await installed(client, skill("busy", str(version)))

    async def create() -> list[str]:
        return [await client.create("busy", **INTERACTIVE) for _ in range(20)]

    _, runs = await asyncio.gather(replace(), create())
    ended = [await client.settled(run_id) for run_id in runs]
    assert {run["error"]["code"] for run in ended if run["status"] == "failed"} <= {"SKILL_CHANGED"}
    started = [run for run in ended if run["status"] == "waiting_user"]
    assert started
    for run in started:
        copy = place.house.stage.folder(run["run_id"]).home / ".demo/skills/busy"
        assert f"Version {run['skill_version']}." in (copy / "SKILL.md").read_text()
        assert json.loads((copy / "assets/runner.json").read_text())["version"] == run["skill_version"]
        assert f"by {run['skill_version']}" in (copy / "assets/demo.json").read_text()
        await client.cancel(run["run_id"])
