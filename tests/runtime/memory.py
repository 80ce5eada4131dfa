"""A store that forgets: the parts of the port that deadlines and recorders use, without threads or files.

Whatever is asked of it can be held up (`hold`) or refused (`refuse`), so that a test meets an exact moment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import cast

from turnkeeper.core.change import Change
from turnkeeper.core.run import Interaction, Run
from turnkeeper.store.base import Batch, Stale, Store


class MemoryStore:
    def __init__(self) -> None:
        self.known: dict[str, Run] = {}
        self.questions: dict[tuple[str, int], Interaction] = {}
        self.changes: list[Change] = []
        self.batches: list[Batch] = []
        self.asked: Counter[str] = Counter()
        self._doors: dict[str, asyncio.Event] = {}
        self._refusals: dict[str, list[Exception]] = {}

    @property
    def port(self) -> Store:
        """What is missing here is not used by the part under test; it would fail loudly."""
        return cast(Store, self)

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Calls of that name get their answer ready and do not return before the end of this block."""
        self._doors[name] = asyncio.Event()
        try:
            yield
        finally:
            self._doors.pop(name).set()

    def refuse(self, name: str, *errors: Exception) -> None:
        """The next calls of that name raise these, one each."""
        self._refusals.setdefault(name, []).extend(errors)

    async def _enter(self, name: str) -> None:
        self.asked[name] += 1
        if self._refusals.get(name):
            raise self._refusals[name].pop(0)

    async def _leave(self, name: str) -> None:
        if name in self._doors:
            await self._doors[name].wait()

    async def run(self, run_id: str) -> Run | None:
        await self._enter("run")
        return self.known.get(run_id)

    async def interaction(self, run_id: str, interaction_id: int) -> Interaction | None:
        return self.questions.get((run_id, interaction_id))

    async def commit(self, change: Change) -> Run:
        await self._enter("commit")
        now = self.known.get(change.after.id)
        if change.before is not None and (now is None or now.version != change.before.version):
            raise Stale(change.after.id)
        self.known[change.after.id] = change.after
        if change.interaction is not None:
            key = (change.after.id, change.interaction.interaction_id)
            self.questions[key] = change.interaction
        self.changes.append(change)
        return change.after

    async def append(self, batch: Batch) -> None:
        await self._enter("append")
        await self._leave("append")
        self.batches.append(replace(batch, events=tuple(batch.events)))

    async def due(self, now: datetime, limit: int) -> list[str]:
        await self._enter("due")
        late = [run for run in self.known.values() if run.due_at is not None and run.due_at <= now]
        found = [run.id for run in sorted(late, key=lambda run: run.due_at or now)][:limit]
        await self._leave("due")
        return found

    async def next_due(self) -> datetime | None:
        await self._enter("next_due")
        found = min((run.due_at for run in self.known.values() if run.due_at is not None), default=None)
        await self._leave("next_due")
        return found
