"""First come, first served, within the slots. It holds no truth: after a restart every queued row comes again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from turnkeeper.core.run import Mode, Run
from turnkeeper.failpoints import Deed, around


class WaitsFor(StrEnum):
    SLOT = "slot"
    STICKY_SLOT = "sticky_slot"
    ENGINE_LIMIT = "engine_limit"


@dataclass(frozen=True, slots=True)
class Ticket:
    run_id: str
    engine: str
    is_sticky: bool

    @classmethod
    def of(cls, run: Run) -> Ticket:
        """A resident agent in auto mode plays one turn and leaves: it never holds its slot for a person."""
        return cls(run.id, run.job.engine, run.is_sticky and run.job.mode is Mode.INTERACTIVE)


@dataclass(frozen=True, slots=True)
class Place:
    position: int
    waits_for: WaitsFor


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    slots: int
    sticky_slots: int
    engine_limits: Mapping[str, int]


class Dispatcher:
    def __init__(
        self, capacity: Capacity, start: Callable[[Ticket], None], is_alone: Callable[[str], bool]
    ) -> None:
        """`is_alone`: whether an engine's turns must not overlap, at this moment."""
        self._capacity = capacity
        self._start = start
        self._is_alone = is_alone
        self._waiting: dict[str, Ticket] = {}  # in order of arrival
        self._busy: dict[str, Ticket] = {}
        self._engines: Counter[str] = Counter()
        self._is_open = False

    def open(self) -> None:
        """Nothing starts before recovery is through."""
        self._is_open = True
        self._pump()

    def close(self) -> None:
        self._is_open = False

    def offer(self, ticket: Ticket) -> None:
        self._waiting.setdefault(ticket.run_id, ticket)
        self._pump()

    def withdraw(self, run_id: str) -> None:
        self._waiting.pop(run_id, None)

    def release(self, ticket: Ticket) -> None:
        with around(Deed.RELEASE_SLOT):
            del self._busy[ticket.run_id]
            self._engines[ticket.engine] -= 1
        self._pump()

    @property
    def busy(self) -> int:
        return len(self._busy)

    @property
    def free(self) -> int:
        return self._capacity.slots - len(self._busy)

    @property
    def sticky(self) -> int:
        """Slots held by sticky runs, whether they play a turn or wait for a person."""
        return sum(ticket.is_sticky for ticket in self._busy.values())

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def waiting_sticky(self) -> int:
        return sum(ticket.is_sticky for ticket in self._waiting.values())

    def place(self, run_id: str) -> Place | None:
        """Where a queued run stands, and what it waits for."""
        ticket = self._waiting.get(run_id)
        if ticket is None:
            return None
        position = next(number for number, known in enumerate(self._waiting, 1) if known == run_id)
        return Place(position, self._obstacle(ticket, {}) or WaitsFor.SLOT)

    def _pump(self) -> None:
        if not self._is_open or self.free <= 0:
            return  # most often: a long queue is not gone through for nothing
        alone: dict[str, bool] = {}
        for ticket in list(self._waiting.values()):
            if len(self._busy) >= self._capacity.slots:
                return
            # The same run may still be letting go of its last turn; its release pumps again.
            if ticket.run_id not in self._busy and self._obstacle(ticket, alone) is None:
                with around(Deed.TAKE_SLOT):
                    del self._waiting[ticket.run_id]
                    self._busy[ticket.run_id] = ticket
                    self._engines[ticket.engine] += 1
                    self._start(ticket)

    def _obstacle(self, ticket: Ticket, alone: dict[str, bool]) -> WaitsFor | None:
        """`alone`: what is known by now of engines whose turns must not overlap; each is asked about once."""
        if len(self._busy) >= self._capacity.slots:
            return WaitsFor.SLOT
        if ticket.is_sticky and self.sticky >= self._capacity.sticky_slots:
            return WaitsFor.STICKY_SLOT
        busy, limit = self._engines[ticket.engine], self._capacity.engine_limits.get(ticket.engine)
        if busy and ticket.engine not in alone:
            alone[ticket.engine] = self._is_alone(ticket.engine)
        is_full = limit is not None and busy >= limit
        return WaitsFor.ENGINE_LIMIT if is_full or (busy and alone[ticket.engine]) else None
