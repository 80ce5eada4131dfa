"""Whether somebody is asking, or has lately: a service that was started for one command stops when nobody is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from turnkeeper.core.errors import StorageUnavailable


class Traffic:
    def __init__(self) -> None:
        self._open = 0
        self._last = time.monotonic()

    @contextmanager
    def counted(self) -> Iterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self._last = time.monotonic()

    @property
    def quiet_sec(self) -> float:
        """Since the last answer was whole; 0 while one is on its way, an open event stream too."""
        return 0.0 if self._open else time.monotonic() - self._last

    async def ceased(self, seconds: float, is_idle: Callable[[], Awaitable[bool]]) -> None:
        """Until nobody has asked for so long, and there is nothing to do."""
        while True:
            if await self._has_ceased(seconds, is_idle):
                return
            await asyncio.sleep(max(seconds - self.quiet_sec, seconds / 10))

    async def _has_ceased(self, seconds: float, is_idle: Callable[[], Awaitable[bool]]) -> bool:
        if self.quiet_sec < seconds:
            return False
        try:
            has_nothing_to_do = await is_idle()
        except StorageUnavailable:
            return False  # a disk in trouble is no reason to leave
        # Whoever came while we looked is somebody to stay for.
        return has_nothing_to_do and self.quiet_sec >= seconds
