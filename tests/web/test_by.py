"""Whoever changes something is recorded with it: runs in their logs, everything else in the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.harness import Client, Json, Place, opened
from tests.skills.archives import zipped
from tests.spec.scripts import INTERACTIVE, LENIENT
from tests.web.keyholders import holding, made, revoked
from tests.web.problems import assert_problem
from tests.web.requests import JOB, post, waiting
from turnkeeper.core.errors import Code


async def event(client: Client, run_id: str, kind: str) -> Json:
    (found,) = [each["data"] for each in await client.events(run_id) if each["type"] == kind]
    return dict(found)


async def journal(place: Place, **params: Any) -> Json:
    answer = await place.client.http.get("/v1/journal", params=params)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


class TestRuns:
    async def test_who_made_it(self, place: Place) -> None:
        key = await made(place, "run")
        async with holding(place, key["key"]) as client:
            theirs = (await post(client, JOB | {"parameter": {"demo_script": "done"}})).json()["run_id"]
        ours = await place.client.create(script="done")
        for run_id, by in ((theirs, f"key:{key['name']}"), (ours, "token")):
            run = await place.client.ended(run_id)
            assert (run["created_by"], run["uploaded_by"]) == (by, None)
            assert (await event(place.client, run_id, "conversation.started"))["created_by"] == by

    async def test_who_brought_its_files(self, place: Place) -> None:
        key = await made(place, "run")
        run_id = await place.client.create("filed", "done", input={"title": "Bees"})
        async with holding(place, key["key"]) as client:
            files = {"document": ("bees.txt", b"All about bees.")}
            answer = await client.http.post(f"/v1/jobs/{run_id}/upload", files=files)
        assert answer.json()["uploaded_by"] == f"key:{key['name']}"
        run = await place.client.ended(run_id)
        assert (run["created_by"], run["uploaded_by"]) == ("token", f"key:{key['name']}")

    async def test_who_answered_it(self, place: Place) -> None:
        key = await made(place, "answer")
        run_id = await waiting(place.client, [{"result": {"answer": "x"}}])
        async with holding(place, key["key"]) as client:
            await client.reply(run_id, "blue")
        await place.client.ended(run_id)
        told = await event(place.client, run_id, "interaction.reply.accepted")
        assert told["by"] == f"key:{key['name']}"
        assert (await place.client.history(run_id))[0]["resolved_by"] == f"key:{key['name']}"

    async def test_who_canceled_it(self, place: Place) -> None:
        key = await made(place, "run")
        run_id = await waiting(place.client)
        async with holding(place, key["key"]) as client:
            await client.cancel(run_id)
        assert (await place.client.ended(run_id))["ending"]["by"] == f"key:{key['name']}"
        assert (await event(place.client, run_id, "conversation.canceled"))["by"] == f"key:{key['name']}"

    async def test_what_happens_by_itself_keeps_its_name(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            run_id = await place.client.create(
                script={"turns": [[{"say": "Which?"}], [{"result": {"answer": "x"}}]]},
                session_timeout_sec=60,
                **INTERACTIVE,
                **LENIENT,
            )
            await place.client.settled(run_id)
            await place.pass_time(61)
            await place.client.ended(run_id)
            assert (await place.client.history(run_id))[0]["resolved_by"] == "turnkeeper"


class TestJournal:
    async def test_every_change_of_the_service_is_in_it(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            boss = await made(place, "admin", expires_in_sec=1000)
            by = f"key:{boss['name']}"
            skill = zipped({"echo/SKILL.md": b"---\nname: echo\ndescription: It echoes.\n---\nEcho.\n"})
            run_id = await place.client.create(script="done")
            await place.client.ended(run_id)
            async with holding(place, boss["key"]) as client:
                body = {"name": "ann", "scopes": ["read"], "skills": ["answer"]}
                ann = (await client.http.post("/v1/keys", json=body)).json()
                await client.http.delete("/v1/keys/ann")
                await client.http.delete("/v1/keys/ann")
                files = {"file": ("echo.zip", skill)}
                assert (await client.http.post("/v1/skills", files=files)).status_code == 200
                assert (await client.http.delete("/v1/skills/echo")).status_code == 200
                for dry_run in (True, False):
                    prune = {"older_than_sec": 0, "dry_run": dry_run}
                    assert (await client.http.post("/v1/prune", json=prune)).json()["count"] == 1
            entries = (await journal(place))["entries"]
            told = [(each["what"], each["subject"], each["by"]) for each in entries]
            assert told == [
                ("runs.pruned", "runs", by),
                ("skill.removed", "echo", by),
                ("skill.installed", "echo", by),
                ("key.revoked", "ann", by),
                ("key.created", "ann", by),
                ("key.created", boss["name"], "token"),
            ]
            assert [each["seq"] for each in entries] == [6, 5, 4, 3, 2, 1]
            assert entries[0]["detail"]["count"] == 1
            assert entries[4]["detail"] == {
                "id": ann["id"],
                "scopes": ["read"],
                "skills": ["answer"],
                "engines": None,
                "expires_at": None,
            }

    async def test_what_was_refused_is_not(self, place: Place) -> None:
        before = await journal(place)
        assert (await place.client.http.delete("/v1/skills/nobody")).status_code == 404
        assert (await place.client.http.delete("/v1/keys/nobody")).status_code == 404
        assert (
            await place.client.http.post("/v1/keys", json={"name": "token", "scopes": ["read"]})
        ).status_code == 409
        assert await journal(place) == before

    async def test_it_is_read_in_pages(self, place: Place) -> None:
        for _ in range(3):
            await revoked(place, await made(place, "read"))
        whole = (await journal(place, limit=200))["entries"]
        found, cursor = [], None
        while True:
            page = await journal(place, limit=2, **({"cursor": cursor} if cursor else {}))
            found += page["entries"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert found == whole
        for wrong in ("x", "-1", "9" * 30, "²"):
            answer = await place.client.http.get("/v1/journal", params={"cursor": wrong})
            assert_problem(answer, 400, Code.CURSOR_INVALID)
