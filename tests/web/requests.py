"""What the tests of the API send again and again."""

from __future__ import annotations

from typing import Any

import httpx

from tests.harness import Client, Json
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, script

DONE: Json = {"result": {"answer": "42"}}
JOB: Json = {"skill_id": "answer", "engine": "demo"}
TALK = script(
    [
        {"think": "What would they like?"},
        {"stream": [f"word {n} " for n in range(12)], "every_sec": 0.01},
        {"tool": {"name": "look", "output": "nothing"}},
        ASK,
    ],
    [{"say": "Thank you.\u2028Really.\r\nYes \u0085 \u202e <b>"}, {"raw": "not: a\tprotocol"}, ANSWER],
)
"""Every kind of event, and characters that a careless reader takes for the end of a line."""


async def post(client: Client, body: Any, **headers: str) -> httpx.Response:
    return await client.http.post("/v1/jobs", json=body, headers=headers)


async def post_text(client: Client, path: str, text: str) -> httpx.Response:
    """For JSON that no decent library would write."""
    return await client.http.post(path, content=text.encode(), headers={"Content-Type": "application/json"})


async def waiting(client: Client, *turns: list[Json], skill: str = "answer") -> str:
    """A run with one open question, and what happens after it."""
    run_id = await client.create(skill, script([ASK], *turns), **INTERACTIVE)
    assert (await client.settled(run_id))["status"] == "waiting_user"
    return run_id
