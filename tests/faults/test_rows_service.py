"""What befalls the service itself, end to end: a wrong setting, a run that is taken away, a skill that changes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.restarts import WORKS, Daemon, started
from tests.harness import PATIENCE, SKILLS, TOKEN, Json, opened
from tests.spec.scripts import ASK, INTERACTIVE, script

ANSWERS: Json = {"result": {"answer": "{{reply}}"}}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with started(tmp_path / "data", TURNKEEPER_SLOTS="2") as daemon:
        yield daemon


def turnkeeper(home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "turnkeeper", *words],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONWARNINGS": "error"} | env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


# Certificates


@pytest.mark.failure("V11")
@pytest.mark.parametrize("setting", ["ssl_certfile", "tls"])
def test_a_service_that_is_told_to_speak_tls_says_that_it_cannot(tmp_path: Path, setting: str) -> None:
    """It speaks plain HTTP, behind a proxy that has the certificate: whoever hopes otherwise must hear it at once."""
    config = tmp_path / "turnkeeper.toml"
    config.write_text(f'{setting} = "/nowhere.pem"\n')
    ended = turnkeeper(tmp_path, "serve", "--port", "0", TURNKEEPER_CONFIG=str(config))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"turnkeeper: {config} has settings that do not exist: {setting}\n"
    assert list(tmp_path.iterdir()) == [config], "nothing was made"


@pytest.mark.failure("V11")
async def test_a_command_that_meets_no_tls_where_it_was_told_of_it(daemon: Daemon, tmp_path: Path) -> None:
    url = daemon.client.url.replace("http://", "https://")
    env = {"TURNKEEPER_URL": url, "TURNKEEPER_TOKEN": TOKEN}
    ended = await asyncio.to_thread(turnkeeper, tmp_path, "list", **env)
    assert ended.returncode != 0
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) <= 2, ended.stderr
    assert url in ended.stderr


# A worker that has lost its run


def take_away(daemon: Daemon, run_id: str) -> int:
    """As another worker would that holds the lease now; the number of the last event at that moment."""
    with closing(sqlite3.connect(daemon.data_dir / "turnkeeper.db", timeout=PATIENCE)) as other, other:
        other.execute(
            "UPDATE runs SET lease = 'of-somebody-else', version = version + 1 WHERE id = ?", (run_id,)
        )
        (last,) = other.execute("SELECT last_seq FROM runs WHERE id = ?", (run_id,)).fetchone()
    return int(last)


@pytest.mark.failure("V07", "S11")
async def test_a_worker_whose_lease_is_gone_ends_its_process_and_writes_nothing_more(daemon: Daemon) -> None:
    client = daemon.client
    run_id = await client.create(script=script([*WORKS, {"say": "never heard"}, ANSWERS], repeat_last=True))
    other = await client.create(script=script([*WORKS, ANSWERS]))
    for each in (run_id, other):
        await daemon.in_the_middle(each)
    last = take_away(daemon, run_id)
    daemon.go_on(run_id)
    deadline = time.monotonic() + PATIENCE
    while daemon.processes(run_id):
        assert time.monotonic() < deadline, "its process lives on"
        await asyncio.sleep(0.02)
    run = await client.get(run_id)
    assert (run["status"], run["last_seq"]) == ("running", last)
    assert "never heard" not in json.dumps(await client.events(run_id))
    # The service goes on, with its slots: another run ends, and a new one starts.
    daemon.go_on(other)
    assert (await client.ended(other))["status"] == "succeeded"
    assert (await client.ended(await client.create(script=script([ANSWERS]))))["status"] == "succeeded"
    # Nobody holds it after a restart; it is cut off then, and goes on or says why not.
    await daemon.restart()
    assert (await daemon.client.ended(run_id))["status"] in ("succeeded", "failed")


# Skills


@pytest.mark.failure("V13")
@pytest.mark.parametrize("change", ["edited", "broken", "removed"])
async def test_a_waiting_run_keeps_the_skill_it_was_accepted_for(tmp_path: Path, change: str) -> None:
    """Over a restart as well: its turn, its schema and its second opinion are of its own copy."""
    shelf, data_dir = tmp_path / "shelf", tmp_path / "data"
    shutil.copytree(SKILLS / "answer", shelf / "answer")
    async with opened(data_dir, skills_dir=(shelf,)) as place:
        run_id = await place.client.create(script=script([ASK], [ANSWERS]), **INTERACTIVE)
        assert (await place.client.settled(run_id))["status"] == "waiting_user"
        await asyncio.to_thread(changed, shelf / "answer", change)
    async with opened(data_dir, skills_dir=(shelf,)) as place:
        client = place.client
        assert (await client.get(run_id))["status"] == "waiting_user"
        await client.reply(run_id, "blue")
        run = await client.ended(run_id)
        assert (run["status"], run["warnings"]) == ("succeeded", []), run["error"]
        assert await client.result(run_id) == {"answer": "blue"}
        copies = [path.read_text() for path in place.house.stage.folder(run_id).root.rglob("SKILL.md")]
        assert copies
        assert not [text for text in copies if "something else" in text]


def changed(skill: Path, change: str) -> None:
    if change == "removed":
        shutil.rmtree(skill)
    elif change == "broken":
        (skill / "assets" / "runner.json").write_text("{")
    else:
        schema = {"type": "object", "required": ["other"], "additionalProperties": False}
        (skill / "assets" / "output.schema.json").write_text(
            json.dumps(schema | {"properties": {"other": {}}})
        )
        (skill / "SKILL.md").write_text(
            "---\nname: answer\ndescription: Another one.\n---\nDo something else.\n"
        )
