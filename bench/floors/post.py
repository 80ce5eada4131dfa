"""A bare POST with a commit: a body of JSON is read, a row of the size of a run goes into SQLite as durably as ours do,
and JSON comes back. The server is uvicorn, set up as ours.

`python -m bench.floors.post FOLDER` is a process of its own; its address is the first line that it says.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.types import Receive, Scope, Send

from bench.service import Service

ROW = "x" * 1200
"""As many bytes as a queued run has in its row, with the event of its creation."""


class Post:
    def __init__(self, folder: Path) -> None:
        self._writer = ThreadPoolExecutor(1)
        self._connection = sqlite3.connect(folder / "bare.db", isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY, name TEXT, row TEXT)")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message["more_body"]:
                break
        name = json.loads(body)["skill_id"]
        number = await asyncio.get_running_loop().run_in_executor(self._writer, self._commit, name)
        answer = json.dumps({"run_id": str(number), "status": "queued"}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    def _commit(self, name: str) -> int | None:
        return self._connection.execute("INSERT INTO runs (name, row) VALUES (?, ?)", (name, ROW)).lastrowid


class _Server(uvicorn.Server):
    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"http://127.0.0.1:{port}", flush=True)


def serve(folder: Path) -> None:
    config = uvicorn.Config(
        Post(folder),
        port=0,
        http="h11",
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    _Server(config).run()


@contextmanager
def posting(folder: Path) -> Iterator[Service]:
    """It, until this is left."""
    words = [sys.executable, "-m", "bench.floors.post", str(folder)]
    began = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    started = Service(process, folder, began)
    try:
        started.found(process.stdout.readline().decode().strip())
        yield started
    finally:
        started.stop()
        process.stdout.close()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
