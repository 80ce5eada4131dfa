"""Makes a Job out of a client's wish: every default settled, everything checked before anything is stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from turnkeeper.core.errors import (
    EngineNotFound,
    EngineNotReady,
    InputInvalid,
    ModelUnknown,
    PermissionsUnsupported,
    ProfileUnsupported,
    Warn,
)
from turnkeeper.core.run import Job, Mode, OnInterrupted, Permissions, Profile, RunWarning, Timeouts
from turnkeeper.core.skill import Skill
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.base import Engine, Readiness
from turnkeeper.runtime.secrecy import Secrecy
from turnkeeper.runtime.secrets import Secrets
from turnkeeper.skills import schema, uploads
from turnkeeper.skills.package import Shelf

ASKED_FOR = "asked for by the job"
MOST_POINTERS, LONGEST_POINTER = 20, 200
"""Places of secrets that a warning names."""


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
    permissions: Permissions = Permissions.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The operator's choices that jobs are made with."""

    max_queued: int
    default_engine: str | None
    session_timeout_sec: float
    upload_timeout_sec: float = 3600.0
    timeouts: Timeouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    job: Job
    warnings: tuple[RunWarning, ...]
    """What is worth telling about its skill."""
    upload_timeout: timedelta | None
    """How long its files may take to come; None if it needs none."""


class Intake:
    def __init__(
        self, shelf: Shelf, engines: Mapping[str, Engine], policy: Policy, secrecy: Secrecy, secrets: Secrets
    ) -> None:
        self._secrecy = secrecy
        self._secrets = secrets
        self._shelf = shelf
        self._engines = engines
        self._policy = policy

    def accept(self, request: JobRequest, *, among: Collection[str] | None = None) -> Accepted:
        """`among`: the engines that may be chosen, if the job names none. Blocking: it may read the skill's files."""
        request, masked = self._masked(request)
        skill = self._shelf.get(request.skill_id)
        skill.require_mode(request.mode)
        engine = self._engine(request, skill, among)
        profile = _profile(engine, request)
        ready = _require_ready(engine, profile.kind)
        engine.require(skill, request.parameter)
        _require_model(engine, request.model)
        self._secrets.require(skill.id, skill.secrets)
        own = {key: value for key, value in request.parameter.items() if key in engine.own_parameters}
        rest = {key: value for key, value in request.parameter.items() if key not in own}
        parameter = _validated("parameter", skill.parameter_schema, rest)
        job = Job(
            skill_id=skill.id,
            skill_version=skill.version,
            contract=skill.contract(engine.name),
            engine=engine.name,
            mode=request.mode,
            strict=request.strict,
            session_timeout_sec=request.session_timeout_sec or self._policy.session_timeout_sec,
            profile=profile,
            model=request.model or engine.default_model,
            input=_input(skill, request.input),
            parameter={**parameter, **own},
            timeouts=replace(self._policy.timeouts, **{**skill.timeouts, **request.timeouts}),
            on_interrupted=request.on_interrupted,
            permissions=request.permissions,
            max_attempt=skill.max_attempt,
        )
        needs_files = bool(uploads.expected(skill.file_inputs, job.input))
        upload_timeout = timedelta(seconds=self._policy.upload_timeout_sec) if needs_files else None
        return Accepted(
            job=job, warnings=(*skill.warnings, *_about(ready), *masked), upload_timeout=upload_timeout
        )

    def _masked(self, request: JobRequest) -> tuple[JobRequest, list[RunWarning]]:
        """Whoever pastes a key is told so. The agent gets the stars as well: what it needs is granted to its skill."""
        places: list[str] = []
        told = {"input": request.input, "parameter": request.parameter, "model": request.model}
        shown = self._secrecy.hide_json(told, places)
        if not places:
            return request, []
        where = ", ".join(place[:LONGEST_POINTER] for place in sorted(places)[:MOST_POINTERS])
        more = f" and {len(places) - MOST_POINTERS} more" if len(places) > MOST_POINTERS else ""
        message = f"a secret was replaced by stars at {where}{more}; the agent gets the stars, too"
        return replace(request, **shown), [RunWarning(Warn.SECRET_MASKED, message)]

    def _engine(self, request: JobRequest, skill: Skill, among: Collection[str] | None) -> Engine:
        name = request.engine or self._default(among) or self._first_ready(skill, among)
        skill.require_engine(name)
        engine = self._engines.get(name)
        if engine is None:
            raise EngineNotFound(f"there is no engine {name!r} here; there are: {', '.join(self._engines)}")
        return engine

    def _default(self, among: Collection[str] | None) -> str | None:
        """The operator's choice, if it may be chosen. To who has no choice, not even the demo is a surprise."""
        default = self._policy.default_engine
        if among is None or default in among:
            return default
        return next(iter(among)) if len(among) == 1 else None

    def _first_ready(self, skill: Skill, among: Collection[str] | None) -> str:
        """A real engine, never the demo by surprise."""
        for name in skill.effective_engines(self._engines):
            engine = self._engines.get(name)
            may_be = among is None or name in among
            if engine is not None and may_be and not engine.is_demo and engine.readiness().ready:
                return name
        raise EngineNotReady(
            "no engine was named and no real one is ready here; install one (turnkeeper engines install codex), "
            "set a default engine, "
            'or try the built-in one with "engine": "demo"'
        )


def _require_ready(engine: Engine, kind: ProfileKind) -> Readiness:
    ready = engine.readiness(kind)
    if not ready.ready:
        raise EngineNotReady(
            f"{engine.name} is not ready: {ready.reason}. To fix it: {ready.fix}", fix=ready.fix
        )
    return ready


def _about(ready: Readiness) -> tuple[RunWarning, ...]:
    return (RunWarning(Warn.ENGINE_VERSION_UNTESTED, ready.warning),) if ready.warning else ()


def _profile(engine: Engine, request: JobRequest) -> Profile:
    if request.profile is not None and request.profile not in engine.profiles:
        raise ProfileUnsupported(
            f"{engine.name} cannot wait as {request.profile.value!r}; it can: {', '.join(engine.profiles)}"
        )
    if request.permissions is not Permissions.ALLOW:
        _require_asks(engine, request)
        return Profile(ProfileKind.STICKY, "only a resident agent can be answered in the middle of a turn")
    if request.mode is Mode.AUTO and ProfileKind.RESUMABLE in engine.profiles:
        return Profile(ProfileKind.RESUMABLE, "auto mode never waits and runs headless")
    if request.profile is not None:
        return Profile(request.profile, ASKED_FOR)
    best = engine.profiles[0]
    can = "can" if best is ProfileKind.RESUMABLE else "cannot"
    return Profile(best, f"the engine {can} resume a session in a new process")


def _require_asks(engine: Engine, request: JobRequest) -> None:
    wanted = f"permissions {request.permissions.value!r}"
    if request.permissions is Permissions.ASK and request.mode is Mode.AUTO:
        raise PermissionsUnsupported(f"{wanted}: in auto mode there is nobody to ask; use 'allow' or 'deny'")
    if not engine.asks or ProfileKind.STICKY not in engine.profiles:
        raise PermissionsUnsupported(
            f"{wanted}: {engine.name} is not known to ask before it acts; use 'allow'"
        )
    if request.profile is ProfileKind.RESUMABLE:
        raise PermissionsUnsupported(
            f"{wanted}: a process for each turn cannot be answered in its middle; use the profile 'sticky_process'"
        )


def _require_model(engine: Engine, model: str | None) -> None:
    if model is not None and engine.models and model not in engine.models:
        raise ModelUnknown(f"{engine.name} has no model {model!r}; it has: {', '.join(engine.models)}")


def _input(skill: Skill, given: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in the job itself; files are checked when they come, and until then at most named."""
    files = {each.key for each in skill.file_inputs}
    if skill.input_schema is None or not files:
        return _validated("input", skill.input_schema, given)
    if errors := uploads.misnamed(skill.file_inputs, given):
        raise InputInvalid(f"input does not fit the skill's schema: {'; '.join(errors)}", errors=errors)
    inline = {key: value for key, value in given.items() if key not in files}
    named = {key: value for key, value in given.items() if key in files}
    to_come = dict.fromkeys(uploads.expected(skill.file_inputs, given), "")
    checked = _validated("input", schema.before_upload(skill.input_schema, files), {**inline, **to_come})
    return {**{key: value for key, value in checked.items() if key not in files}, **named}


def _validated(what: str, wanted: Mapping[str, Any] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    value = schema.defaults(wanted, given)
    errors = schema.errors(wanted, value) if wanted else []
    if errors:
        listed = schema.below(what, errors)
        raise InputInvalid(f"{what} does not fit the skill's schema: {'; '.join(listed)}", errors=listed)
    return value
