"""What clients can ask for: create, reply, cancel, and the reads beside them. Checks first, then one commit."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from turnkeeper.core import lifecycle, questions
from turnkeeper.core.access import Caller
from turnkeeper.core.change import Change
from turnkeeper.core.errors import (
    IdempotencyKeyReused,
    InvalidRequest,
    NotAllowedForKey,
    QueueFull,
    RunNotFound,
    ShuttingDown,
    StorageUnavailable,
)
from turnkeeper.core.run import Answer, Idempotency, Interaction, Resolution, Run
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.disk import Disk
from turnkeeper.runtime.dispatch import Dispatcher
from turnkeeper.runtime.feed import Feed
from turnkeeper.runtime.intake import Accepted, Intake, JobRequest
from turnkeeper.runtime.secrecy import Secrecy
from turnkeeper.store.base import KEY_KEPT, KeyTaken, Stale, Store

T = TypeVar("T")

UPLOAD = "upload"
"""What a run is held for until its files are there."""
SHORT = 500
"""Characters of a text in which secrets are looked for at once."""
OURSELVES = Caller(by="turnkeeper")
"""Whoever is in the house already."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The proof of an accepted reply; the same reply again gets the same receipt."""

    run: Run
    interaction_id: int
    answer: Answer


class Jobs:
    def __init__(
        self,
        *,
        store: Store,
        intake: Intake,
        dispatcher: Dispatcher,
        feed: Feed,
        disk: Disk,
        max_queued: int,
        clock: Clock,
        secrecy: Secrecy,
        in_hand: Callable[[str], Run | None],
    ):
        """`in_hand`: a run that is being worked for, as its last change left it."""
        self._store = store
        self._intake = intake
        self._dispatcher = dispatcher
        self._feed = feed
        self._disk = disk
        self._max_queued = max_queued
        self._clock = clock
        self._secrecy = secrecy
        self._in_hand = in_hand
        self._creating = 0
        self.is_closing = False

    async def create(
        self, request: JobRequest, idempotency: Idempotency | None = None, *, caller: Caller = OURSELVES
    ) -> Run:
        require_allowed(request, caller)
        if idempotency is not None:
            self._require_plain("the Idempotency-Key", idempotency.key)
            known = await self._known(idempotency)
            if known is not None:
                return known
        self._require_place()  # before anything is done for it: with a full queue there may be many that ask
        accepted = await asyncio.to_thread(self._accept, request, caller)
        now = self._clock()
        change = lifecycle.create(
            new_run_id(now),
            accepted.job,
            now,
            held=UPLOAD if accepted.upload_timeout is not None else None,
            due_at=now + accepted.upload_timeout if accepted.upload_timeout is not None else None,
            warnings=accepted.warnings,
            idempotency=idempotency,
            by=caller.by,
        )
        try:
            with self._room():
                return await self._store.commit(change)
        except KeyTaken:
            # Somebody sent the same request at the same moment, and was first.
            assert idempotency is not None
            known = await self._known(idempotency)
            return known or await self.create(request, idempotency, caller=caller)

    def _accept(self, request: JobRequest, caller: Caller) -> Accepted:
        """Blocking. What is wrong with a job is said first: that a larger disk would not mend."""
        try:
            accepted = self._intake.accept(request, among=caller.engines)
        except OSError as error:
            raise StorageUnavailable(f"the job cannot be looked at, nothing was stored: {error}") from error
        self._disk.require_room()
        return accepted

    async def run(self, run_id: str) -> Run:
        return _there(await self._store.run(run_id), run_id)

    async def settled(self, run_id: str, timeout_sec: float) -> Run:
        """The run as soon as it waits or has ended, or as it is after `timeout_sec`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_sec
        with self._feed.subscribe(run_id) as news:
            run = self._in_hand(run_id) or await self.run(run_id)
            while not is_settled(run):
                left = deadline - loop.time()
                if left <= 0 or not await news.wait(left):
                    return await self.run(run_id)  # with what was said meanwhile
                if news.is_closed:
                    break
                run = news.run or run
        return run

    async def asked(self, run_id: str, interaction_id: int | None = None) -> tuple[Run, Interaction | None]:
        """The run, and the question of that number, or else the one that is open."""
        found = await self._store.asked(run_id, interaction_id)
        return _there(found, run_id)

    async def reply(
        self,
        run_id: str,
        interaction_id: int,
        response: object,
        *,
        by: str,
        idempotency_key: str | None = None,
    ) -> Receipt:
        self._require_plain("the idempotency_key", idempotency_key or "")
        text = await self._hidden(reply_text(response))
        while True:
            run, interaction = await self.asked(run_id, interaction_id)
            if interaction is not None and await self._is_repeat(interaction, text, idempotency_key):
                assert interaction.answer is not None
                return Receipt(run, interaction_id, interaction.answer)
            change = questions.accept_reply(
                run, interaction, text, self._clock(), by=by, idempotency_key=idempotency_key
            )
            try:
                run = await self._store.commit(change)
            except Stale:
                continue  # somebody was quicker: read again, and let the table decide
            assert change.interaction is not None
            assert change.interaction.answer is not None
            return Receipt(run, interaction_id, change.interaction.answer)

    async def _hidden(self, text: str) -> str:
        """A long text can take seconds, a short one less than a way to a thread and back."""
        hide = self._secrecy.hide_text
        return hide(text) if len(text) <= SHORT else await asyncio.to_thread(hide, text)

    async def _is_repeat(self, interaction: Interaction, text: str, key: str | None) -> bool:
        """Also of a reply that was stored before something in it was known for a secret."""
        answer = interaction.answer
        if answer is None or answer.resolution_mode is not Resolution.USER_REPLY:
            return False
        return await self._hidden(answer.response) == text or (
            key is not None and answer.idempotency_key == key
        )

    def _require_plain(self, what: str, key: str) -> None:
        """By a key one is known again: it is stored as it is, or not at all."""
        if self._secrecy.has_secret(key):
            raise InvalidRequest(f"{what} holds a secret; use another one")

    async def complete_input(self, run_id: str, files: Mapping[str, Any], *, by: str) -> Run:
        """The files are there: the run joins the queue, whatever its length."""
        return await self._change(
            run_id, lambda run: lifecycle.complete_input(run, files, self._clock(), by=by)
        )

    async def cancel(self, run_id: str, *, by: str) -> Run:
        """Idempotent: a run that has ended, or is being ended, is returned as it is."""
        return await self._change(run_id, lambda run: lifecycle.cancel(run, self._clock(), by=by))

    async def _change(self, run_id: str, decide: Callable[[Run], Change | None]) -> Run:
        while True:
            run = await self.run(run_id)
            change = decide(run)
            if change is None:
                return run
            try:
                return await self._store.commit(change)
            except Stale:
                continue

    async def _known(self, idempotency: Idempotency) -> Run | None:
        kept = await self._store.kept_key(idempotency.name, self._clock() - KEY_KEPT)
        if kept is None:
            return None
        if kept.digest != idempotency.digest:
            raise IdempotencyKeyReused(
                f"the Idempotency-Key {idempotency.key!r} was used for another request"
            )
        return await self.run(kept.run_id)

    def _require_place(self) -> None:
        if self.is_closing:
            raise ShuttingDown("the service is stopping; try again when it is back")
        if self._dispatcher.waiting + self._creating >= self._max_queued + self._dispatcher.free:
            raise QueueFull(f"{self._dispatcher.waiting} runs are queued already; try again later")

    @contextmanager
    def _room(self) -> Iterator[None]:
        """A place in the queue while the run is being stored; many may ask at the same moment."""
        self._require_place()
        self._creating += 1
        try:
            yield
        finally:
            self._creating -= 1


def _there(found: T | None, run_id: str) -> T:
    if found is None:
        raise RunNotFound(f"there is no run {run_id!r}")
    return found


def require_allowed(request: JobRequest, caller: Caller) -> None:
    """Whether there is such a skill or engine is not told to who may not use it."""
    limits = (("skill", request.skill_id, caller.skills), ("engine", request.engine, caller.engines))
    for what, wanted, allowed in limits:
        if wanted is not None and allowed is not None and wanted not in allowed:
            names = sorted(allowed)
            raise NotAllowedForKey(
                f"this key may not use the {what} {wanted!r}, but: {', '.join(names)}", allowed=names
            )


def new_run_id(now: datetime) -> str:
    """Time first, so that ids sort by age and rows of one time lie together."""
    return f"{int(now.timestamp() * 1000):012x}{secrets.token_hex(10)}"


def is_settled(run: Run) -> bool:
    """It waits for a person or has ended; one that is being ended does neither yet."""
    return run.state.is_terminal or (run.pending_interaction_id is not None and run.ending is None)


def reply_text(response: object) -> str:
    """Engines get plain text: a bare text as it is, `{"text": …}` unwrapped, other JSON compact."""
    if isinstance(response, Mapping) and set(response) == {"text"} and isinstance(response["text"], str):
        return response["text"]
    return response if isinstance(response, str) else msgspec.json.encode(response).decode()
