"""The proof: secrets planted everywhere and cut at every byte are found nowhere in what the service stores or shows."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from tests.faults.planting import KEY, PARTS, VALUE, assert_nowhere, needles, planted, stored, told
from tests.harness import Json

INTERACTIVE: Json = {"execution_mode": "interactive", "skill": "planted"}
BOTH = f"{VALUE} and {KEY}"


async def test_known_and_unknown_keys_are_found_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with planted(tmp_path) as place:
        client = place.client
        body: Json = {"input": {"task": BOTH, BOTH: [BOTH]}, "parameter": {"p": {"deep": BOTH}}}
        run_id = await client.create(engine="codex", **INTERACTIVE, **body)
        assert (await client.settled(run_id))["status"] == "waiting_user", await client.get(run_id)
        await client.reply(run_id, f"go on with {BOTH}")
        run = await client.ended(run_id)
        assert run["status"] == "succeeded", run["error"]
        (masked,) = [each for each in run["warnings"] if each["code"] == "SECRET_MASKED"]
        assert "/input/task" in masked["message"]
        assert "/parameter/p/deep" in masked["message"]

        # Where a request is refused, its words come back.
        for refused in (
            await client.post_job(BOTH),
            await client.post_job("answer", engine=BOTH),
            await client.http.post("/v1/jobs", json={"skill_id": "answer", KEY: 1}),
            await client.http.get(f"/v1/jobs/{run_id}/artifacts/{KEY}"),
            await client.http.get(f"/v1/{KEY}"),
            await client.http.get("/v1/jobs", headers={"Host": KEY}),
            await client.http.post("/v1/jobs", json={"skill_id": "answer"}, headers={"Idempotency-Key": KEY}),
            await client.post_reply(run_id, 1, "x", idempotency_key=KEY),
        ):
            assert refused.status_code in (400, 403, 404), refused.text
            assert_nowhere({str(refused.url.path): refused.content}, [*needles(), *PARTS])
        logging.getLogger("some.library").error("sent %s", BOTH, exc_info=ValueError(BOTH))

        texts = await told(client, run_id)
        stars = "*" * len(KEY)
        for where in ("/events", "/artifacts", "/interaction/history", "/request", "/logs/1/1/stderr"):
            assert stars.encode() in texts[where], f"nothing was planted in {where}"
        assert any(stars.encode() in text for where, text in texts.items() if where.startswith("/artifacts/"))
        files = json.loads(texts["/bundle/manifest.json"].removesuffix(b"manifest.json"))["files"]
        masked = {each["path"]: each.get("masked", False) for each in files if each["kind"] == "file"}
        for name in ("result.json", "artifacts/heard.txt"):
            assert masked.pop(name) is False, "it was stars already"
        assert masked
        assert all(masked.values())
        logged = {"log": caplog.text.encode()}
        assert stars in caplog.text
        everything = texts | stored(place.settings.data_dir) | logged
        assert_nowhere(everything, [*needles(), *PARTS])
        heard = place.house.stage.folder(run_id).workspace / "heard.txt"
        assert stars in heard.read_text(), "the agent gets the stars as well"
        links = [
            each
            for each in (await client.http.get(f"/v1/jobs/{run_id}/artifacts")).json()["artifacts"]
            if each["kind"] == "link"
        ]
        assert len(links) == 2
        assert all("/nowhere/***" in each["target"] for each in links)
        launch = (await client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"][0]["launch"]
        assert launch["env"]["PLANTED_TOKEN"] is None
        assert launch["secrets"]["PLANTED_TOKEN"] == "PLANTED_TOKEN"
    assert_nowhere(stored(tmp_path / "data"), [*needles(), *PARTS])


async def test_told_piece_by_piece_at_every_border(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of a stream the pieces stand in the raw log as they came, each in a line of its own: none is whole."""
    caplog.set_level(logging.DEBUG)
    async with planted(tmp_path) as place:
        client = place.client
        run_id = await client.create(engine="parrot", skill="planted")
        run = await client.ended(run_id)
        assert run["status"] == "succeeded", run["error"]
        assert "*" * len(KEY) in (await client.result(run_id))["answer"]
        texts = await told(client, run_id) | stored(place.settings.data_dir) | {"log": caplog.text.encode()}
        assert_nowhere(texts, needles())
        pieces = ("stdout", ".stdout")
        rest = {where: text for where, text in texts.items() if not where.endswith(pieces)}
        assert len(rest) < len(texts)
        assert_nowhere(rest, PARTS)
        words = [
            e["data"]["text"] for e in await client.events(run_id) if e["type"] == "assistant.message.delta"
        ]
        assert json.dumps("".join(words)).count("*" * len(KEY)) >= len(KEY)


async def test_a_question_about_a_permission(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with planted(tmp_path) as place:
        client = place.client
        run_id = await client.create(engine="asker", permissions="ask", **INTERACTIVE)
        for secret in (VALUE, KEY):
            assert (await client.settled(run_id))["status"] == "waiting_user", await client.get(run_id)
            pending = await client.http.get(f"/v1/jobs/{run_id}/interaction/pending")
            asked = json.dumps(pending.json(), ensure_ascii=False)
            assert asked.count("***") >= 3, asked
            assert_nowhere({"pending": pending.content, "read": asked.encode()}, [*needles(), *PARTS])
            assert json.dumps(secret)[1:-1] not in asked
            await client.reply(run_id, "yes")
        assert (await client.ended(run_id))["status"] == "succeeded", await client.get(run_id)
        texts = await told(client, run_id) | stored(place.settings.data_dir) | {"log": caplog.text.encode()}
        assert_nowhere(texts, needles())


async def test_a_turn_that_fails_over_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What an engine printed last is the evidence of its failure."""
    caplog.set_level(logging.DEBUG)
    async with planted(tmp_path) as place:
        client = place.client
        run_id = await client.create(engine="failer", skill="planted")
        run = await client.ended(run_id)
        assert run["status"] == "failed"
        assert "cannot go on with ***" in json.dumps(run["error"]), run["error"]
        texts = await told(client, run_id) | stored(place.settings.data_dir) | {"log": caplog.text.encode()}
        assert_nowhere(texts, [*needles(), *PARTS])
