"""What a client does with a run: create it, wait, answer, wait again."""

from __future__ import annotations

from typing import Any

from bench.wire import Answer, Connection

WAIT = "Prefer: wait=60\r\n"


class Unexpected(Exception):
    """The service did something else: no figure of it would be worth anything."""


async def create(wire: Connection, orders: str = "", mode: str = "interactive") -> str:
    body = {"skill_id": "colour", "engine": "codex", "execution_mode": mode, "input": {"orders": orders}}
    return str(_right(await wire.call("POST", "/v1/jobs", body))["run_id"])


async def settled(wire: Connection, run_id: str, status: str) -> dict[str, Any]:
    run = _right(await wire.call("GET", f"/v1/jobs/{run_id}", headers=WAIT))
    if run["status"] != status:
        raise Unexpected(f"run {run_id} should be {status}, and is {run['status']}: {run.get('error')}")
    return run


async def reply(wire: Connection, run_id: str, interaction_id: int = 1, text: str = "blue") -> Answer:
    body = {"interaction_id": interaction_id, "response": text}
    answer = await wire.call("POST", f"/v1/jobs/{run_id}/interaction/reply", body)
    _right(answer)
    return answer


async def two_turns(wire: Connection) -> str:
    run_id = await create(wire)
    await settled(wire, run_id, "waiting_user")
    await reply(wire, run_id)
    await settled(wire, run_id, "succeeded")
    return run_id


def _right(answer: Answer) -> dict[str, Any]:
    if answer.status != 200:
        raise Unexpected(f"{answer.status}: {answer.body[:2000].decode(errors='replace')}")
    found: dict[str, Any] = answer.json
    return found
