"""What goes wrong with a CLI, seen through the HTTP API: its errors, its exits, its noise, and a service that dies."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.crash.restarts import CUT_OFF, Daemon, started
from tests.fakes.clis import (
    ENGINES,
    Notes,
    assert_expected,
    command,
    each_engine,
    login,
    notes,
    start,
    warned,
)
from tests.fakes.scripted_cli.words import QUESTION
from tests.harness import Json, Place, opened, states

INTERACTIVE: Json = {"execution_mode": "interactive"}
CLOSING = [engine for engine in ENGINES if engine != "iflow"]
TALKED = ["queued", "running", "waiting_user", "queued", "running"]
FAILURES = {
    400: "ENGINE_FAILED",
    401: "ENGINE_AUTH_REQUIRED",
    429: "ENGINE_RATE_LIMITED",
    500: "ENGINE_FAILED",
}


@each_engine
@pytest.mark.failure("M03", "Q01", "Q04")
@pytest.mark.parametrize(("status", "code"), FAILURES.items())
@pytest.mark.parametrize("job", [{}, INTERACTIVE], ids=["auto", "interactive"])
async def test_error_of_the_model_has_its_code_and_its_words(
    clis: Place, engine: str, status: int, code: str, job: Json
) -> None:
    run = await clis.client.settled(await start(clis, engine, f"[[note]] [[fail:{status}]]", **job))
    assert (run["status"], run["error"]["code"]) == ("failed", code)
    words = (f"scripted failure {status}", f"status: {status}", "experiencing high demand")
    assert any(each in run["error"]["message"] for each in words)


@pytest.mark.parametrize("engine", ["codex", "claude", "gemini", "qwen"])  # the others keep it to themselves
@pytest.mark.failure("M02")
async def test_trouble_that_the_cli_gets_over_is_no_failure(clis: Place, engine: str) -> None:
    run = await clis.client.settled(await start(clis, engine, "[[retry]] [[done]]", **INTERACTIVE))
    assert (run["status"], run["error"]) == ("succeeded", None)
    assert warned(run) == ([] if engine == "gemini" else ["ENGINE_RETRYING"])


@each_engine
@pytest.mark.failure("R01")
async def test_session_that_is_gone_fails_the_run(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]] [[forget]]", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "[[done]]")

    run = await client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "SESSION_LOST")
    assert states(await client.events(run_id)) == [*TALKED, "failed"]


@each_engine
@pytest.mark.failure("M10")
async def test_session_that_comes_back_as_another_fails_the_run(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "[[replaced]] [[done]]")

    run = await client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "SESSION_LOST")
    first, second = notes(clis, run_id).calls
    assert first["session"] in second["argv"]
    assert first["session"] in run["error"]["message"]


@each_engine
@pytest.mark.failure("M10")
async def test_question_in_no_session_is_no_question(clis: Place, engine: str) -> None:
    """A reply would begin another session, and the agent would not know what was asked."""
    client = clis.client
    run_id = await start(clis, engine, "[[unnamed]] [[ask]]", **INTERACTIVE)
    run = await client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "SESSION_LOST")
    assert "named no session" in run["error"]["message"]

    answered = await start(clis, engine, "[[unnamed]] [[done]]", **INTERACTIVE)
    assert (await client.settled(answered))["status"] == "succeeded"


@each_engine
@pytest.mark.failure("M05", "B11")
@pytest.mark.parametrize("words", ["[[ask]] [[stop]]", "[[stop]]", "[[ask]] [[cut]]"])
@pytest.mark.parametrize("job", [{}, INTERACTIVE], ids=["auto", "interactive"])
async def test_exit_without_the_closing_event_is_a_failure(
    clis: Place, engine: str, words: str, job: Json
) -> None:
    run = await clis.client.settled(await start(clis, engine, words, **job))
    assert (run["status"], run["error"]["code"]) == ("failed", "ENGINE_FAILED")


@each_engine
@pytest.mark.failure("X01", "X09")
@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (11, "SIGSEGV")])
async def test_foreign_signal_is_named(clis: Place, engine: str, number: int, name: str) -> None:
    run = await clis.client.settled(await start(clis, engine, f"[[ask]] [[die:{number}]]", **INTERACTIVE))
    assert (run["status"], run["error"]["code"]) == ("failed", "ENGINE_CRASHED")
    assert name in run["error"]["message"]


@each_engine
@pytest.mark.failure("X01")
async def test_failure_after_the_result_is_a_warning(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[done]] [[exit:7]]", **INTERACTIVE)

    run = await clis.client.settled(run_id)
    assert (run["status"], warned(run)) == ("succeeded", ["ENGINE_FAILED_AFTER_RESULT"])
    assert await clis.client.result(run_id) == {"answer": "42"}


@each_engine
@pytest.mark.failure("X08")
@pytest.mark.parametrize(("words", "status"), [("[[done]]", "succeeded"), ("[[ask]]", "waiting_user")])
async def test_cli_that_lingers_after_its_result_is_ended(
    clis: Place, engine: str, words: str, status: str
) -> None:
    run_id = await start(clis, engine, f"{words} [[linger]]", **INTERACTIVE)

    run = await clis.client.settled(run_id)
    assert (run["status"], warned(run)) == (status, ["ENGINE_LINGERED_AFTER_RESULT"])
    assert clis.processes(run_id) == []


def is_alive(pid: int) -> bool:
    """A zombie is not: where nobody reaps orphans, it stays in the list."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@each_engine
@pytest.mark.failure("X02", "X05")
async def test_cancel_in_the_middle_of_a_tool_leaves_nothing_alive(clis: Place, engine: str) -> None:
    """The tool's shell has left the CLI's session; iflow does not listen to INT and TERM."""
    client = clis.client
    run_id = await start(clis, engine, "[[longtool]]", **INTERACTIVE)
    tool = int(await notes(clis, run_id).reached())
    assert tool in {found.pid for found in clis.processes(run_id)}
    assert os.getsid(tool) == tool

    await client.cancel(run_id)
    run = await client.ended(run_id)
    assert (run["status"], run["error"]) == ("canceled", None)
    assert clis.processes(run_id) == []
    assert not is_alive(tool)


@each_engine
async def test_cancel_in_the_middle_of_an_answer(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[hang]]")
    await notes(clis, run_id).reached()

    await clis.client.cancel(run_id)
    assert (await clis.client.ended(run_id))["status"] == "canceled"
    assert clis.processes(run_id) == []


@each_engine
@pytest.mark.failure("B04", "B07", "B09", "B10")
async def test_noise_around_the_events_changes_nothing(clis: Place, engine: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[noise]] [[latin]] [[tool]] [[ask]]", **INTERACTIVE)
    run = await client.settled(run_id)
    assert run["status"] == "waiting_user"
    assert QUESTION in (await client.pending(run_id))["prompt"]

    await client.reply(run_id, "[[noise]] [[latin]] [[tool]] [[done:blue]]")
    assert (await client.settled(run_id))["status"] == "succeeded"
    assert await client.result(run_id) == {"answer": "blue"}
    assert len(set(notes(clis, run_id).sessions)) == 1


@pytest.mark.parametrize("engine", CLOSING)
@pytest.mark.failure("M07")
async def test_words_after_the_closing_event_do_not_change_the_verdict(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[ask]] [[late]]", **INTERACTIVE)
    run = await clis.client.settled(run_id)
    assert run["status"] == "waiting_user"


@each_engine
@pytest.mark.failure("S01")
async def test_engine_that_is_not_installed_says_how_to_get_it(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    async with opened(tmp_path / "data") as place:
        refused = await place.client.post_job(engine=engine, input={"task": "[[done]]"})
        assert (refused.status_code, refused.json()["code"]) == (409, "ENGINE_NOT_READY")
        shown = (await place.client.http.get(f"/v1/engines/{engine}")).json()
        assert shown["ready"] is False
        assert shown["fix"]
        assert refused.json()["fix"] == shown["fix"]
        assert shown["fix"] in refused.json()["detail"]
        assert (await place.client.http.get("/v1/jobs")).json()["jobs"] == []


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    data_dir = tmp_path / "data"
    env = {}
    for engine in ENGINES:
        prefix = f"TURNKEEPER_ENGINES__{engine.upper()}"
        env[f"{prefix}__COMMAND"] = shlex.join(command(engine))
        env[f"{prefix}__ENV"] = login(engine)
        env[f"{prefix}__LOGIN_HOME"] = str(tmp_path / "logins")
    async with started(data_dir, at_once=True, **env) as daemon:
        yield daemon
    assert_expected(data_dir)


async def in_the_middle(daemon: Daemon, run_id: str, attempt: int) -> None:
    """The engine waits, and what it has said is durable."""

    def spoke(event: Json) -> bool:
        is_message = str(event["type"]).startswith("assistant.message.")
        return is_message and event["meta"] == {"attempt": attempt}

    await daemon.hears(run_id, spoke)
    await Notes(daemon.data_dir, run_id).reached()


@each_engine
@pytest.mark.failure("V01")
@pytest.mark.parametrize("gently", [False, True], ids=["killed", "stopped"])
async def test_turn_that_was_cut_off_goes_on_in_its_session(
    daemon: Daemon, engine: str, gently: bool
) -> None:
    """Told to stop, gemini exits as if all were well, and iflow does not listen: both were cut off all the same."""
    client = daemon.client
    run_id = await client.create(engine=engine, input={"task": "[[ask]]"}, **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "blue [[note]] [[wait]] [[done:blue]]")
    await in_the_middle(daemon, run_id, 2)

    seen = Notes(daemon.data_dir, run_id)
    if gently:
        assert await daemon.stop() == 0
        daemon.start()
    else:
        await daemon.restart()
    seen.go_on()
    run = await daemon.client.ended(run_id)
    assert (run["status"], run["attempt_number"]) == ("succeeded", 2)
    assert await daemon.client.result(run_id) == {"answer": "blue"}

    first, cut_off, resumed = seen.calls
    assert first["session"] == cut_off["session"] == resumed["session"]
    assert cut_off["argv"] == resumed["argv"]
    assert CUT_OFF in resumed["prompt"]
    assert resumed["prompt"].rstrip().endswith(cut_off["prompt"])


@each_engine
@pytest.mark.failure("V01")
async def test_killed_service_resumes_a_first_turn_whose_session_it_knew(daemon: Daemon, engine: str) -> None:
    """iflow names its session at the end of a turn: a first turn that is cut off has none."""
    run_id = await daemon.client.create(engine=engine, input={"task": "[[note]] [[wait]] [[done]]"})
    await in_the_middle(daemon, run_id, 1)

    await daemon.restart()
    seen = Notes(daemon.data_dir, run_id)
    seen.go_on()
    run = await daemon.client.ended(run_id)
    if engine == "iflow":
        assert (run["status"], run["error"]["code"]) == ("failed", "RUN_INTERRUPTED")
        assert len(seen.calls) == 1
        return
    assert (run["status"], run["attempt_number"]) == ("succeeded", 1)
    cut_off, resumed = seen.calls
    assert cut_off["session"] == resumed["session"]
    assert resumed["session"] in resumed["argv"]
    assert CUT_OFF in resumed["prompt"]


@each_engine
@pytest.mark.failure("H05")
@pytest.mark.parametrize("reply", ["", " \n"])
async def test_empty_reply_is_passed_on_in_words(clis: Place, engine: str, reply: str) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]] [[then]] [[done]]", **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, reply)

    assert (await client.settled(run_id))["status"] == "succeeded"
    assert "empty message" in notes(clis, run_id).calls[1]["prompt"]
    assert [entry["response"] for entry in await client.history(run_id)] == [reply]
