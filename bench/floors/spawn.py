"""A bare spawn: asyncio starts the engine, gives it its words, reads what it says, and waits for its end."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path


async def spawned(engine: Path, words: str = "") -> float:
    """How long that takes."""
    return await ended(engine, words=words)


async def ended(*argv: str | Path, words: str = "") -> float:
    """How long that takes of any program."""
    pipe = asyncio.subprocess.PIPE
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe)
    _, said = await process.communicate(words.encode())
    took = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"{argv[-1]} ended with {process.returncode}: {said.decode(errors='replace')}")
    return took
