"""`turnkeeper show` and `turnkeeper audit`: beside a running service, and when there is none any more."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_serve import turnkeeper
from tests.harness import opened

ASKING = {"execution_mode": "interactive"}
Ended = subprocess.CompletedProcess[str]


async def call(data: Path, *arguments: str) -> Ended:
    """The service of a test answers meanwhile."""
    return await asyncio.to_thread(turnkeeper, data.parent, *arguments, "--data-dir", str(data))


async def interview(data: Path) -> str:
    """A run of two turns, and the service that played it is gone."""
    async with opened(data) as place:
        run_id = await place.client.create(script="ask", **ASKING)
        await place.client.settled(run_id)
        asked = await call(data, "show", run_id)
        assert (asked.returncode, asked.stderr) == (0, "")
        assert "waiting_user" in asked.stdout
        await place.client.reply(run_id, "blue")
        await place.client.ended(run_id)
    return run_id


def told(ended: Ended) -> Any:
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


async def test_a_run_and_its_turns(tmp_path: Path) -> None:
    data = tmp_path / "data"
    run_id = await interview(data)
    text = (await call(data, "show", run_id)).stdout
    for words in (run_id, "succeeded", "answer 1.0.0", "demo (interactive, resumable)", "  1.1  ", "  2.1  "):
        assert words in text
    shown = told(await call(data, "show", run_id, "--json"))
    assert (shown["run_id"], shown["status"]) == (run_id, "succeeded")
    assert [each["verdict"]["verdict"] for each in shown["attempts"]] == ["waiting_user", "succeeded"]
    counted = [each["usage"]["input_tokens"] for each in shown["attempts"]]
    assert sum(counted) == shown["usage"]["input_tokens"]


async def test_a_turn_with_the_command_that_plays_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    run_id = await interview(data)
    text = (await call(data, "show", run_id, "--attempt", "1")).stdout
    command = text[text.index("cd ") :]
    again = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert "session.started" in again.stdout
    shown = told(await call(data, "show", run_id, "--attempt", "2", "--json"))
    assert (shown["attempt"], shown["try"]) == (2, 1)
    assert "--resume" in shown["launch"]["argv"]
    assert shown["command"].endswith(f"< {data}/runs/{run_id}/raw/2.1.stdin")


async def test_an_audit_agrees_until_somebody_touches_the_bytes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    run_id = await interview(data)
    good = await call(data, "audit", run_id)
    assert (good.returncode, good.stdout.count("the same again")) == (0, 2)
    raw = data / "runs" / run_id / "raw" / "2.1.stdout"
    raw.write_bytes(raw.read_bytes().replace(b"__SKILL_DONE__", b"__SKILL_DOME__"))
    bad = await call(data, "audit", run_id, "--json")
    assert bad.returncode == 1
    first, second = json.loads(bad.stdout)["attempts"]
    assert (first["agrees"], second["agrees"]) == (True, False)
    assert second["stored"]["reason_code"] == "DONE_MARKER"
    assert second["again"] != second["stored"]


@pytest.mark.parametrize("command", ["show", "audit"])
async def test_what_is_not_there(tmp_path: Path, command: str) -> None:
    data = tmp_path / "data"
    missing = await call(data, command, "nobody")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == f"turnkeeper: there is no database in {data}; name the service's --data-dir\n"
    async with opened(data):
        missing = await call(data, command, "nobody")
    assert missing.stderr == f"turnkeeper: there is no run 'nobody' in {data}; for another one: --data-dir\n"
    halved = await call(data, "show", "nobody", "--try", "1")
    assert (halved.returncode, "--attempt" in halved.stderr) == (2, True)


async def test_a_database_that_cannot_be_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "turnkeeper.db").write_bytes(b"no database" * 1000)
    broken = await call(data, "show", "nobody")
    assert (broken.returncode, broken.stdout) == (2, "")
    assert broken.stderr.startswith(f"turnkeeper: the database {data}/turnkeeper.db cannot be read: ")


async def test_a_turn_that_is_not_there(tmp_path: Path) -> None:
    data = tmp_path / "data"
    run_id = await interview(data)
    missing = await call(data, "show", run_id, "--attempt", "3")
    assert missing.returncode == 2
    assert missing.stderr == f"turnkeeper: run {run_id} has no such turn; it has: 1.1, 2.1\n"
