"""Notices when the event loop stands still, and says where: while it does, nobody else of us could.

A thread watches, but only while the loop is at work. A loop that waits for the world is looked at by nobody, so that an
idle service sleeps; one that is busy is looked at every few seconds, and not at every turn.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple

from turnkeeper.threads import Hands

log = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

AFTER_SEC = 5.0
"""What is on the loop takes milliseconds; whoever waits for an answer gives up after some seconds."""


@dataclass(slots=True)
class Hangs:
    """Counted from the start of the process; shown by `/metrics`."""

    count: int = 0
    longest_sec: float = 0.0


class Alarm:
    """`woke` and `rests` are called by the loop's thread, at every turn: they only note the time.

    The watcher is woken when the loop goes to work after a rest, and goes back to sleep when it finds the loop at rest.
    """

    def __init__(self, after_sec: float = AFTER_SEC) -> None:
        self.hangs = Hangs()
        self._after_sec = after_sec
        self._awake_since: float | None = None
        self._loop_thread = 0
        self._is_started = False
        self._is_off_duty = True
        self._called = threading.Event()
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="turnkeeper-alarm", daemon=True)

    def start(self) -> None:
        """From here on a hang is one: before, when the service is being put together, nobody waits for an answer."""
        if self._is_started:
            return
        try:
            self._watcher.start()
        except RuntimeError as error:
            log.warning("nobody tells when the event loop stands still: %s", error)
        else:
            self._is_started = True

    def stop(self) -> None:
        if self._is_started:
            self._stopped.set()
            self._called.set()
            self._watcher.join()

    @property
    def is_off_duty(self) -> bool:
        return self._is_off_duty

    @property
    def watcher_id(self) -> int | None:
        """As the kernel knows the thread."""
        return self._watcher.native_id

    def woke(self) -> None:
        if not self._is_started:
            return
        self._loop_thread = threading.get_ident()
        self._awake_since = time.monotonic()
        if self._is_off_duty:
            self._is_off_duty = False
            self._called.set()

    def rests(self) -> None:
        since, self._awake_since = self._awake_since, None
        if since is not None and (took := time.monotonic() - since) >= self._after_sec:
            self.hangs.count += 1
            self.hangs.longest_sec = max(self.hangs.longest_sec, took)
            log.error("the event loop stood still for %.1f s; it goes on", took)

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._called.wait()
            self._called.clear()
            self._watch_at_work()

    def _watch_at_work(self) -> None:
        """Until the loop rests."""
        told: float | None = None
        while not self._stopped.is_set():
            since = self._awake_since
            if since is None:
                self._is_off_duty = True
                if self._awake_since is None:
                    return
                self._is_off_duty = False  # it woke in this very moment, perhaps without calling
                continue
            left = since + self._after_sec - time.monotonic()
            if left <= 0 and since != told:
                told = since
                self._tell(time.monotonic() - since)
            self._stopped.wait(left if left > 0 else self._after_sec)

    def _tell(self, seconds: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)) if frame else "nobody knows where\n"
        log.error(
            "the event loop has stood still for %.1f s, and nobody is answered. It is here:\n%s",
            seconds,
            stack.rstrip(),
        )


class WatchedLoop(asyncio.SelectorEventLoop):
    """For `asyncio.Runner`: asyncio's own loop, with an alarm that is still to be started, and hands if it is given
    some."""

    def __init__(self, after_sec: float = AFTER_SEC) -> None:
        self.alarm = Alarm(after_sec)
        self.hands: Hands | None = None
        super().__init__(_Selector(self.alarm))

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """`asyncio.to_thread` comes here, and names no executor."""
        if executor is None and self.hands is not None:
            return self.hands.do(func, *args)
        return super().run_in_executor(executor, func, *args)

    def close(self) -> None:
        if not self.is_closed():
            self.alarm.stop()
            if self.hands is not None:
                self.hands.close()
        super().close()


class _Selector(selectors.DefaultSelector):
    """Where a loop waits: each call is a turn of it."""

    def __init__(self, alarm: Alarm) -> None:
        super().__init__()
        self._alarm = alarm

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._alarm.rests()
        try:
            return super().select(timeout)
        finally:
            self._alarm.woke()


def alarm_of(loop: asyncio.AbstractEventLoop) -> Alarm | None:
    """None for a loop that nobody watches."""
    return loop.alarm if isinstance(loop, WatchedLoop) else None
