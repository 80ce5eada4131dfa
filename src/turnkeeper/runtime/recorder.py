"""Gathers what an engine says into batches for the store. Readers of the pipes never wait for it to be done.

Memory stays bounded when the engine is faster than the disk: it is slowed down, but never stopped. Neighbouring deltas
and raw lines that are still waiting are joined, and unparsed output beyond a limit is only in the raw file.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Any

from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.core.fcmp import Event, RawRef, Type
from turnkeeper.core.run import Born, Handle
from turnkeeper.engines.lines import Line, plain
from turnkeeper.store.base import Batch, Stale, Store

log = logging.getLogger(__name__)

BATCH_SEC = 0.005
BATCH_BYTES = 256 * 1024
SHEET_BYTES = 1024 * 1024
"""Of what gathers while a batch is under way, the next takes so much: others write too."""
BEHIND = 4 * 1024 * 1024
"""With so much that is still to be written, whoever prints is slowed down: the loop reads as fast as it can, and the
thread that writes gets no share of Python's lock while it does."""
RAW_EVENT = 64 * 1024
RAW_TOTAL = 1024 * 1024
RETRY_SEC = 1.0
PENDING_MAX = 16 * 1024 * 1024
"""With the database stuck, or in a pause, events beyond this are left out, and whole messages beyond twice as much;
the raw log has it all."""
EVENT_COST = 500
"""What an event takes besides its words: objects in memory, an envelope on the disk."""
KEPT_ALWAYS = (Type.MESSAGE_FINAL, Type.WARNING)

JOINED = frozenset({Type.MESSAGE_DELTA, Type.RAW_STDOUT, Type.RAW_STDERR})
RAW_TYPES = {"stdout": Type.RAW_STDOUT, "stderr": Type.RAW_STDERR}


@dataclass(slots=True)
class _Sheet:
    """What one batch takes."""

    events: list[Event] = field(default_factory=list)
    size: int = 0


class Recorder:
    """One try of one turn. `lost` is called when the run is no longer ours to write."""

    def __init__(self, store: Store, batch: Batch, lost: Callable[[], None]) -> None:
        self._store = store
        self._batch = batch
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._sheets: deque[_Sheet] = deque()
        self._size = 0
        self._owed = 0
        """Full sheets that are still written after the close."""
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
    def is_behind(self) -> bool:
        return self._size > BEHIND

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
            is_kept = self._size <= PENDING_MAX or (
                event.type in KEPT_ALWAYS and self._size <= 2 * PENDING_MAX
            )
            if is_kept:
                self._put_down(event)
        self._schedule()

    def _put_down(self, event: Event) -> None:
        if not self._sheets or self._sheets[-1].size >= SHEET_BYTES:
            self._sheets.append(_Sheet())
        sheet = self._sheets[-1]
        joined = _join(sheet.events[-1], event) if sheet.events else None
        if joined is None:
            sheet.events.append(event)
        else:
            sheet.events[-1] = joined
        weight = _weight(event)
        sheet.size += weight
        self._size += weight

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
        self._sheets.clear()
        self._size = 0
        return said

    def go_on(self, unsaid: Iterable[Event] = ()) -> None:
        """`unsaid`: what the pause did not take, since it did not come about."""
        events = list(unsaid)
        if events:
            self._put_back(_Sheet(events, sum(map(_weight, events))))
        self._is_closed = self._is_refused = False
        if self._sheets or self._handle:
            self._schedule()

    async def close(self) -> list[Event]:
        """Waits for the batches under way; returns what they did not take, for the change that ends the turn."""
        self._is_closed = True
        self._owed = len(self._sheets) - 1  # an engine that lives on may say more, for ever
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        append = self._append
        if append is not None:
            await asyncio.wait([append])
        if self.error is not None:
            raise self.error
        return list(chain.from_iterable(sheet.events for sheet in self._sheets))

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
        while await self._write_sheet():
            if self._size < BATCH_BYTES or (self._is_closed and self._owed <= 0):
                self._append = None
                if self._sheets or self._handle:
                    self._schedule()
                return
            self._owed -= 1

    async def _write_sheet(self) -> bool:
        # Taken together, before the await: what becomes known meanwhile goes with the next batch.
        sheet = self._sheets.popleft() if self._sheets else _Sheet()
        batch = replace(
            self._batch, events=sheet.events, handle=self._handle, born=self._born, launch=self._launch
        )
        self._size -= sheet.size
        self._handle = self._born = self._launch = None
        try:
            await self._store.append(batch)
        except Stale:
            log.warning("run=%s lost its lease; its turn is given up", batch.run_id)
            self._lost()
        except StorageUnavailable as error:
            log.error("run=%s output not stored yet: %s", batch.run_id, error.message)
            self._try_later(batch, sheet)
        except Exception as error:  # noqa: BLE001 (told through `broken`, and the turn ends at once)
            self.broken.set_result(error)
        else:
            return True
        return False

    def _try_later(self, batch: Batch, sheet: _Sheet) -> None:
        self._put_back(sheet)
        self._handle, self._born = self._handle or batch.handle, self._born or batch.born
        self._launch = self._launch or batch.launch
        self._append = None
        if not self._is_closed:
            self._is_refused = True
            self._timer = self._loop.call_later(RETRY_SEC, self._flush)

    def _put_back(self, sheet: _Sheet) -> None:
        self._size += sheet.size
        if self._sheets and self._sheets[0].size + sheet.size < SHEET_BYTES:
            later = self._sheets.popleft()
            sheet = _Sheet([*sheet.events, *later.events], sheet.size + later.size)
        self._sheets.appendleft(sheet)


def _weight(event: Event) -> int:
    text = event.data.get("text")
    return EVENT_COST + (len(text) if isinstance(text, str) else len(repr(event.data)))


def _join(last: Event, event: Event) -> Event | None:
    """Two neighbours as one event, or None if they must stay two."""
    if last.type is not event.type or event.type not in JOINED:
        return None
    texts = (last.data.get("text", ""), event.data.get("text", ""))
    if len(texts[0]) + len(texts[1]) >= RAW_EVENT:
        return None
    ref = _span(last.raw_ref, event.raw_ref)
    if event.type is Type.MESSAGE_DELTA and last.data["message_id"] == event.data["message_id"]:
        return replace(last, data={**last.data, "text": texts[0] + texts[1]}, raw_ref=ref)
    if event.type is not Type.MESSAGE_DELTA:
        return replace(last, data={"text": f"{texts[0]}\n{texts[1]}"}, raw_ref=ref)
    return None


def _span(first: RawRef | None, second: RawRef | None) -> RawRef | None:
    if first is None or second is None:
        return first or second
    return replace(first, length=second.offset + second.length - first.offset)
