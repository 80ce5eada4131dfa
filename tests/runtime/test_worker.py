"""What must not happen to a run whatever fails beside it: stranded, judged by its own agent, started after a stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.harness import PATIENCE, SKILLS, Json, Place, opened, settings_for
from turnkeeper.core.errors import Code, StorageUnavailable
from turnkeeper.core.run import Interaction, Mode, Run
from turnkeeper.core.statechart import State
from turnkeeper.engines import census
from turnkeeper.engines.registry import engines
from turnkeeper.runtime.clock import utc_now
from turnkeeper.runtime.disk import Disk
from turnkeeper.runtime.dispatch import Capacity
from turnkeeper.runtime.house import House, Parts
from turnkeeper.runtime.intake import JobRequest, Policy
from turnkeeper.skills.install import Library
from turnkeeper.skills.package import Shelf
from turnkeeper.store.sqlite import SqliteStore

ASKING = {"execution_mode": "interactive"}
REFUSED = "the disk does not answer"


class Shaky(SqliteStore):
    """A store whose next reads fail, as a disk does that is gone for a moment."""

    failing: int = 0

    async def run(self, run_id: str) -> Run | None:
        self._shake()
        return await super().run(run_id)

    async def answered_before(self, run_id: str, attempt_number: int) -> Interaction | None:
        self._shake()
        return await super().answered_before(run_id, attempt_number)

    def _shake(self) -> None:
        if self.failing > 0:
            self.failing -= 1
            raise StorageUnavailable(REFUSED)


@asynccontextmanager
async def shaky_house(data_dir: Path) -> AsyncIterator[tuple[House, Shaky]]:
    settings = settings_for(data_dir)
    data_dir.mkdir()
    store = await asyncio.to_thread(Shaky, data_dir, asyncio.get_running_loop())
    policy = Policy(
        max_queued=10, default_engine=None, session_timeout_sec=60, timeouts=settings.timeouts.core()
    )
    shelf = Shelf((SKILLS,))
    parts = Parts(
        store=store,
        engines=engines({}),
        shelf=shelf,
        library=Library(data_dir / "skills", shelf),
        runs_dir=data_dir / "runs",
        disk=Disk(data_dir, min_free_mb=0),
        capacity=Capacity(slots=2, sticky_slots=1, engine_limits={}),
        policy=policy,
        clock=utc_now,
    )
    house = House(parts)
    await house.start()
    try:
        yield house, store
    finally:
        await house.stop()
    assert not census.find(store.data_id)


async def ended(house: House, run_id: str) -> Run:
    """Read past the shaky part: what the test waits for is not what it shakes."""
    with house.feed.subscribe(run_id) as news:
        async with asyncio.timeout(PATIENCE):
            while news.run is None or not news.run.state.is_terminal:
                await news.wait(PATIENCE)
    return news.run


@pytest.mark.failure("V05")
async def test_reads_that_fail_for_a_moment_strand_no_run(tmp_path: Path) -> None:
    async with shaky_house(tmp_path / "data") as (house, store):
        request = JobRequest(
            skill_id="answer", engine="demo", parameter={"demo_script": "done"}, mode=Mode.AUTO
        )
        store.failing = 2
        run = await house.jobs.create(request)
        assert (await ended(house, run.id)).state is State.SUCCEEDED


async def test_agent_cannot_change_what_it_is_judged_by(tmp_path: Path) -> None:
    script = {"turns": [[{"say": "Which?"}], [{"result": {"answer": 7}}]]}
    async with opened(tmp_path / "data") as place:
        run_id = await place.client.create(script=script, **ASKING)
        await place.client.settled(run_id)
        home = place.house.stage.folder(run_id).home
        (home / ".demo/skills/answer/assets/output.schema.json").write_text('{"type": "object"}')
        await place.client.reply(run_id, "seven")
        run = await place.client.settled(run_id)
        assert (run["status"], run["error"]["code"]) == ("failed", Code.OUTPUT_INVALID)


async def test_link_that_the_agent_left_in_its_home_is_named_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with opened(tmp_path / "data") as place:
        run_id = await place.client.create(script="ask", **ASKING)
        await place.client.settled(run_id)
        config = place.settings.data_dir / "runs" / run_id / "home" / ".demo"
        config.rename(tmp_path / "moved")
        config.symlink_to(outside)
        await place.client.reply(run_id, "blue")
        run = await place.client.settled(run_id)
        assert (run["status"], run["error"]["code"]) == ("failed", Code.STORAGE_UNAVAILABLE)
        assert "not inside the home" in run["error"]["message"]
    assert not list(outside.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"version": "2"},
        {"artifacts": [{"pattern": "*.md"}]},
        {"entrypoint": {"prompts": {"demo": "Go."}}},
        {"schemas": {"input": "assets/colour.json"}},
        {"schemas": {"parameter": "assets/colour.json"}},
    ],
)
async def test_skill_that_was_replaced_while_the_run_was_queued(tmp_path: Path, change: Json) -> None:
    skills = tmp_path / "skills"
    root = skills / "answer"
    root.mkdir(parents=True)
    (root / "SKILL.md").write_text("Answer.")
    (root / "assets").mkdir()
    (root / "assets" / "colour.json").write_text(json.dumps({"required": ["colour"]}))
    runner = root / "assets" / "runner.json"
    runner.write_text(json.dumps({"id": "answer", "version": "1"}))
    gate = tmp_path / "gate"
    async with opened(tmp_path / "data", slots=1, skills_dir=(skills,)) as place:
        holder = await place.client.create(script={"turns": [[{"wait_for": str(gate)}, {"result": {}}]]})
        await place.client.until(holder, "running")
        run_id = await place.client.create(script="done")
        runner.write_text(json.dumps({"id": "answer", "version": "1", **change}))
        gate.touch()
        run = await place.client.settled(run_id)
        assert (run["status"], run["error"]["code"]) == ("failed", Code.SKILL_CHANGED)


async def test_run_that_was_dispatched_at_the_moment_of_the_stop_is_not_waited_for(tmp_path: Path) -> None:
    """The stop comes before the worker's task has run for the first time."""
    hangs = {"turns": [[{"hang": True}]]}
    async with opened(tmp_path / "data", slots=1) as place:
        first = await place.client.create(script=hangs)
        await place.client.until(first, "running")
        queued = await place.client.create(script=hangs)
    async with asyncio.timeout(PATIENCE), opened(tmp_path / "data", slots=2) as place:
        place.house.begin_stop()
    async with opened(tmp_path / "data", slots=2) as place:
        for run_id in (first, queued):
            await place.client.cancel(run_id)
            assert (await place.client.ended(run_id))["status"] == "canceled"


async def test_many_posts_at_once_do_not_overshoot_the_queue(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with opened(tmp_path / "data", slots=1, max_queued=5) as place:
        holder = await place.client.create(
            script={"turns": [[{"wait_for": str(gate)}, {"result": {"answer": "a"}}]]}
        )
        await place.client.until(holder, "running")
        answers = await asyncio.gather(*(place.client.post_job(script="done") for _ in range(40)))
        accepted = [answer.json()["run_id"] for answer in answers if answer.status_code == 200]
        assert len(accepted) == 5
        assert {answer.status_code for answer in answers} == {200, 429}
        gate.touch()
        for run_id in accepted:
            assert (await place.client.settled(run_id))["status"] == "succeeded"


async def test_auto_mode_runs_headless_whatever_profile_is_named(place: Place) -> None:
    run_id = await place.client.create(script="done", interactive_profile="sticky_process")
    run = await place.client.settled(run_id)
    assert (run["status"], run["interactive_profile"]["kind"]) == ("succeeded", "resumable")
