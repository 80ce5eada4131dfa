"""What clients can ask for: create, reply, cancel, and the reads beside them. Checks first, then one commit."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from turnkeeper.core import lifecycle
from turnkeeper.core.change import Change
from turnkeeper.core.errors import (
    EngineNotFound,
    EngineNotReady,
    IdempotencyKeyReused,
    InputInvalid,
    ProfileUnsupported,
    QueueFull,
    RunNotFound,
    ShuttingDown,
)
from turnkeeper.core.run import (
    Answer,
    Idempotency,
    Interaction,
    Job,
    Mode,
    OnInterrupted,
    Profile,
    Resolution,
    Run,
    Timeouts,
)
from turnkeeper.core.skill import Skill
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.base import Engine
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.dispatch import Dispatcher
from turnkeeper.runtime.feed import Feed
from turnkeeper.skills import schema
from turnkeeper.skills.package import Shelf
from turnkeeper.store.base import KEY_KEPT, KeyTaken, Stale, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A client's wish, before defaults."""

    skill_id: str
    engine: str | None = None
    input: Mapping[str, Any] = field(default_factory=dict)
    parameter: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    mode: Mode = Mode.AUTO
    strict: bool = True
    session_timeout_sec: float | None = None
    profile: ProfileKind | None = None
    timeouts: Mapping[str, float] = field(default_factory=dict)
    on_interrupted: OnInterrupted = OnInterrupted.RESUME


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The operator's choices that jobs are made with."""

    max_queued: int
    default_engine: str | None
    session_timeout_sec: float
    timeouts: Timeouts


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
        shelf: Shelf,
        engines: Mapping[str, Engine],
        dispatcher: Dispatcher,
        feed: Feed,
        policy: Policy,
        clock: Clock,
    ) -> None:
        self._store = store
        self._shelf = shelf
        self._engines = engines
        self._dispatcher = dispatcher
        self._feed = feed
        self._policy = policy
        self._clock = clock
        self.is_closing = False

    async def create(self, request: JobRequest, idempotency: Idempotency | None = None) -> Run:
        if idempotency is not None:
            known = await self._known(idempotency)
            if known is not None:
                return known
        skill = self._shelf.get(request.skill_id)
        job = self._job(request, skill)
        self._require_room()
        now = self._clock()
        change = lifecycle.create(new_run_id(now), job, now, warnings=skill.warnings, idempotency=idempotency)
        try:
            return await self._store.commit(change)
        except KeyTaken:
            # Somebody sent the same request at the same moment, and was first.
            assert idempotency is not None
            return await self._known(idempotency) or await self.create(request, idempotency)

    async def run(self, run_id: str) -> Run:
        run = await self._store.run(run_id)
        if run is None:
            raise RunNotFound(f"there is no run {run_id!r}")
        return run

    async def settled(self, run_id: str, timeout_sec: float) -> Run:
        """The run as soon as it waits or has ended, or as it is after `timeout_sec`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_sec
        with self._feed.subscribe(run_id) as news:
            run = await self.run(run_id)
            while not is_settled(run):
                left = deadline - loop.time()
                if left <= 0 or not await news.wait(left) or news.is_closed:
                    break
                run = news.run or run
        return run

    async def pending(self, run: Run) -> Interaction | None:
        if run.pending_interaction_id is None:
            return None
        return await self._store.interaction(run.id, run.pending_interaction_id)

    async def reply(
        self,
        run_id: str,
        interaction_id: int,
        response: object,
        *,
        by: str,
        idempotency_key: str | None = None,
    ) -> Receipt:
        text = reply_text(response)
        while True:
            run = await self.run(run_id)
            interaction = await self._store.interaction(run_id, interaction_id)
            if interaction is not None and _is_repeat(interaction, text, idempotency_key):
                assert interaction.answer is not None
                return Receipt(run, interaction_id, interaction.answer)
            change = lifecycle.accept_reply(
                run, interaction, text, self._clock(), by=by, idempotency_key=idempotency_key
            )
            try:
                run = await self._store.commit(change)
            except Stale:
                continue  # somebody was quicker: read again, and let the table decide
            assert change.interaction is not None
            assert change.interaction.answer is not None
            return Receipt(run, interaction_id, change.interaction.answer)

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
        kept = await self._store.kept_key(idempotency.key, self._clock() - KEY_KEPT)
        if kept is None:
            return None
        if kept.digest != idempotency.digest:
            raise IdempotencyKeyReused(
                f"the Idempotency-Key {idempotency.key!r} was used for another request"
            )
        return await self.run(kept.run_id)

    def _require_room(self) -> None:
        if self.is_closing:
            raise ShuttingDown("the service is stopping; try again when it is back")
        if self._dispatcher.waiting >= self._policy.max_queued:
            raise QueueFull(f"{self._dispatcher.waiting} runs are queued already; try again later")

    def _job(self, request: JobRequest, skill: Skill) -> Job:
        skill.require_mode(request.mode)
        engine = self._engine(request, skill)
        engine.require(skill, request.parameter)
        own = {key: value for key, value in request.parameter.items() if key in engine.own_parameters}
        rest = {key: value for key, value in request.parameter.items() if key not in own}
        parameter = _validated("parameter", skill.parameter_schema, rest)
        return Job(
            skill_id=skill.id,
            skill_version=skill.version,
            engine=engine.name,
            mode=request.mode,
            strict=request.strict,
            session_timeout_sec=request.session_timeout_sec or self._policy.session_timeout_sec,
            profile=_profile(engine, request),
            model=request.model,
            input=_validated("input", skill.input_schema, request.input),
            parameter={**parameter, **own},
            timeouts=replace(self._policy.timeouts, **{**skill.timeouts, **request.timeouts}),
            on_interrupted=request.on_interrupted,
            max_attempt=skill.max_attempt,
        )

    def _engine(self, request: JobRequest, skill: Skill) -> Engine:
        name = request.engine or self._policy.default_engine or self._first_ready(skill)
        skill.require_engine(name)
        engine = self._engines.get(name)
        if engine is None:
            raise EngineNotFound(f"there is no engine {name!r} here; there are: {', '.join(self._engines)}")
        ready = engine.readiness()
        if not ready.ready:
            raise EngineNotReady(
                f"{name} is not ready: {ready.reason}. To fix it: {ready.fix}", fix=ready.fix
            )
        return engine

    def _first_ready(self, skill: Skill) -> str:
        """A real engine, never the demo by surprise."""
        for name in skill.effective_engines(self._engines):
            engine = self._engines.get(name)
            if engine is not None and not engine.is_demo and engine.readiness().ready:
                return name
        raise EngineNotReady(
            "no engine was named and no real one is ready here; install one, set a default engine, "
            'or try the built-in one with "engine": "demo"'
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


def _is_repeat(interaction: Interaction, text: str, key: str | None) -> bool:
    answer = interaction.answer
    if answer is None or answer.resolution_mode is not Resolution.USER_REPLY:
        return False
    return answer.response == text or (key is not None and answer.idempotency_key == key)


def _profile(engine: Engine, request: JobRequest) -> Profile:
    if request.profile is None:
        best = engine.profiles[0]
        return Profile(
            best, "the engine can resume a session" if best is ProfileKind.RESUMABLE else "it cannot resume"
        )
    if request.profile not in engine.profiles:
        raise ProfileUnsupported(
            f"{engine.name} cannot wait as {request.profile.value!r}; it can: {', '.join(engine.profiles)}"
        )
    return Profile(request.profile, "asked for by the job")


def _validated(what: str, wanted: Mapping[str, Any] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    value = schema.defaults(wanted, given)
    errors = schema.errors(wanted, value) if wanted else []
    if errors:
        listed = [f"/{what}{error}" for error in errors]
        raise InputInvalid(f"{what} does not fit the skill's schema: {'; '.join(listed)}", errors=listed)
    return value
