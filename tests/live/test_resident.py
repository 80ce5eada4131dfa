"""The real CLIs as resident agents: one process for a whole conversation, permissions, loss and recovery."""

from __future__ import annotations

import os
import signal

from tests.harness import Json, Place, states
from tests.live.clis import (
    Live,
    appears,
    attempts,
    command_lines,
    conversations,
    each,
    each_engine,
    reaches,
    settled,
)
from tests.live.model_server import ModelServer
from tests.live.model_server.script import QUESTION

RESIDENT: Json = {"execution_mode": "interactive", "interactive_profile": "sticky_process"}
ASKING: Json = {"execution_mode": "interactive", "permissions": "ask"}
LOADS = ("opencode", "qwen", "claude", "codex")


async def pids(place: Place, run_id: str) -> list[int]:
    return [int(attempt["pid"]) for attempt in await attempts(place, run_id)]


@each_engine
async def test_two_questions_are_answered_in_one_process(live: Live, models: ModelServer) -> None:
    async with live.service() as place:
        run_id = await live.start(place, "paint the banner [[ask]]", **RESIDENT)
        for reply in ("blue [[ask]]", 'dark blue [[done:{"answer": "dark blue"}]]'):
            await reaches(place, run_id, "waiting_user")
            assert (await place.client.pending(run_id))["prompt"] == QUESTION
            assert place.house.worker.resident == 1
            await place.client.reply(run_id, reply)
        run = await reaches(place, run_id, "succeeded")
        assert await place.client.result(run_id) == {"answer": "dark blue"}
        assert (run["error"], run["warnings"]) == (None, [])
        first, *later = await pids(place, run_id)
        assert later == [first, first]
        assert place.processes(run_id) == []
        assert run["usage"]["input_tokens"] > 0

        # The model saw one conversation, and was asked nothing else.
        assert len(models.seen()) == len(conversations(models.seen())) == 3
        told = " ".join(text for _, text in models.seen()[-1].conversation)
        assert "paint the banner" in told
        assert "blue [[ask]]" in told


@each_engine
async def test_a_permission_is_asked_for_and_given(live: Live) -> None:
    async with live.service() as place:
        run_id = await live.start(place, "[[write:note.txt]]", **ASKING)
        await reaches(place, run_id, "waiting_user")
        pending = await place.client.pending(run_id)
        note = place.settings.data_dir / "runs" / run_id / "workspace" / "note.txt"
        assert (pending["kind"], "note.txt" in pending["prompt"]) == ("permission", True)
        assert not note.exists()
        await place.client.reply(run_id, "allow_once")
        await reaches(place, run_id, "succeeded")
        assert note.exists()
        assert (await place.client.get(run_id))["attempt_number"] == 1


@each_engine
async def test_other_words_reject_and_are_heard(live: Live) -> None:
    async with live.service() as place:
        run_id = await live.start(place, "[[write:note.txt]]", **ASKING)
        await reaches(place, run_id, "waiting_user")
        await place.client.reply(run_id, 'rather not [[done:{"answer": "no note"}]]')
        await reaches(place, run_id, "succeeded")
        assert await place.client.result(run_id) == {"answer": "no note"}
        assert not (place.settings.data_dir / "runs" / run_id / "workspace" / "note.txt").exists()


@each_engine
async def test_nothing_is_written_where_it_is_denied(live: Live) -> None:
    async with live.service() as place:
        run_id = await live.start(place, "[[write:note.txt]]", permissions="deny")
        run = await settled(place, run_id)
        assert "PERMISSION_DENIED" in [warning["code"] for warning in run["warnings"]]
        assert not (place.settings.data_dir / "runs" / run_id / "workspace" / "note.txt").exists()
        assert "waiting_user" not in states(await place.client.events(run_id))


@each(*LOADS)
async def test_a_process_that_was_killed_is_followed_by_one_that_knows_the_session(
    live: Live, models: ModelServer
) -> None:
    async with live.service(slots=1) as place:
        run_id = await live.start(place, "paint the banner [[ask]]", **RESIDENT)
        await reaches(place, run_id, "waiting_user")
        (pid,) = await pids(place, run_id)
        os.kill(pid, signal.SIGKILL)
        await appears(lambda: [1] if place.house.dispatcher.busy == 0 else [])
        run = await place.client.get(run_id)
        assert (run["status"], run["recovery"]["trigger"]) == ("waiting_user", "restart.preserve_waiting")
        assert place.processes(run_id) == []

        await place.client.reply(run_id, 'blue [[done:{"answer": "blue"}]]')
        await reaches(place, run_id, "succeeded")
        assert len(set(await pids(place, run_id))) == 2
        assert "paint the banner" in " ".join(text for _, text in models.seen()[-1].conversation)


@each("gemini")
async def test_a_session_that_cannot_be_loaded_is_lost_with_its_process(live: Live) -> None:
    async with live.service() as place:
        run_id = await live.start(place, "[[ask]]", **RESIDENT)
        await reaches(place, run_id, "waiting_user")
        (pid,) = await pids(place, run_id)
        os.kill(pid, signal.SIGKILL)
        run = await place.client.ended(run_id)
        assert (run["status"], run["error"]["code"]) == ("failed", "INTERACTION_PROCESS_LOST")


@each_engine
async def test_a_cancel_ends_the_agent_and_its_tool(live: Live) -> None:
    async with live.service() as place:
        run_id = await live.start(place, "[[longtool]]", **RESIDENT)
        await appears(lambda: [each for each in place.processes(run_id) if each.command == "tail"])
        await place.client.cancel(run_id)
        await reaches(place, run_id, "canceled")
        assert place.processes(run_id) == []


FAILURES = {
    "[[status:401]]": "ENGINE_AUTH_REQUIRED",
    "[[fail:model]]": "ENGINE_MODEL_UNKNOWN",
    "[[fail:context]]": "ENGINE_CONTEXT_EXHAUSTED",
}


@each_engine
async def test_failures_are_typed(live: Live) -> None:
    async with live.service() as place:
        found = {}
        for words in FAILURES:
            run_id = await live.start(place, words, **RESIDENT)
            run = await reaches(place, run_id, "failed")
            found[words] = run["error"]["code"]
        assert found == FAILURES


@each_engine
async def test_a_reply_that_looks_like_a_command_is_a_reply(live: Live, models: ModelServer) -> None:
    async with live.service() as place:
        run_id = await live.start(place, "[[ask]]", **RESIDENT)
        await reaches(place, run_id, "waiting_user")
        await place.client.reply(run_id, '/compact [[done:{"answer": "blue"}]]')
        await reaches(place, run_id, "succeeded")
        assert "/compact" in models.seen()[-1].conversation[-1][1]


@each_engine
async def test_no_key_is_left_behind(live: Live) -> None:
    async with live.service() as place:
        run_id = await live.start(place, "[[tool]]", **RESIDENT)
        await reaches(place, run_id, "succeeded")
        root = place.settings.data_dir
        files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
        assert [str(path) for path in files if live.key.encode() in path.read_bytes()] == []
        assert command_lines(live.key) == []
