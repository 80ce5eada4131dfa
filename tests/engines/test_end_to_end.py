"""From the HTTP API to the process of a CLI and back, for each engine: questions, replies, and what completes a run.

The tests share one service. When the last of them is over, every turn of theirs is judged again from its stored
bytes, nothing may be alive any more, and no CLI may have met anything that it did not expect.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.clis import each_engine, notes, printed, start, warned
from tests.fakes.scripted_cli.surroundings import KEYS
from tests.fakes.scripted_cli.words import MARKER, QUESTION
from tests.harness import Json, Place, states
from turnkeeper.core.run import Handle
from turnkeeper.core.turn import COUNTERS
from turnkeeper.runtime.audit import judge_again

INTERACTIVE: Json = {"execution_mode": "interactive"}
LENIENT: Json = INTERACTIVE | {"interactive_require_user_reply": False}
SOFT = "INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER"
TALKED = ["queued", "running", "waiting_user", "queued", "running"]


@each_engine
async def test_question_reply_and_answer_are_one_session_in_two_processes(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    run = await client.settled(run_id)
    assert (run["status"], run["engine"], run["error"]) == ("waiting_user", engine, None)
    assert run["interactive_profile"]["kind"] == "resumable"
    assert (await client.pending(run_id))["prompt"] == QUESTION
    assert clis.processes(run_id) == []

    await client.reply(run_id, "blue, please [[done:blue]]")
    run = await client.settled(run_id)
    assert (run["status"], run["warnings"], run["error"]) == ("succeeded", [], None)
    assert await client.result(run_id) == {"answer": "blue"}
    assert states(await client.events(run_id)) == [*TALKED, "succeeded"]

    first, second = notes(clis, run_id).calls
    assert first["pid"] != second["pid"]
    assert first["session"] == second["session"]
    assert second["session"] not in first["argv"]
    assert second["session"] in second["argv"]
    assert '"task": "[[ask]]"' in first["prompt"]
    assert second["prompt"] == "blue, please [[done:blue]]"


LAST_CALL_ONLY = ("iflow",)
"""Tells what the last call of a turn used, and not what all of them did."""
A_CALL = {
    "codex": {"input_tokens": 1134, "cached_tokens": 100, "output_tokens": 14, "reasoning_tokens": 3},
    "claude": {"input_tokens": 1134, "cached_tokens": 100, "output_tokens": 14, "reasoning_tokens": 3},
    "gemini": {"input_tokens": 1134, "cached_tokens": 100, "output_tokens": 17},
    "opencode": {"input_tokens": 1134, "cached_tokens": 100, "output_tokens": 17, "reasoning_tokens": 0},
    "qwen": {"input_tokens": 1134, "cached_tokens": 100, "output_tokens": 17},
    "iflow": {"input_tokens": 1234, "output_tokens": 17},
}
"""Each token is counted once, as far as the CLI tells them apart."""


@each_engine
@pytest.mark.failure("M09")
async def test_usage_is_the_sum_of_the_turns(clis: Place, engine: str) -> None:
    """What `codex` and `qwen` say is of their session, and so has the turns before in it."""
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    first = await client.settled(run_id)
    await client.reply(run_id, "[[tool]] [[done]]")
    run = await client.settled(run_id)

    def used(calls: int) -> Json:
        return {name: count * calls for name, count in A_CALL[engine].items()}

    calls = 1 if engine in LAST_CALL_ONLY else 2
    assert (counts(first["usage"]), counts(run["usage"])) == (used(1), used(1 + calls))
    told = [event["data"] for event in await client.events(run_id) if event["type"] == "usage.reported"]
    assert [counts(each) for each in told] == [used(1), used(calls)]


def counts(usage: Json) -> Json:
    return {name: usage[name] for name in COUNTERS if name in usage}


@pytest.mark.parametrize("mode", ["auto", "interactive"])
async def test_stop_of_opencode_after_a_tool_is_not_its_end(clis: Place, mode: str) -> None:
    run_id = await start(clis, "opencode", "[[hasty]] [[tool]] [[note]] [[done]]", execution_mode=mode)

    run = await clis.client.settled(run_id)
    assert (run["status"], run["warnings"], run["error"]) == ("succeeded", [], None)
    assert await clis.client.result(run_id) == {"answer": "42"}
    assert (await printed(clis, run_id, attempt=1)).count('"reason":"stop"') == 2


@each_engine
async def test_first_turn_is_judged_again_without_the_session_that_came_later(
    clis: Place, engine: str
) -> None:
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await clis.client.settled(run_id)

    run = await clis.house.store.run(run_id)
    assert run is not None
    later = replace(run, handle=Handle("another-session", loadable=True))
    (attempt,) = await clis.house.store.attempts(run_id)
    opinion = judge_again(clis.house.stage, later, attempt, ())
    assert opinion is not None
    assert opinion.agrees


@each_engine
async def test_many_turns_stay_in_one_session(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    for turn in range(1, 4):
        run = await client.settled(run_id)
        assert (run["status"], run["attempt_number"]) == ("waiting_user", turn)
        await client.reply(run_id, f"{turn} [[note]] [[tool]] [[ask]]" if turn < 3 else "[[done]]")

    assert (await client.settled(run_id))["status"] == "succeeded"
    seen = notes(clis, run_id)
    assert len(seen.calls) == 4
    assert len(set(seen.sessions)) == 1


@each_engine
@pytest.mark.failure("R10")
async def test_runs_side_by_side_share_no_session_and_no_home(clis: Place, engine: str) -> None:
    client = clis.client
    runs = [await start(clis, engine, "[[ask]]", **INTERACTIVE) for _ in range(3)]
    for number, run_id in enumerate(runs):
        await client.settled(run_id)
        await client.reply(run_id, f"[[done:{number}]]")
    for number, run_id in enumerate(runs):
        await client.settled(run_id)
        assert await client.result(run_id) == {"answer": str(number)}
    assert len({notes(clis, run_id).sessions[0] for run_id in runs}) == 3


@each_engine
@pytest.mark.parametrize("words", ["[[soft]]", "[[done]]", "[[note]] [[tool]] [[done]]"])
async def test_auto_run_succeeds_on_valid_output(clis: Place, engine: str, words: str) -> None:
    run_id = await start(clis, engine, words)

    run = await clis.client.settled(run_id)
    assert (run["status"], run["warnings"], run["error"]) == ("succeeded", [], None)
    assert await clis.client.result(run_id) == {"answer": "42"}


@each_engine
@pytest.mark.parametrize("words", ["[[ask]]", "[[loose]]", "[[invalid]]", "[[tool_marker]]"])
async def test_auto_run_without_valid_output_fails(clis: Place, engine: str, words: str) -> None:
    run = await clis.client.settled(await start(clis, engine, words))
    assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")


@each_engine
@pytest.mark.failure("C09")
async def test_valid_output_without_marker_completes_with_a_warning(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[tool]] [[soft]]", **INTERACTIVE)

    run = await clis.client.settled(run_id)
    assert (run["status"], warned(run)) == ("succeeded", [SOFT])
    assert await clis.client.result(run_id) == {"answer": "42"}


@each_engine
@pytest.mark.failure("C05")
async def test_marker_escaped_once_in_the_words_completes(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[escaped]]", **INTERACTIVE)

    run = await clis.client.settled(run_id)
    assert (run["status"], run["warnings"]) == ("succeeded", [])
    assert await clis.client.result(run_id) == {"answer": "42"}


@each_engine
@pytest.mark.failure("C03", "C05")
@pytest.mark.parametrize("words", ["[[escaped:2]]", "[[named]]"])
async def test_marker_escaped_twice_or_only_named_waits(clis: Place, engine: str, words: str) -> None:
    run = await clis.client.settled(await start(clis, engine, words, **INTERACTIVE))
    assert (run["status"], run["error"]) == ("waiting_user", None)


NO_EVIDENCE = {
    "tool output": "[[tool_marker]] [[ask]]",
    "forged events in tool output": "[[tool_forgery]] [[ask]]",
    "reasoning": "[[think]] [[ask]]",
    "words of a sub-agent": "[[delegate]] [[ask]]",
    "echoed prompt": f"[[ask]] {{{MARKER}}}",
}
SHOWN = {
    "codex": ("tool output", "forged events in tool output", "reasoning"),
    "claude": ("tool output", "forged events in tool output", "reasoning", "words of a sub-agent"),
    "gemini": ("tool output", "forged events in tool output", "echoed prompt"),
    "opencode": ("tool output", "forged events in tool output", "reasoning"),
    "qwen": ("tool output", "forged events in tool output", "reasoning", "words of a sub-agent"),
}
"""What else than its assistant's words each CLI prints; iflow prints nothing else."""


@pytest.mark.failure("C01", "C02", "M08")
@pytest.mark.parametrize(
    ("engine", "source"), [(engine, source) for engine, sources in SHOWN.items() for source in sources]
)
async def test_marker_outside_the_assistants_words_is_no_evidence(
    clis: Place, engine: str, source: str
) -> None:
    client = clis.client
    run_id = await start(clis, engine, NO_EVIDENCE[source], **INTERACTIVE)

    run = await client.settled(run_id)
    assert (run["status"], run["error"]) == ("waiting_user", None)
    assert (await client.pending(run_id))["prompt"] == QUESTION
    assert "__SKILL_DONE__" in await printed(clis, run_id, attempt=1)
    await client.reply(run_id, "[[done]]")
    assert (await client.settled(run_id))["status"] == "succeeded"


@pytest.mark.parametrize("engine", SHOWN)
@pytest.mark.failure("C02")
async def test_instructions_read_by_a_tool_are_no_evidence(clis: Place, engine: str) -> None:
    """The patched skill names the marker, and every agent reads it."""
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await client.settled(run_id)
    (path,) = notes(clis, run_id).calls[0]["skills"]

    await client.reply(run_id, f"[[read:../home/{path}]] [[ask]]")
    run = await client.settled(run_id)
    assert (run["status"], run["attempt_number"]) == ("waiting_user", 2)
    assert "__SKILL_DONE__" in await printed(clis, run_id, attempt=2)


@each_engine
@pytest.mark.failure("H05")
async def test_marker_in_a_reply_is_no_evidence(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, f'{{{MARKER}, "answer": "mine"}} [[ask]]')

    run = await client.settled(run_id)
    assert (run["status"], run["attempt_number"]) == ("waiting_user", 2)


@each_engine
@pytest.mark.failure("C08")
@pytest.mark.parametrize("words", ["[[invalid]]", "[[unparsed]]"])
async def test_marker_without_valid_output_fails(clis: Place, engine: str, words: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, words)

    run = await client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")
    assert states(await client.events(run_id)) == [*TALKED, "failed"]


@each_engine
@pytest.mark.failure("C12", "C13")
@pytest.mark.parametrize(
    ("last", "status", "code"),
    [("[[ask]]", "failed", "INTERACTIVE_MAX_ATTEMPT_EXCEEDED"), ("[[done]]", "succeeded", None)],
)
async def test_last_allowed_turn_needs_evidence(
    clis: Place, engine: str, last: str, status: str, code: str | None
) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", skill="limited", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, last)

    run = await client.settled(run_id)
    assert (run["status"], run["error"] and run["error"]["code"]) == (status, code)


@each_engine
async def test_ask_block_enriches_the_question(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask_block]]", **INTERACTIVE)
    await client.settled(run_id)

    assert await client.pending(run_id) == {
        "interaction_id": 1,
        "kind": "choose_one",
        "prompt": QUESTION,
        "options": [{"label": "Blue", "value": "blue"}, {"label": "Green", "value": "green"}],
        "ui_hints": {"widget": "swatches"},
        "context": "The banner is on a white page.",
        "default_decision_policy": "prefer_blue",
        "source": "ask_user",
    }


@each_engine
@pytest.mark.failure("C18")
async def test_broken_ask_block_waits_with_the_words_alone(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask_broken]]", **INTERACTIVE)

    run = await client.settled(run_id)
    assert (run["status"], warned(run)) == ("waiting_user", ["ASK_BLOCK_INVALID"])
    pending = await client.pending(run_id)
    assert (pending["prompt"], pending["source"]) == (QUESTION, "backend")
    assert "options" not in pending


@each_engine
async def test_deadline_answers_in_the_same_session(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask_block]] [[then]] [[done]]", **LENIENT)
    await client.settled(run_id)
    await clis.pass_time(1201)

    assert (await client.settled(run_id))["status"] == "succeeded"
    first, second = notes(clis, run_id).calls
    assert first["session"] == second["session"]
    assert "Nobody answered" in second["prompt"]
    assert "prefer_blue" in second["prompt"]


@each_engine
@pytest.mark.failure("S03")
async def test_prompt_of_any_size_arrives_whole(clis: Place, engine: str) -> None:
    client = clis.client
    long, longer = "ü" * 100_000, "lorem ipsum " * 25_000
    run_id = await start(clis, engine, f"[[ask]] {long}", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, f"[[done]] {longer}")

    assert (await client.settled(run_id))["status"] == "succeeded"
    first, second = notes(clis, run_id).calls
    assert long in first["prompt"]
    assert second["prompt"] == f"[[done]] {longer}"
    assert max(len(argument) for call in (first, second) for argument in call["argv"]) < 4096


@each_engine
async def test_model_is_passed_on_in_every_turn(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", model="gpt-5.5", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "[[done]]")

    assert (await client.settled(run_id))["status"] == "succeeded"
    option = "--model" if engine == "claude" else "-m"
    for argv in notes(clis, run_id).commands:
        assert argv[argv.index(option) + 1] == "gpt-5.5"


@pytest.mark.parametrize("engine", ["qwen"])
@pytest.mark.parametrize(("job", "may_ask"), [({}, False), (INTERACTIVE, True)], ids=["auto", "interactive"])
async def test_only_an_agent_that_may_ask_is_told_so(
    clis: Place, engine: str, job: Json, may_ask: bool
) -> None:
    """Without a terminal the CLI tells its agent never to ask; a word of ours takes that back."""
    run_id = await start(clis, engine, "[[done]]", **job)
    assert (await clis.client.settled(run_id))["status"] == "succeeded"
    (argv,) = notes(clis, run_id).commands
    assert ("--append-system-prompt" in argv) == may_ask


@pytest.mark.parametrize("engine", ["claude", "gemini", "qwen"])
async def test_reply_that_opens_with_a_slash_is_no_command(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await clis.client.settled(run_id)
    await clis.client.reply(run_id, "/blue [[done:blue]]")

    assert (await clis.client.settled(run_id))["status"] == "succeeded"
    assert notes(clis, run_id).calls[1]["prompt"] == "\n/blue [[done:blue]]"


@each_engine
async def test_cli_is_given_its_own_keys_and_no_other_secret(
    clis: Place, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CLI itself refuses any variable that it was not promised."""
    keys = set().union(*KEYS.values())
    for name in keys | {"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "TURNKEEPER_TOKEN"}:
        monkeypatch.setenv(name, "a-secret-of-the-operator")
    run_id = await start(clis, engine, "[[done]]")

    run = await clis.client.settled(run_id)
    assert run["status"] == "succeeded", run["error"]
    (call,) = notes(clis, run_id).calls
    assert keys & set(call["env"]) == KEYS[engine]


@each_engine
async def test_artifact_made_by_a_tool_counts(clis: Place, engine: str) -> None:
    client = clis.client
    without = await start(clis, engine, "[[done]]", skill="papers")
    run_id = await start(clis, engine, "[[file:report.md]] [[done]]", skill="papers")

    assert (await client.settled(without))["error"]["code"] == "OUTPUT_INVALID"
    assert (await client.settled(run_id))["status"] == "succeeded"
    listed = (await client.http.get(f"/v1/jobs/{run_id}/artifacts")).json()
    assert [each["path"] for each in listed["artifacts"]] == ["report.md"]
