"""What there is to run: skills, which can be installed and removed, and engines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from turnkeeper.core.access import Caller
from turnkeeper.core.errors import EngineNotFound, InvalidRequest, SkillBroken, StorageUnavailable, Warn
from turnkeeper.core.journal import What
from turnkeeper.core.run import RunWarning
from turnkeeper.core.skill import Skill
from turnkeeper.engines.base import Engine
from turnkeeper.runtime.house import House
from turnkeeper.skills.lint import lint
from turnkeeper.web import catalogue_schemas as schemas
from turnkeeper.web import views
from turnkeeper.web.calls import Call, Route
from turnkeeper.web.parts import problems
from turnkeeper.web.uploads import ZIP, multipart, parts_of

MOST_POINTERS = 10

router = APIRouter(prefix="/v1", tags=["catalogue"], route_class=Route, responses=problems(503))


@router.get("/skills", response_model=schemas.Skills)
async def list_skills(call: Call) -> dict[str, Any]:
    """Every skill, the broken ones with what is wrong with them."""
    house, caller = call.house, call.caller
    found = await asyncio.to_thread(lambda: list(house.shelf.all()))
    listed = [_skill(house, caller, skill) if skill else _broken(house, broken) for skill, broken in found]
    return {"skills": [each for each in listed if caller.skills is None or each["id"] in caller.skills]}


@router.post(
    "/skills",
    response_model=schemas.SkillOut,
    responses=problems(507),
    openapi_extra=multipart("A skill's folder.", ZIP),
)
async def install_skill(
    call: Call,
    response: Response,
    replace: Annotated[bool, Query(description="Also by a version that is not higher.")] = False,
) -> dict[str, Any]:
    """A new skill, or a higher version of one that was installed in this way; once it answers, it is durable."""
    await asyncio.to_thread(call.house.disk.require_room)
    async with parts_of(call) as parts:
        if [part.name for part in parts] != list(ZIP):
            names = ", ".join(repr(part.name) for part in parts) or "none"
            raise InvalidRequest(
                f"send one part 'file', the zip of the skill; the parts of this body: {names}"
            )
        with _on_disk():
            skill = await asyncio.to_thread(call.house.library.install, parts[0].file, replace=replace)
    await call.house.journal.note(
        by=call.caller.by, what=What.SKILL_INSTALLED, subject=skill.id, detail={"version": skill.version}
    )
    response.headers["Location"] = f"/v1/skills/{skill.id}"
    return _skill(call.house, call.caller, skill)


@router.delete("/skills/{skill_id}", response_model=schemas.Removed)
async def remove_skill(skill_id: str, call: Call) -> dict[str, Any]:
    """Only what was installed through the API. Runs that have begun go on with their own copies."""
    with _on_disk():
        await asyncio.to_thread(call.house.library.remove, skill_id)
    await call.house.journal.note(by=call.by, what=What.SKILL_REMOVED, subject=skill_id)
    return {"id": skill_id, "removed": True}


@router.get("/skills/{skill_id}", response_model=schemas.SkillOut)
async def get_skill(skill_id: str, call: Call) -> dict[str, Any]:
    skill = await asyncio.to_thread(call.house.shelf.get, skill_id)
    return _skill(call.house, call.caller, skill)


@router.get("/skills/{skill_id}/schemas", response_model=schemas.Schemas)
async def get_schemas(skill_id: str, call: Call) -> dict[str, Any]:
    """The JSON Schemas of input, parameters and output; null where the skill has none."""
    skill = await asyncio.to_thread(call.house.shelf.get, skill_id)
    return {**call.house.secrecy.hide_json(_schemas(skill)), "skill_id": skill.id}


@router.get("/skills/{skill_id}/lint", response_model=schemas.Findings)
async def lint_skill(skill_id: str, call: Call) -> dict[str, Any]:
    """All that breaks the skill, and all that only looks wrong; also for one that cannot be used."""
    findings = await asyncio.to_thread(
        lambda: lint(call.house.shelf.root(skill_id), tuple(call.house.engines))
    )
    return {
        "skill_id": skill_id,
        "findings": call.house.secrecy.hide_json([asdict(each) for each in findings]),
    }


@router.get("/engines", response_model=schemas.Engines)
async def list_engines(call: Call) -> dict[str, Any]:
    """Every engine: ready, or why not and the command that fixes it."""
    engines = _engines(call.house, call.caller).values()
    return {"engines": await asyncio.gather(*(_engine(call.house, engine) for engine in engines))}


@router.get("/engines/{name}", response_model=schemas.EngineOut)
async def get_engine(name: str, call: Call) -> dict[str, Any]:
    engines = _engines(call.house, call.caller)
    engine = engines.get(name)
    if engine is None:
        raise EngineNotFound(f"there is no engine {name!r} here; there are: {', '.join(engines)}")
    return await _engine(call.house, engine)


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageUnavailable(
            f"the folder of installed skills cannot be written: {error.strerror}"
        ) from error


def _engines(house: House, caller: Caller) -> dict[str, Engine]:
    """Those that are there for them."""
    may_use = caller.engines
    return {name: each for name, each in house.engines.items() if may_use is None or name in may_use}


def _skill(house: House, caller: Caller, skill: Skill) -> dict[str, Any]:
    """By its id it is found: that is told as it is. Whoever wrote a key into the rest hears of it."""
    masked: list[str] = []
    told = house.secrecy.hide_json(_described(house, caller, skill), masked)
    house.secrecy.hide_json(_schemas(skill), masked)
    if masked:
        message = (
            f"the skill has a secret in it; it is shown as stars here: {', '.join(masked[:MOST_POINTERS])}"
        )
        told["warnings"] = [*told["warnings"], views.warning_view(RunWarning(Warn.SECRET_MASKED, message))]
    return {**told, "id": skill.id}


def _schemas(skill: Skill) -> dict[str, Any]:
    return {
        "skill_id": skill.id,
        "input": skill.input_schema,
        "parameter": skill.parameter_schema,
        "output": skill.output_schema,
    }


def _described(house: House, caller: Caller, skill: Skill) -> dict[str, Any]:
    return {
        "id": skill.id,
        "version": skill.version,
        "name": skill.name,
        "description": skill.description,
        "engines": [
            name
            for name in skill.effective_engines(tuple(house.engines))
            if caller.engines is None or name in caller.engines
        ],
        "execution_modes": [mode.value for mode in skill.execution_modes],
        "max_attempt": skill.max_attempt,
        "timeouts": skill.timeouts,
        "secrets": list(skill.secrets),
        "warnings": [views.warning_view(warning) for warning in skill.warnings],
        "managed": house.library.manages(skill.id),
    }


def _broken(house: House, broken: SkillBroken | None) -> dict[str, Any]:
    assert broken is not None
    return {
        "id": broken.skill_id,
        "version": "",
        "name": broken.skill_id,
        "description": "",
        "engines": [],
        "execution_modes": [],
        "max_attempt": None,
        "timeouts": {},
        "warnings": [],
        "problems": house.secrecy.hide_json(broken.problems),
        "managed": house.library.manages(broken.skill_id),
    }


async def _engine(house: House, engine: Engine) -> dict[str, Any]:
    return {
        **await asyncio.to_thread(views.engine_view, engine),
        "models": list(engine.models),
        "limit": house.capacity.engine_limits.get(engine.name),
        "default": engine.name == house.default_engine,
    }
