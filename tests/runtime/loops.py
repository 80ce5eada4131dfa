"""An event loop for tests: its timers can be counted, and its time can be passed instead of slept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any
from weakref import WeakSet

from tests.harness import PATIENCE


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._passed = 0.0
        self._stopped: float | None = None
        self._made: WeakSet[asyncio.TimerHandle] = WeakSet()
        super().__init__()

    def time(self) -> float:
        return super().time() + self._passed if self._stopped is None else self._stopped

    @contextmanager
    def still(self) -> Iterator[None]:
        """Time does not pass, however slow the machine is."""
        self._stopped = self.time()
        try:
            yield
        finally:
            self._passed = self._stopped - super().time()
            self._stopped = None

    def call_at(  # type: ignore[override]  # the same, told without the types of the arguments
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        self._made.add(handle)
        return handle

    def timers(self) -> list[asyncio.TimerHandle]:
        """Those that are still to fire, the earliest first."""
        due = [handle for handle in self._made if not handle.cancelled() and handle.when() > self.time()]
        return sorted(due, key=asyncio.TimerHandle.when)

    async def skip(self, seconds: float) -> None:
        """Time passes at once; what was due meanwhile has been called when this returns."""
        self._passed += seconds
        await settle()


BACKEND = ("asyncio", {"loop_factory": Loop})
"""For a module's own `anyio_backend`."""


def this_loop() -> Loop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    return loop


async def settle() -> None:
    """Until every task that does not wait for the world has gone as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def until(holds: Callable[[], bool]) -> None:
    """For what the world does in its own time and tells nobody."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.005)
