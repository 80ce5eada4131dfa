"""`kill -9` of the service in each state of a run, and its return: nothing is lost, done twice or left alive."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from tests.crash.restarts import ANSWERS, ASKS, CUT_OFF, RECORD, WORKS, Daemon, a_job, count
from tests.harness import PATIENCE, Json, states
from turnkeeper.core import lifecycle, questions
from turnkeeper.core.run import Run
from turnkeeper.engines import census
from turnkeeper.runtime.clock import utc_now
from turnkeeper.runtime.jobs import new_run_id

DONE = {"result": {"answer": "42"}}
LONG_WORK = {"turns": [[*WORKS, DONE]]}
ASK_THEN_ANSWER = {"turns": [ASKS, ANSWERS]}
INTERACTIVE: Json = {"execution_mode": "interactive"}
RESIDENT: Json = {"execution_mode": "interactive", "interactive_profile": "sticky_process"}


# queued


@pytest.mark.failure("V01", "H11", "E08")
async def test_a_queued_run_keeps_its_place(narrow: Daemon) -> None:
    job = {"skill_id": "answer", "engine": "demo", "parameter": {"demo_script": LONG_WORK}}
    key = {"Idempotency-Key": "the-first-try"}
    busy = await narrow.client.create(script=LONG_WORK)
    await narrow.in_the_middle(busy)
    accepted = await narrow.client.http.post("/v1/jobs", json=job, headers=key)
    first, second = accepted.json()["run_id"], await narrow.client.create(script=LONG_WORK)

    await narrow.restart()
    again = await narrow.client.http.post("/v1/jobs", json=job, headers=key)
    assert again.json()["run_id"] == first  # and not a run more
    other = await narrow.client.http.post("/v1/jobs", json=job | {"model": "another"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert len((await narrow.client.http.get("/v1/jobs")).json()["jobs"]) == 3

    await narrow.in_the_middle(busy, times=2)
    waiting = [await narrow.client.get(run_id) for run_id in (first, second)]
    assert [run["queue_position"] for run in waiting] == [1, 2]
    assert [run["attempt_number"] for run in waiting] == [0, 0]
    assert [run["recovery"] for run in waiting] == [None, None]  # nothing happened to them

    for run_id in (busy, first, second):
        await narrow.in_the_middle(run_id)
        narrow.go_on(run_id)
        assert (await narrow.client.ended(run_id))["status"] == "succeeded"
    for run_id in (first, second):
        assert states(await narrow.log(run_id)) == ["queued", "running", "succeeded"]
        assert len(narrow.turns(run_id)) == 1


# running


@pytest.mark.failure("V01", "X05")
async def test_a_running_turn_goes_on_in_its_session(daemon: Daemon) -> None:
    orphan = {"setsid_child": {"seconds": 600, "pid_file": "child.pid"}}
    run_id = await daemon.client.create(script={"turns": [[orphan, *WORKS, DONE]]})
    delicate = await daemon.client.create(script=LONG_WORK, on_interrupted="fail")
    for each in (run_id, delicate):
        await daemon.in_the_middle(each)
    engine, child = daemon.turns(run_id)[0]["pid"], int((daemon.workspace(run_id) / "child.pid").read_text())
    assert {engine, child} <= {found.pid for found in daemon.processes(run_id)}

    await daemon.restart()  # and both are gone
    run = await daemon.in_the_middle(run_id, times=2)
    assert run["recovery"]["trigger"] == "restart.resume_turn"
    daemon.go_on(run_id)
    run = await daemon.client.ended(run_id)
    assert (run["status"], run["attempt_number"]) == ("succeeded", 1)
    assert states(await daemon.log(run_id)) == ["queued", "running", "queued", "running", "succeeded"]

    first, second = daemon.turns(run_id)
    assert first["argv"] == []
    assert second["argv"][0] == "--resume"
    assert CUT_OFF not in first["prompt"]
    assert CUT_OFF in second["prompt"]
    assert first["prompt"] in second["prompt"]

    failed = await daemon.client.get(delicate)  # as its job had asked for
    assert (failed["status"], failed["error"]["code"]) == ("failed", "RUN_INTERRUPTED")
    assert failed["recovery"]["trigger"] == "restart.reconcile_failed"
    assert len(daemon.turns(delicate)) == 1
    await daemon.log(delicate)


@pytest.mark.failure("V01")
async def test_a_turn_that_was_cut_off_gets_its_reply_again(daemon: Daemon) -> None:
    script = {"turns": [ASKS, [*WORKS, {"result": {"answer": "{{reply}}"}}]]}
    runs = [await daemon.client.create(script=script, **profile) for profile in (INTERACTIVE, RESIDENT)]
    for run_id in runs:
        await daemon.client.settled(run_id)
        await daemon.client.reply(run_id, "sky blue")
        await daemon.in_the_middle(run_id)

    await daemon.restart()
    for run_id in runs:
        await daemon.in_the_middle(run_id, times=2)
        daemon.go_on(run_id)
        run = await daemon.client.ended(run_id)
        assert (run["status"], run["attempt_number"]) == ("succeeded", 2)
        assert await daemon.client.result(run_id) == {"answer": "sky blue"}
        _, cut_off, resumed = daemon.turns(run_id)
        assert cut_off["pid"] != resumed["pid"]
        assert cut_off["prompt"] == "sky blue"
        assert CUT_OFF in resumed["prompt"]
        assert resumed["prompt"].rstrip().endswith("sky blue")
        assert count(await daemon.log(run_id), "interaction.reply.accepted") == 1


@pytest.mark.failure("V01", "V12")
async def test_what_was_started_tells_whether_a_turn_without_a_session_starts_anew(stopped: Daemon) -> None:
    """Killed between the claim and the first output: with no raw log there was no process, and nothing was done."""
    begun, fresh = await put_running(stopped), await put_running(stopped)
    raw = stopped.data_dir / "runs" / begun.id / "raw" / "1.1.stdout"
    raw.parent.mkdir(parents=True)
    raw.touch()
    with (
        marked(f"{stopped.data_id}/{begun.id}/1.1") as unsaved,
        marked(f"{uuid4().hex}/{begun.id}/1.1") as stranger,
    ):
        stopped.start()
        assert unsaved.wait(PATIENCE) < 0  # only its mark told whose it was
        assert stranger.poll() is None  # of another data directory: not ours to signal

    failed = await stopped.client.get(begun.id)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "RUN_INTERRUPTED")
    assert failed["recovery"]["trigger"] == "restart.reconcile_failed"
    await stopped.log(begun.id)

    ended = await stopped.client.ended(fresh.id)
    assert (ended["status"], ended["attempt_number"]) == ("succeeded", 1)
    assert ended["recovery"]["trigger"] == "restart.resume_turn"
    assert [warning["code"] for warning in ended["warnings"]] == ["TURN_RESTARTED"]
    (turn,) = stopped.turns(fresh.id)
    assert turn["argv"] == []
    assert CUT_OFF not in turn["prompt"]
    assert states(await stopped.log(fresh.id)) == ["queued", "running", "queued", "running", "succeeded"]


@pytest.mark.failure("V01")
async def test_a_turn_is_resumed_twice_and_then_given_up(daemon: Daemon) -> None:
    run_id = await daemon.client.create(script=LONG_WORK)
    for times in (1, 2):
        await daemon.in_the_middle(run_id, times)
        await daemon.restart()
        run = await daemon.in_the_middle(run_id, times + 1)
        assert run["recovery"]["trigger"] == "restart.resume_turn"
    await daemon.restart()
    run = await daemon.client.get(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "RUN_INTERRUPTED")
    assert run["recovery"]["trigger"] == "restart.reconcile_failed"
    assert not daemon.processes(run_id)
    assert len(daemon.turns(run_id)) == 3
    assert states(await daemon.log(run_id)) == ["queued", *["running", "queued"] * 2, "running", "failed"]


# waiting_user


@pytest.mark.failure("H13")
async def test_a_waiting_run_waits_on_if_it_can(daemon: Daemon) -> None:
    decides: Json = {"interactive_require_user_reply": False, "session_timeout_sec": 600}
    patient = await daemon.client.create(script=ASK_THEN_ANSWER, **INTERACTIVE)
    limited = await daemon.client.create(script=ASK_THEN_ANSWER, **INTERACTIVE, **decides)
    before = {run_id: await daemon.client.settled(run_id) for run_id in (patient, limited)}
    tied = await daemon.client.create(script="unloadable", **RESIDENT)
    await daemon.client.settled(tied)
    assert before[patient]["wait_deadline_at"] is None
    assert before[limited]["wait_deadline_at"] is not None

    await daemon.restart()
    for run_id, was in before.items():
        run = await daemon.client.get(run_id)
        assert run["recovery"]["trigger"] == "restart.preserve_waiting"
        same = ("status", "wait_deadline_at", "pending_interaction_id", "last_seq", "updated_at")
        assert {name: run[name] for name in same} == {name: was[name] for name in same}
        await daemon.client.reply(run_id, "blue")
        assert (await daemon.client.ended(run_id))["status"] == "succeeded"
        assert await daemon.client.result(run_id) == {"answer": "blue"}
        await daemon.log(run_id)

    failed = await daemon.client.get(tied)  # its session has died with its process
    assert (failed["status"], failed["error"]["code"]) == ("failed", "INTERACTION_PROCESS_LOST")
    assert failed["recovery"]["trigger"] == "restart.reconcile_failed"
    late = await daemon.client.post_reply(tied, 1, "blue")
    assert (late.status_code, late.json()["state"]) == (409, "failed")
    await daemon.log(tied)


async def test_a_resident_run_is_answered_in_a_new_process(narrow: Daemon) -> None:
    run_id = await narrow.client.create(script=ASK_THEN_ANSWER, **RESIDENT, session_timeout_sec=600)
    before = await narrow.client.settled(run_id)
    assert len(narrow.processes(run_id)) == 1

    await narrow.restart()
    run = await narrow.client.get(run_id)
    assert (run["status"], run["recovery"]["trigger"]) == ("waiting_user", "restart.preserve_waiting")
    assert run["wait_deadline_at"] == before["wait_deadline_at"]
    assert not narrow.processes(run_id)
    other = await narrow.client.create(script="done")  # the one slot is free
    assert (await narrow.client.settled(other))["status"] == "succeeded"

    await narrow.client.reply(run_id, "blue")
    assert (await narrow.client.ended(run_id))["status"] == "succeeded"
    assert await narrow.client.result(run_id) == {"answer": "blue"}
    asked, answered = narrow.turns(run_id)
    assert asked["pid"] != answered["pid"]
    assert (answered["turn"], answered["prompt"]) == (1, "blue")  # the second turn of the loaded session
    await narrow.log(run_id)


@pytest.mark.failure("T06", "T07")
async def test_a_deadline_that_passed_meanwhile_is_applied_once(daemon: Daemon) -> None:
    soon: Json = {"session_timeout_sec": 1.5}
    decides = await daemon.client.create(
        script="ask_forever", **INTERACTIVE, **soon, interactive_require_user_reply=False
    )
    expires = await daemon.client.create(script=ASK_THEN_ANSWER, **RESIDENT, **soon)
    due_at = [(await daemon.client.settled(run_id))["wait_deadline_at"] for run_id in (decides, expires)]
    await daemon.power_cut()
    await asyncio.sleep(max(0, (datetime.fromisoformat(max(due_at)) - datetime.now(UTC)).total_seconds()))
    daemon.start()
    await daemon.check_return()

    # It decides for itself, then asks again.
    await daemon.hears(decides, lambda event: event["type"] == "user.input.required", times=2)
    failed = await daemon.client.get(expires)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "INTERACTION_WAIT_TIMEOUT")
    assert not daemon.processes(expires)

    answers = [each["resolution_mode"] for each in await daemon.client.history(decides)]
    assert answers[0] == "auto_decide_timeout"
    applied = [e for e in await daemon.log(decides) if e["type"] == "interaction.auto_decide.timeout"]
    assert [event["data"]["interaction_id"] for event in applied].count(1) == 1
    assert count(await daemon.log(expires), "conversation.failed") == 1
    await daemon.client.cancel(decides)


# queued again, by a reply


@pytest.mark.failure("H07")
async def test_a_reply_that_its_owner_never_heard_of_is_played(narrow: Daemon) -> None:
    """The exact moment between the commit of the reply and the owner's next step: queued, and still leased."""
    run_id = await narrow.client.create(script=ASK_THEN_ANSWER, **RESIDENT)
    await narrow.client.settled(run_id)
    await narrow.power_cut()
    async with narrow.store() as store:
        run = await store.run(run_id)
        assert run is not None
        assert run.lease is not None
        question = await store.interaction(run_id, 1)
        accepted = await store.commit(questions.accept_reply(run, question, "blue", utc_now(), by="ann"))
        assert (accepted.state.value, accepted.lease) == ("queued", run.lease)
    narrow.start()
    await narrow.check_return()
    assert (await narrow.client.ended(run_id))["status"] == "succeeded"
    assert await narrow.client.result(run_id) == {"answer": "blue"}
    assert len({turn["pid"] for turn in narrow.turns(run_id)}) == 2
    await narrow.log(run_id)


# told to end


@pytest.mark.failure("V01", "X02")
async def test_an_accepted_cancel_survives(daemon: Daemon) -> None:
    """Engines that ignore all but SIGKILL, and an owner that would wait a minute before sending that."""
    slowly: Json = {"timeouts": {"step_sec": 60}}
    stubborn = {"turns": [[{"ignore_signals": True}, *WORKS]]}
    running = await daemon.client.create(script=stubborn, **slowly)
    await daemon.in_the_middle(running)
    asks = {"turns": [[{"ignore_signals": True}, *ASKS], ANSWERS]}
    waiting = await daemon.client.create(script=asks, **RESIDENT, **slowly)
    await daemon.client.settled(waiting)
    before = {running: "running", waiting: "waiting_user"}

    for run_id, state in before.items():
        canceled = await daemon.client.cancel(run_id)
        assert (canceled["status"], canceled["ending"]["why"]) == (state, "cancel")
    refused = await daemon.client.post_reply(waiting, 1, "blue")
    assert (refused.status_code, refused.json()["code"]) == (409, "RUN_ENDING")

    await daemon.restart()
    for run_id in before:
        run = await daemon.client.get(run_id)
        assert run["status"] == "canceled"
        assert run["recovery"] is None or run["recovery"]["trigger"] != "restart.resume_turn"
        assert not daemon.processes(run_id)
        assert len(daemon.turns(run_id)) == 1
        assert states(await daemon.log(run_id))[-2:] == [before[run_id], "canceled"]


# right after any change


MOMENTS = [
    ("turn.started", 1),
    ("interaction.reply.accepted", 1),
    ("turn.started", 2),
    ("turn.succeeded", 1),
]


@pytest.mark.failure("V01", "H07")
async def test_right_after_any_change(daemon: Daemon) -> None:
    """What a client was told is durable, and what follows from it happens, once."""
    # An engine that finished its first turn just before the kill would go on with its second one afterwards:
    # it is held until the restart is through.
    gate = daemon.data_dir.parent / "gate"
    first = [{"wait_for": str(gate)}, *ASKS]
    script = {"repeat_last": True, "turns": [first, [{"record": RECORD}, DONE]]}
    for trigger, times in MOMENTS:
        runs = [await daemon.client.create(script=script, **profile) for profile in (INTERACTIVE, RESIDENT)]
        if (trigger, times) != MOMENTS[0]:
            for run_id in runs:
                await daemon.client.settled(run_id)
                await daemon.client.reply(run_id, "blue")
        for run_id in runs:
            await daemon.hears(run_id, change_by(trigger), times)
        await daemon.kill()
        daemon.start()
        gate.touch()
        for run_id in runs:
            run = await daemon.client.settled(run_id)
            if run["status"] == "waiting_user":
                await daemon.client.reply(run_id, "blue")
                run = await daemon.client.ended(run_id)
            said = await daemon.log(run_id)
            if (trigger, times) == MOMENTS[0] and run["status"] == "failed":
                assert run["error"]["code"] == "RUN_INTERRUPTED"  # before it had named its session
            else:
                assert run["status"] == "succeeded", (trigger, times, run)
                assert count(said, "interaction.reply.accepted") == 1
                assert run["attempt_number"] == 2
            assert not daemon.processes(run_id)


# a stop on purpose


@pytest.mark.failure("V01")
async def test_a_graceful_stop_is_no_interruption(daemon: Daemon) -> None:
    working = await daemon.client.create(script=LONG_WORK)
    resident = await daemon.client.create(script=ASK_THEN_ANSWER, **RESIDENT, session_timeout_sec=600)
    deadline = (await daemon.client.settled(resident))["wait_deadline_at"]
    await daemon.in_the_middle(working)
    assert await daemon.stop() == 0
    assert not daemon.processes()
    async with daemon.store() as store:
        stopped = [await store.run(run_id) for run_id in (working, resident)]
        assert [run and run.state.value for run in stopped] == ["queued", "waiting_user"]
        assert [run and (run.interruptions, run.lease) for run in stopped] == [(0, None), (0, None)]
    daemon.start()
    run = await daemon.in_the_middle(working, times=2)
    assert run["recovery"]["trigger"] == "restart.resume_turn"
    assert run["attempt_number"] == 1
    daemon.go_on(working)
    assert (await daemon.client.ended(working))["status"] == "succeeded"
    assert CUT_OFF in daemon.turns(working)[1]["prompt"]

    waiting = await daemon.client.get(resident)
    assert (waiting["status"], waiting["wait_deadline_at"]) == ("waiting_user", deadline)
    await daemon.client.reply(resident, "blue")
    assert (await daemon.client.ended(resident))["status"] == "succeeded"
    for run_id in (working, resident):
        await daemon.log(run_id)


# two at once


@pytest.mark.failure("V06", "V11")
async def test_a_second_server_names_the_first(narrow: Daemon) -> None:
    command = [sys.executable, "-m", "turnkeeper", "serve", "--port", "0", "--data-dir", str(narrow.data_dir)]
    second = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert second.returncode == 2
    assert second.stdout == ""
    (line,) = second.stderr.splitlines()
    assert f"pid {narrow.pid} " in line
    assert (await narrow.client.http.get("/readyz")).status_code == 200


def change_by(trigger: str) -> Callable[[Json], bool]:
    return lambda event: event["data"].get("trigger") == trigger


async def put_running(daemon: Daemon) -> Run:
    """A run that has just been claimed, in the memory of a service that is down."""
    now = utc_now()
    async with daemon.store() as store:
        job = a_job({"turns": [[{"record": RECORD}, DONE]]})
        run = await store.commit(lifecycle.create(new_run_id(now), job, now))
        return await store.commit(lifecycle.start_turn(run, "the-lease-of-the-dead", now))


@contextmanager
def marked(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that carries the mark of a run, and lives until somebody ends it."""
    process = subprocess.Popen(["sleep", "600"], env=os.environ | {census.MARK: mark}, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
