"""How the CLIs are started: every word of the command line, the whole environment, the files in the home."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.engines import npm
from tests.engines.recordings import ENGINES, a_plan, command_of
from turnkeeper.core.errors import EngineNotReady, InvalidRequest, ModelUnknown, SettingsInvalid
from turnkeeper.core.run import Mode, Permissions
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.agent import AcpAgent
from turnkeeper.engines.base import PASSED_ON, EngineConfig, Launch, Login, LoginKind, TurnPlan, sessions_in
from turnkeeper.engines.claude import ClaudeEngine
from turnkeeper.engines.cli import CliEngine
from turnkeeper.engines.codex import CodexEngine
from turnkeeper.engines.gemini import GeminiEngine
from turnkeeper.engines.iflow import IflowEngine
from turnkeeper.engines.opencode import OpencodeEngine
from turnkeeper.engines.qwen import MAY_ASK, QwenEngine

HOME = "/runs/1/home"
CLIS: dict[str, type[CliEngine]] = {
    cli.name: cli
    for cli in (CodexEngine, ClaudeEngine, GeminiEngine, OpencodeEngine, QwenEngine, IflowEngine)
}

SPEC = {
    ("codex", Mode.AUTO): "TURN-09",
    ("codex", Mode.INTERACTIVE): "TURN-10",
    ("gemini", Mode.AUTO): "TURN-05",
    ("gemini", Mode.INTERACTIVE): "TURN-06",
    ("iflow", Mode.AUTO): "TURN-07",
    ("iflow", Mode.INTERACTIVE): "TURN-08",
}

WAITING = {
    "claude": "AskUserQuestion,EnterPlanMode,ExitPlanMode,CronCreate,Monitor,ScheduleWakeup,Workflow",
    "qwen": "ask_user_question,enter_plan_mode,exit_plan_mode,cron_create,loop_wakeup,monitor",
}
CLAUDE = (
    "-p --output-format stream-json --verbose --dangerously-skip-permissions"
    f" --setting-sources user --disallowedTools {WAITING['claude']}"
)
QWEN = f"--yolo --output-format stream-json --allowed-mcp-server-names none --exclude-tools {WAITING['qwen']}{{asking}}"
STARTS = {
    "codex": "exec --json --yolo --skip-git-repo-check{model} -C /runs/1/workspace -",
    "claude": CLAUDE + "{model}",
    "gemini": "--yolo -o stream-json --allowed-mcp-server-names none{model}",
    "opencode": "run --format json --auto{model} --title turnkeeper",
    "qwen": QWEN + "{model}",
    "iflow": "--yolo --thinking{model}",
}
RESUMES = {
    "codex": "exec resume --json --yolo --skip-git-repo-check{model} SES-1 -",
    "claude": CLAUDE + "{model} --resume SES-1",
    "gemini": "--yolo -o stream-json --allowed-mcp-server-names none{model} --resume SES-1",
    "opencode": "run --format json --auto{model} --session SES-1",
    "qwen": QWEN + "{model} --resume SES-1",
    "iflow": "--yolo --thinking{model} --resume SES-1",
}
MODEL_OPTIONS = {"claude": "--model"}


def words(engine: str, template: str, mode: Mode, model: str | None) -> tuple[str, ...]:
    named = f" {MODEL_OPTIONS.get(engine, '-m')} {model}" if model else ""
    asking = " --append-system-prompt MAY_ASK" if mode is Mode.INTERACTIVE else ""
    found = template.format(model=named, asking=asking).split()
    return tuple(MAY_ASK if word == "MAY_ASK" else word for word in found)


def started(engine: str, *session: str, **more: Any) -> tuple[str, ...]:
    cli = ENGINES[engine]
    assert isinstance(cli, CliEngine)
    return tuple(cli.words(a_plan(*session, **more)))


@pytest.mark.failure("S09")
@pytest.mark.parametrize("model", [None, "maker/model-1"])
@pytest.mark.parametrize(
    ("engine", "mode"),
    [
        pytest.param(
            engine, mode, marks=[pytest.mark.spec(SPEC[engine, mode])] if (engine, mode) in SPEC else []
        )
        for engine in STARTS
        for mode in Mode
    ],
)
def test_start(engine: str, mode: Mode, model: str | None) -> None:
    assert started(engine, mode=mode, model=model) == words(engine, STARTS[engine], mode, model)


@pytest.mark.spec("TURN-11")
@pytest.mark.failure("S09")
@pytest.mark.parametrize("model", [None, "maker/model-1"])
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("engine", RESUMES)
def test_resume(engine: str, mode: Mode, model: str | None) -> None:
    assert started(engine, "SES-1", mode=mode, model=model) == words(engine, RESUMES[engine], mode, model)


AS_RECORDED = {
    "--dangerously-bypass-approvals-and-sandbox": "--yolo",
    "/workspace": "/runs/1/workspace",
    "t": "turnkeeper",
}
PROGRAMS = {"qwen": 2}
"""Words of the program itself, if that is more than one."""


@pytest.mark.parametrize("engine", STARTS)
def test_these_words_were_recorded(engine: str) -> None:
    """With the prompt on stdin, as we give it. Two were recorded under their long names, and one was not recorded."""
    recorded = [AS_RECORDED.get(word, word) for word in command_of(engine, "stdin")][
        PROGRAMS.get(engine, 1) :
    ]
    model = recorded[recorded.index("-m") + 1] if "-m" in recorded else None
    servers = ["--allowed-mcp-server-names", "none"]  # added since, and played by the live tests
    unrecorded = {"iflow": ["--thinking"], "gemini": servers, "qwen": servers}.get(engine, [])
    assert sorted(started(engine, model=model)) == sorted([*recorded, *unrecorded])


def test_only_an_agent_that_may_ask_is_told_so() -> None:
    """Without a terminal qwen forbids its agent to ask, and so does a run that nobody answers."""
    assert MAY_ASK in started("qwen", mode=Mode.INTERACTIVE)
    assert MAY_ASK not in started("qwen", mode=Mode.AUTO)


@pytest.mark.parametrize("engine", STARTS)
def test_nothing_of_a_job_becomes_an_option(engine: str) -> None:
    for model in ("--share", "-c", "-"):
        with pytest.raises(ModelUnknown):
            ENGINES[engine].launch(a_plan(model=model))
    for session in ("--last", "-", "a b", "a\n", "../x"):
        with pytest.raises(InvalidRequest):
            ENGINES[engine].launch(a_plan(session))


# The program


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\necho 1.2.3\n")
    path.chmod(mode)
    return path


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    return program(tmp_path / "programs" / "stub")


@pytest.mark.parametrize("cli", CLIS.values())
def test_a_configured_command_comes_first(
    cli: type[CliEngine], stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = cli(EngineConfig(command=(str(stub), "--max-old-space-size=512", "/opt/cli.js")))
    launch = engine.launch(a_plan())
    assert launch.argv == (str(stub), "--max-old-space-size=512", "/opt/cli.js", *engine.words(a_plan()))
    # Where the engine runs, another file may have that name.
    monkeypatch.chdir(tmp_path)
    assert cli(EngineConfig(command=("programs/stub",))).launch(a_plan()).argv[0] == str(stub)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cli(EngineConfig(command=("~/programs/stub",))).launch(a_plan()).argv[0] == str(stub)


@pytest.mark.parametrize("cli", CLIS.values())
def test_a_program_that_is_gone_is_not_started(
    cli: type[CliEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineNotReady, match=f"{cli.name} is not ready: .* To fix it: "):
        cli(EngineConfig()).launch(a_plan())


# Environment and files

PRIVATE = {
    "PATH": "/usr/bin:/bin",
    "HOME": HOME,
    "TMPDIR": f"{HOME}/.scratch",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "GIT_TERMINAL_PROMPT": "0",
    "PIP_NO_INPUT": "1",
    "npm_config_yes": "false",
}
SWITCHES: dict[str, dict[str, str]] = {
    "codex": {"CODEX_HOME": f"{HOME}/.codex"},
    "claude": {
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    },
    "gemini": {
        "GEMINI_CLI_NO_RELAUNCH": "1",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GOOGLE_GEMINI_BASE_URL": "",
        "NO_BROWSER": "true",
    },
    "opencode": {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "OPENCODE_LOG_LEVEL": "ERROR",
        "OPENCODE_PRINT_LOGS": "1",
    },
    "qwen": {
        "OPENAI_BASE_URL": "https://api.openai.com/v1",
        "QWEN_CODE_NO_RELAUNCH": "1",
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": f"{HOME}/.qwen/settings.json",
    },
    "iflow": {},
}
KEYS = {
    "codex": {"CODEX_API_KEY", "OPENAI_API_KEY"},
    "claude": {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
    "gemini": {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
    "opencode": {
        *("ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
        *("GROQ_API_KEY", "MISTRAL_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY", "OPENROUTER_API_KEY"),
        "XAI_API_KEY",
    },
    "qwen": {"OPENAI_API_KEY"},
    "iflow": {"IFLOW_API_KEY"},
}
ADDRESSES: dict[str, set[str]] = {
    "codex": {"OPENAI_BASE_URL"},
    "claude": {
        *("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"),
        *("ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL"),
    },
    "gemini": {
        *("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"),
        *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
    },
    "opencode": set(),
    "qwen": {"OPENAI_BASE_URL", "OPENAI_MODEL"},
    "iflow": {"IFLOW_BASE_URL", "IFLOW_MODEL_NAME", "IFLOW_SELECTED_AUTH_TYPE"},
}
SECRET = "a-secret-of-the-operator"
PLACE = "https://gateway.example/v1"

each_cli = pytest.mark.parametrize("engine", CLIS)


def alone(monkeypatch: pytest.MonkeyPatch, **found: str) -> None:
    """The service's environment is this and a PATH."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {"PATH": "/usr/bin:/bin", **found}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def logins(tmp_path: Path) -> Path:
    """A home where nobody has logged in."""
    (tmp_path / "logins").mkdir()
    return tmp_path / "logins"


@pytest.fixture
def made(stub: Path, logins: Path) -> Any:
    def make(engine: str, *, is_there: bool = True, **config: Any) -> CliEngine:
        command = (str(stub),) if is_there else ()
        return CLIS[engine](EngineConfig(command=command, login_home=logins, **config))

    return make


def logged_in(engine: str, logins: Path) -> dict[str, Path]:
    """What a person leaves there who logs in."""
    paths = {name: logins / name for name in CLIS[engine].login_files}
    for path in paths.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
    return paths


@each_cli
def test_environment(engine: str, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(
        monkeypatch, TURNKEEPER_TOKEN=SECRET, AWS_SECRET_ACCESS_KEY=SECRET, XDG_CONFIG_HOME="/etc", LANG="C"
    )
    launch: Launch = made(engine).launch(a_plan())
    assert launch.env == PRIVATE | {"LANG": "C"} | SWITCHES[engine]
    assert launch.secrets == {}


@each_cli
def test_an_engine_gets_its_own_keys_and_only_by_the_environment(
    engine: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {name: SECRET for names in KEYS.values() for name in names}
    places = {name: PLACE for names in ADDRESSES.values() for name in names}
    alone(monkeypatch, **secrets, **places)
    launch: Launch = made(engine).launch(a_plan("SES-1"))
    assert {name for name, value in launch.env.items() if value == SECRET} == KEYS[engine]
    assert {name for name, value in launch.env.items() if value == PLACE} == ADDRESSES[engine]
    assert set(launch.secrets) == KEYS[engine]
    assert SECRET not in " ".join(launch.argv)
    assert all(SECRET.encode() not in data for data in launch.files.values())
    assert not (KEYS[engine] | ADDRESSES[engine]) & set(PASSED_ON)


@each_cli
def test_variables_of_the_operator_are_passed_on(
    engine: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, CORP_REGION="north", MY_TOKEN=SECRET)
    given = ("CORP_REGION", "MY_TOKEN", "ANOTHER=a=b", "NOT_THERE")
    launch: Launch = made(engine, env=given).launch(a_plan())
    assert launch.env["CORP_REGION"] == "north"
    assert (launch.env["MY_TOKEN"], launch.env["ANOTHER"]) == (SECRET, "a=b")
    assert "NOT_THERE" not in launch.env
    assert launch.secrets == {"MY_TOKEN": "MY_TOKEN"}


def test_keys_by_the_names_that_are_read(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, OPENAI_API_KEY=SECRET, GEMINI_API_KEY=SECRET)
    for engine, name, source in (
        ("codex", "CODEX_API_KEY", "OPENAI_API_KEY"),
        ("opencode", "GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"),
    ):
        launch: Launch = made(engine).launch(a_plan())
        assert launch.env[name] == SECRET
        assert {name, source} <= set(launch.secrets)
        assert launch.secrets[source] == source
    monkeypatch.setenv("CODEX_API_KEY", "mine")
    assert made("codex").launch(a_plan()).env["CODEX_API_KEY"] == "mine"


def test_what_renews_a_login_is_left_on_for_one(
    made: Any, logins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch)
    logged_in("opencode", logins)
    assert "OPENCODE_DISABLE_DEFAULT_PLUGINS" not in made("opencode").launch(a_plan()).env
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert made("opencode").launch(a_plan()).env["OPENCODE_DISABLE_DEFAULT_PLUGINS"] == "1"


@pytest.mark.parametrize(
    ("engine", "address"), [("gemini", "GOOGLE_GEMINI_BASE_URL"), ("qwen", "OPENAI_BASE_URL")]
)
def test_an_address_of_the_operator_goes_before_ours(
    engine: str, address: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours is there because a file in the workspace could name one otherwise, and be sent the key."""
    alone(monkeypatch)
    assert address in made(engine).launch(a_plan()).env
    monkeypatch.setenv(address, PLACE)
    assert made(engine).launch(a_plan()).env[address] == PLACE


def written(launch: Launch) -> dict[str, Any]:
    return {
        path: tomllib.loads(data.decode()) if path.endswith(".toml") else json.loads(data)
        for path, data in launch.files.items()
        if path in {cli.settings_file for cli in CLIS.values()}
    }


CODEX: dict[str, Any] = {
    "check_for_update_on_startup": False,
    "analytics": {"enabled": False},
    "tools": {"experimental_request_user_input": {"enabled": False}},
    "features": {"plugins": False, "unbounded_connection_retries": False},
}
GEMINI: dict[str, Any] = {
    "general": {
        "enableAutoUpdate": False,
        "enableAutoUpdateNotification": False,
        "plan": {"enabled": False},
    },
    "hooksConfig": {"enabled": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}
OPENCODE: dict[str, Any] = {"autoupdate": False, "share": "disabled", "compaction": {"auto": False}}
QWEN_CODE: dict[str, Any] = {
    "security": {"auth": {"selectedType": "openai"}},
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "memory": {"enableManagedAutoMemory": False},
    "model": {"generationConfig": {"maxRetries": 0}},
    "disableAllHooks": True,
    "modelProviders": {"openai": []},
}


def selected(kind: str) -> dict[str, Any]:
    return {"security": {"auth": {"selectedType": kind}}}


FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "codex": (".codex/config.toml", CODEX),
    "gemini": (".gemini/settings.json", GEMINI | selected("gemini-api-key")),
    "opencode": (".config/opencode/opencode.json", OPENCODE | {"disabled_providers": ["opencode"]}),
    "qwen": (".qwen/settings.json", QWEN_CODE),
    "iflow": (".iflow/settings.json", {"selectedAuthType": "openai-compatible", "disableAutoUpdate": True}),
}


EMPTY_FILES = {
    "codex": {".codex/.env": b""},
    "opencode": {
        ".config/opencode/opencode.jsonc": b"{}",
        ".config/opencode/config.json": b"{}",
        ".opencode/opencode.json": b"{}",
        ".opencode/opencode.jsonc": b"{}",
    },
}
"""What an agent leaves in one of these would be read as settings in its next turn: where the key goes, say."""


@each_cli
def test_files(engine: str, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    launch = made(engine).launch(a_plan())
    assert written(launch) == (dict([FILES[engine]]) if engine in FILES else {CLIS[engine].settings_file: {}})
    others = {name: data for name, data in launch.files.items() if name != CLIS[engine].settings_file}
    assert others == EMPTY_FILES.get(engine, {})


@each_cli
def test_settings_of_the_operator_are_laid_over_ours(
    engine: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch)
    own = {"features": {"plugins": True}, "telemetry": {"target": "here"}, "mine": [1]}
    (path, settings), *_ = written(made(engine, config=own).launch(a_plan())).items()
    assert path == CLIS[engine].settings_file
    ours = FILES[engine][1] if engine in FILES else {}
    assert settings["mine"] == [1]
    assert settings["features"] == ours.get("features", {}) | {"plugins": True}
    assert settings["telemetry"] == ours.get("telemetry", {}) | {"target": "here"}


@pytest.mark.parametrize(
    ("engine", "found", "settings"),
    [
        ("gemini", {"GEMINI_API_KEY": SECRET}, selected("gemini-api-key")),
        ("gemini", {"GOOGLE_API_KEY": SECRET}, selected("vertex-ai")),
        ("gemini", {}, selected("oauth-personal")),
        ("opencode", {"OPENCODE_API_KEY": SECRET}, {}),
        ("opencode", {"OPENAI_API_KEY": SECRET}, {"disabled_providers": ["opencode"]}),
        ("opencode", {}, {"disabled_providers": ["opencode"]}),
        ("codex", {"OPENAI_BASE_URL": PLACE}, {}),
        (
            "codex",
            {"OPENAI_BASE_URL": PLACE, "CODEX_API_KEY": SECRET},
            {
                "model_provider": "turnkeeper",
                "model_providers": {
                    "turnkeeper": {
                        "name": "turnkeeper",
                        "base_url": PLACE,
                        "wire_api": "responses",
                        "requires_openai_auth": True,
                    }
                },
            },
        ),
    ],
)
def test_settings_for_a_login(
    engine: str,
    found: dict[str, str],
    settings: dict[str, Any],
    made: Any,
    logins: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key goes before the login of a person, who has logged in here as well."""
    alone(monkeypatch, **found)
    logged_in(engine, logins)
    common = {"codex": CODEX, "gemini": GEMINI, "opencode": OPENCODE}[engine]
    ((_, seen),) = written(made(engine).launch(a_plan())).items()
    assert seen == common | settings


@pytest.mark.parametrize("engine", [name for name, cli in CLIS.items() if cli.login_files])
def test_login_files_are_lent_where_there_is_no_key(
    engine: str, made: Any, logins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch)
    assert made(engine).launch(a_plan()).login_files == {}
    paths = logged_in(engine, logins)
    cli: CliEngine = made(engine)
    assert cli.launch(a_plan()).login_files == paths
    assert cli.login() == Login(LoginKind.FILE, str(logins / cli.login_files[0]))
    monkeypatch.setenv(cli.keys[0], SECRET)
    assert cli.launch(a_plan()).login_files == {}
    assert cli.login() == Login(LoginKind.KEY, cli.keys[0])


@pytest.mark.parametrize(
    ("engine", "skills_dir"),
    [
        ("codex", ".codex/skills"),
        ("claude", ".claude/skills"),
        ("gemini", ".gemini/skills"),
        ("opencode", ".config/opencode/skills"),
        ("qwen", ".qwen/skills"),
        ("iflow", ".iflow/skills"),
    ],
)
def test_what_a_cli_is(engine: str, skills_dir: str) -> None:
    own = ".local/share/opencode" if engine == "opencode" else f".{engine}"
    assert sessions_in(ENGINES[engine]) == own
    cli = ENGINES[engine]
    assert (cli.name, cli.skills_dir, cli.is_demo) == (engine, skills_dir, False)
    assert (cli.models, cli.own_parameters) == ((), frozenset())
    assert cli.profiles == (ProfileKind.RESUMABLE, ProfileKind.STICKY)
    assert cli.asks is (engine != "iflow")
    assert cli.default_model is None
    assert CLIS[engine](EngineConfig(model="maker/model-1")).default_model == "maker/model-1"


# Readiness


@pytest.fixture
def bin_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    alone(monkeypatch, PATH=str(folder))
    return folder


IFLOW_FIX = (
    "iFlow is no longer offered on npm: set engines.iflow.command "
    "(or TURNKEEPER_ENGINES__IFLOW__COMMAND) to one that is installed"
)


@each_cli
def test_an_engine_is_ready_when_its_program_is_there_and_a_key(
    engine: str, made: Any, bin_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli: CliEngine = made(engine, is_there=False)
    missing = cli.readiness()
    fix = IFLOW_FIX if engine == "iflow" else f"turnkeeper engines install {engine}"
    assert (missing.ready, missing.path, missing.fix) == (False, None, fix)
    assert missing.reason == f"there is no program {engine!r} on the PATH of the service"
    found = program(bin_dir / engine)
    monkeypatch.setenv("PATH", f"{bin_dir}:/bin")
    monkeypatch.setenv(cli.keys[0], SECRET)
    ready = cli.readiness()
    assert (ready.ready, ready.path, ready.version, ready.reason) == (True, str(found), "1.2.3", None)
    assert ready.login == Login(LoginKind.KEY, cli.keys[0])


@each_cli
def test_an_engine_without_a_login_says_how_to_log_in(
    engine: str, made: Any, logins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch)
    cli: CliEngine = made(engine)
    refused = cli.readiness()
    assert (refused.ready, refused.login.kind) == (False, LoginKind.NONE)
    assert refused.reason == f"nobody is logged in to {engine}, and no key is set"
    # By the very program that was found: its name may mean nothing to the person's shell.
    login = cli.login_command.replace(cli.login_command.partition(" ")[0], str(refused.path), 1)
    login = f"HOME={logins} {login}" if cli.login_command else ""
    ways = [f"export {cli.keys[0]}=... before the service starts", login]
    assert refused.fix == ", or: ".join(way for way in ways if way)
    # The operator's own variables or settings may be a login that only the engine knows.
    ways_of_theirs: list[dict[str, Any]] = [{"env": ("CORP_TOKEN=x",)}, {"config": {cli.own_logins[0]: {}}}]
    for own in ways_of_theirs:
        own_way = made(engine, **own).readiness()
        assert (own_way.ready, own_way.login) == (True, Login(LoginKind.SETTINGS, f"engines.{engine}"))
    # Most of them are not: nobody is logged in by a name or a limit.
    for name in ("RUST_LOG=error", "GIT_AUTHOR_NAME=Jane Doe", "MAX_THINKING_TOKENS=1000", "CORP_TOKEN"):
        other = made(engine, env=(name,), config={"mine": 1}).readiness()
        assert (other.ready, other.login.kind) == (False, LoginKind.NONE)


@each_cli
def test_the_operator_has_the_last_word(engine: str, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch of ours can be set otherwise, and a key that the service has be kept from this engine."""
    cli: CliEngine = made(engine)
    alone(monkeypatch, **{cli.keys[0]: SECRET})
    switches = tuple(f"{name}=mine" for name in cli.switches)
    launch: Launch = made(engine, env=(*switches, f"{cli.keys[0]}=", "CORP_TOKEN=x")).launch(a_plan())
    assert all(launch.env[name] == "mine" for name in cli.switches)
    assert SECRET not in launch.env.values()


def test_a_configuration_that_cannot_be_written_stops_the_start() -> None:
    for engine, config in (("codex", {"mine": None}), ("gemini", {"day": date(2026, 11, 16)})):
        with pytest.raises(SettingsInvalid, match=rf"engines\.{engine}\.config cannot be written"):
            CLIS[engine](EngineConfig(config=config))


@each_cli
def test_a_version_that_was_not_tested_is_worth_a_word(
    engine: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli: CliEngine = made(engine)
    alone(monkeypatch, **{cli.keys[0]: SECRET})
    warning = cli.readiness().warning
    assert (cli.launch(a_plan()).version, bool(warning)) == ("1.2.3", cli.package is not None)
    if cli.package is not None:
        tested = cli.package.version
        assert warning == f"{engine} 1.2.3 was not tested with this Turnkeeper; {tested} was"


def test_a_configured_command_must_be_there(bin_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{bin_dir}:/bin")
    found = program(bin_dir / "my-codex")

    def configured(*command: str) -> CodexEngine:
        return CodexEngine(EngineConfig(command=command, login_home=bin_dir))

    for command in (str(found), "my-codex"):
        assert configured(command, "--flag").readiness().path == str(found)
    fix = "set engines.codex.command (or TURNKEEPER_ENGINES__CODEX__COMMAND) to a program that can be started"
    for command, why in {
        str(bin_dir / "nowhere"): "does not exist",
        str(program(bin_dir / "text", mode=0o644)): "is not executable",
        str(bin_dir): "is not executable",
        "nowhere": "is not on the PATH of the service",
    }.items():
        refused = configured(command).readiness()
        assert (refused.ready, refused.path, refused.fix) == (False, command, fix)
        assert refused.reason == f"engines.codex.command names {command!r}, which {why}"


# As residents

ASKING = "--approval-mode default"
RESIDENTS = {
    "codex": {Permissions.ALLOW: "", Permissions.ASK: ""},
    "claude": {Permissions.ALLOW: "", Permissions.ASK: ""},
    "gemini": {
        Permissions.ALLOW: "--acp --yolo --allowed-mcp-server-names none{model}",
        Permissions.ASK: f"--acp {ASKING} --admin-policy {HOME}/.gemini/ask.toml"
        " --allowed-mcp-server-names none{model}",
    },
    "opencode": {Permissions.ALLOW: "acp", Permissions.ASK: "acp"},
    "qwen": {
        Permissions.ALLOW: "--acp --yolo --allowed-mcp-server-names none"
        f" --exclude-tools {WAITING['qwen']},agent{{model}}",
        Permissions.ASK: f"--acp {ASKING} --allowed-mcp-server-names none"
        f" --exclude-tools {WAITING['qwen']},agent{{model}}",
    },
    "iflow": {
        Permissions.ALLOW: "--experimental-acp --yolo --thinking{model}",
        Permissions.ASK: "--experimental-acp --yolo --thinking{model}",
    },
}
"""One that is denied everything is started like one that asks: it is answered otherwise."""
ADAPTED = {"codex": "CODEX_PATH", "claude": "CLAUDE_CODE_EXECUTABLE"}
PASSWORD = "OPENCODE_SERVER_PASSWORD"

each_permission = pytest.mark.parametrize("permissions", Permissions)


def a_resident(session: str | None = None, **more: Any) -> TurnPlan:
    return replace(a_plan(session, **more), profile=ProfileKind.STICKY)


def or_asks(permissions: Permissions) -> Permissions:
    return permissions if permissions is Permissions.ALLOW else Permissions.ASK


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """What makes a resident of codex or claude."""
    path = program(tmp_path / "programs" / "adapter")
    path.write_text("#!/bin/sh\necho an-adapter 4.5.6\n")
    return path


@pytest.fixture
def settled(made: Any, adapter: Path) -> Any:
    """An engine that can be started as a resident."""

    def make(engine: str, **config: Any) -> CliEngine:
        own = {"resident_command": (str(adapter), "--flag")} if engine in ADAPTED else {}
        found: CliEngine = made(engine, **{**own, **config})
        return found

    return make


@each_permission
@pytest.mark.parametrize("model", [None, "maker/model-1"])
@each_cli
def test_resident_start(
    engine: str, model: str | None, permissions: Permissions, settled: Any, stub: Path, adapter: Path
) -> None:
    template = RESIDENTS[engine][or_asks(permissions)]
    command = (str(adapter), "--flag") if engine in ADAPTED else (str(stub),)
    for session in (None, "SES-1", "--last", "a b"):  # it is told by the protocol
        launch: Launch = settled(engine).launch(a_resident(session, model=model, permissions=permissions))
        assert launch.argv == (*command, *words(engine, template, Mode.AUTO, model))
        assert launch.program == command
        behind = CLIS[engine].adapter
        assert launch.version == (f"1.2.3 by {behind.program} 4.5.6" if behind else "1.2.3")


@each_cli
def test_nothing_of_a_job_becomes_an_option_of_a_resident(engine: str, settled: Any) -> None:
    with pytest.raises(ModelUnknown):
        settled(engine).launch(a_resident(model="--share"))


@each_permission
@each_cli
def test_resident_environment(
    engine: str, permissions: Permissions, settled: Any, stub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, TURNKEEPER_TOKEN=SECRET, AWS_SECRET_ACCESS_KEY=SECRET)
    private = PRIVATE | SWITCHES[engine]
    private |= {"NO_BROWSER": "1"} if engine == "codex" else {}
    private |= {ADAPTED[engine]: str(stub)} if engine in ADAPTED else {}
    launch: Launch = settled(engine).launch(a_resident(permissions=permissions))
    env = {name: value for name, value in launch.env.items() if name != PASSWORD}
    assert env == private
    assert (PASSWORD in launch.env) is (engine == "opencode")
    assert launch.secrets == ({PASSWORD: PASSWORD} if engine == "opencode" else {})


NO_SNAPSHOT = {"features": CODEX["features"] | {"shell_snapshot": False}}
QUIET = {"ui": {"enableFollowupSuggestions": False}}
UNTITLED = {"agent": {"title": {"disable": True}}}
MORE: dict[str, dict[Permissions, dict[str, Any]]] = {
    "codex": {Permissions.ALLOW: NO_SNAPSHOT, Permissions.ASK: NO_SNAPSHOT},
    "opencode": {
        Permissions.ALLOW: UNTITLED,
        Permissions.ASK: UNTITLED
        | {
            "permission": {
                **dict.fromkeys(("bash", "edit", "webfetch", "external_directory", "doom_loop"), "ask"),
                "task": "deny",
            },
            "experimental": {"continue_loop_on_deny": True},
        },
    },
    "qwen": {
        Permissions.ALLOW: QUIET,
        Permissions.ASK: QUIET | {"permissions": {"ask": ["Bash", "Edit", "Write", "WebFetch"]}},
    },
}
"""In the settings of a resident."""
POLICY = {
    "toolName": ["run_shell_command", "write_file", "replace", "web_fetch"],
    "decision": "ask_user",
    "priority": 999,
}


@each_permission
@each_cli
def test_resident_files(
    engine: str, permissions: Permissions, settled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch)
    launch: Launch = settled(engine).launch(a_resident(permissions=permissions))
    path, settings = FILES.get(engine, (CLIS[engine].settings_file, {}))
    more = MORE[engine][or_asks(permissions)] if engine in MORE else {}
    assert written(launch) == {path: settings | more}
    others = {name: data for name, data in launch.files.items() if name != path}
    policy = others.pop(".gemini/ask.toml", None)
    assert others == EMPTY_FILES.get(engine, {})
    is_asked = engine == "gemini" and permissions is not Permissions.ALLOW
    assert (tomllib.loads(policy.decode()) if policy else None) == ({"rule": [POLICY]} if is_asked else None)


def test_model_of_a_resident(settled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it has no word for it: so that no file in the workspace names another."""
    alone(monkeypatch)
    plan = a_resident(model="maker/model-1")
    assert json.loads(settled("codex").launch(plan).env["CODEX_CONFIG"]) == {"model": "maker/model-1"}
    ((_, settings),) = written(settled("opencode").launch(plan)).items()
    assert settings["model"] == "maker/model-1"
    assert settled("claude").manners(plan).meta["claudeCode"]["options"]["model"] == "maker/model-1"
    for engine in CLIS:
        manners = settled(engine).manners(plan)
        assert not manners.sets_model
    assert "CODEX_CONFIG" not in settled("codex").launch(a_resident()).env
    ((_, settings),) = written(settled("opencode").launch(a_resident())).items()
    assert "model" not in settings


@each_permission
@each_cli
def test_a_resident_gets_its_own_keys_and_only_by_the_environment(
    engine: str, permissions: Permissions, settled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {name: SECRET for names in KEYS.values() for name in names}
    places = {name: PLACE for names in ADDRESSES.values() for name in names}
    alone(monkeypatch, **secrets, **places)
    plan = a_resident("SES-1", model="m", permissions=permissions)
    launch: Launch = settled(engine).launch(plan)
    assert {name for name, value in launch.env.items() if value == SECRET} == KEYS[engine]
    assert {name for name, value in launch.env.items() if value == PLACE} == ADDRESSES[engine]
    assert set(launch.secrets) == KEYS[engine] | ({PASSWORD} if engine == "opencode" else set())
    assert SECRET not in " ".join(launch.argv)
    assert all(SECRET.encode() not in data for data in launch.files.values())
    assert SECRET not in repr(settled(engine).manners(plan))


def test_nobody_else_may_ask_the_server_of_a_resident(settled: Any) -> None:
    """It could be told there that something is permitted."""
    cli: CliEngine = settled("opencode")
    first, second = (cli.launch(a_resident()).env[PASSWORD] for _ in range(2))
    assert first != second
    assert min(len(first), len(second)) >= 32
    assert PASSWORD not in cli.launch(a_plan()).env


def test_a_key_is_not_written_down_for_later_turns(
    settled: Any, logins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """codex would put it into a file; the login of a person it may renew in theirs."""
    alone(monkeypatch, OPENAI_API_KEY=SECRET)
    store = "cli_auth_credentials_store"
    ((_, settings),) = written(settled("codex").launch(a_resident())).items()
    assert settings[store] == "ephemeral"
    alone(monkeypatch)
    paths = logged_in("codex", logins)
    launch: Launch = settled("codex").launch(a_resident())
    ((_, settings),) = written(launch).items()
    assert store not in settings
    assert launch.login_files == paths


@pytest.mark.parametrize("engine", [name for name, cli in CLIS.items() if cli.login_files])
def test_login_files_are_lent_to_a_resident(
    engine: str, settled: Any, logins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch)
    paths = logged_in(engine, logins)
    assert settled(engine).launch(a_resident()).login_files == paths


@each_permission
@each_cli
def test_the_operator_has_the_last_word_about_a_resident(
    engine: str, permissions: Permissions, settled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch)
    ours = {*settled(engine).launch(a_resident(model="m")).env} - {"HOME", "PATH", "TMPDIR", "TERM"}
    own = {
        "features": {"shell_snapshot": True},
        "permission": {"bash": "allow"},
        "permissions": {"ask": []},
        "agent": {"title": {"disable": False}},
        "ui": {"enableFollowupSuggestions": True},
        "model": "mine",
    }
    cli: CliEngine = settled(engine, env=tuple(f"{name}=mine" for name in ours), config=own)
    launch = cli.launch(a_resident(model="m", permissions=permissions))
    assert {launch.env[name] for name in ours} == {"mine"}
    ((_, settings),) = written(launch).items()
    assert settings["features"]["shell_snapshot"] is True
    assert settings["permission"]["bash"] == "allow"
    assert settings["permissions"] == {"ask": []}
    assert settings["agent"] == {"title": {"disable": False}}
    assert settings["ui"] == {"enableFollowupSuggestions": True}
    assert settings["model"] == "mine"


def test_servers_of_tools_of_the_operator_are_left_to_a_resident(settled: Any) -> None:
    for engine in ("gemini", "qwen"):
        cli: CliEngine = settled(engine, config={"mcpServers": {"mine": {}, "ours": {}}})
        argv = cli.launch(a_resident()).argv
        assert argv[argv.index("--allowed-mcp-server-names") + 1] == "mine,ours"


@pytest.mark.parametrize("engine", ADAPTED)
class TestAdapter:
    @pytest.fixture(autouse=True)
    def login(self, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
        alone(monkeypatch, PATH="/nowhere:/bin", **{CLIS[engine].keys[0]: SECRET})

    def test_is_found_on_the_path(
        self, engine: str, made: Any, stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kind = CLIS[engine].adapter
        assert kind is not None
        script = npm.lay_out(tmp_path / "node_modules", kind.package)
        found = npm.launcher(tmp_path / "node_modules", kind.package, tmp_path / "bin", kind.program)
        node = npm.program(tmp_path / "bin" / "node", "echo v22.0.0")
        monkeypatch.setenv("PATH", f"{found.parent}:/bin")
        cli: CliEngine = made(engine)
        launch = cli.launch(a_resident())
        assert (launch.argv, launch.env[kind.variable]) == ((str(node), str(script)), str(stub))
        assert cli.launch(a_plan()).argv[0] == str(stub), "without it, the CLI itself"

    def test_another_program_of_its_name_is_none(
        self, engine: str, made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kind = CLIS[engine].adapter
        assert kind is not None
        found = program(tmp_path / "bin" / kind.program)
        monkeypatch.setenv("PATH", f"{found.parent}:/bin")
        ready = made(engine).readiness(ProfileKind.STICKY)
        assert (ready.ready, ready.path) == (False, str(found))
        assert kind.package.name in (ready.reason or "")
        assert "engines install" in (ready.fix or "")

    def test_starts_the_program_that_was_found(
        self, engine: str, adapter: Path, logins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = program(tmp_path / "bin" / engine)
        monkeypatch.setenv("PATH", f"{found.parent}:/bin")
        cli = CLIS[engine](EngineConfig(login_home=logins, resident_command=(str(adapter),)))
        assert cli.launch(a_resident()).env[ADAPTED[engine]] == str(found)

    def test_is_missing(self, engine: str, made: Any) -> None:
        kind = CLIS[engine].adapter
        assert kind is not None
        cli: CliEngine = made(engine)
        assert cli.readiness().ready
        assert cli.readiness(ProfileKind.RESUMABLE).ready
        missing = cli.readiness(ProfileKind.STICKY)
        assert (missing.ready, missing.fix) == (False, f"turnkeeper engines install {engine}")
        assert missing.reason == f"there is no program {kind.program!r} on the PATH of the service"
        with pytest.raises(EngineNotReady, match=kind.program):
            cli.launch(a_resident())

    def test_is_of_no_use_without_the_engine(self, engine: str, adapter: Path, logins: Path) -> None:
        cli = CLIS[engine](EngineConfig(login_home=logins, resident_command=(str(adapter),)))
        missing = cli.readiness(ProfileKind.STICKY)
        assert missing.reason == f"there is no program {engine!r} on the PATH of the service"

    def test_cannot_start_more_than_a_program(
        self, engine: str, stub: Path, adapter: Path, logins: Path
    ) -> None:
        """It is told a path, and no words after it."""
        command = (str(stub), "--flag")
        config = EngineConfig(command=command, resident_command=(str(adapter),), login_home=logins)
        cli = CLIS[engine](config)
        assert cli.readiness().ready
        missing = cli.readiness(ProfileKind.STICKY)
        assert missing.reason == (
            f"a resident {engine} needs a command of one word, and engines.{engine}.command has more"
        )
        assert missing.fix == f"set engines.{engine}.command to a single program"

    def test_must_be_there(self, engine: str, made: Any, tmp_path: Path) -> None:
        path = str(tmp_path / "nowhere")
        missing = made(engine, resident_command=(path,)).readiness(ProfileKind.STICKY)
        setting = f"engines.{engine}.resident_command"
        assert missing.reason == f"{setting} names {path!r}, which does not exist"
        variable = f"TURNKEEPER_ENGINES__{engine.upper()}__RESIDENT_COMMAND"
        assert missing.fix == f"set {setting} (or {variable}) to a program that can be started"

    def test_of_a_version_that_was_not_tested(self, engine: str, settled: Any) -> None:
        kind = CLIS[engine].adapter
        assert kind is not None
        ready = settled(engine).readiness(ProfileKind.STICKY)
        assert (ready.ready, ready.version) == (True, "4.5.6")
        tested = kind.package.version
        assert ready.warning == f"{kind.program} 4.5.6 was not tested with this Turnkeeper; {tested} was"


@pytest.mark.parametrize("engine", [name for name in CLIS if name not in ADAPTED])
def test_a_resident_that_needs_no_adapter_is_ready_as_it_is(
    engine: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli: CliEngine = made(engine)
    alone(monkeypatch, **{cli.keys[0]: SECRET})
    assert cli.readiness(ProfileKind.STICKY) == cli.readiness()


@each_cli
def test_what_is_known_of_an_engine_is_not_taken_from_settings(engine: str) -> None:
    unused: dict[str, Any] = {"asks": True, "modes": {Permissions.ASK: "x"}}
    unused |= {} if engine in ADAPTED else {"resident_command": ("x",)}
    for name, value in unused.items():
        with pytest.raises(SettingsInvalid) as refused:
            CLIS[engine](EngineConfig(**{name: value}))
        assert refused.value.message == f"engines.{engine}.{name}: {engine} is known, and takes none"


def test_codex_that_must_ask_does_not_start_among_rules_of_others(settled: Any, tmp_path: Path) -> None:
    """It would take permissions from them that nobody gave."""
    (tmp_path / ".codex").mkdir()
    for permissions in (Permissions.ASK, Permissions.DENY):
        with pytest.raises(EngineNotReady, match=r"a folder \.codex"):
            settled("codex").launch(replace(a_resident(permissions=permissions), workspace=tmp_path))
    settled("codex").launch(replace(a_resident(), workspace=tmp_path))


class TestOwnAgent:
    """One that is only known by its name and its command."""

    @pytest.fixture(autouse=True)
    def nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        alone(monkeypatch, OPENAI_API_KEY=SECRET, MY_TOKEN=SECRET)

    def test_is_started_by_its_command_alone(self, stub: Path) -> None:
        agent = AcpAgent("mine", EngineConfig(command=(str(stub), "acp", "--quiet")))
        for permissions in Permissions:
            for model in (None, "m-1"):
                launch = agent.launch(a_resident("SES-1", model=model, permissions=permissions))
                assert launch.argv == (str(stub), "acp", "--quiet")
                assert launch.files == {}
                assert launch.secrets == {}
                assert launch.env == PRIVATE

    def test_is_given_what_the_operator_names(self, stub: Path) -> None:
        agent = AcpAgent("mine", EngineConfig(command=(str(stub),), env=("MY_TOKEN", "REGION=north")))
        launch = agent.launch(a_resident())
        assert (launch.env["MY_TOKEN"], launch.env["REGION"]) == (SECRET, "north")
        assert launch.secrets == {"MY_TOKEN": "MY_TOKEN"}
        assert "OPENAI_API_KEY" not in launch.env

    def test_what_it_is(self, stub: Path) -> None:
        agent = AcpAgent("mine", EngineConfig(command=(str(stub),), model="m-1"))
        assert (agent.name, agent.profiles, agent.default_model) == ("mine", (ProfileKind.STICKY,), "m-1")
        assert agent.asks is False
        ready = agent.readiness(ProfileKind.STICKY)
        assert (ready.ready, ready.version, ready.warning) == (True, None, None)
        assert ready.login == Login(LoginKind.NOT_NEEDED)
        missing = AcpAgent("mine", EngineConfig(command=("/opt/mine",))).readiness()
        assert missing.reason == "engines.mine.command names '/opt/mine', which does not exist"

    def test_what_the_operator_tells_of_it(self, stub: Path) -> None:
        modes = {Permissions.ASK: "careful", Permissions.ALLOW: "free"}
        agent = AcpAgent("mine", EngineConfig(command=(str(stub),), asks=True, modes=modes))
        assert agent.asks is True
        manners = agent.manners(a_resident())
        assert (manners.modes, manners.sets_model, manners.login) == (modes, True, None)
