"""One session, one process: turns of a run never overlap, and a session that is gone is said to be."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.live.clis import (
    INTERACTIVE,
    Live,
    attempts,
    command_lines,
    each_engine,
    home_of,
    reaches,
    watched,
)

STORES = {
    "codex": ".codex/sessions",
    "claude": ".claude/projects",
    "gemini": ".gemini/tmp",
    "opencode": ".local/share/opencode",
    "qwen": ".qwen/projects",
}
"""Where each keeps its sessions, inside the home."""
REPLIES = 5


@pytest.mark.failure("R01")
@each_engine
async def test_session_that_is_gone_fails_the_run(live: Live) -> None:
    async with live.service() as place:
        run_id = await live.start(place, "[[ask]]", **INTERACTIVE)
        await reaches(place, run_id, "waiting_user")
        shutil.rmtree(home_of(place, run_id) / STORES[live.engine])

        await place.client.reply(run_id, "[[done]]")
        run = await reaches(place, run_id, "failed")
        assert run["error"]["code"] == "SESSION_LOST", run["error"]
    assert not live.models.seen("[[done]]")


@pytest.mark.failure("R09", "S11")
@each_engine
async def test_two_turns_of_a_run_never_overlap(live: Live, tmp_path: Path) -> None:
    """Not by a tool that outlives the first, nor by many who reply in the same moment."""
    kept_open = tmp_path / "outlives-the-turn"
    kept_open.touch()
    async with live.service() as place, watched(place) as sightings:
        client = place.client
        command = f"tail -f {kept_open} >/dev/null 2>&1 & echo started"
        run_id = await live.start(place, f"[[shell:{command}]]", **INTERACTIVE)
        await reaches(place, run_id, "waiting_user")
        assert (place.processes(run_id), command_lines(str(kept_open))) == ([], [])

        pending = (await client.pending(run_id))["interaction_id"]
        replies = [
            client.post_reply(run_id, pending, f"reply-number-{number} [[done]]") for number in range(REPLIES)
        ]
        answers = [answer.status_code for answer in await asyncio.gather(*replies)]
        assert sorted(answers) == [200, *[409] * (REPLIES - 1)]
        await reaches(place, run_id, "succeeded")

        first, second = await attempts(place, run_id)
        assert first["ended_at"] <= second["started_at"]
        turns = {f"{place.house.store.data_id}/{run_id}/{number}.1" for number in (1, 2)}
    assert {mark for marks in sightings.marks for mark in marks} == turns
    assert max(len(marks) for marks in sightings.marks) == 1
    assert len({seen.conversation for seen in live.models.seen("reply-number-")}) == 1
