"""No secret in any stored or shown text: an agent tells its key in every way it can, and nobody gets to see it."""

from __future__ import annotations

import io
import json
import logging
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.harness import Client, Json, Place, opened

BABBLER = Path(__file__).parents[1] / "fakes" / "babbler.py"
KEY = 'sk-live-"wxyzq\\vutsr"-ghijklmn'
"""It looks different inside JSON, and different again in JSON that is quoted in JSON. No part of it is a number or
could be one in base 16: times, ids and digests must not look like a leak."""
QUOTED = json.dumps(KEY)[1:-1]
WHOLE = [form.encode() for form in (KEY, QUOTED, json.dumps(QUOTED)[1:-1])]
PARTS = [part.encode() for part in ("sk-live", "wxyzq\\", "vutsr", "ghijklmn")]
INTERACTIVE: Json = {"execution_mode": "interactive"}
OF_A_RUN = (
    "",
    "/attempts",
    "/events/history",
    "/interaction/history",
    "/interaction/pending",
    "/request",
    "/logs",
)
OF_THE_SERVICE = (
    "/v1/jobs",
    "/v1/engines",
    "/v1/engines/codex",
    "/v1/engines/parrot",
    "/v1/status",
    "/metrics",
)


@asynccontextmanager
async def babbling(folder: Path) -> AsyncIterator[Place]:
    command = [sys.executable, str(BABBLER)]
    codex = {"command": command, "env": [f"OPENAI_API_KEY={KEY}"], "login_home": folder / "logins"}
    parrot = {"command": [*command, "acp"], "env": [f"PARROT_API_KEY={KEY}"], "asks": True}
    async with opened(folder / "data", engines={"codex": codex, "parrot": parrot}) as place:
        yield place


async def shown(client: Client, run_id: str) -> dict[str, bytes]:
    """Everything that the API tells about a run, by its address."""
    found = {}
    logs = (await client.http.get(f"/v1/jobs/{run_id}/logs")).json()["logs"]
    more = [f"/logs/{log['attempt']}/{log['try']}/{log['stream']}" for log in logs]
    for path in (*OF_A_RUN, *more, "/result", "/artifacts", "/bundle"):
        answer = await client.http.get(f"/v1/jobs/{run_id}{path}")
        assert answer.status_code in (200, 409), f"{path}: {answer.text}"
        found[path] = answer.content
        if path == "/bundle" and answer.status_code == 200:
            with zipfile.ZipFile(io.BytesIO(answer.content)) as files:
                found |= {f"/bundle/{name}": files.read(name) for name in files.namelist()}
    events = json.dumps([frame async for frame in client.frames(run_id)], ensure_ascii=False)
    return found | {"/events": events.encode()}


async def told(client: Client) -> dict[str, bytes]:
    return {path: (await client.http.get(path)).content for path in OF_THE_SERVICE}


def stored(folder: Path) -> dict[str, bytes]:
    """Every file below the data directory: database, journal, raw output, homes, workspaces."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_hidden(texts: dict[str, bytes], forms: list[bytes] = PARTS) -> None:
    leaks = [(where, form) for where, text in texts.items() for form in forms if form in text]
    assert not leaks, leaks


def stars(text: object) -> bool:
    return "*" * len(KEY) in json.dumps(text)


async def test_a_key_that_an_agent_tells_is_stored_and_shown_as_stars(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "turnkeeper")
    async with babbling(tmp_path) as place:
        client = place.client
        talks, fails = [
            await client.create(engine="codex", input={"task": task}, **INTERACTIVE)
            for task in ("", "[[fail]]")
        ]
        assert (await client.settled(talks))["status"] == "waiting_user"
        pending = await client.pending(talks)
        assert [stars(pending[name]) for name in ("prompt", "options", "context")] == [True] * 3
        assert_hidden(await told(client) | {"pending": json.dumps(pending, ensure_ascii=False).encode()})
        await client.reply(talks, "go on")
        run, failed = await client.ended(talks), await client.ended(fails)
        assert (run["status"], failed["status"]) == ("succeeded", "failed"), run["error"]
        assert stars(await client.result(talks))
        assert stars(failed["error"]["message"])

        texts = [await shown(client, run_id) for run_id in (talks, fails)]
        for text in texts:
            assert_hidden(text)
        logs = [text for path, text in texts[0].items() if path.startswith("/logs/1/")]
        assert len([log for log in logs if b"***" in log]) == 2, "both streams told the key"
        said = json.dumps(await client.events(talks))
        for kind in ("assistant.message.final", "assistant.reasoning", "assistant.tool_call", "raw.stdout"):
            assert kind in said
        assert_hidden(stored(place.settings.data_dir) | {"log": caplog.text.encode()})
    assert_hidden(stored(tmp_path / "data") | {"log": caplog.text.encode()})


async def test_a_key_in_pieces_is_hidden_in_every_one_of_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A resident streams its words: no line has the whole key, but the message that they become would."""
    caplog.set_level(logging.DEBUG, "turnkeeper")
    async with babbling(tmp_path) as place:
        client = place.client
        run_id = await client.create(engine="parrot", permissions="ask", **INTERACTIVE)
        for reply in ("yes", "go on", "yes"):
            run = await client.settled(run_id)
            assert run["status"] == "waiting_user", run["error"]
            pending = await client.pending(run_id)
            assert stars(pending), pending
            assert_hidden({"pending": json.dumps(pending, ensure_ascii=False).encode()})
            await client.reply(run_id, reply)
        assert (await client.ended(run_id))["status"] == "succeeded"
        assert stars(await client.result(run_id))
        finals = [
            event for event in await client.events(run_id) if event["type"] == "assistant.message.final"
        ]
        assert all(stars(final["data"]["text"]) for final in finals)
        assert len(finals) == 2
        texts = await shown(client, run_id) | await told(client) | stored(place.settings.data_dir)
        # In the raw log of one that streams, the pieces stand as they came, each in a line of its own.
        raw = {where: text for where, text in texts.items() if "/logs/" in where or where.endswith(".stdout")}
        assert len(raw) == 6
        assert_hidden(raw, WHOLE)
        assert_hidden({where: text for where, text in texts.items() if where not in raw})
        assert_hidden({"log": caplog.text.encode()})
