"""Tables of what goes wrong: each row is a script of the demo engine and the outcome that it must have.

A row is played through a real service; whoever plays it stands in an `opened` place, so that the general assertions are
checked after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.clis import warned
from tests.harness import Json, Place

INTERACTIVE: Json = {"execution_mode": "interactive"}
AUTO: Json = {"execution_mode": "auto"}
RESIDENT: Json = INTERACTIVE | {"interactive_profile": "sticky_process"}
SUCCEEDED, FAILED, WAITING = "succeeded", "failed", "waiting_user"


@dataclass(frozen=True, kw_only=True)
class Row:
    ids: tuple[str, ...]
    script: str | Json
    status: str
    code: str | None = None
    says: tuple[str, ...] = ()
    """What stands in the message of its error, or in its question."""
    warned: tuple[str, ...] = ()
    answer: Any = "42"
    """Of a run that succeeded."""
    raw: tuple[str, ...] = ()
    """What is kept as raw output in its log."""
    job: Json = field(default_factory=lambda: INTERACTIVE)
    timeouts: Json = field(default_factory=dict)
    skill: str = "answer"


def each(rows: dict[str, Row]) -> pytest.MarkDecorator:
    """One test for each, named and marked."""
    return pytest.mark.parametrize(
        "row", [pytest.param(row, id=name, marks=pytest.mark.failure(*row.ids)) for name, row in rows.items()]
    )


async def begin(place: Place, row: Row) -> str:
    more: Json = {"timeouts": row.timeouts} if row.timeouts else {}
    return await place.client.create(row.skill, row.script, **row.job, **more)


async def play(place: Place, row: Row) -> Json:
    """The run, once it waits or has ended as the row says."""
    run_id = await begin(place, row)
    run = await place.client.settled(run_id)
    await check(place, row, run)
    return run


async def check(place: Place, row: Row, run: Json) -> None:
    run_id = run["run_id"]
    error = run["error"] or {"code": None, "message": ""}
    assert (run["status"], error["code"]) == (row.status, row.code), error
    assert warned(run) == list(row.warned)
    words = (await place.client.pending(run_id))["prompt"] if row.status == WAITING else error["message"]
    assert [each for each in row.says if each not in words] == [], words
    if row.status == SUCCEEDED:
        assert await place.client.result(run_id) == {"answer": row.answer}
    raw = await raw_words(place, run_id)
    assert [each for each in row.raw if each not in raw] == [], raw


async def raw_words(place: Place, run_id: str) -> str:
    """What nobody understood, as the log has it."""
    events = await place.client.events(run_id)
    return "\n".join(event["data"]["text"] for event in events if event["type"].startswith("raw."))


async def messages(place: Place, run_id: str) -> list[str]:
    events = await place.client.events(run_id)
    return [event["data"]["text"] for event in events if event["type"] == "assistant.message.final"]


async def printed(place: Place, run_id: str, stream: str = "stdout", attempt: int = 1) -> bytes:
    """The bytes that the engine wrote in that turn, as they are stored."""
    answer = await place.client.http.get(f"/v1/jobs/{run_id}/logs/{attempt}/1/{stream}")
    assert answer.status_code == 200, answer.text
    return answer.content
