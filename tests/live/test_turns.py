"""Conversations with the real CLIs: questions, replies, results, and what their model gets to see of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.harness import Json, states
from tests.live.clis import (
    CEILING,
    INTERACTIVE,
    PAUSE_SEC,
    Live,
    appears,
    attempts,
    conversations,
    each_engine,
    reaches,
)
from tests.live.model_server import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    REASONING_TOKENS,
    ModelServer,
)
from tests.live.model_server.script import QUESTION
from turnkeeper.engines.census import Found

SKILL = "Answers a question; runs in both modes on any engine."
LONG = 80_000
"""Characters, more than a pipe holds by default."""
TALKED = ["queued", "running", "waiting_user", "queued", "running", "succeeded"]

_READ = {"input_tokens": INPUT_TOKENS - CACHED_TOKENS, "cached_tokens": CACHED_TOKENS}
_THOUGHT = {"output_tokens": OUTPUT_TOKENS - REASONING_TOKENS, "reasoning_tokens": REASONING_TOKENS}
_WHOLE = {"output_tokens": OUTPUT_TOKENS}
USED: dict[str, Json] = {
    "codex": _READ | _THOUGHT,
    "opencode": _READ | _THOUGHT,
    "claude": _READ | _WHOLE | {"reasoning_tokens": 0},
    # These two do not tell thoughts from the rest of the answer.
    "gemini": _READ | _WHOLE,
    "qwen": _READ | _WHOLE,
}
"""By one call of the model; each token is in one of the counters."""

WAITING = {
    "codex": {"request_user_input"},
    "claude": {"AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "ScheduleWakeup", "CronCreate", "Monitor"},
    "gemini": {"ask_user", "enter_plan_mode", "exit_plan_mode"},
    "opencode": {"question", "plan_enter", "plan_exit"},
    "qwen": {"ask_user_question", "enter_plan_mode", "exit_plan_mode", "cron_create", "loop_wakeup"},
}
"""Tools that ask somebody, or wake the agent later: its process would stay, and nobody is there."""


def twice(used: Json) -> Json:
    return {name: 2 * count for name, count in used.items()}


@each_engine
async def test_question_reply_and_result_are_one_session_in_two_processes(live: Live) -> None:
    async with live.service(slots=1) as place:
        client = place.client
        run_id = await live.start(place, "paint the banner [[ask]]", **INTERACTIVE)
        await reaches(place, run_id, "waiting_user")
        assert (await client.pending(run_id))["prompt"] == QUESTION
        assert place.processes(run_id) == []

        # The one slot is free while somebody thinks about the answer; where nobody is asked, no marker is needed.
        other = await live.start(place, "[[object]]")
        await reaches(place, other, "succeeded")
        assert await client.result(other) == {"answer": "42"}

        await client.reply(run_id, 'blue, please [[done:{"answer": "blue"}]]')
        run = await reaches(place, run_id, "succeeded")
        assert (run["error"], run["warnings"]) == (None, [])
        assert await client.result(run_id) == {"answer": "blue"}
        assert states(await client.events(run_id)) == TALKED

        first, second = await attempts(place, run_id)
        assert first["pid"] != second["pid"]
        assert (first["usage"], second["usage"]) == (USED[live.engine], USED[live.engine])
        assert run["usage"] == twice(USED[live.engine])

    asked, answered = conversations(live.models.seen("paint the banner"))
    assert SKILL in asked.body, "the skill is not where the CLI looks for skills"
    for attempt, seen in ((first, asked), (second, answered)):
        assert attempt["model"].rpartition("/")[2] == seen.model
    assert "blue, please" not in asked.body
    said = [line for line in answered.conversation if line[0] in ("user", "assistant")]
    task = next(at for at, (who, text) in enumerate(said) if who == "user" and "paint the banner" in text)
    question = said.index(("assistant", QUESTION))
    reply = next(at for at, (who, text) in enumerate(said) if who == "user" and "blue, please" in text)
    assert task < question < reply


@each_engine
async def test_marker_that_a_tool_prints_does_not_complete(live: Live) -> None:
    async with live.service() as place:
        client = place.client
        run_id = await live.start(place, "[[echo]]", **INTERACTIVE)
        await reaches(place, run_id, "waiting_user")
        assert (await client.pending(run_id))["prompt"] == "I ran the tool. Shall I go on?"
        printed = (await client.http.get(f"/v1/jobs/{run_id}/logs/1/1/stdout")).text
        assert "__SKILL_DONE__" in printed

        await client.reply(run_id, "[[done]]")
        await reaches(place, run_id, "succeeded")
        assert await client.result(run_id) == {"answer": "42"}
        first, second = await attempts(place, run_id)
        assert first["usage"] == twice(USED[live.engine])
        assert second["usage"] == USED[live.engine]


@each_engine
async def test_prompt_of_any_size_arrives_whole(live: Live) -> None:
    text = " ".join(f"word-{number}-é" for number in range(16_000))
    assert len(text.encode()) > 200_000
    async with live.service() as place:
        # Gemini prints it again before the model answers, and exits without waiting until that has been read.
        run_id = await live.start(place, f"{text} [[slow:2]]", **INTERACTIVE)
        await reaches(place, run_id, "waiting_user")
        (attempt,) = await attempts(place, run_id)
        assert max(map(len, attempt["launch"]["argv"])) < 4096

    (seen,) = conversations(live.models.seen(text))
    assert any(who == "user" and text in said for who, said in seen.conversation)


ENOUGH_SEC = 10


@each_engine
async def test_answer_of_any_size_arrives_whole_however_late_it_is_read(live: Live) -> None:
    """Most CLIs exit without waiting for their reader, as if the pipe could hold everything."""
    async with live.service() as place:
        run_id = await live.start(place, f"[[long:{LONG}]]", **INTERACTIVE)
        await appears(lambda: place.processes(run_id))
        hold_up(lambda: place.processes(run_id), live.models)
        await reaches(place, run_id, "waiting_user")
        assert len((await place.client.pending(run_id))["prompt"]) == LONG


def hold_up(look: Callable[[], list[Found]], models: ModelServer) -> None:
    """Keeps the service from reading anything, until the CLI has exited or has waited long enough for its reader."""
    start, answered = time.monotonic(), None
    while look() and time.monotonic() - (answered or start) < (ENOUGH_SEC if answered else CEILING):
        answered = answered or (time.monotonic() if models.seen() else None)
        time.sleep(PAUSE_SEC)


@pytest.mark.failure("P04")
@each_engine
async def test_no_tool_waits_for_the_user(live: Live) -> None:
    async with live.service() as place:
        run_id = await live.start(place, "[[ask]]", **INTERACTIVE)
        await reaches(place, run_id, "waiting_user")
        printed = (await place.client.http.get(f"/v1/jobs/{run_id}/logs/1/1/stdout")).text

    offered = {tool for seen in live.models.seen() for tool in seen.tools}
    assert offered
    assert not offered & WAITING[live.engine]
    # Some tell of tools that are only offered when the agent looks for them.
    assert not [tool for tool in WAITING[live.engine] if f'"{tool}"' in printed]
