"""A run that is canceled while a tool of the CLI works: nothing of it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.clis import INTERACTIVE, Live, appears, command_lines, each_engine, reaches


@pytest.mark.failure("X04", "X05")
@each_engine
async def test_cancel_in_the_middle_of_a_tool_leaves_nothing_alive(live: Live, tmp_path: Path) -> None:
    kept_open = tmp_path / "held-by-the-tool"
    kept_open.touch()
    async with live.service() as place:
        run_id = await live.start(place, f"[[shell:tail -f {kept_open}]]", **INTERACTIVE)
        await appears(lambda: command_lines(f"tail -f {kept_open}"))
        assert place.processes(run_id)

        await place.client.cancel(run_id)
        run = await reaches(place, run_id, "canceled")
        assert run["error"] is None
        assert (place.processes(run_id), command_lines(str(kept_open))) == ([], [])
    assert live.models.idle(within=60)
