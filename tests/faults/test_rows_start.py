"""Before a turn has begun: programs that cannot be started, and programs that stop and wait for a person."""

from __future__ import annotations

import pytest

from tests.fakes.clis import ENGINES, each_engine, notes, start, warned
from tests.fakes.scripted_cli.gates import GATES
from tests.faults.rows import FAILED, INTERACTIVE, RESIDENT, SUCCEEDED, Row, each, play, printed
from tests.harness import Json, Place
from turnkeeper.engines import registry
from turnkeeper.engines.cli import CliEngine

SOON: Json = {"first_byte_sec": 1, "idle_sec": 30}
"""For those that stop before they begin: whatever they print there is no sign that a turn has begun."""
LATER: Json = {"first_byte_sec": 30, "idle_sec": 1}
STALLED: Json = {"status": FAILED, "code": "ENGINE_STALLED"}
LINGERED = ("ENGINE_LINGERED_AFTER_RESULT",)

STARTS = {
    "an exit at once": Row(
        ids=("S06",), script="chaos/exit_at_once", status=FAILED, code="ENGINE_FAILED", says=("exit code 3",)
    ),
    "an exit before the handshake": Row(
        ids=("S07",),
        script="chaos/exit_at_once",
        status=FAILED,
        code="ENGINE_FAILED",
        says=("exit code 3",),
        job=RESIDENT,
    ),
    "an argument that is not known": Row(
        ids=("S08",),
        script="chaos/args_rejected",
        status=FAILED,
        code="ENGINE_ARGS_REJECTED",
        says=("--json",),
    ),
    "an argument that is not known, and a pipe": Row(
        ids=("S08",),
        script="chaos/args_rejected_pipe",
        status=FAILED,
        code="ENGINE_ARGS_REJECTED",
        says=("output-format",),
    ),
    "a refusal to run as root": Row(
        ids=("S10",),
        script="chaos/root_refused",
        status=FAILED,
        code="ENGINE_NOT_READY",
        says=("run the service as another user", "root/sudo"),
    ),
    "a refusal to run as root, of a resident": Row(
        ids=("S10",),
        script="chaos/root_refused",
        status=FAILED,
        code="ENGINE_NOT_READY",
        says=("run the service as another user",),
        job=RESIDENT,
    ),
    "silence": Row(
        ids=("G01", "G06"), script="chaos/silent_start", says=("1 s", "by hand"), timeouts=SOON, **STALLED
    ),
    "silence of a resident": Row(
        ids=("G01",), script="chaos/silent_start", says=("by hand",), timeouts=SOON, job=RESIDENT, **STALLED
    ),
    "a question about the folder": Row(
        ids=("G02",),
        script="chaos/trust_question",
        status=FAILED,
        code="ENGINE_TRUST_REQUIRED",
        warned=LINGERED,
    ),
    "another mode than it was told": Row(
        ids=("G03",), script="chaos/mode_downgraded", status=SUCCEEDED, warned=("APPROVAL_MODE_DOWNGRADED",)
    ),
    "a page to log in on": Row(
        ids=("G04",), script="chaos/login_page", status=FAILED, code="ENGINE_AUTH_REQUIRED", warned=LINGERED
    ),
    "a code to log in with": Row(
        ids=("G05",),
        script="chaos/login_code",
        status=FAILED,
        code="ENGINE_AUTH_REQUIRED",
        warned=LINGERED,
        timeouts={"first_byte_sec": 4, "idle_sec": 60},
    ),
    "a keychain": Row(
        ids=("G06",),
        script="chaos/keychain_stall",
        says=("keychain", "give it a key"),
        timeouts=SOON,
        **STALLED,
    ),
    "the screen of a first start": Row(
        ids=("G07",), script="chaos/first_run_screen", says=("first start",), timeouts=SOON, **STALLED
    ),
    "an update that is offered": Row(
        ids=("G08",),
        script="chaos/update_question",
        status=FAILED,
        code="ENGINE_NOT_READY",
        says=("update it by hand",),
        warned=LINGERED,
    ),
    "an update that never ends": Row(
        ids=("G08",), script="chaos/update_loop", says=("turn its updates off",), timeouts=SOON, **STALLED
    ),
    "a terminal that is wanted": Row(
        ids=("G09",),
        script="chaos/terminal_required",
        status=FAILED,
        code="ENGINE_TTY_REQUIRED",
        says=("Raw mode is not supported",),
    ),
    "a tool server that is dead": Row(
        ids=("G10",), script="chaos/tool_server_dead", status=SUCCEEDED, warned=("TOOL_SERVER_FAILED",)
    ),
    "a tool server that never comes up": Row(
        ids=("G10",), script="chaos/tool_server_endless", says=("weather",), timeouts=SOON, **STALLED
    ),
    "a question of a tool": Row(
        ids=("G11",),
        script="chaos/install_question",
        says=("its tool shell", "Ok to proceed? (y)"),
        timeouts=LATER,
        **STALLED,
    ),
}


@each(STARTS)
async def test_the_start_fails_for_a_reason_that_is_told(place: Place, row: Row) -> None:
    await play(place, row)


@pytest.mark.failure("S06")
async def test_what_was_printed_before_the_exit_is_kept(place: Place) -> None:
    run = await play(place, STARTS["an exit at once"])
    assert len(await printed(place, run["run_id"])) == 20_000


@pytest.mark.failure("G03", "G10")
async def test_a_warning_names_what_it_is_about(place: Place) -> None:
    named = {"another mode than it was told": '"default"', "a tool server that is dead": "weather"}
    for name, words in named.items():
        (warning,) = (await play(place, STARTS[name]))["warnings"]
        assert words in warning["message"]


# With the words of the real CLIs

CODES = {
    "args": ("S08", "ENGINE_ARGS_REJECTED"),
    "code": ("G05", "ENGINE_AUTH_REQUIRED"),
    "login": ("G04", "ENGINE_AUTH_REQUIRED"),
    "root": ("S10", "ENGINE_NOT_READY"),
    "terminal": ("G09", "ENGINE_TTY_REQUIRED"),
    "trust": ("G02", "ENGINE_TRUST_REQUIRED"),
    "update": ("G08", "ENGINE_NOT_READY"),
}


@pytest.mark.parametrize(
    ("engine", "gate"),
    [
        pytest.param(engine, gate, marks=pytest.mark.failure(CODES[gate][0]))
        for engine in ENGINES
        for gate in GATES[engine]
    ],
)
async def test_a_cli_that_stops_before_its_turn(clis: Place, engine: str, gate: str) -> None:
    run_id = await start(clis, engine, f"[[gate:{gate}]]", timeouts={"first_byte_sec": 4}, **INTERACTIVE)
    run = await clis.client.settled(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", CODES[gate][1]), run["error"]
    stays = GATES[engine][gate][2] is None
    assert warned(run) == list(LINGERED if stays else ())


@pytest.mark.parametrize("engine", ["claude", "qwen", "gemini", "codex"])
@pytest.mark.failure("G03")
async def test_a_cli_that_is_not_in_its_mode(clis: Place, engine: str) -> None:
    run = await clis.client.settled(await start(clis, engine, "[[downgraded]] [[done]]", **INTERACTIVE))
    assert (run["status"], warned(run)) == ("succeeded", ["APPROVAL_MODE_DOWNGRADED"])


@pytest.mark.parametrize("engine", ["claude", "qwen", "gemini", "codex", "opencode"])
@pytest.mark.failure("G10")
async def test_a_cli_without_a_tool_server(clis: Place, engine: str) -> None:
    run = await clis.client.settled(await start(clis, engine, "[[no_server]] [[done]]", **INTERACTIVE))
    assert (run["status"], warned(run)) == ("succeeded", ["TOOL_SERVER_FAILED"])
    assert "weather" in run["warnings"][0]["message"]


UPDATES_OFF = {
    "codex": "check_for_update_on_startup = false",
    "claude": "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "gemini": '"enableAutoUpdate": false',
    "opencode": "OPENCODE_DISABLE_AUTOUPDATE",
    "qwen": '"enableAutoUpdate": false',
    "iflow": '"disableAutoUpdate": true',
}


@each_engine
@pytest.mark.failure("G07", "G08", "G11", "S09")
async def test_what_a_cli_is_given_so_that_it_asks_nobody(clis: Place, engine: str) -> None:
    """In its environment and its settings; and the words of its command line stand in their one order."""
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await clis.client.settled(run_id)
    await clis.client.reply(run_id, "[[done]]")
    assert (await clis.client.settled(run_id))["status"] == "succeeded"

    seen, known = notes(clis, run_id), registry.engines({})[engine]
    assert isinstance(known, CliEngine)
    settings = (seen.home / known.settings_file).read_text() if known.settings_file else ""
    assert UPDATES_OFF[engine] in settings or UPDATES_OFF[engine] in seen.calls[0]["env"]
    assert {"npm_config_yes", "GIT_TERMINAL_PROMPT", "PIP_NO_INPUT"} <= set(seen.calls[0]["env"])
    for argv in seen.commands:
        options = [word for word in argv if word.startswith("-") and word != "-"]
        assert len(options) == len(set(options))
