"""The command line of each turn, as the CLI itself received it: nobody can approve a tool, in either mode."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.clis import engaged, notes, start
from tests.fakes.scripted_cli.arguments import CLAUDE_WITHOUT, NO_SERVERS, QWEN_WITHOUT
from tests.harness import Json, Place
from tests.spec.scripts import INTERACTIVE, LENIENT
from turnkeeper.engines.qwen import MAY_ASK

AUTO: Json = {"execution_mode": "auto"}


@pytest.fixture(scope="module")
async def clis(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with engaged(tmp_path_factory.mktemp("clis") / "data") as place:
        yield place


async def command_of(place: Place, engine: str, job: Json) -> list[str]:
    run_id = await start(place, engine, "[[done]]", **job)
    run = await place.client.settled(run_id)
    assert run["status"] == "succeeded", run["error"]
    (argv,) = notes(place, run_id).commands
    return argv


def fresh_codex(place: Place, run_id: str) -> list[str]:
    workspace = str(notes(place, run_id).workspace)
    return ["exec", "--json", "--yolo", "--skip-git-repo-check", "-C", workspace, "-"]


@pytest.mark.spec("TURN-05")
async def test_gemini_auto_approves_everything(clis: Place) -> None:
    argv = await command_of(clis, "gemini", AUTO)
    assert "--yolo" in argv
    assert argv == ["--yolo", "-o", "stream-json", *NO_SERVERS]


@pytest.mark.spec("TURN-06")
async def test_gemini_interactive_approves_everything(clis: Place) -> None:
    argv = await command_of(clis, "gemini", INTERACTIVE)
    assert "--yolo" in argv
    assert argv == ["--yolo", "-o", "stream-json", *NO_SERVERS]


@pytest.mark.spec("TURN-07")
async def test_iflow_auto_approves_everything_and_thinks(clis: Place) -> None:
    argv = await command_of(clis, "iflow", AUTO)
    assert {"--yolo", "--thinking"} <= set(argv)
    assert len(argv) == 2


@pytest.mark.spec("TURN-08")
async def test_iflow_interactive_approves_everything_and_thinks(clis: Place) -> None:
    argv = await command_of(clis, "iflow", INTERACTIVE)
    assert {"--yolo", "--thinking"} <= set(argv)
    assert len(argv) == 2


@pytest.mark.spec("TURN-09")
async def test_codex_auto_approves_everything(clis: Place) -> None:
    run_id = await start(clis, "codex", "[[done]]", **AUTO)
    await clis.client.settled(run_id)
    (argv,) = notes(clis, run_id).commands
    assert {"--yolo", "--full-auto"} & set(argv)
    assert argv == fresh_codex(clis, run_id)


@pytest.mark.spec("TURN-10")
async def test_codex_interactive_approves_everything(clis: Place) -> None:
    run_id = await start(clis, "codex", "[[ask]]", **INTERACTIVE)
    await clis.client.settled(run_id)
    (argv,) = notes(clis, run_id).commands
    assert {"--yolo", "--full-auto"} & set(argv)
    assert argv == fresh_codex(clis, run_id)


CLAUDE = [
    *("-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"),
    *("--setting-sources", "user", "--disallowedTools", CLAUDE_WITHOUT),
]
QWEN = ["--yolo", "--output-format", "stream-json", *NO_SERVERS, "--exclude-tools", QWEN_WITHOUT]
ASKING = ["--append-system-prompt", MAY_ASK]


@pytest.mark.parametrize("job", [AUTO, INTERACTIVE], ids=["auto", "interactive"])
async def test_claude_approves_everything(clis: Place, job: Json) -> None:
    assert await command_of(clis, "claude", job) == CLAUDE


async def test_qwen_approves_everything(clis: Place) -> None:
    assert await command_of(clis, "qwen", AUTO) == QWEN
    assert await command_of(clis, "qwen", INTERACTIVE) == [*QWEN, *ASKING]


RESUMED = {
    "gemini": ["--yolo", "-o", "stream-json", *NO_SERVERS, "--resume", "SESSION"],
    "iflow": ["--yolo", "--thinking", "--resume", "SESSION"],
    "codex": ["exec", "resume", "--json", "--yolo", "--skip-git-repo-check", "SESSION", "-"],
    "claude": [*CLAUDE, "--resume", "SESSION"],
    "qwen": [*QWEN, *ASKING, "--resume", "SESSION"],
}


@pytest.mark.spec("TURN-11")
@pytest.mark.parametrize(("engine", "wanted"), RESUMED.items(), ids=RESUMED.keys())
async def test_turns_after_a_reply_approve_everything(clis: Place, engine: str, wanted: list[str]) -> None:
    client = clis.client
    run_id = await start(clis, engine, "[[ask]]", **INTERACTIVE)
    await client.settled(run_id)
    for reply in ("blue [[ask]]", "[[done]]"):
        await client.reply(run_id, reply)
        await client.settled(run_id)

    seen = notes(clis, run_id)
    (session,) = set(seen.sessions)
    assert seen.commands[1:] == [[session if word == "SESSION" else word for word in wanted]] * 2


@pytest.mark.spec("TURN-11")
@pytest.mark.parametrize("engine", RESUMED)
async def test_turn_after_an_automatic_decision_approves_everything(clis: Place, engine: str) -> None:
    run_id = await start(clis, engine, "[[ask]] [[then]] [[done]]", **INTERACTIVE, **LENIENT)
    await clis.client.settled(run_id)
    await clis.pass_time(1201)
    await clis.client.settled(run_id)

    seen = notes(clis, run_id)
    (session,) = set(seen.sessions)
    wanted = [session if word == "SESSION" else word for word in RESUMED[engine]]
    assert seen.commands[1:] == [wanted]
