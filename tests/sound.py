"""What must hold after every test, whatever happened in it: for a log, for a run, for the service and its folder."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

from turnkeeper.cli.runs import show
from turnkeeper.core.fcmp import TERMINAL, Type
from turnkeeper.core.run import Attempt, Interaction, Run
from turnkeeper.core.statechart import State, Trigger, next_state
from turnkeeper.runtime.audit import judge_again
from turnkeeper.runtime.dispatch import Dispatcher
from turnkeeper.runtime.stage import Stage

Json = dict[str, Any]

SOON_SEC = 30
LONG_LOG = 2000
"""Events of a log that is not read a second time: floods have tests of their own."""
LARGE_FILE = 4 * 1024 * 1024

_ONE_AT_A_TIME = Lock()  # there is only one stdout


def assert_log(events: list[Json], run: Json) -> None:
    """Numbered without a gap, begun once, ended once and last, and saying the same as the API."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["seq"] for event in events if event["type"] == Type.CONVERSATION_STARTED] == [1]
    ends = [event["seq"] for event in events if event["type"] in TERMINAL]
    assert ends == ([len(events)] if run["status"] in ("succeeded", "failed", "canceled") else [])
    changes = [event["data"] for event in events if event["type"] == Type.STATE_CHANGED]
    assert all(change["from"] == before["to"] for before, change in pairwise(changes))
    assert all(allowed(change) for change in changes)
    told = rebuilt(events)
    assert told == {name: run[name] for name in told}


def allowed(change: Json) -> bool:
    """By the one table of transitions."""
    return next_state(State(change["from"]), Trigger(change["trigger"])) is State(change["to"])


def rebuilt(events: list[Json]) -> Json:
    """A run as somebody knows it who has only its log."""
    run: Json = {"status": "queued", "pending_interaction_id": None, "error": None, "warnings": []}
    for event in events:
        match event["type"]:
            case Type.STATE_CHANGED:
                run["status"] = event["data"]["to"]
                run["pending_interaction_id"] = event["data"].get("pending_interaction_id")
            case Type.WARNING:
                run["warnings"].append(event["data"])
            case Type.FAILED:
                run["error"] = event["data"]["error"]
    return run


async def assert_streamed_alike(stream: AsyncIterator[Json], events: list[Json]) -> None:
    """Whoever follows a run sees what its history tells."""
    if len(events) > LONG_LOG:
        return
    seen = []
    async with asyncio.timeout(SOON_SEC):
        async for event in stream:
            seen.append(event)
            if len(seen) == len(events):
                break
    assert seen == events


def assert_judged_alike(
    stage: Stage, run: Run, attempt: Attempt, interactions: Sequence[Interaction]
) -> None:
    """The stored bytes give the verdict that was given; only a turn without any, or with too many, is not judged."""
    opinion = judge_again(stage, run, attempt, interactions)
    # Unless all logs were removed.
    is_kept = attempt.born is None or (stage.folder(run.id).root / "raw").exists()
    can_be_judged = attempt.evidence is not None and attempt.evidence["raw_is_whole"] and is_kept
    assert (opinion is not None) == can_be_judged, f"{run.id}: {attempt}"
    assert opinion is None or opinion.agrees, f"{run.id}: {opinion}"


async def assert_slots(dispatcher: Dispatcher, runs: Iterable[Json]) -> None:
    """Held by runs that play a turn, or wait with a process of their own; letting go of one may take a moment."""
    may_hold = sum(
        run["status"] in ("queued", "running")
        or (run["status"] == "waiting_user" and run["interactive_profile"]["kind"] == "sticky_process")
        for run in runs
    )
    deadline = time.monotonic() + SOON_SEC
    while dispatcher.busy > may_hold:
        assert time.monotonic() < deadline, f"{dispatcher.busy} slots are held, {may_hold} runs may hold one"
        await asyncio.sleep(0.005)


def assert_hidden(data_dir: Path, secrets: Iterable[str]) -> None:
    """No file of the service holds them; large ones are noise of engines that were given none."""
    needles = [secret.encode() for secret in secrets]
    for path in data_dir.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGE_FILE:
            data = path.read_bytes()
            assert not any(needle in data for needle in needles), f"{path} holds a secret"


def assert_shown_alike(data_dir: Path, run: Json) -> None:
    """`turnkeeper show`, which looks into the folder, says what the service says."""
    with _ONE_AT_A_TIME, redirect_stdout(io.StringIO()) as said:
        show(run["run_id"], attempt=None, try_number=None, data_dir=data_dir, as_json=True)
    shown = json.loads(said.getvalue())
    for name in ("status", "pending_interaction_id", "error", "warnings", "last_seq"):
        assert shown[name] == run[name], f"{name}: {shown[name]} by the command, {run[name]} by the service"
