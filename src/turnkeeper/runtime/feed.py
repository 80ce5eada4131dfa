"""Fan-out of what was just committed. It holds no truth: a subscriber that fell behind reads the store."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from turnkeeper.core.run import Run
from turnkeeper.store.base import LogEntry, Notice

BACKLOG = 256
BACKLOG_BYTES = 1024 * 1024
"""What is kept for a slow subscriber; beyond that it reads from the store, so memory stays bounded."""


class Subscription:
    """Of one listener: whoever has it is the only one who waits."""

    def __init__(self) -> None:
        self._entries: list[LogEntry] = []
        self._bytes = 0
        self._has_news = False
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[None] | None = None
        # One timer for many waits: each of a thousand listeners waits after each event.
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self.run: Run | None = None
        """The run as of the last change heard; None if none was heard yet."""
        self.is_closed = False
        """Nothing more will come: the service stops, the run was removed, or the listener is gone."""

    def push(self, notice: Notice, size: int) -> None:
        self._entries += notice.entries
        self._bytes += size
        if len(self._entries) > BACKLOG or self._bytes > BACKLOG_BYTES:
            self._entries, self._bytes = [], 0
        if notice.run is not None:
            self.run = notice.run
        self.is_closed |= notice.is_gone
        self._tell()

    async def wait(self, timeout_sec: float) -> bool:
        """True when there is news; False after `timeout_sec` of silence."""
        if not self._has_news:
            self._until = self._loop.time() + timeout_sec
            if self._timer is None or self._timer.when() > self._until:
                self._look_again()
            self._waiting = self._loop.create_future()
            await self._waiting
        has_news, self._has_news = self._has_news, False
        return has_news

    def close(self) -> None:
        self.is_closed = True
        self._tell()

    def leave(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()

    def take(self, after: int = 0) -> list[LogEntry]:
        """What has come, without what has a number up to `after`."""
        entries, self._entries, self._bytes = self._entries, [], 0
        if entries and entries[0].seq <= after:
            return [entry for entry in entries if entry.seq > after]
        return entries

    def _tell(self) -> None:
        self._has_news = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _look_again(self) -> None:
        self.leave()
        self._timer = self._loop.call_at(self._until, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self._loop.time() >= self._until:
            self._wake()
        else:  # there was news meanwhile
            self._look_again()


class Feed:
    def __init__(self) -> None:
        self._is_closed = False
        self._subscribers: defaultdict[str, list[Subscription]] = defaultdict(list)

    def publish(self, notice: Notice) -> None:
        subscribers = self._subscribers.get(notice.run_id)
        if subscribers:
            size = sum(len(entry.body) for entry in notice.entries)
            for subscriber in subscribers:
                subscriber.push(notice, size)

    @contextmanager
    def subscribe(self, run_id: str) -> Iterator[Subscription]:
        subscription = Subscription()
        subscription.is_closed = self._is_closed
        self._subscribers[run_id].append(subscription)
        try:
            yield subscription
        finally:
            subscription.leave()
            self._subscribers[run_id].remove(subscription)
            if not self._subscribers[run_id]:
                del self._subscribers[run_id]

    def close(self) -> None:
        """The service stops: whoever listens is told that nothing more will come."""
        self._is_closed = True
        for subscribers in self._subscribers.values():
            for subscriber in subscribers:
                subscriber.close()

    def __len__(self) -> int:
        return sum(len(subscribers) for subscribers in self._subscribers.values())
