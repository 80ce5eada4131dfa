"""Limits and deadlines: each reacts to what it is for, fires once, and is not fooled by the clock on the wall."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.crash.restarts import started
from tests.fakes.puppets import played, run
from tests.harness import Json, Place, states
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, LENIENT, STICKY, Latch, script

THREAD = {"type": "thread.started", "thread_id": "01-thread"}
TOOL = {
    "type": "item.started",
    "item": {"id": "1", "type": "command_execution", "command": "make", "status": "in_progress"},
}
TRICKLE = """
number = 0
while True:
    number += 1
    say({"type": "item.completed", "item": {"id": str(number), "type": "reasoning", "text": "hm"}})
    time.sleep(0.02)
"""
DONE = [
    {"type": "item.completed", "item": {"id": "z", "type": "agent_message", "text": '{"answer": "42"}'}},
    {"type": "turn.completed", "usage": {}},
]
HOUR, YEARS = 3600, 10 * 365 * 24 * 3600
JUMPS = pytest.mark.parametrize(
    "jump", [HOUR, -HOUR, YEARS, -YEARS], ids=["+1 h", "-1 h", "+10 years", "-10 years"]
)
TALK = script([ASK], [ANSWER])
AUTO_DECIDED = "interaction.auto_decide.timeout"


def types(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


# Three limits


@pytest.mark.failure("T01")
@pytest.mark.parametrize(
    ("code", "limits", "expected", "words"),
    [
        ("sleep()", {"first_byte_sec": 0.5}, "ENGINE_STALLED", "printed nothing of its turn for 0.5 s"),
        (
            f"say({THREAD!r}, {TOOL!r})\nsleep()",
            {"idle_sec": 0.5},
            "ENGINE_STALLED",
            "fell silent for 0.5 s in the middle of its turn, and nothing of it worked; it waited for its tool",
        ),
        (f"say({THREAD!r}){TRICKLE}", {"turn_sec": 1}, "TURN_TIMEOUT", "took longer than 1 s"),
    ],
    ids=["first byte late", "long silent tool", "slow trickle for ever"],
)
async def test_each_limit_reacts_to_its_own_kind_of_slowness(
    tmp_path: Path, code: str, limits: Json, expected: str, words: str
) -> None:
    """The other two are far away: QUICK has 20 s, 20 s and 60 s."""
    async with played(tmp_path, "codex", code) as place:
        failed = await run(place, "codex", timeouts={**limits, "step_sec": 0.5})
        assert (failed["status"], failed["error"]["code"]) == ("failed", expected), failed["error"]
        assert words in failed["error"]["message"]
        assert place.processes(failed["run_id"]) == []


# In the same instant


RUNS, LIMIT_SEC = 12, 1.0


@pytest.mark.failure("T02")
async def test_limit_and_exit_in_the_same_instant_have_one_winner(tmp_path: Path) -> None:
    """Around the limit, some a little before and some a little after: which of them wins does not matter."""
    leaves = f"time.sleep({LIMIT_SEC} + (int(words.split('delay ')[1].split()[0]) - {RUNS // 2}) * 0.02)\n"
    code = f"say({THREAD!r})\n{leaves}say(*{DONE!r})"
    async with played(tmp_path, "codex", code) as place:
        job: Json = {"engine": "codex", "timeouts": {"turn_sec": LIMIT_SEC, "step_sec": 2}}
        created = [await place.client.create(input={"task": f"delay {n} "}, **job) for n in range(RUNS)]
        for ended in await asyncio.gather(*map(place.client.ended, created)):
            (attempt,) = await place.house.store.attempts(ended["run_id"])
            assert attempt.evidence is not None
            if ended["status"] == "succeeded":
                assert (ended["error"], attempt.evidence["timeout"]) == (None, None)
            else:
                assert (ended["status"], ended["error"]["code"]) == ("failed", "TURN_TIMEOUT")
                assert attempt.evidence["timeout"]["code"] == "TURN_TIMEOUT"
            events = await place.client.events(ended["run_id"])
            ends = [
                each for each in types(events) if each in ("conversation.completed", "conversation.failed")
            ]
            assert len(ends) == 1


# The clock on the wall


@JUMPS
@pytest.mark.failure("T04", "T05")
async def test_turn_is_not_charged_for_a_clock_that_jumps(place: Place, tmp_path: Path, jump: float) -> None:
    """Nor for the night that the machine slept: its turn may take a minute, and took a moment."""
    latch = Latch(tmp_path)
    run_id = await place.client.create(script=script([*latch.steps, {"result": {"answer": "in time"}}]))
    await latch.reached()
    place.clock.advance(jump)
    await place.house.deadlines.sweep(place.clock())
    latch.open()
    ended = await place.client.ended(run_id)
    assert (ended["status"], ended["error"]) == ("succeeded", None)
    seqs = [event["seq"] for event in await place.client.events(run_id)]
    assert seqs == sorted(seqs)


@JUMPS
@pytest.mark.parametrize("profile", [INTERACTIVE, STICKY], ids=["resumable", "sticky"])
@pytest.mark.failure("T04", "T05")
async def test_deadline_is_an_instant_and_is_applied_once(place: Place, profile: Json, jump: float) -> None:
    run_id = await place.client.create(script=TALK, session_timeout_sec=600, **profile, **LENIENT)
    waits = await place.client.settled(run_id)
    place.clock.advance(jump)
    applied = [await place.house.deadlines.sweep(place.clock()) for _ in range(3)]
    if jump > 0:
        assert applied == [1, 0, 0]
    else:
        assert applied == [0, 0, 0]
        still = await place.client.get(run_id)
        assert (still["status"], still["wait_deadline_at"]) == ("waiting_user", waits["wait_deadline_at"])
        assert await place.house.deadlines.sweep(datetime.fromisoformat(waits["wait_deadline_at"])) == 1
    ended = await place.client.ended(run_id)
    assert ended["status"] == "succeeded"
    assert types(await place.client.events(run_id)).count(AUTO_DECIDED) == 1


@JUMPS
@pytest.mark.failure("T04", "T05")
async def test_strict_run_waits_through_any_jump(place: Place, jump: float) -> None:
    run_id = await place.client.create(script=TALK, **INTERACTIVE)
    await place.client.settled(run_id)
    assert await place.pass_time(jump) == 0
    await place.client.reply(run_id, "blue")
    assert (await place.client.ended(run_id))["status"] == "succeeded"
    assert await place.client.result(run_id) == {"answer": "blue"}


@pytest.mark.failure("T04")
@pytest.mark.parametrize("zone", ["America/New_York", "XXX-13:45YYY,M11.3.3/0,M11.3.3/23"])
async def test_time_zone_and_its_summer_play_no_part(tmp_path: Path, zone: str) -> None:
    """In the second the clocks change twice on one day; what is stored and shown are instants."""
    async with started(tmp_path / "data", TZ=zone) as daemon:
        client = daemon.client
        run_id = await client.create(script=TALK, session_timeout_sec=600, **INTERACTIVE, **LENIENT)
        waits = await client.settled(run_id)
        (asked,) = await client.history(run_id)
        due, since = (datetime.fromisoformat(each) for each in (waits["wait_deadline_at"], asked["asked_at"]))
        assert due - since == timedelta(seconds=600)
        assert waits["wait_deadline_at"].endswith("Z")
        await client.reply(run_id, "blue")
        assert (await client.ended(run_id))["status"] == "succeeded"


# By the real clock


@pytest.mark.failure("T07", "T08")
@pytest.mark.parametrize("profile", [INTERACTIVE, STICKY], ids=["resumable", "sticky"])
async def test_short_deadline_behind_a_long_one_is_kept(tmp_path: Path, profile: Json) -> None:
    """Nobody moves a clock here. The ceiling is ten times the error that is allowed, and far below a minute."""
    async with started(tmp_path / "data", TURNKEEPER_SLOTS="2", TURNKEEPER_STICKY_SLOTS="2") as daemon:
        client = daemon.client
        patient = await client.create(script=TALK, session_timeout_sec=3600, **profile, **LENIENT)
        await client.settled(patient)
        hasty = await client.create(script=TALK, session_timeout_sec=1, **profile, **LENIENT)
        due_at = datetime.fromisoformat((await client.settled(hasty))["wait_deadline_at"])
        assert (await client.ended(hasty))["status"] == "succeeded"
        events = await client.events(hasty)
        (decided,) = [event["data"] for event in events if event["type"] == AUTO_DECIDED]
        late = datetime.fromisoformat(decided["accepted_at"]) - due_at
        assert timedelta(0) <= late < timedelta(seconds=10)
        assert states(events) == ["queued", "running", "waiting_user", "queued", "running", "succeeded"]
        assert (await client.get(patient))["status"] == "waiting_user"
        await client.cancel(patient)
        await client.ended(patient)
