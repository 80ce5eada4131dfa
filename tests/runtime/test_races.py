"""Two want the same run at the same moment: one wins, everybody is told, and the log tells one story."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness import PATIENCE, Client, Json, Place, states, wait_for_file
from turnkeeper.core.statechart import State
from turnkeeper.store.base import Notice

ASK: Json = {"say": "Which colour?"}
ANSWER: Json = {"result": {"answer": "{{reply}}"}}
SCRIPT: Json = {"turns": [[ASK], [ANSWER]]}
RESUMABLE: Json = {"execution_mode": "interactive"}
STICKY: Json = {"execution_mode": "interactive", "interactive_profile": "sticky_process"}
LENIENT: Json = {"interactive_require_user_reply": False}
PROFILES = pytest.mark.parametrize("profile", [RESUMABLE, STICKY], ids=["resumable", "sticky"])
RUNS = 10


async def waiting(place: Place, script: Any = SCRIPT, **options: Any) -> str:
    run_id = await place.client.create(script=script, **options)
    run = await place.client.settled(run_id)
    assert run["status"] == "waiting_user", run
    return run_id


def told(events: list[Json], *types: str) -> list[str]:
    """Which of these types of events the log has, in its order."""
    return [event["type"] for event in events if event["type"] in types]


REPLIED, DECIDED = "interaction.reply.accepted", "interaction.auto_decide.timeout"


# Two replies


@pytest.mark.failure("H02")
async def test_twenty_different_replies(place: Place) -> None:
    run_id = await waiting(place, script="ask_forever", **RESUMABLE)
    clients = [Client(place.service.url) for _ in range(20)]
    try:
        answers = await asyncio.gather(
            *(client.post_reply(run_id, 1, f"colour {number}") for number, client in enumerate(clients))
        )
    finally:
        await asyncio.gather(*(client.http.aclose() for client in clients))
    (winner,) = [number for number, answer in enumerate(answers) if answer.status_code == 200]
    for answer in answers[:winner] + answers[winner + 1 :]:
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (409, "INTERACTION_ANSWERED")
        assert (problem["answered_interaction_id"], problem["resolution_mode"]) == (1, "user_reply")

    await asked(place, run_id, 2)
    first, _ = await place.client.history(run_id)
    assert first["response"] == f"colour {winner}"
    assert told(await place.client.events(run_id), REPLIED) == [REPLIED]


@PROFILES
@pytest.mark.failure("H01")
async def test_the_same_reply_from_everywhere(place: Place, profile: Json) -> None:
    """Double click, two tabs, a retry: the same text, or another text under the same key."""
    run_id = await waiting(place, **profile)
    same = [place.client.post_reply(run_id, 1, "blue", idempotency_key="tab") for _ in range(5)]
    answers = await asyncio.gather(*same)
    answers += await asyncio.gather(
        place.client.post_reply(run_id, 1, "blue"),
        place.client.post_reply(run_id, 1, {"text": "blue"}, idempotency_key="another"),
        place.client.post_reply(run_id, 1, "green", idempotency_key="tab"),
    )
    assert [answer.status_code for answer in answers] == [200] * 8
    receipts = [{k: v for k, v in answer.json().items() if k != "status"} for answer in answers]
    assert all(receipt == receipts[0] for receipt in receipts)

    assert (await place.client.ended(run_id))["status"] == "succeeded"
    late = await place.client.post_reply(run_id, 1, "blue")
    assert late.json() == receipts[0] | {"status": "succeeded"}
    assert await place.client.result(run_id) == {"answer": "blue"}
    assert told(await place.client.events(run_id), REPLIED) == [REPLIED]


@pytest.mark.failure("H03")
async def test_a_reply_to_an_old_question_is_told_the_open_one(place: Place) -> None:
    run_id = await waiting(place, script="ask_forever", **RESUMABLE)
    unknown = await place.client.post_reply(run_id, 7, "blue")
    assert (unknown.status_code, unknown.json()["code"]) == (409, "INTERACTION_STALE")
    assert unknown.json()["pending_interaction_id"] == 1
    await place.client.reply(run_id, "blue")
    await asked(place, run_id, 2)
    old = await place.client.post_reply(run_id, 1, "green")
    assert (old.status_code, old.json()["code"]) == (409, "INTERACTION_ANSWERED")
    assert old.json()["pending_interaction_id"] == 2


@pytest.mark.failure("H04")
async def test_a_reply_is_refused_with_the_state_unless_the_run_waits(one_slot: Place) -> None:
    client = one_slot.client
    running = await client.create(script="hang")
    await client.until(running, "running")
    queued = await client.create(script="done")
    for run_id, state in ((running, "running"), (queued, "queued")):
        refused = await client.post_reply(run_id, 1, "blue")
        assert (refused.status_code, refused.json()["code"]) == (409, "RUN_NOT_WAITING")
        assert refused.json()["state"] == state
    await client.cancel(running)
    assert (await client.ended(queued))["status"] == "succeeded"
    for run_id, state in ((running, "canceled"), (queued, "succeeded")):
        refused = await client.post_reply(run_id, 1, "blue")
        assert (refused.status_code, refused.json()["state"]) == (409, state)


# A reply and a cancel


@PROFILES
@pytest.mark.parametrize("order", ["reply first", "cancel first"])
@pytest.mark.failure("H12")
async def test_cancel_and_reply_at_once(place: Place, profile: Json, order: str) -> None:
    async def race(run_id: str) -> tuple[httpx.Response, httpx.Response]:
        reply = place.client.post_reply(run_id, 1, "blue")
        cancel = place.client.http.post(f"/v1/jobs/{run_id}/cancel")
        if order == "reply first":
            return await asyncio.gather(reply, cancel)
        canceled, replied = await asyncio.gather(cancel, reply)
        return replied, canceled

    # The turn after the reply never ends by itself: however late the cancel is, there is something to cancel.
    endless = {"turns": [[ASK], [{"hang": True}]]}
    runs = await asyncio.gather(*(waiting(place, endless, **profile) for _ in range(RUNS)))
    for run_id, (replied, canceled) in zip(runs, await asyncio.gather(*map(race, runs)), strict=True):
        assert canceled.status_code == 200
        run = await place.client.ended(run_id)
        assert run["status"] == "canceled"
        log = await place.client.events(run_id)
        if replied.status_code == 200:
            assert told(log, REPLIED, "conversation.canceled") == [REPLIED, "conversation.canceled"]
        else:
            assert replied.json()["code"] in ("RUN_NOT_WAITING", "RUN_ENDING")
            assert replied.json()["state"] in ("waiting_user", "canceled")
            assert told(log, REPLIED, "conversation.canceled") == ["conversation.canceled"]
        assert not place.processes(run_id)


@pytest.mark.failure("H12")
async def test_a_cancel_between_a_reply_and_its_turn_ends_the_process_first(place: Place) -> None:
    """The resident process is still there when its owner finds, instead of a turn to play, a run to end."""
    turns = [[{"ignore_signals": True}, ASK], [ANSWER]]
    run_id = await waiting(place, script={"turns": turns}, **STICKY)
    cancels: list[asyncio.Task[Any]] = []

    def cancel_at_once(notice: Notice) -> None:
        if notice.run_id == run_id and notice.run is not None and notice.run.state is State.QUEUED:
            cancels.append(asyncio.create_task(place.house.jobs.cancel(run_id, by="ann")))

    place.house.store.listen(cancel_at_once)
    await place.client.reply(run_id, "blue")
    async for event in place.client.follow(run_id):
        if event["type"] == "conversation.canceled":
            assert not place.processes(run_id)
    await asyncio.gather(*cancels)
    assert (await place.client.get(run_id))["status"] == "canceled"


# A reply and a deadline


@PROFILES
@pytest.mark.parametrize("order", ["reply first", "deadline first"])
@pytest.mark.failure("T03", "H10")
async def test_decision_and_reply_at_once(place: Place, profile: Json, order: str) -> None:
    runs = await asyncio.gather(*(waiting(place, **profile, **LENIENT) for _ in range(RUNS)))
    replied = await at_the_deadline(place, runs, order)
    for run_id, answer in zip(runs, replied, strict=True):
        run = await place.client.ended(run_id)
        assert run["status"] == "succeeded"
        log, (question,) = await place.client.events(run_id), await place.client.history(run_id)
        if answer.status_code == 200:
            assert told(log, REPLIED, DECIDED) == [REPLIED]
            assert (question["resolution_mode"], question["response"]) == ("user_reply", "blue")
        else:
            assert (answer.status_code, answer.json()["code"]) == (409, "INTERACTION_ANSWERED")
            assert answer.json()["resolution_mode"] == "auto_decide_timeout"
            assert told(log, REPLIED, DECIDED) == [DECIDED]
            assert question["resolution_mode"] == "auto_decide_timeout"


@pytest.mark.parametrize("order", ["reply first", "deadline first"])
@pytest.mark.failure("T03")
async def test_wait_timeout_and_reply_at_once(place: Place, order: str) -> None:
    runs = await asyncio.gather(*(waiting(place, **STICKY) for _ in range(RUNS)))
    replied = await at_the_deadline(place, runs, order)
    for run_id, answer in zip(runs, replied, strict=True):
        run = await place.client.ended(run_id)
        replies = told(await place.client.events(run_id), REPLIED)
        if answer.status_code == 200:
            assert (run["status"], replies) == ("succeeded", [REPLIED])
        else:
            assert answer.json()["code"] in ("RUN_ENDING", "RUN_NOT_WAITING")
            assert (run["error"]["code"], replies) == ("INTERACTION_WAIT_TIMEOUT", [])
        assert not place.processes(run_id)


@pytest.mark.failure("X12")
async def test_cancel_and_wait_timeout_at_once(place: Place) -> None:
    runs = await asyncio.gather(*(waiting(place, **STICKY) for _ in range(RUNS)))
    place.clock.advance(1200)
    cancels = [place.client.cancel(run_id) for run_id in runs]
    await asyncio.gather(place.house.deadlines.sweep(place.clock()), *cancels)
    for run_id in runs:
        run = await place.client.ended(run_id)
        ended = {"cancel": "canceled", "wait_timeout": "failed"}[run["ending"]["why"]]
        assert run["status"] == ended
        assert states(await place.client.events(run_id))[-2:] == ["waiting_user", ended]


@pytest.mark.failure("H10")
async def test_a_reply_after_the_decision_is_told(place: Place) -> None:
    run_id = await waiting(place, **RESUMABLE, **LENIENT)
    run = await place.client.get(run_id)
    due_at = datetime.fromisoformat(run["wait_deadline_at"])
    assert await place.house.deadlines.sweep(due_at) == 1
    late = await place.client.post_reply(run_id, 1, "blue")
    assert (late.status_code, late.json()["resolution_mode"]) == (409, "auto_decide_timeout")
    assert await place.house.deadlines.sweep(due_at) == 0
    await place.client.ended(run_id)


# Cancel, in every state


@pytest.mark.failure("H12")
async def test_cancel_in_every_state_and_again(one_slot: Place) -> None:
    client = one_slot.client

    async def ends(run_id: str, *way: str) -> None:
        first, second = await asyncio.gather(client.cancel(run_id), client.cancel(run_id))
        assert first["ending"] == second["ending"]
        assert (await client.ended(run_id))["ending"] == first["ending"]
        assert not one_slot.processes(run_id)
        third = await client.cancel(run_id)
        assert (third["status"], third["ending"]) == ("canceled", first["ending"])
        assert states(await client.events(run_id)) == [*way, "canceled"]

    waits = await waiting(one_slot, **RESUMABLE)
    running = await client.create(script="hang")
    await client.until(running, "running")
    queued = await client.create(script="done")
    await ends(queued, "queued")
    await ends(running, "queued", "running")
    await ends(waits, "queued", "running", "waiting_user")
    await ends(await waiting(one_slot, **STICKY), "queued", "running", "waiting_user")
    done = await client.create(script="done")
    assert (await client.settled(done))["status"] == "succeeded"  # the slot came back each time
    assert (await client.cancel(done))["status"] == "succeeded"


@pytest.mark.failure("X02")
@PROFILES
async def test_an_engine_that_ignores_signals_is_killed(place: Place, profile: Json) -> None:
    script = {"turns": [[{"ignore_signals": True}, {"touch": "deaf"}, {"hang": True}]]}
    run_id = await place.client.create(script=script, timeouts={"step_sec": 0.2}, **profile)
    await place.client.until(run_id, "running")
    await wait_for_file(place.house.stage.folder(run_id).workspace / "deaf")
    answer = await place.client.cancel(run_id)
    assert (answer["status"], answer["ending"]["why"]) == ("running", "cancel")
    assert (await place.client.ended(run_id))["status"] == "canceled"
    (attempt,) = await place.house.store.attempts(run_id)
    assert attempt.evidence is not None
    assert attempt.evidence["exit"]["signal"] == signal.SIGKILL
    assert not place.processes(run_id)


# A resident process that is lost


@pytest.mark.failure("H14")
async def test_a_lost_process_that_can_be_loaded_stays_answerable(one_slot: Place, tmp_path: Path) -> None:
    record = {"record": str(tmp_path / "pids")}
    turns = [[record, ASK], [record, ANSWER]]
    run_id = await waiting(one_slot, script={"turns": turns}, **STICKY)
    deadline = (await one_slot.client.get(run_id))["wait_deadline_at"]
    await kill_engine(one_slot, run_id)
    other = await one_slot.client.create(script="done")
    assert (await one_slot.client.settled(other))["status"] == "succeeded"  # in the only slot
    run = await one_slot.client.get(run_id)
    assert (run["status"], run["wait_deadline_at"]) == ("waiting_user", deadline)
    assert run["recovery"]["trigger"] == "restart.preserve_waiting"

    await one_slot.client.reply(run_id, "blue")
    assert (await one_slot.client.ended(run_id))["status"] == "succeeded"
    assert await one_slot.client.result(run_id) == {"answer": "blue"}
    assert len((tmp_path / "pids").read_text().splitlines()) == 2


@pytest.mark.failure("H14")
async def test_a_lost_process_that_cannot_be_loaded_fails_the_run(one_slot: Place) -> None:
    run_id = await waiting(one_slot, script="unloadable", **STICKY)
    await kill_engine(one_slot, run_id)
    run = await one_slot.client.ended(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "INTERACTION_PROCESS_LOST")
    other = await one_slot.client.create(script="done")
    assert (await one_slot.client.settled(other))["status"] == "succeeded"


@pytest.mark.failure("H14")
async def test_a_reply_while_the_lost_process_is_cleared_away(place: Place, tmp_path: Path) -> None:
    """A leftover that ignores signals keeps the owner busy for a moment: the reply comes in just then, and the
    question after it must find an owner that listens."""
    orphan = {"setsid_child": {"seconds": 600, "pid_file": str(tmp_path / "orphan")}}
    turns = [[{"ignore_signals": True}, orphan, ASK], [{"say": "And which font?"}], [ANSWER]]
    run_id = await waiting(place, script={"turns": turns}, **STICKY, timeouts={"step_sec": 1})
    await kill_engine(place, run_id)
    await place.client.reply(run_id, "blue")
    await asked(place, run_id, 2)
    await place.client.reply(run_id, "serif")
    async with asyncio.timeout(10):
        assert (await place.client.ended(run_id))["status"] == "succeeded"
    assert await place.client.result(run_id) == {"answer": "serif"}


async def at_the_deadline(place: Place, runs: list[str], order: str) -> list[httpx.Response]:
    """A sweep at the deadline of these runs, and a reply to each of them, all at once."""
    place.clock.advance(1200)

    async def replies() -> list[httpx.Response]:
        return await asyncio.gather(*(place.client.post_reply(run_id, 1, "blue") for run_id in runs))

    sweep = place.house.deadlines.sweep(place.clock())
    if order == "reply first":
        answers, _ = await asyncio.gather(replies(), sweep)
    else:
        _, answers = await asyncio.gather(sweep, replies())
    assert len(answers) == len(runs)
    return answers


async def asked(place: Place, run_id: str, interaction_id: int) -> None:
    async for event in place.client.follow(run_id):
        if event["type"] == "user.input.required" and event["data"]["interaction_id"] == interaction_id:
            return
    raise AssertionError(await place.client.get(run_id))


async def kill_engine(place: Place, run_id: str) -> None:
    """As the kernel does when memory is short. Returns when the exit can be seen."""
    engine = next(found for found in place.processes(run_id) if found.pid == os.getpgid(found.pid))
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    pidfd = os.pidfd_open(engine.pid)
    loop.add_reader(pidfd, gone.set)
    try:
        os.kill(engine.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            await gone.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
