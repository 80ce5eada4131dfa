"""Tools and permissions that nobody answers for: refused, said, and never taken for success."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path

import pytest

from tests.fakes import asking_agent
from tests.fakes.clis import ENGINES, engaged, notes, start
from tests.fakes.failing_tools import CALLS, NAMES
from tests.fakes.puppets import played, prints, recorded, run, warned
from tests.harness import Json, Place, opened, states
from turnkeeper.core.turn import MAX_SAME_ERROR

INTERACTIVE: Json = {"execution_mode": "interactive"}
DENY: Json = {"permissions": "deny", **INTERACTIVE}
ASK: Json = {"permissions": "ask", **INTERACTIVE}


@asynccontextmanager
async def agent(data_dir: Path, *script: str) -> AsyncIterator[Place]:
    """A service with a resident agent that does this in its first turn."""
    command = [sys.executable, asking_agent.__file__, json.dumps(script)]
    async with opened(data_dir, engines={"agent": {"command": command, "asks": True}}) as place:
        yield place


def told_of(events: list[Json], code: str) -> list[str]:
    found = (event["data"] for event in events if event["type"] == "diagnostic.warning")
    return [data["message"] for data in found if data["code"] == code]


# An agent of the agent


@pytest.mark.failure("P02", "P01")
async def test_what_a_helper_of_the_agent_asks_for_is_denied_as_well(tmp_path: Path) -> None:
    script = ("helper-asks deep", "hear deep", "done {deep}", "end")
    async with agent(tmp_path / "data", *script) as place:
        denied = await run(place, "agent", **DENY)
        assert (denied["status"], warned(denied)[0]) == ("succeeded", "PERMISSION_DENIED")
        assert await place.client.result(denied["run_id"]) == {"answer": "no"}
        events = await place.client.events(denied["run_id"])
        assert told_of(events, "PERMISSION_DENIED") == ["the agent was not permitted: deep"]
        assert "waiting_user" not in states(events)


@pytest.mark.failure("P02", "P01")
async def test_what_a_helper_asks_for_and_nobody_answers_is_refused_at_the_deadline(tmp_path: Path) -> None:
    script = ("helper-asks deep", "hear deep", "done {deep}", "end")
    async with agent(tmp_path / "data", *script) as place:
        lenient = {"interactive_require_user_reply": False, "session_timeout_sec": 60}
        asked = await run(place, "agent", **ASK, **lenient)
        assert (asked["status"], asked["pending_interaction_id"]) == ("waiting_user", 1)
        assert "deep" in (await place.client.pending(asked["run_id"]))["prompt"]
        await place.pass_time(61)
        ended = await place.client.ended(asked["run_id"])
        assert ended["status"] == "succeeded"
        assert await place.client.result(asked["run_id"]) == {"answer": "no"}


@pytest.mark.failure("P02")
@pytest.mark.parametrize("engine", ["claude", "qwen"])
async def test_tool_that_a_helper_was_denied_is_told(tmp_path: Path, engine: str) -> None:
    """By a process for each turn nobody is asked: it refuses by itself, and lists it at the end."""
    session = {"session_id": "3cdeef59-8f2d-4945-bb2f-c7a643b69ea6"}
    call = {"type": "tool_use", "id": "toolu_2", "name": "WebFetch", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_2", "content": "not permitted", "is_error": True}
    events: list[Json] = [
        {"type": "system", "subtype": "init", "model": "m"},
        {"type": "assistant", "parent_tool_use_id": "toolu_1", "message": {"id": "a", "content": [call]}},
        {"type": "user", "parent_tool_use_id": "toolu_1", "message": {"content": [answer]}},
        {
            "type": "assistant",
            "message": {"id": "b", "content": [{"type": "text", "text": "May I look it up?"}]},
        },
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": "May I look it up?",
            "permission_denials": [{"tool_name": "WebFetch", "tool_use_id": "toolu_2", "tool_input": {}}],
        },
    ]
    told = prints("".join(json.dumps(event | session) + "\n" for event in events))
    async with played(tmp_path, engine, told) as place:
        asked = await run(place, engine, **INTERACTIVE)
        assert (asked["status"], warned(asked)) == ("waiting_user", ["PERMISSION_DENIED"])
        log = await place.client.events(asked["run_id"])
        assert told_of(log, "PERMISSION_DENIED") == ["these tools were denied: WebFetch"]
        tools = [event["data"] for event in log if event["type"] == "assistant.tool_call"]
        assert [(tool["name"], tool["status"]) for tool in tools] == [
            ("WebFetch", "in_progress"),
            ("WebFetch", "failed"),
        ]


# A refusal that looks like an end


@pytest.mark.parametrize("job", [{}, INTERACTIVE], ids=["auto", "interactive"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.failure("P03")
async def test_exit_without_a_byte_is_a_failure_that_says_so(tmp_path: Path, engine: str, job: Json) -> None:
    async with played(tmp_path, engine, prints()) as place:
        failed = await run(place, engine, **job)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "ENGINE_FAILED")
        assert "printed nothing at all" in failed["error"]["message"]


@pytest.mark.parametrize("job", [{}, INTERACTIVE], ids=["auto", "interactive"])
@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.failure("P03")
async def test_permission_that_the_engine_refused_itself_is_the_reason(
    tmp_path: Path, code: int, job: Json
) -> None:
    refusal = "! permission requested: external_directory (/etc/*); auto-rejecting"
    async with played(tmp_path, "opencode", prints("", f"\x1b[93m\x1b[1m{refusal}\x1b[0m\n", code)) as place:
        failed = await run(place, "opencode", **job)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "ENGINE_FAILED")
        assert "external_directory (/etc/*)" in failed["error"]["message"]
        assert warned(failed) == ["PERMISSION_DENIED"]
        (told,) = told_of(await place.client.events(failed["run_id"]), "PERMISSION_DENIED")
        assert refusal in told


# Tools that ask


WITHOUT = {
    "claude": "AskUserQuestion",
    "qwen": "ask_user_question",
}


@pytest.mark.failure("P04")
async def test_tools_that_ask_a_person_are_switched_off(tmp_path: Path) -> None:
    async with engaged(tmp_path / "data") as place:
        for engine, tool in WITHOUT.items():
            run_id = await start(place, engine, "[[done]]", **INTERACTIVE)
            assert (await place.client.settled(run_id))["status"] == "succeeded"
            (words,) = notes(place, run_id).commands
            assert any(tool in word.split(",") for word in words)
        run_id = await start(place, "codex", "[[done]]", **INTERACTIVE)
        await place.client.settled(run_id)
        settings = (notes(place, run_id).home / ".codex" / "config.toml").read_text()
        assert "[tools.experimental_request_user_input]\nenabled = false" in settings


@pytest.mark.failure("P04")
@pytest.mark.parametrize("engine", ["codex", "claude", "gemini", "opencode", "qwen"])
async def test_model_that_calls_such_a_tool_all_the_same_gets_no_answer_by_it(
    tmp_path: Path, engine: str
) -> None:
    """Recorded: the tool is refused or not there, and what the agent says then is its question."""
    async with played(tmp_path, engine, recorded(engine, "ask_user")) as place:
        asked = await run(place, engine, **INTERACTIVE)
        assert asked["status"] == "waiting_user", asked
        assert (await place.client.pending(asked["run_id"]))["prompt"]
        alone = await run(place, engine)
        assert (alone["status"], alone["error"]["code"]) == ("failed", "OUTPUT_INVALID")


@pytest.mark.failure("P05")
@pytest.mark.parametrize("policy", [ASK, DENY, INTERACTIVE], ids=["ask", "deny", "allow"])
async def test_form_that_a_server_of_tools_wants_filled_in_is_refused(tmp_path: Path, policy: Json) -> None:
    """A resident agent passes it on to its client: it hears at once that there is nobody, and goes on."""
    script = ("call elicitation/create", "hear elicitation/create", "done {elicitation/create}", "end")
    async with agent(tmp_path / "data", *script) as place:
        ended = await run(place, "agent", **policy)
        assert (ended["status"], warned(ended)) == ("succeeded", ["ENGINE_REMARK"])
        assert await place.client.result(ended["run_id"]) == {"answer": "error -32601"}
        (told,) = told_of(await place.client.events(ended["run_id"]), "ENGINE_REMARK")
        assert "elicitation/create" in told


@pytest.mark.failure("P05", "P08")
async def test_tool_of_a_server_that_waits_for_a_person_is_named_when_it_never_returns(
    tmp_path: Path,
) -> None:
    item = {
        "id": "1",
        "type": "mcp_tool_call",
        "server": "forms",
        "tool": "ask_user",
        "status": "in_progress",
    }
    began = [{"type": "thread.started", "thread_id": "01-thread"}, {"type": "item.started", "item": item}]
    async with played(tmp_path, "codex", f"say(*{began!r})\nsleep()") as place:
        stalled = await run(place, "codex", timeouts={"idle_sec": 0.6, "step_sec": 0.5}, **INTERACTIVE)
        assert (stalled["status"], stalled["error"]["code"]) == ("failed", "ENGINE_STALLED")
        assert "it waited for its tool forms.ask_user" in stalled["error"]["message"]
        assert place.processes(stalled["run_id"]) == []


# A sandbox that denies everything


DENIED = "sandbox: Operation not permitted"
OPENED = {"codex": [{"type": "thread.started", "thread_id": "01-thread"}]}


def calls(engine: str, *failures: tuple[str, bool]) -> str:
    """These calls, and then a model that would go on for ever."""
    each = [CALLS[engine](number, words, fails=fails) for number, (words, fails) in enumerate(failures)]
    return f"say(*{[*OPENED.get(engine, []), *chain.from_iterable(each)]!r})\n"


@pytest.mark.parametrize("engine", CALLS)
@pytest.mark.failure("P07")
async def test_tool_that_fails_alike_again_and_again_is_a_stall_with_its_reason(
    tmp_path: Path, engine: str
) -> None:
    """The engine works and speaks all the time, so no limit of silence would ever end it."""
    burns = calls(engine, *[(DENIED, True)] * MAX_SAME_ERROR) + "sleep()"
    async with played(tmp_path, engine, burns) as place:
        stalled = await run(place, engine)
        assert (stalled["status"], stalled["error"]["code"]) == ("failed", "ENGINE_STALLED")
        words = (
            f"the tool {NAMES[engine]} failed {MAX_SAME_ERROR} times in a row with the same words: {DENIED}"
        )
        assert stalled["error"]["message"] == words
        assert place.processes(stalled["run_id"]) == []


@pytest.mark.failure("P07")
async def test_resident_whose_tools_all_fail_is_ended_as_well(tmp_path: Path) -> None:
    script = (*[f"fail-a-tool {DENIED}"] * MAX_SAME_ERROR, "wait-for never")
    async with agent(tmp_path / "data", *script) as place:
        stalled = await run(place, "agent", **INTERACTIVE)
        assert (stalled["status"], stalled["error"]["code"]) == ("failed", "ENGINE_STALLED")
        assert DENIED in stalled["error"]["message"]
        assert place.processes(stalled["run_id"]) == []


@pytest.mark.failure("P07")
@pytest.mark.parametrize(
    "other",
    [("another error", True), ("fine", False), ("", True)],
    ids=["another", "success", "wordless"],
)
async def test_errors_that_differ_are_work(tmp_path: Path, other: tuple[str, bool]) -> None:
    """Anything else in between begins the count anew."""
    almost = [(DENIED, True)] * (MAX_SAME_ERROR - 1)
    tries = calls("codex", *almost, other, *almost)
    done = [
        {"type": "item.completed", "item": {"id": "z", "type": "agent_message", "text": '{"answer": "4"}'}}
    ]
    closes = f"say(*{[*done, {'type': 'turn.completed', 'usage': {}}]!r})"
    async with played(tmp_path, "codex", tries + closes) as place:
        assert (await run(place, "codex"))["status"] == "succeeded"


@pytest.mark.failure("P07")
async def test_commands_that_fail_and_say_nothing_are_no_stall(tmp_path: Path) -> None:
    """Claude tells the exit code in their place: it is the same for thirty commands that have nothing in common."""
    tries = calls("codex", *[("Exit code 1", True)] * MAX_SAME_ERROR)
    async with played(tmp_path, "codex", tries + "sleep()") as place:
        stalled = await run(place, "codex", timeouts={"idle_sec": 1, "step_sec": 0.5})
        assert "fell silent for 1 s" in stalled["error"]["message"]
