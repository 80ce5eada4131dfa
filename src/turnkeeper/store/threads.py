"""Threads that are there from the start: a machine at its limit of processes or memory would give none later."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from turnkeeper.core.errors import StorageUnavailable


def start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:
        raise _none(error) from error


def started(count: int, name: str) -> ThreadPoolExecutor:
    """An executor with all its threads running; Python would start each when it is first needed."""
    threads = ThreadPoolExecutor(count, thread_name_prefix=name)
    all_there = threading.Barrier(count + 1)
    try:
        for _ in range(count):
            threads.submit(all_there.wait)
    except RuntimeError as error:
        all_there.abort()  # else those that are there would wait for the others, and the process for them
        threads.shutdown(wait=False, cancel_futures=True)
        raise _none(error) from error
    all_there.wait()
    return threads


def _none(error: RuntimeError) -> StorageUnavailable:
    return StorageUnavailable(f"the machine gives the service no threads: {error}")
