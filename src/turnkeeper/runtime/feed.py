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
    def __init__(self) -> None:
        self._entries: list[LogEntry] = []
        self._bytes = 0
        self._news = asyncio.Event()
        self.run: Run | None = None
        """The run as of the last change heard; None if none was heard yet."""
        self.is_closed = False
        """Nothing more will come: the service stops, or the run was removed."""

    def push(self, notice: Notice) -> None:
        self._entries.extend(notice.entries)
        self._bytes += sum(len(entry.body) for entry in notice.entries)
        if len(self._entries) > BACKLOG or self._bytes > BACKLOG_BYTES:
            self._entries, self._bytes = [], 0
        if notice.run is not None:
            self.run = notice.run
        self.is_closed |= notice.is_gone
        self._news.set()

    async def wait(self, timeout_sec: float) -> bool:
        """True when there is news; False after `timeout_sec` of silence."""
        try:
            async with asyncio.timeout(timeout_sec):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def close(self) -> None:
        self.is_closed = True
        self._news.set()

    def take(self) -> list[LogEntry]:
        entries, self._entries, self._bytes = self._entries, [], 0
        return entries


class Feed:
    def __init__(self) -> None:
        self._is_closed = False
        self._subscribers: defaultdict[str, list[Subscription]] = defaultdict(list)

    def publish(self, notice: Notice) -> None:
        for subscriber in self._subscribers.get(notice.run_id, ()):
            subscriber.push(notice)

    @contextmanager
    def subscribe(self, run_id: str) -> Iterator[Subscription]:
        subscription = Subscription()
        subscription.is_closed = self._is_closed
        self._subscribers[run_id].append(subscription)
        try:
            yield subscription
        finally:
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
