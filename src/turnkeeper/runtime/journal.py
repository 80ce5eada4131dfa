"""Keeps the journal: who changed what, beside the logs that runs have themselves."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from turnkeeper.core.errors import StorageUnavailable
from turnkeeper.core.journal import Entry
from turnkeeper.runtime.clock import Clock
from turnkeeper.store.base import Store

log = logging.getLogger(__name__)


class Journal:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def entry(self, *, by: str, what: str, subject: str, detail: Mapping[str, Any] | None = None) -> Entry:
        """For a change in the database: whoever writes it writes this with it. `what` is one of `core.journal.What`."""
        return Entry(at=self._clock(), by=by, what=what, subject=subject, detail=detail or {})

    async def note(
        self, *, by: str, what: str, subject: str, detail: Mapping[str, Any] | None = None
    ) -> None:
        """For a change that was made elsewhere, on the disk say. It cannot be taken back for want of an entry: what
        cannot be written, on a full disk, stands in the log of the service instead."""
        entry = self.entry(by=by, what=what, subject=subject, detail=detail)
        try:
            await self._store.note(entry)
        except StorageUnavailable as error:
            log.error("not in the journal: %s %s by %s: %s", what, subject, by, error.message)
