"""The engines there are: ours, those of installed packages, the operator's own. A wrong one stops the start."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engines.recordings import a_plan, lines_of
from tests.harness import opened, states
from turnkeeper.core.errors import Code, SettingsInvalid
from turnkeeper.core.run import Failure, Handle, Permissions
from turnkeeper.core.turn import Ended, SessionOpened, Text, TurnEvent
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.acp import AcpDialect
from turnkeeper.engines.agent import AcpAgent
from turnkeeper.engines.base import Dialect, EngineConfig
from turnkeeper.engines.registry import BUILT_IN, GROUP, engines
from turnkeeper.settings import Settings
from turnkeeper.wiring import running

PLUGIN = Path(__file__).parents[1] / "fakes" / "plugin"
PAGE = Path(__file__).parents[2] / "docs" / "engines.md"

Install = Callable[[str, str, str], None]


@pytest.fixture
def parrot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGIN))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A package with one module, whose entry point has this name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    added = []

    def add(package: str, name: str, code: str) -> None:
        added.append(package)
        (tmp_path / f"{package}.py").write_text(code)
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {package}:make\n")

    yield add
    for package in added:
        sys.modules.pop(package, None)


def refusal(configs: dict[str, EngineConfig] | None = None) -> str:
    with pytest.raises(SettingsInvalid) as refused:
        engines(configs or {})
    assert "\n" not in refused.value.message
    return refused.value.message


def test_engines_of_ours() -> None:
    found = list(engines({}))
    assert found == [engine.name for engine in BUILT_IN]
    assert {"codex", "gemini", "iflow", "opencode", "demo"} <= set(found)
    assert refusal({"cobol": EngineConfig()}) == (
        f"engines.cobol: there is no such engine; there are: {', '.join(found)}. "
        "Another agent that speaks the Agent Client Protocol needs a command"
    )


# Agents of the operator's own


def test_an_unknown_name_with_a_command_is_an_agent_of_the_operator() -> None:
    """After all others: it is never chosen for a job that names no engine before one of ours is."""
    mine = EngineConfig(command=("my-agent", "acp"), model="m-1", asks=True)
    found = engines(
        {"my-agent": mine, "codex": EngineConfig(model="m-2"), "a-2nd": EngineConfig(command=("x",))}
    )
    assert list(found) == [*(engine.name for engine in BUILT_IN), "a-2nd", "my-agent"]
    agent = found["my-agent"]
    assert isinstance(agent, AcpAgent)
    assert (agent.name, agent.asks, agent.default_model) == ("my-agent", True, "m-1")
    assert agent.profiles == (ProfileKind.STICKY,)
    dialect = agent.dialect(replace(a_plan(), profile=ProfileKind.STICKY))
    assert isinstance(dialect, AcpDialect)
    assert found["codex"].default_model == "m-2"


@pytest.mark.parametrize("name", ["My-Agent", "2nd", "-agent", "my_agent", "my agent", "../x", "", "a" * 41])
def test_a_name_becomes_a_folder_and_a_variable(name: str) -> None:
    assert refusal({name: EngineConfig(command=("x",))}) == (
        f"engines.{name}: a name has small letters, digits and - only, and begins with a letter"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("resident_command", ("x",)),
        ("config", {"mine": 1}),
        ("login_home", Path("/home/me")),
    ],
)
def test_what_an_agent_of_the_operator_cannot_be_told(name: str, value: Any) -> None:
    config = EngineConfig(command=("x",), **{name: value})
    assert refusal({"mine": config}) == (
        f"engines.mine.{name}: nothing is known of this agent but its command; "
        "it takes command, model, env, limit, asks, modes"
    )


def test_settings_of_an_agent_of_the_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are written: a command is split as a shell would, and permissions have their names."""
    monkeypatch.setenv("TURNKEEPER_ENGINES__MINE__COMMAND", "my-agent 'acp' --quiet")
    monkeypatch.setenv("TURNKEEPER_ENGINES__MINE__MODES", '{"ask": "careful", "allow": "free"}')
    told = Settings(data_dir=tmp_path).engines["mine"]
    assert told.command == ("my-agent", "acp", "--quiet")
    assert told.modes == {Permissions.ASK: "careful", Permissions.ALLOW: "free"}
    monkeypatch.setenv("TURNKEEPER_ENGINES__MINE__MODES", '{"sometimes": "careful"}')
    with pytest.raises(ValueError, match="sometimes"):
        Settings(data_dir=tmp_path)


# Packages


@pytest.mark.usefixtures("parrot")
def test_an_engine_comes_as_a_package() -> None:
    found = engines({"parrot": EngineConfig(command=(sys.executable, "-S"), env=("PARROT_API_KEY=seed",))})
    assert list(found)[-1] == "parrot"
    launch = found["parrot"].launch(a_plan("perch-1", model="grey"))
    assert launch.argv == (sys.executable, "-S", "--json", "--model", "grey", "--again", "perch-1")
    assert (launch.env["PARROT_API_KEY"], launch.secrets) == ("seed", {"PARROT_API_KEY": "PARROT_API_KEY"})
    missing = engines({"parrot": EngineConfig(command=("/opt/parrot",))})["parrot"].readiness()
    assert missing.reason == "engines.parrot.command names '/opt/parrot', which does not exist"


@pytest.mark.usefixtures("parrot")
def test_its_dialect_speaks_the_turn_protocol() -> None:
    dialect = engines({})["parrot"].dialect(a_plan())
    said = b'{"perch": "perch-1"}\n{"squawk": "hello"}\n{"flap": 1}\nkraa\n{"ouch": "HTTP 401"}\n{"hush": true}\n'
    assert heard(dialect, said) == [
        SessionOpened(Handle("perch-1", loadable=True)),
        Text("hello"),
        Ended(Failure(Code.ENGINE_AUTH_REQUIRED, "HTTP 401")),
        Ended(),
    ]


@pytest.mark.usefixtures("parrot")
async def test_it_plays_turns_through_the_api_like_the_others(tmp_path: Path) -> None:
    """Its file and its line among the entry points are all that Turnkeeper knows of it."""
    command = [sys.executable, "-I", str(PLUGIN / "parrot.py")]
    settings = {"parrot": {"command": command, "env": ["PARROT_API_KEY=seed"]}}
    async with opened(tmp_path / "data", engines=settings) as place:
        client = place.client
        assert (await client.http.get("/v1/engines/parrot")).json()["ready"] is True
        run_id = await client.create(engine="parrot", input={}, execution_mode="interactive")
        run = await client.settled(run_id)
        assert (run["status"], run["engine"], run["error"]) == ("waiting_user", "parrot", None)
        assert (await client.pending(run_id))["prompt"] == "Polly wants a cracker?"

        await client.reply(run_id, "Polly does.")
        run = await client.settled(run_id)
        assert (run["status"], run["warnings"], run["error"]) == ("succeeded", [], None)
        assert await client.result(run_id) == {"answer": "Polly does."}
        assert states(await client.events(run_id)) == [
            *("queued", "running", "waiting_user", "queued", "running", "succeeded")
        ]


def heard(dialect: Dialect, stdout: bytes) -> list[TurnEvent]:
    found = [dialect.hear(line) for line in lines_of(stdout)]
    return [event for each in found if each is not None for event in each.events]


def test_the_page_shows_this_very_package() -> None:
    fences = re.findall(r"^```\w+\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert (PLUGIN / "turnkeeper_parrot.py").read_text(encoding="utf-8") in fences
    assert any(
        '[project.entry-points."turnkeeper.engines"]\nparrot = "turnkeeper_parrot:ParrotEngine"' in f
        for f in fences
    )


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nothing_like_this", "ModuleNotFoundError"),
        ("def make(config):\n    raise ValueError('no')", "ValueError('no')"),
        ("make = 7", "TypeError"),
        ("def make(config):\n    return None", "AttributeError"),
        ("def other(config): ...", "AttributeError"),
    ],
)
def test_a_package_that_cannot_be_loaded_stops_the_start(install: Install, code: str, reason: str) -> None:
    install("broken_engine", "broken", code)
    message = refusal()
    assert message.startswith("the engine 'broken' of the package 'broken_engine' cannot be loaded: ")
    assert reason in message
    assert message.endswith("; mend or uninstall that package")


def test_a_package_may_refuse_its_settings(install: Install) -> None:
    install(
        "strict_engine",
        "strict",
        "from turnkeeper.core.errors import SettingsInvalid\n"
        "def make(config):\n    raise SettingsInvalid('engines.strict.command: it must be set')",
    )
    assert refusal() == "engines.strict.command: it must be set"


def test_a_name_is_taken_once(install: Install) -> None:
    install("my_codex", "codex", "make = None")
    assert refusal() == "the package 'my_codex' brings an engine 'codex', and there is one already"


@pytest.mark.usefixtures("parrot")
def test_two_packages_may_not_share_a_name(install: Install) -> None:
    install("second_parrot", "parrot", "make = None")
    assert refusal().endswith("brings an engine 'parrot', and there is one already")


def test_an_engine_has_one_name(install: Install) -> None:
    install("two_names", "one", "def make(config):\n    return type('E', (), {'name': 'two'})()")
    assert refusal() == "the package 'two_names' calls one engine both 'one' and 'two'"


async def test_the_service_does_not_start_without_an_engine_of_its_runs(
    install: Install, tmp_path: Path
) -> None:
    install("gone_engine", "gone", "import nothing_like_this")
    with pytest.raises(SettingsInvalid, match="'gone' of the package 'gone_engine' cannot be loaded"):
        async with running(Settings(data_dir=tmp_path / "data", port=0)):
            pass
