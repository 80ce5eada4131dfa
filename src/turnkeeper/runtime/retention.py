"""Removes what is too old or too much: when somebody asks for it, and by itself if the settings say so.

First the record of a run goes, in one write that also notes it; then its folder; then the note. A crash in between
leaves the note, and the next start or the next removal ends what was begun. A run that has moved since it was found is
left alone. Files are deleted on a thread, and everything in pieces: nobody else waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from turnkeeper.core.errors import ShuttingDown, StorageFull, TurnkeeperError
from turnkeeper.core.journal import What
from turnkeeper.core.retention import Limits, Part
from turnkeeper.core.statechart import TERMINAL
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.journal import Journal
from turnkeeper.runtime.keys import OURSELVES
from turnkeeper.skills.clearing import HOME, RAW, Space, clear, measure
from turnkeeper.store.base import Resting, Stale, Store

log = logging.getLogger(__name__)

EVERY_SEC = 3600.0
JUMP = timedelta(hours=1)
"""A clock that far ahead of our seconds may be wrong, and what it makes old would be gone for good."""
PAGE = 1000
TOGETHER = 50
"""Runs that are removed in one piece, and with them so many events at the most."""
EVENTS_TOGETHER = 5000
LISTED = 1000
FOLDERS = {Part.HOMES: HOME, Part.LOGS: RAW}


@dataclass(frozen=True, slots=True)
class Going:
    """A run of which something is removed, and how much."""

    run: Resting
    space: Space


@dataclass(slots=True)
class Removed:
    """What was removed, or would be."""

    count: int = 0
    space: Space = field(default_factory=Space)
    first: list[Going] = field(default_factory=list)
    """The oldest of them."""
    undeleted: int = 0
    """Of these a file or more could not be deleted; of whole runs it is tried again at the next removal or start."""
    left: int | None = None
    """Bytes that all runs together still take, if they were counted."""

    def add(self, going: Going) -> None:
        self.count += 1
        self.space += going.space
        if len(self.first) < LISTED:
            self.first.append(going)


class Retention:
    def __init__(
        self,
        store: Store,
        runs_dir: Path,
        rules: Sequence[Limits],
        clock: Clock,
        *,
        every_sec: float = EVERY_SEC,
    ) -> None:
        self._store = store
        self._runs_dir = runs_dir
        self._rules = rules
        self._clock = clock
        self._journal = Journal(store, clock)
        self._every_sec = every_sec
        self._one_at_a_time = asyncio.Lock()
        self._is_stopping = False
        self._rounds: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Nothing waits for it. Without rules and without anything begun there is nothing to do, ever."""
        if self._rules or await self._store.removals():
            self._rounds = asyncio.create_task(self._go_round(), name="retention")

    def begin_stop(self) -> None:
        """It ends in the middle, between two pieces."""
        self._is_stopping = True

    async def stop(self) -> None:
        self.begin_stop()
        async with self._one_at_a_time:
            if self._rounds is not None:
                self._rounds.cancel()
        if self._rounds is not None:
            with suppress(asyncio.CancelledError):
                await self._rounds

    @property
    def is_busy(self) -> bool:
        return self._one_at_a_time.locked()

    async def remove(self, limits: Limits, *, dry_run: bool = False, by: str = OURSELVES) -> Removed:
        async with self._one_at_a_time:
            if not dry_run:
                await self._finish_begun()
            return await self._remove(limits, self._clock(), dry_run=dry_run, by=by)

    async def apply_rules(self, now: datetime) -> None:
        """What was begun is ended, and every rule of the settings is applied, once."""
        async with self._one_at_a_time:
            await self._finish_begun()
            for rule in self._rules:
                await self._remove(rule, now, dry_run=False)

    async def _go_round(self) -> None:
        loop, has_jumped = asyncio.get_running_loop(), False
        while not self._is_stopping:
            now, counted_from = self._clock(), loop.time()
            if has_jumped:
                log.warning("the clock has jumped ahead: nothing is removed until it was right for an hour")
            else:
                await self._try_rules(now)
            if not self._rules:
                return
            await asyncio.sleep(self._every_sec)
            has_jumped = self._clock() - now > timedelta(seconds=loop.time() - counted_from) + JUMP

    async def _try_rules(self, now: datetime) -> None:
        try:
            await self.apply_rules(now)
        except ShuttingDown:
            pass  # between two pieces; the next start goes on
        except TurnkeeperError as error:
            log.error("retention is tried again later: %s", error.message)
        except Exception:
            log.exception("retention stopped by a fault of ours; it is tried again later")

    async def _finish_begun(self) -> None:
        """What a crash, or a file that could not be deleted, has left of earlier removals."""
        begun = await self._store.removals()
        for at in range(0, len(begun), TOGETHER):
            self._go_on()
            await self._clear_runs(begun[at : at + TOGETHER])

    async def _remove(self, limits: Limits, now: datetime, *, dry_run: bool, by: str = OURSELVES) -> Removed:
        removed = Removed()
        try:
            await self._remove_into(removed, limits, now, dry_run=dry_run)
        finally:  # also of what was cut short: so much is gone
            if removed.count and not dry_run:
                detail = {"count": removed.count, "bytes": removed.space.total}
                await self._journal.note(
                    by=by, what=What.RUNS_PRUNED, subject=limits.part.value, detail=detail
                )
        _tell(removed, limits, dry_run=dry_run)
        return removed

    async def _remove_into(self, removed: Removed, limits: Limits, now: datetime, *, dry_run: bool) -> None:
        sizes = await self._sizes() if limits.keep_bytes is not None else None
        kept = None if sizes is None else sum(_part(space, limits.part).total for space in sizes.values())
        async for runs in self._pages(limits, now):
            self._go_on()
            spaces = (
                sizes
                if sizes is not None
                else await asyncio.to_thread(self._measure, [run.run_id for run in runs])
            )
            chosen = list(_choose(runs, spaces, limits, now, kept or 0))
            gone = chosen if dry_run else await self._take(chosen, limits.part, removed)
            for going in gone:
                removed.add(going)
            if kept is not None:
                kept -= sum(going.space.total for going in gone)
        removed.left = kept

    async def _pages(self, limits: Limits, now: datetime) -> AsyncIterator[list[Resting]]:
        """Oldest first, and no more at once than is removed in one piece."""
        until, last = limits.until(now), None
        while page := await self._store.resting(limits.states, until=until, after=last, limit=PAGE):
            for piece in _pieces(page):
                yield piece
            last = page[-1]

    async def _take(self, chosen: Sequence[Going], part: Part, removed: Removed) -> list[Going]:
        if part is Part.RUNS:
            return await self._take_whole(chosen, removed)
        paths = [(each.run.run_id, FOLDERS[part]) for each in chosen]
        cleared = {run_id for run_id, *_ in await asyncio.to_thread(self._clear, paths)}
        removed.undeleted += len(chosen) - len(cleared)
        return [each for each in chosen if each.run.run_id in cleared]

    async def _take_whole(self, chosen: Sequence[Going], removed: Removed) -> list[Going]:
        gone, problem = await self._forget(chosen, removed)
        if isinstance(problem, StorageFull):
            # It has no room for the write that would make room. What nothing needs after the end goes first.
            left = [each for each in chosen if each not in gone]
            over = [each.run.run_id for each in left if each.run.state in TERMINAL]
            parts = [(run_id, folder) for run_id in over for folder in FOLDERS.values()]
            await asyncio.to_thread(self._clear, parts)
            more, problem = await self._forget(left, removed)
            gone += more
        if problem is not None:
            raise problem
        return gone

    async def _forget(
        self, chosen: Sequence[Going], removed: Removed
    ) -> tuple[list[Going], BaseException | None]:
        """The records, then the folders: of which runs, and what went wrong with another."""
        # Handed in together, they are written together.
        outcomes = await asyncio.gather(
            *(self._store.remove(each.run) for each in chosen), return_exceptions=True
        )
        gone = [each for each, outcome in zip(chosen, outcomes, strict=True) if outcome is None]
        removed.undeleted += await self._clear_runs([each.run.run_id for each in gone])
        problems = (each for each in outcomes if each is not None and not isinstance(each, Stale))
        return gone, next(problems, None)

    async def _clear_runs(self, run_ids: Sequence[str]) -> int:
        """Whose records are gone. The number of those that could not be deleted, and keep their note."""
        cleared = await asyncio.to_thread(self._clear, [(run_id,) for run_id in run_ids])
        await asyncio.gather(*(self._store.finish_removal(run_id) for (run_id, *_) in cleared))
        return len(run_ids) - len(cleared)

    def _clear(self, paths: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Those that are gone. Blocking."""
        cleared = []
        for path in paths:
            try:
                clear(self._runs_dir, *path)
            except OSError as error:
                log.warning("run=%s: %s cannot be deleted: %s", path[0], "/".join(path), error)
            else:
                cleared.append(path)
        return cleared

    async def _sizes(self) -> dict[str, Space]:
        """Of every run's folder, also of those that stay: all of them have to fit.

        One that cannot be deleted belongs to no run any more, and the others must not go for it.
        """
        undeletable = set(await self._store.removals())
        names = [name for name in await asyncio.to_thread(self._names) if name not in undeletable]
        sizes: dict[str, Space] = {}
        for at in range(0, len(names), TOGETHER):
            self._go_on()
            sizes |= await asyncio.to_thread(self._measure, names[at : at + TOGETHER])
        return sizes

    def _names(self) -> list[str]:
        try:
            return sorted(each.name for each in self._runs_dir.iterdir())
        except FileNotFoundError:
            return []  # no run was ever started

    def _measure(self, run_ids: Iterable[str]) -> dict[str, Space]:
        return {run_id: measure(self._runs_dir / run_id) for run_id in run_ids}

    def _go_on(self) -> None:
        if self._is_stopping:
            raise ShuttingDown("the service is stopping; what was removed so far is gone, the rest is not")


def _pieces(runs: Sequence[Resting]) -> Iterator[list[Resting]]:
    piece: list[Resting] = []
    for run in runs:
        is_full = len(piece) == TOGETHER or sum(each.last_seq for each in piece) > EVENTS_TOGETHER
        if is_full:
            yield piece
            piece = []
        piece.append(run)
    if piece:
        yield piece


def _choose(
    runs: Iterable[Resting], spaces: Mapping[str, Space], limits: Limits, now: datetime, kept: int
) -> Iterator[Going]:
    for run in runs:
        space = _part(spaces.get(run.run_id, Space()), limits.part)
        is_old = limits.is_too_old(run.since, now)
        # What takes no space frees none; and of a part that is not there nothing can go.
        has_something = space.total > 0 or (is_old and limits.part is Part.RUNS)
        if has_something and (is_old or limits.is_too_much(kept)):
            kept -= space.total
            yield Going(run, space)


def _part(space: Space, part: Part) -> Space:
    match part:
        case Part.RUNS:
            return space
        case Part.HOMES:
            return Space(homes=space.homes)
        case Part.LOGS:
            return Space(logs=space.logs)


def _tell(removed: Removed, limits: Limits, *, dry_run: bool) -> None:
    if removed.count and not dry_run:
        log.info("removed %s of %d runs: %d bytes", limits.part, removed.count, removed.space.total)
