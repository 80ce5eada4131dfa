"""Waiting for the first of several things."""

from __future__ import annotations

import asyncio
from typing import Any


async def first(*futures: asyncio.Future[Any], timeout: float | None = None) -> None:
    """Futures, not tasks: a turn costs one task however many things it waits for."""
    await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
