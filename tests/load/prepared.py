"""Runs that wait, put into the store of a service that is down: thousands of them, each as good as a real one.

One is really played. The others are made from it by the functions that made its changes, with its files under names
of their own: each of them has its session, its raw log and its question, and can be answered and judged again.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from tests.crash.restarts import RECORD, Daemon
from tests.harness import Json
from turnkeeper.core import gate, lifecycle
from turnkeeper.core.change import TurnReport
from turnkeeper.core.fcmp import Event, Type
from turnkeeper.core.run import Attempt, Handle, Interaction, Run
from turnkeeper.runtime.clock import utc_now
from turnkeeper.runtime.jobs import new_run_id
from turnkeeper.skills.workspace import RunFolder
from turnkeeper.store.base import LogEntry
from turnkeeper.store.sqlite import SqliteStore

TOGETHER = 200
"""As many are written in one go; the store makes one transaction of them."""
OUTPUT = (Type.MESSAGE_DELTA, Type.MESSAGE_FINAL, Type.REASONING)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A run that waits, and what belongs to it."""

    run: Run
    attempt: Attempt
    asked: Interaction
    log: list[Json]
    files: dict[str, bytes]
    """By their path in the run's folder."""

    @property
    def session_id(self) -> str:
        assert self.run.handle is not None
        return self.run.handle.session_id


async def prepare(daemon: Daemon, count: int, script: Json) -> list[str]:
    """So many runs that wait, of which the first was really played."""
    daemon.start()
    played = await daemon.client.create(script=script, execution_mode="interactive")
    assert (await daemon.client.settled(played))["status"] == "waiting_user"
    await daemon.stop()
    async with daemon.store() as store:
        pattern = await _pattern(store, daemon.data_dir / "runs" / played, played)
        made = [played]
        while len(made) < count:
            some = min(TOGETHER, count - len(made))
            made += await asyncio.gather(*(_put(store, daemon.data_dir, pattern) for _ in range(some)))
    return made


async def _pattern(store: SqliteStore, folder: Path, run_id: str) -> Pattern:
    run, (attempt,), (asked,) = (
        await store.run(run_id),
        await store.attempts(run_id),
        await store.interactions(run_id),
    )
    assert run is not None
    assert run.handle is not None
    log = [_event(entry) for entry in await store.events(run_id, after=0, upto=None, limit=1000)]
    session = f"home/.demo/sessions/{run.handle.session_id}.json"
    raw = [f"raw/{path.name}" for path in (folder / "raw").iterdir()]
    names = [session, f"workspace/{RECORD}", *raw]
    return Pattern(run, attempt, asked, log, {name: (folder / name).read_bytes() for name in names})


def _event(entry: LogEntry) -> Json:
    return dict(json.loads(entry.body))


async def _put(store: SqliteStore, data_dir: Path, pattern: Pattern) -> str:
    now, session_id = utc_now(), f"demo-{os.urandom(16).hex()}"
    run_id = new_run_id(now)
    await asyncio.to_thread(_write, data_dir / "runs" / run_id, pattern, session_id)
    run = await store.commit(lifecycle.create(run_id, pattern.run.job, now))
    started = lifecycle.start_turn(run, "a-lease-of-the-past", now)
    assert started.attempt is not None
    run = await store.commit(started)
    report = TurnReport(
        output=[
            Event(Type(each["type"]), each["data"], now, 1) for each in pattern.log if each["type"] in OUTPUT
        ],
        handle=Handle(session_id, loadable=True),
        usage=pattern.attempt.usage,
        model=pattern.attempt.model,
        question=pattern.asked.question,
        evidence=pattern.attempt.evidence,
        verdict=pattern.attempt.verdict,
    )
    attempt = replace(started.attempt, born=pattern.attempt.born, launch=pattern.attempt.launch)
    await store.commit(lifecycle.finish_turn(run, attempt, gate.Wait(), report, now))
    return run_id


def _write(root: Path, pattern: Pattern, session_id: str) -> None:
    RunFolder(root).make()
    (root / "home/.demo/sessions").mkdir(parents=True)
    for name, data in pattern.files.items():
        old, new = pattern.session_id, session_id
        (root / name.replace(old, new)).write_bytes(data.replace(old.encode(), new.encode()))
