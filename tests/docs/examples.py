"""The example front end with its own server, for the tests that call it and for the browser that opens it."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.harness import PATIENCE, TOKEN, Place

EXAMPLES = Path(__file__).parents[2] / "examples"


def env(place: Place, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "TURNKEEPER_URL": place.client.url, "TURNKEEPER_TOKEN": TOKEN, **more}


@asynccontextmanager
async def served(env: dict[str, str]) -> AsyncIterator[str]:
    """The address of the example's own server."""
    script = str(EXAMPLES / "html" / "serve.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, env={**env, "PORT": "0"}, stdout=PIPE, stderr=DEVNULL
    )
    assert process.stdout is not None
    try:
        yield (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip()
    finally:
        process.terminate()
        await process.wait()
