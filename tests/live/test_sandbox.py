"""The real CLIs in a sandbox: a first turn, a tool call and a resume, as without one; and permissions that hold."""

from __future__ import annotations

import pytest

from tests.live.clis import INTERACTIVE, Live, each, each_engine, reaches
from tests.walls import needs_walls

pytestmark = needs_walls

REQUIRED = {"mode": "required"}
LOOK = "cat note.txt; ls -A ~/..; id -u"
"""The run's folder holds workspace, home and logs: an agent sees the first two."""


@each_engine
async def test_a_turn_a_tool_and_a_resume(live: Live) -> None:
    async with live.service(sandbox=REQUIRED) as place:
        run_id = await live.start(place, f"[[shell:echo forty-two > note.txt; {LOOK}]]", **INTERACTIVE)
        run = await reaches(place, run_id, "waiting_user")
        assert run["sandbox"] == "bubblewrap"
        # Some linger after their result, with walls and without.
        assert {warning["code"] for warning in run["warnings"]} <= {"ENGINE_LINGERED_AFTER_RESULT"}
        prompt = (await place.client.pending(run_id))["prompt"]
        assert "forty-two" in prompt
        assert "raw" not in prompt
        note = place.settings.data_dir / "runs" / run_id / "workspace" / "note.txt"
        assert note.read_text() == "forty-two\n"
        await place.client.reply(run_id, '[[done:{"answer": "blue"}]]')
        run = await reaches(place, run_id, "succeeded")
        assert (run["attempt_number"], run["sandbox"]) == (2, "bubblewrap")


@each("claude", "codex")
async def test_a_permission_is_asked_for_and_given(live: Live) -> None:
    """Codex asks only where it can build walls of its own: inside ours it must still be able to."""
    async with live.service(sandbox=REQUIRED) as place:
        run_id = await live.start(
            place, "[[write:note.txt]]", execution_mode="interactive", permissions="ask"
        )
        await reaches(place, run_id, "waiting_user")
        pending = await place.client.pending(run_id)
        assert (pending["kind"], "note.txt" in pending["prompt"]) == ("permission", True)
        note = place.settings.data_dir / "runs" / run_id / "workspace" / "note.txt"
        assert not note.exists()
        await place.client.reply(run_id, "allow_once")
        await reaches(place, run_id, "succeeded")
        assert note.exists()


@pytest.mark.parametrize("mode", ["off", "required"])
@each("codex")
async def test_codex_looks_around_by_walls_of_its_own(live: Live, mode: str) -> None:
    """Whatever only reads is not asked about, but done in a sandbox of Codex's: with the bubblewrap of the machine, if
    there is one, which may be older than the one that it brings along; inside ours and without it."""
    async with live.service(sandbox={"mode": mode}) as place:
        words = "[[shell:echo seen; touch here || echo refused]]"
        run_id = await live.start(place, words, execution_mode="interactive", permissions="ask")
        await reaches(place, run_id, "waiting_user")
        pending = await place.client.pending(run_id)
        assert pending["kind"] != "permission"
        assert "seen" in pending["prompt"]
        assert "refused" in pending["prompt"]
