"""A service of root does not start real engines, unless somebody says so."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fakes.clis import configured
from tests.harness import Json, opened, settings_for
from turnkeeper.wiring import known_engines

REAL = ("codex", "claude", "gemini", "opencode", "qwen", "iflow", "mine")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="whoever runs the tests is not root")


@as_root
@pytest.mark.failure("S10")
@pytest.mark.parametrize("name", REAL)
def test_no_real_engine_is_ready_for_root(tmp_path: Path, name: str) -> None:
    """Of our own and of the operator's; with what to do about it."""
    own = {**configured(tmp_path / "data"), "mine": {"command": [sys.executable]}}
    for allowed in (False, True):
        settings = settings_for(tmp_path / "data", engines=own, allow_root=allowed)
        engine = known_engines(settings)[name]
        ready = engine.readiness(engine.profiles[0])
        assert ready.ready is allowed, ready
        if not allowed:
            assert "root" in str(ready.reason)
            assert "TURNKEEPER_ALLOW_ROOT=1" in str(ready.fix)
            assert ready.path is not None


@as_root
@pytest.mark.failure("S10")
async def test_a_run_of_root_is_refused_and_demo_is_not(tmp_path: Path) -> None:
    """Also one that was accepted before: the launch refuses as well."""
    data, engines = tmp_path / "data", configured(tmp_path / "data")
    async with opened(data, engines=engines, allow_root=False) as place:
        refused = await place.client.post_job(engine="codex", input={"task": "[[done]]"})
        assert refused.json()["code"] == "ENGINE_NOT_READY", refused.text
        assert "TURNKEEPER_ALLOW_ROOT" in refused.text
        ended = await place.client.settled(await place.client.create(script="done"))
        assert ended["status"] == "succeeded"
    async with opened(data, engines=engines, allow_root=True) as place:
        job: Json = {"engine": "codex", "execution_mode": "interactive", "input": {"task": "[[ask]]"}}
        run_id = await place.client.create(**job)
        assert (await place.client.settled(run_id))["status"] == "waiting_user"
    async with opened(data, engines=engines, allow_root=False) as place:
        await place.client.reply(run_id, "[[done]]")
        ended = await place.client.ended(run_id)
        assert (ended["status"], ended["error"]["code"]) == ("failed", "ENGINE_NOT_READY")
        assert "TURNKEEPER_ALLOW_ROOT" in ended["error"]["message"]
