"""The reckoning: what the store holds, held against what every client was told, run by run and to the last event."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from tests.crash.restarts import Daemon
from tests.harm import Harm, Violation
from tests.harness import SKILLS, Json, assert_judged_alike, assert_log
from tests.load.listeners import digest_of
from tests.load.plan import Book, Heard, Winner
from turnkeeper.core.run import Attempt, Interaction, NextTurn, Resolution, Run
from turnkeeper.core.statechart import State
from turnkeeper.engines.registry import engines
from turnkeeper.runtime.stage import Stage
from turnkeeper.skills.package import Shelf
from turnkeeper.store.base import RunFilter
from turnkeeper.store.sqlite import SqliteStore
from turnkeeper.web.views import run_view

EVERYTHING = 1_000_000_000
JUDGED_AGAIN = 300
BY_A_KILL = {"ENGINE_CRASHED", "ENGINE_OOM_KILLED"}
"""How a run fails whose engine was killed; the second if the machine was short of memory at the same time."""


@dataclass(frozen=True, slots=True)
class Account:
    """A run with everything that is stored of it."""

    run: Run
    attempts: list[Attempt]
    asked: list[Interaction]
    bodies: list[bytes]
    recorded: list[Json]
    """What its engines wrote down themselves, a line for each turn that they played."""

    def __str__(self) -> str:
        return f"run {self.run.id} ({self.run.state.value})"

    @property
    def answered(self) -> dict[int, Winner]:
        given = {each.interaction_id: each.answer for each in self.asked if each.answer}
        log = [json.loads(body) for body in self.bodies]
        at = {
            event["data"]["interaction_id"]: event["data"]["accepted_at"]
            for event in log
            if event["type"] == "interaction.reply.accepted"
        }
        if set(at) != set(given) or any(
            answer.resolution_mode is not Resolution.USER_REPLY for answer in given.values()
        ):
            raise Violation(Harm.WRONG, f"{self}: {sorted(given)} were answered, the log tells of {at}")
        return {number: Winner(answer.response, answer.by, at[number]) for number, answer in given.items()}


async def settle_accounts(daemon: Daemon, book: Book) -> Counter[str]:
    """Of a service that has stopped; returns how many runs there are of each state."""
    if left := daemon.processes():
        raise Violation(Harm.LEFTOVER, f"{left}")
    async with daemon.store() as store:
        runs = await store.runs(RunFilter(), EVERYTHING)
        _compare_runs(runs, book)
        heard: defaultdict[str, list[Heard]] = defaultdict(list)
        for each in book.heard:
            heard[each.run_id].append(each)
        replies = opened = 0
        for run in runs:
            account = await _account(daemon, store, run)
            _check_log(account, heard[run.id])
            _check_end(account, book)
            _check_turns(account)
            replies += _check_replies(account, book)
            opened += sum(_opened_by_reply(each) for each in account.attempts)
        if not replies == opened == len(book.winners) == book.told["replies accepted"]:
            told = f"{replies} stored, {len(book.winners)} accepted, {opened} turns opened by them"
            raise Violation(Harm.LOST if replies < len(book.winners) else Harm.DOUBLED, f"replies: {told}")
        await _judge_again(daemon, store, runs, book)
    _check_service_log(daemon)
    return Counter(run.state.value for run in runs)


def _compare_runs(runs: list[Run], book: Book) -> None:
    stored, accepted = {run.id for run in runs}, set(book.accepted.values())
    if lost := accepted - stored:
        raise Violation(Harm.LOST, f"accepted, and not stored: {lost}")
    if doubled := stored - accepted:
        raise Violation(Harm.DOUBLED, f"stored, and nobody's: {doubled}")
    ended = {run.id: run.state.value for run in runs if run.state.is_terminal}
    if ended != book.ended:
        differ = set(ended.items()) ^ set(book.ended.items())
        raise Violation(Harm.LOST, f"runs that ended otherwise than told: {differ}")
    waiting = {run.id for run in runs if run.state is State.WAITING_USER}
    if waiting != set(book.waiting) or len(waiting) + len(ended) != len(accepted):
        raise Violation(Harm.LOST, f"runs that wait otherwise than told: {waiting ^ set(book.waiting)}")


async def _account(daemon: Daemon, store: SqliteStore, run: Run) -> Account:
    entries = await store.events(run.id, after=0, upto=None, limit=EVERYTHING)
    return Account(
        run,
        await store.attempts(run.id),
        await store.interactions(run.id),
        [entry.body for entry in entries],
        daemon.turns(run.id),
    )


def _check_log(account: Account, heard: list[Heard]) -> None:
    """Events 1..n, and every listener has heard exactly these bytes."""
    run, bodies = account.run, account.bodies
    assert_log([json.loads(body) for body in bodies], run_view(run, None))
    if len(bodies) != run.last_seq:
        raise Violation(Harm.LOST, f"{account}: {len(bodies)} events, and the last is {run.last_seq}")
    for each in heard:
        if each.is_whole and each.upto != run.last_seq:
            raise Violation(Harm.LOST, f"{account}: a listener was told of the end at {each.upto}")
        if each.upto > len(bodies) or each.digest != digest_of(bodies[: each.upto]):
            raise Violation(Harm.WRONG, f"{account}: a listener heard something else up to {each.upto}")


def _check_end(account: Account, book: Book) -> None:
    """A run fails because somebody killed its engine or the service under it, and for no other reason."""
    run = account.run
    was_cut_off = any((each.verdict or {}).get("verdict") == "interrupted" for each in account.attempts)
    match run.state, run.error and run.error.code.value:
        case State.WAITING_USER, _:
            is_fair = run.lease is None and run.pending_interaction_id is not None
        case State.SUCCEEDED, _:
            is_fair = True
        case State.FAILED, "RUN_INTERRUPTED":
            is_fair = was_cut_off
        case State.FAILED, code:
            is_fair = code in BY_A_KILL and run.id in book.struck
        case _:
            is_fair = False
    if not is_fair:
        raise Violation(Harm.WRONG, f"{account}: {run.error}, lease {run.lease}")
    last = max(account.answered, default=None)
    is_plain = last is not None and not was_cut_off and run.state is State.SUCCEEDED
    if is_plain and run.result != {"answer": account.answered[last or 0].text}:
        raise Violation(Harm.WRONG, f"{account}: answered with {account.answered}, ended with {run.result}")


def _check_turns(account: Account) -> None:
    """A turn that was judged by its words was played by its process, once; and no process played that is not known."""
    played = Counter(each["pid"] for each in account.recorded)
    known = Counter(each.born.pid for each in account.attempts if each.born)
    unknown = sum(each.born is None for each in account.attempts)
    if (played - known).total() > unknown:
        raise Violation(Harm.DOUBLED, f"{account}: {played} played, and {known} are known")
    for each in account.attempts:
        verdict = (each.verdict or {}).get("verdict")
        if each.ended_at is None or verdict is None:
            raise Violation(Harm.LOST, f"{account}: a turn has no end: {each}")
        if verdict in ("succeeded", "wait", "waiting_user") and not (each.born and played[each.born.pid]):
            raise Violation(Harm.LOST, f"{account}: nobody played {each}")


def _check_replies(account: Account, book: Book) -> int:
    answered = account.answered
    for number, winner in answered.items():
        if book.winners.get((account.run.id, number)) != winner:
            told = book.winners.get((account.run.id, number))
            raise Violation(Harm.WRONG, f"{account}: question {number} has {winner}, told was {told}")
    return len(answered)


def _opened_by_reply(attempt: Attempt) -> bool:
    return attempt.next_turn is NextTurn.REPLY and attempt.try_number == 1


async def _judge_again(daemon: Daemon, store: SqliteStore, runs: list[Run], book: Book) -> None:
    """Some of those that somebody did something to: the stored bytes give the same verdict."""
    stage = Stage(store, Shelf((SKILLS,)), engines({}), daemon.data_dir / "runs")
    moved = [run for run in runs if run.state.is_terminal]
    for run in book.chance.sample(moved, min(JUDGED_AGAIN, len(moved))):
        asked = await store.interactions(run.id)
        for attempt in await store.attempts(run.id):
            assert_judged_alike(stage, run, attempt, asked)


def _check_service_log(daemon: Daemon) -> None:
    """What is killed around the service is no fault of its own."""
    log = (daemon.data_dir.parent / "service.log").read_text()
    if faults := re.findall(r"^.*(?: ERROR |Traceback).*$", log, re.MULTILINE):
        raise Violation(Harm.WRONG, f"the service logged {len(faults)} faults: {faults[:5]}")
