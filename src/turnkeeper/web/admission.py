"""Holds every request to its rule, before anything of its body is read: the one place that asks what a caller may do.

A limited key lives in a smaller house: what is of other skills or engines does not exist for it.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from turnkeeper.core.access import Caller
from turnkeeper.core.errors import (
    LinkNotForThis,
    RunNotFound,
    ScopeMissing,
    SkillNotFound,
    TurnkeeperError,
    Unauthorized,
)
from turnkeeper.runtime.house import House
from turnkeeper.web.calls import RULED
from turnkeeper.web.door import CALLER
from turnkeeper.web.problems import problem
from turnkeeper.web.rules import Found, find


class Admission:
    def __init__(self, app: ASGIApp, *, house: House) -> None:
        self._app = app
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found, caller = find(scope["method"], scope["path"]), scope.get(CALLER)
        try:
            if found is not None and not found.rule.is_open:
                await self._admit(found, caller)
        except TurnkeeperError as error:
            await problem(error.code, error.message, error.facts)(scope, receive, send)
            return
        if caller is not None and caller.key_id is not None and caller.asked is None:
            self._house.keys.used(caller.key_id)
        ruled = None if found is None else (found.method, found.template)
        await self._app({**scope, RULED: ruled}, receive, send)

    async def _admit(self, found: Found, caller: Caller | None) -> None:
        if caller is None:
            raise Unauthorized("nobody knows who asks")
        if not found.rule.admits(caller):
            raise _missing(found, caller)
        if "run_id" in found.params:
            await self._require_run(found.params["run_id"], caller)
        if "skill_id" in found.params:
            _require_skill(found.params["skill_id"], caller)

    async def _require_run(self, run_id: str, caller: Caller) -> None:
        asked = caller.asked
        is_another = asked is not None and asked.run_id != run_id
        if not is_another and not caller.is_limited:
            return
        run = None if is_another else await self._house.store.run(run_id)
        if run is None or not caller.may_use(skill_id=run.job.skill_id, engine=run.job.engine):
            raise RunNotFound(f"there is no run {run_id!r}")


def _require_skill(skill_id: str, caller: Caller) -> None:
    if caller.skills is not None and skill_id not in caller.skills:
        raise SkillNotFound(f"there is no skill {skill_id!r} here")


def _missing(found: Found, caller: Caller) -> TurnkeeperError:
    if caller.asked is not None:
        return LinkNotForThis("this link is good for its question alone")
    if found.rule.by_link:
        return LinkNotForThis(f"{found.template} is for links; with a key, reply to the run")
    needs, has = found.rule.names, sorted(scope.value for scope in caller.scopes)
    return ScopeMissing(
        f"this call needs the scope {' or '.join(needs)}; {caller.by} has: {', '.join(has) or 'none'}",
        needs=needs,
        has=has,
    )
