"""The reference model: which worlds a run may be in, after what was done to it and what was answered.

Pure and small. An act takes a world to what may be answered and what may become of it then; whatever happens at the
same instant is every order of its acts. What is seen of the run keeps the worlds that fit: none left is a defect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import permutations

MOST_CUTS = 2
AUTO = "turnkeeper"
OK = "200"
REFUSED_BY_DISK = "STORAGE_UNAVAILABLE"


class Named(StrEnum):
    def __repr__(self) -> str:
        """As code: the steps of a failure are pasted into a test."""
        return f"{type(self).__name__}.{self.name}"


class Kind(Named):
    AUTO = "auto"
    RESUMABLE = "resumable"
    RESIDENT = "sticky_process"


class Outcome(Named):
    """How a turn ends, as its script says."""

    ASKS = "asks"
    DONE = "done"
    QUIET = "without marker"
    WRONG = "wrong output"
    EXITS = "bad exit"
    DIES = "signal"
    LEAVES = "result, then gone"


@dataclass(frozen=True, slots=True)
class End:
    state: str
    code: str | None = None
    warning: str | None = None


CANCELED = End("canceled")
WAIT_TIMEOUT = End("failed", "INTERACTION_WAIT_TIMEOUT")
PROCESS_LOST = End("failed", "INTERACTION_PROCESS_LOST")
INTERRUPTED = End("failed", "RUN_INTERRUPTED")
CRASHED = End("failed", "ENGINE_CRASHED")
UNWRITTEN = End("failed", "STORAGE_UNAVAILABLE")
UNHEARD = End("failed", "INTERNAL_ERROR")
ASKED = End("waiting_user")
INVALID = End("failed", "OUTPUT_INVALID")

ENDS = {
    Outcome.ASKS: ASKED,
    Outcome.DONE: End("succeeded"),
    Outcome.QUIET: End("succeeded", warning="INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER"),
    Outcome.WRONG: INVALID,
    Outcome.EXITS: End("failed", "ENGINE_FAILED"),
    Outcome.DIES: CRASHED,
    Outcome.LEAVES: End("succeeded", warning="ENGINE_FAILED_AFTER_RESULT"),
}
ENDS_AUTO = ENDS | {
    Outcome.ASKS: INVALID,
    Outcome.QUIET: End("succeeded"),
    Outcome.LEAVES: End("failed", "ENGINE_FAILED"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the job asked for."""

    kind: Kind
    strict: bool = True
    loadable: bool = True
    resumes: bool = True

    @property
    def has_deadline(self) -> bool:
        return self.kind is Kind.RESIDENT or not self.strict

    @property
    def can_load(self) -> bool:
        return self.kind is not Kind.RESIDENT or self.loadable


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    terms: Terms
    state: str = "queued"
    turn: int = 0
    answers: tuple[tuple[str, str], ...] = ()
    """Of each question, in their order: the words, and who said them."""
    end: End | None = None
    ending: End | None = None
    """It is decided, and comes when the process is gone."""
    asked_at: int = 0
    cuts: int = 0
    is_again: bool = False
    """What starts next is another try of the same turn."""
    is_middle: bool = False
    """The turn was seen in its middle: its session is known, and durable."""
    has_process: bool = False
    """A resident one, that waits or is about to hear a reply."""
    is_blocked: bool = False
    """The raw log of the next turn cannot be made."""
    doom: tuple[End, ...] = ()
    """The engine has spoken, and the disk took none of it: how that may end when it works again."""

    @property
    def is_over(self) -> bool:
        return self.end is not None

    @property
    def holds_slot(self) -> bool:
        return self.state == "running" or (self.has_process and not self.is_over)


Act = Callable[[World], Iterable[tuple[str, World]]]


def after(worlds: set[World], *done: tuple[Act, str]) -> set[World]:
    """Acts at the same instant with what each was answered: every order that explains the answers."""
    found: set[World] = set()
    for order in permutations(done):
        left = set(worlds)
        for act, answer in order:
            left = {became for world in quiet(left) for said, became in act(world) if said == answer}
        found |= left
    return quiet(found)


def every(worlds: set[World], act: Act) -> set[World]:
    """After something that answers nothing."""
    return quiet({became for world in quiet(worlds) for _, became in act(world)})


def quiet(worlds: Iterable[World]) -> set[World]:
    """With all that may happen by itself meanwhile."""
    found, new = set(), set(worlds)
    while new:
        found |= new
        new = {became for world in new for became in _by_itself(world)} - found
    return found


def over(world: World, end: End) -> World:
    return replace(world, state=end.state, end=end, ending=None, has_process=False, doom=())


def _by_itself(world: World) -> Iterator[World]:
    if world.ending is not None:
        yield over(world, world.ending)
    elif world.state == "queued":
        turn = world.turn + (not world.is_again)
        started = replace(
            world, state="running", turn=turn, is_middle=False, cuts=world.cuts * world.is_again
        )
        if world.answers and not world.terms.can_load and not world.has_process:
            yield over(started, PROCESS_LOST)
        elif world.is_blocked and not world.is_again:
            yield over(started, UNWRITTEN)
        yield started


def exits(outcome: Outcome, hop: int, *, disk_works: bool = True) -> Act:
    def act(world: World) -> Iterator[tuple[str, World]]:
        if world.state != "running":
            return
        ends = ENDS_AUTO if world.terms.kind is Kind.AUTO else ENDS
        end = ends[outcome]
        if world.ending is not None:
            yield OK, over(world, world.ending)
        elif not disk_works:
            is_silent = outcome in (Outcome.EXITS, Outcome.DIES)
            yield OK, replace(world, doom=(UNHEARD, UNWRITTEN, *([end] if is_silent else [])))
        elif end is ASKED:
            is_resident = world.terms.kind is Kind.RESIDENT
            yield OK, replace(world, state=end.state, asked_at=hop, is_again=False, has_process=is_resident)
        else:
            yield OK, over(world, end)

    return act


def speaks(*, disk_works: bool) -> Act:
    def act(world: World) -> Iterator[tuple[str, World]]:
        yield OK, world if disk_works else replace(world, doom=(UNHEARD, UNWRITTEN))

    return act


def heal(world: World) -> Iterator[tuple[str, World]]:
    yield from ((OK, over(world, world.ending or end)) for end in world.doom)
    if not world.doom:
        yield OK, world


def reply(number: int, words: str, by: str, *, disk_works: bool = True) -> Act:
    def act(world: World) -> Iterator[tuple[str, World]]:
        asked = len(world.answers) + (world.state == "waiting_user")
        if number <= len(world.answers):
            said, who = world.answers[number - 1]
            yield (OK if said == words and who != AUTO else "INTERACTION_ANSWERED"), world
        elif world.ending is not None:
            yield "RUN_ENDING", world
        elif world.state != "waiting_user":
            yield "RUN_NOT_WAITING", world
        elif number != asked:
            yield "INTERACTION_STALE", world
        elif not disk_works:
            yield REFUSED_BY_DISK, world
        else:
            yield OK, _answered(world, words, by)

    return act


def _answered(world: World, words: str, by: str) -> World:
    return replace(world, state="queued", answers=(*world.answers, (words, by)), is_again=False)


def cancel(*, disk_works: bool = True) -> Act:
    def act(world: World) -> Iterator[tuple[str, World]]:
        if world.is_over or world.ending is not None:
            yield OK, world
        elif not disk_works:
            yield REFUSED_BY_DISK, world
        elif world.holds_slot:
            yield OK, replace(world, ending=CANCELED)
        else:
            yield OK, over(world, CANCELED)

    return act


def passes_time(hop: int) -> Act:
    """It is so late now, and every deadline that has passed is applied."""

    def act(world: World) -> Iterator[tuple[str, World]]:
        is_due = world.state == "waiting_user" and world.terms.has_deadline and hop > world.asked_at
        if not is_due or world.ending is not None:
            yield OK, world
        elif not world.terms.strict:
            yield OK, _answered(world, AUTO, AUTO)
        elif world.has_process:
            yield OK, replace(world, ending=WAIT_TIMEOUT)
        else:
            yield OK, over(world, WAIT_TIMEOUT)

    return act


def engine_dies(world: World) -> Iterator[tuple[str, World]]:
    if world.state == "running":
        yield OK, over(world, world.ending or CRASHED)
    elif world.has_process:
        yield from _loses_process(world)
    else:
        yield OK, world


def goes_down(*, is_meant: bool) -> Act:
    """The service is gone, with or without a graceful step, and there again."""

    def act(world: World) -> Iterator[tuple[str, World]]:
        if world.is_over:
            yield OK, world
        elif world.ending is not None:
            yield OK, over(world, world.ending)
        elif world.state == "running":
            yield from ((OK, became) for became in _cut_off(world, cuts=world.cuts + (not is_meant)))
        elif world.state == "waiting_user":
            yield from _loses_process(world)
        else:
            yield OK, replace(world, has_process=False)

    return act


def _loses_process(world: World) -> Iterator[tuple[str, World]]:
    yield OK, replace(world, has_process=False) if world.terms.can_load else over(world, PROCESS_LOST)


def _cut_off(world: World, cuts: int) -> Iterator[World]:
    is_allowed = world.terms.resumes and cuts <= MOST_CUTS
    knows_session = world.is_middle or world.turn > 1
    if is_allowed and (world.terms.can_load or not world.is_middle):
        again = replace(world, state="queued", cuts=cuts, is_again=True, has_process=False, doom=())
        yield replace(again, is_blocked=False)
    if not is_allowed or not (knows_session and world.terms.can_load):
        yield over(world, INTERRUPTED)


Seen = tuple[str, int, Sequence[tuple[str, str]], str | None]
"""State, turn, answers and the code of a failure."""


def in_the_middle(worlds: set[World]) -> set[World]:
    """It was heard in the middle of its turn."""
    return {replace(world, is_middle=True) for world in worlds if not world.is_blocked}


def fitting(worlds: set[World], seen: Seen) -> set[World]:
    state, turn, answers, code = seen
    return {
        world
        for world in worlds
        if (world.state, world.turn, world.answers) == (state, turn, tuple(answers))
        and (world.end.code if world.end else None) == code
    }


def blocked(world: World) -> World:
    return replace(world, is_blocked=True)
