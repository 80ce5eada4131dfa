"""Makes one of the data directories beside this file, with the code of the time: by hand, once for each schema version.

    git worktree add /tmp/older COMMIT
    python -m tests.store.older.make /tmp/older/src

An older service plays a run into every state, and is killed. What it leaves is kept as text: the database as SQL, the
files of its runs as JSON, and which run is which. Paths of the machine are replaced by names in capitals.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.harness import SKILLS, TOKEN, Client
from turnkeeper.engines import census

HERE = Path(__file__).parent
ASKS: Any = {"turns": [[{"say": "Which colour?"}], [{"result": {"answer": "{{reply}}"}}]]}
WORKS: Any = {"turns": [[{"think": "working"}, {"wait_for": "go"}, {"result": {"answer": "done"}}]]}
STUBBORN: Any = {"turns": [[{"ignore_signals": True}, {"think": "working"}, {"wait_for": "go"}]]}
INTERACTIVE = {"execution_mode": "interactive"}
STICKY = INTERACTIVE | {"interactive_profile": "sticky_process"}
SLOTS = 4
PATIENT = {"TURNKEEPER_SLOTS": str(SLOTS), "TURNKEEPER_TIMEOUTS__STEP_SEC": "60"}
"""An engine that minds no signal is being ended when the service dies."""


async def play(client: Client, version: int) -> dict[str, str]:
    runs = {}
    for name, script, options in (
        ("succeeded", ASKS, INTERACTIVE),
        ("failed", "crash", {}),
        ("canceled", ASKS, INTERACTIVE),
        ("waiting", ASKS, INTERACTIVE),
    ):
        runs[name] = await client.create(script=script, **options)
        await client.settled(runs[name])
    await client.reply(runs["succeeded"], "blue")
    await client.settled(runs["succeeded"])
    await client.cancel(runs["canceled"])
    runs["sticky"] = await client.create(script=ASKS, **STICKY)
    await client.settled(runs["sticky"])
    runs["running"] = await client.create(script=WORKS)
    runs["ending"] = await client.create(script=STUBBORN)
    for name in ("running", "ending"):
        await spoken(client, runs[name])
    if version >= 3:
        runs["permission"] = await client.create(script="permission", permissions="ask", **INTERACTIVE)
        await client.settled(runs["permission"])
    else:
        runs["hanging"] = await client.create(script=WORKS)  # the slots are full
        await spoken(client, runs["hanging"])
    runs["queued"] = await client.create(script=ASKS, **INTERACTIVE)
    if version >= 2:
        runs["held"] = await client.create("filed", "done", input={"title": "Report"})
    await client.cancel(runs["ending"])
    return runs


async def spoken(client: Client, run_id: str) -> None:
    async for event in client.follow(run_id):
        if event["type"] == "assistant.reasoning":
            return


def serve(source: Path, data: Path) -> tuple[subprocess.Popen[str], str]:
    env = PATIENT | {"PYTHONPATH": str(source), "TURNKEEPER_TOKEN": TOKEN, "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "turnkeeper", "serve", "--port", "0", "--data-dir", str(data)]
    process = subprocess.Popen(
        [*command, "--skills-dir", str(SKILLS)], env=env, stdout=subprocess.PIPE, text=True, cwd=data.parent
    )
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return process, found[0]
    raise SystemExit("it did not start")


async def main(source: Path) -> None:
    with tempfile.TemporaryDirectory() as root:
        data = Path(root) / "data"
        process, url = serve(source, data)
        version = len(list((source / "turnkeeper" / "store" / "migrations").glob("*.sql")))
        client = Client(url)
        try:
            runs = await play(client, version)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            await client.http.aclose()
            await census.end_all(data_id(data), step_sec=1)
        with closing(sqlite3.connect(data / "turnkeeper.db")) as connection:
            dump = [f"PRAGMA user_version={version};", *connection.iterdump()]
        names = {str(data): "DATA", str(source): "SOURCE", sys.executable: "PYTHON", str(SKILLS): "SKILLS"}
        keep(HERE / str(version), dump, data, runs, names)


def data_id(data: Path) -> str:
    with closing(sqlite3.connect(data / "turnkeeper.db")) as connection:
        (found,) = connection.execute("SELECT value FROM meta WHERE name = 'data_id'").fetchone()
    return str(found)


def keep(folder: Path, dump: list[str], data: Path, runs: dict[str, str], names: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)

    def neutral(text: str) -> str:
        for path, name in names.items():
            text = text.replace(path, name)
        return text

    files = {
        str(path.relative_to(data)): neutral(path.read_text())
        for path in sorted((data / "runs").rglob("*"))
        if path.is_file()
    }
    (folder / "turnkeeper.sql").write_text(neutral("\n".join(dump)) + "\n")
    (folder / "files.json").write_text(json.dumps(files, indent=1) + "\n")
    (folder / "runs.json").write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).resolve()))
