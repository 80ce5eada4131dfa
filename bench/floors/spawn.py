"""A bare spawn: asyncio starts the engine, gives it its words, reads what it says, and waits for its end."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path


async def spawned(engine: Path, words: str = "") -> float:
    """How long that takes."""
    pipe = asyncio.subprocess.PIPE
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(engine, stdin=pipe, stdout=pipe, stderr=pipe)
    await process.communicate(words.encode())
    took = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"the engine ended with {process.returncode}")
    return took
