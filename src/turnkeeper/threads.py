"""Threads that are there from the start: a machine at its limit of processes or memory would give none later."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from turnkeeper.core.errors import StorageUnavailable

T = TypeVar("T")
_Task = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


def start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:
        raise StorageUnavailable(f"the machine gives the service no threads: {error}") from error


class Hands:
    """For whatever may block. There and back is a queue and one call on the loop: an executor of the standard library
    makes two futures, a lock and a chain of calls between them, which takes twice as long."""

    def __init__(self, count: int, name: str) -> None:
        self._queue: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        try:
            for number in range(count):
                thread = threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True)
                start(thread)
                self._threads.append(thread)
        except StorageUnavailable:
            self.close()
            raise

    def do(self, call: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """To be awaited on the loop that is running. Who gives up waiting does not stop it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put((loop, future, call, args))
        return future

    def close(self) -> None:
        """When all that was asked for is done. Blocking."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            loop, future, call, args = task
            result, error = None, None
            try:
                result = call(*args)
            except BaseException as raised:  # noqa: BLE001 (it is raised where it is waited for)
                error = raised
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, future, result, error)
            del task, loop, future, call, args, result, error  # not kept alive until there is more to do


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
