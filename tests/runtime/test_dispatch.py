"""First come, first served, within the slots: plain values, no event loop."""

from __future__ import annotations

import pytest

from turnkeeper.runtime.dispatch import Capacity, Dispatcher, Place, Ticket, WaitsFor


class Desk:
    """A dispatcher, and the runs that it has started, in order."""

    def __init__(self, slots: int, sticky_slots: int = 1, *, is_open: bool = True, **limits: int) -> None:
        self.started: list[str] = []
        capacity = Capacity(slots=slots, sticky_slots=sticky_slots, engine_limits=limits)
        self.alone: set[str] = set()
        self.dispatcher = Dispatcher(
            capacity, lambda ticket: self.started.append(ticket.run_id), lambda engine: engine in self.alone
        )
        self._tickets: dict[str, Ticket] = {}
        if is_open:
            self.dispatcher.open()

    def offer(self, *run_ids: str, engine: str = "demo", is_sticky: bool = False) -> None:
        for run_id in run_ids:
            ticket = self._tickets.setdefault(run_id, Ticket(run_id, engine, is_sticky))
            self.dispatcher.offer(ticket)

    def release(self, run_id: str) -> None:
        self.dispatcher.release(self._tickets[run_id])

    def waits_for(self, run_id: str) -> WaitsFor | None:
        place = self.dispatcher.place(run_id)
        return None if place is None else place.waits_for


def test_first_come_first_served() -> None:
    desk = Desk(slots=2)
    desk.offer("a", "b", "c", "d", "e")
    assert desk.started == ["a", "b"]
    assert (desk.dispatcher.busy, desk.dispatcher.waiting) == (2, 3)
    desk.release("b")
    desk.release("a")
    assert desk.started == ["a", "b", "c", "d"]


def test_a_place_is_told_and_moves_up() -> None:
    desk = Desk(slots=1)
    desk.offer("a", "b", "c")
    assert desk.dispatcher.place("a") is None
    assert desk.dispatcher.place("b") == Place(1, WaitsFor.SLOT)
    assert desk.dispatcher.place("c") == Place(2, WaitsFor.SLOT)
    desk.release("a")
    assert desk.dispatcher.place("c") == Place(1, WaitsFor.SLOT)


def test_an_engine_limit_holds_up_its_own_runs_only() -> None:
    desk = Desk(slots=3, codex=1)
    desk.offer("a", "b", "c", engine="codex")
    desk.offer("d", engine="demo")
    assert desk.started == ["a", "d"]
    assert desk.waits_for("b") is WaitsFor.ENGINE_LIMIT
    desk.release("d")
    assert desk.started == ["a", "d"]
    desk.release("a")
    assert desk.started == ["a", "d", "b"]


@pytest.mark.failure("Q05")
def test_turns_that_share_a_login_file_never_overlap() -> None:
    desk = Desk(slots=3)
    desk.alone = {"codex"}
    desk.offer("a", "b", engine="codex")
    desk.offer("c", engine="demo")
    assert desk.started == ["a", "c"]
    assert desk.waits_for("b") is WaitsFor.ENGINE_LIMIT
    desk.alone = set()  # somebody set a key: from now on they may
    desk.release("c")
    assert desk.started == ["a", "c", "b"]


def test_the_sticky_limit_says_why_and_lets_others_pass() -> None:
    desk = Desk(slots=3, sticky_slots=1)
    desk.offer("a", "b", is_sticky=True)
    desk.offer("c", "d")
    assert desk.started == ["a", "c", "d"]
    assert desk.waits_for("b") is WaitsFor.SLOT
    desk.release("c")
    assert desk.waits_for("b") is WaitsFor.STICKY_SLOT
    desk.release("a")
    assert desk.started == ["a", "c", "d", "b"]


def test_a_run_that_is_withdrawn_is_never_started() -> None:
    desk = Desk(slots=1)
    desk.offer("a", "b", "c")
    desk.dispatcher.withdraw("b")
    desk.dispatcher.withdraw("nobody")
    desk.dispatcher.withdraw("a")  # it has its slot already; its owner lets go of it
    assert desk.dispatcher.busy == 1
    desk.release("a")
    assert desk.started == ["a", "c"]


def test_the_same_run_is_offered_twice_and_started_once() -> None:
    desk = Desk(slots=2, is_open=False)
    desk.offer("a", "b", "a")
    desk.dispatcher.open()
    assert desk.started == ["a", "b"]


def test_a_run_waits_until_its_own_last_turn_has_let_go() -> None:
    """A reply can come before the owner of the turn that asked has left."""
    desk = Desk(slots=2)
    desk.offer("a")
    desk.offer("a", "b")
    assert desk.started == ["a", "b"]
    desk.release("a")
    assert desk.started == ["a", "b", "a"]


def test_nothing_starts_while_it_is_closed() -> None:
    desk = Desk(slots=2, is_open=False)
    desk.offer("a", "b", "c")
    assert desk.started == []
    desk.dispatcher.open()
    assert desk.started == ["a", "b"]
    desk.dispatcher.close()
    desk.release("a")
    assert desk.started == ["a", "b"]
    assert desk.dispatcher.place("c") == Place(1, WaitsFor.SLOT)


def test_a_slot_is_released_once() -> None:
    desk = Desk(slots=1)
    desk.offer("a")
    desk.release("a")
    with pytest.raises(KeyError):
        desk.release("a")
    assert desk.dispatcher.busy == 0
