"""Gathers what an engine says into batches for the store. Readers of the pipes never wait for it.

Memory stays bounded when the engine is faster than the disk: neighbouring deltas and raw lines that are still
waiting are joined, and unparsed output beyond a limit is only in the raw file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.core.fcmp import Event, RawRef, Type
from turnkeeper.core.run import Born, Handle
from turnkeeper.engines.lines import Line, plain
from turnkeeper.store.base import Batch, Stale, Store

log = logging.getLogger(__name__)

BATCH_SEC = 0.005
BATCH_BYTES = 256 * 1024
RAW_EVENT = 64 * 1024
RAW_TOTAL = 1024 * 1024
RETRY_SEC = 1.0
PENDING_MAX = 16 * 1024 * 1024
"""With the database stuck, or in a pause, events beyond this are left out, and whole messages beyond twice as much;
the raw log has it all."""
KEPT_ALWAYS = (Type.MESSAGE_FINAL, Type.WARNING)

RAW_TYPES = {"stdout": Type.RAW_STDOUT, "stderr": Type.RAW_STDERR}


class Recorder:
    """One try of one turn. `lost` is called when the run is no longer ours to write."""

    def __init__(self, store: Store, batch: Batch, lost: Callable[[], None]) -> None:
        self._store = store
        self._batch = batch
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._pending: list[Event] = []
        self._size = 0
        self._raw_left = RAW_TOTAL
        self._handle: Handle | None = None
        self._born: Born | None = None
        self._launch: Mapping[str, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._append: asyncio.Task[None] | None = None
        self._is_closed = False
        self._is_refused = False
        """The database could not take the last batch: it is asked again by the timer, not by every line."""
        self.broken: asyncio.Future[Exception] = self._loop.create_future()
        """A batch that cannot be written at all: a fault of ours, and the end of the turn."""

    @property
    def error(self) -> Exception | None:
        return self.broken.result() if self.broken.done() else None

    def bear(self, born: Born, launch: Mapping[str, Any]) -> None:
        """Saved with the first batch, so that it costs no commit of its own."""
        self._born, self._launch = born, launch

    def know(self, handle: Handle) -> None:
        """A crash after this is durable can still resume the session."""
        self._handle = handle
        self._schedule()

    def ref(self, stream: str, line: Line) -> RawRef:
        return RawRef(self._batch.try_number, stream, line.offset, line.length)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            is_kept = event.type in KEPT_ALWAYS and self._size <= 2 * PENDING_MAX
            if self._size > PENDING_MAX and not is_kept:
                continue
            last = self._pending[-1] if self._pending else None
            joined = _join(last, event) if last else None
            if joined is None:
                self._pending.append(event)
            else:
                self._pending[-1] = joined
            self._size += _weight(event)
        self._schedule()

    def add_raw(self, stream: str, line: Line, now: datetime) -> bool:
        """A line that no parser understood; False when it is only in the raw log."""
        if self._raw_left <= 0:
            return False
        text = plain(line.data)[: min(self._raw_left, RAW_EVENT)]
        self._raw_left -= len(text) + 1
        ref = self.ref(stream, line)
        attempt = self._batch.attempt_number
        self.add([Event(RAW_TYPES[stream], {"text": text}, now, attempt, ref)])
        return True

    async def pause(self) -> list[Event]:
        """As `close`; what is said from now on is kept for later: nothing is appended to a run that waits."""
        said = await self.close()
        self._pending, self._size = [], 0
        return said

    def go_on(self, unsaid: Iterable[Event] = ()) -> None:
        """`unsaid`: what the pause did not take, since it did not come about."""
        self._pending = [*unsaid, *self._pending]
        self._size = sum(_weight(event) for event in self._pending)
        self._is_closed = self._is_refused = False
        if self._pending or self._handle:
            self._schedule()

    async def close(self) -> list[Event]:
        """Waits for the batch under way; returns what it did not take, for the change that ends the turn."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        append = self._append
        if append is not None:
            await asyncio.wait([append])
        if self.error is not None:
            raise self.error
        return list(self._pending)

    def _schedule(self) -> None:
        if self._is_closed or self._is_refused or self._append is not None:
            return
        if self._size >= BATCH_BYTES:
            self._flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(BATCH_SEC, self._flush)

    def _flush(self) -> None:
        self._is_refused = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_closed and self._append is None:
            self._append = asyncio.create_task(self._write())

    async def _write(self) -> None:
        # Taken together, before the await: what becomes known meanwhile goes with the next batch.
        batch = replace(
            self._batch, events=self._pending, handle=self._handle, born=self._born, launch=self._launch
        )
        self._pending, self._size = [], 0
        self._handle = self._born = self._launch = None
        try:
            await self._store.append(batch)
        except Stale:
            log.warning("run=%s lost its lease; its turn is given up", batch.run_id)
            self._lost()
            return
        except StorageUnavailable as error:
            log.error("run=%s output not stored yet: %s", batch.run_id, error.message)
            self._put_back(batch)
            return
        except Exception as error:  # noqa: BLE001 (told through `broken`, and the turn ends at once)
            self.broken.set_result(error)
            return
        self._append = None
        if self._pending or self._handle:
            self._schedule()

    def _put_back(self, batch: Batch) -> None:
        self._pending = [*batch.events, *self._pending]
        self._size = sum(_weight(event) for event in self._pending)
        self._handle, self._born = self._handle or batch.handle, self._born or batch.born
        self._launch = self._launch or batch.launch
        self._append = None
        if not self._is_closed:
            self._is_refused = True
            self._timer = self._loop.call_later(RETRY_SEC, self._flush)


def _weight(event: Event) -> int:
    text = event.data.get("text")
    return 200 + (len(text) if isinstance(text, str) else len(repr(event.data)))


def _join(last: Event, event: Event) -> Event | None:
    """Two neighbours as one event, or None if they must stay two."""
    if last.type is not event.type:
        return None
    texts = (last.data.get("text", ""), event.data.get("text", ""))
    if len(texts[0]) + len(texts[1]) >= RAW_EVENT:
        return None
    ref = _span(last.raw_ref, event.raw_ref)
    if event.type is Type.MESSAGE_DELTA and last.data["message_id"] == event.data["message_id"]:
        return replace(last, data={**last.data, "text": texts[0] + texts[1]}, raw_ref=ref)
    if event.type in (Type.RAW_STDOUT, Type.RAW_STDERR):
        return replace(last, data={"text": f"{texts[0]}\n{texts[1]}"}, raw_ref=ref)
    return None


def _span(first: RawRef | None, second: RawRef | None) -> RawRef | None:
    if first is None or second is None:
        return first or second
    return replace(first, length=second.offset + second.length - first.offset)
