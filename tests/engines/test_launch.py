"""How the CLIs are started: every word of the command line, the whole environment, the files in the home."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from tests.engines.recordings import ENGINES, a_plan, command_of
from turnkeeper.core.errors import InvalidRequest, ModelUnknown
from turnkeeper.core.run import Mode
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.base import PASSED_ON, Engine, EngineConfig
from turnkeeper.engines.cli import CliEngine
from turnkeeper.engines.codex import CodexEngine
from turnkeeper.engines.gemini import GeminiEngine
from turnkeeper.engines.iflow import IflowEngine
from turnkeeper.engines.opencode import OpencodeEngine

HOME = "/runs/1/home"
CLIS: list[type[CliEngine]] = [CodexEngine, GeminiEngine, IflowEngine, OpencodeEngine]

SPEC = {
    ("codex", Mode.AUTO): "TURN-09",
    ("codex", Mode.INTERACTIVE): "TURN-10",
    ("gemini", Mode.AUTO): "TURN-05",
    ("gemini", Mode.INTERACTIVE): "TURN-06",
    ("iflow", Mode.AUTO): "TURN-07",
    ("iflow", Mode.INTERACTIVE): "TURN-08",
}

STARTS = {
    "codex": "codex exec --json --yolo --skip-git-repo-check{model} -C /runs/1/workspace -",
    "gemini": "gemini --yolo -o stream-json{model}",
    "iflow": "iflow --yolo --thinking{model}",
    "opencode": "opencode run --format json --auto{model} --title turnkeeper",
}
RESUMES = {
    "codex": "codex exec resume --json --yolo --skip-git-repo-check{model} SES-1 -",
    "gemini": "gemini --yolo -o stream-json{model} --resume SES-1",
    "iflow": "iflow --yolo --thinking{model} --resume SES-1",
    "opencode": "opencode run --format json --auto{model} --session SES-1",
}


def words(template: str, model: str | None) -> tuple[str, ...]:
    return tuple(template.format(model=f" -m {model}" if model else "").split())


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
    launch = ENGINES[engine].launch(a_plan(mode=mode, model=model))
    assert launch.argv == words(STARTS[engine], model)


@pytest.mark.spec("TURN-11")
@pytest.mark.failure("S09")
@pytest.mark.parametrize("model", [None, "maker/model-1"])
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("engine", RESUMES)
def test_resume(engine: str, mode: Mode, model: str | None) -> None:
    launch = ENGINES[engine].launch(a_plan("SES-1", mode=mode, model=model))
    assert launch.argv == words(RESUMES[engine], model)


AS_RECORDED = {
    "iflow-run.sh": "iflow",
    "--dangerously-bypass-approvals-and-sandbox": "--yolo",
    "/workspace": "/runs/1/workspace",
    "t": "turnkeeper",
}


@pytest.mark.parametrize("engine", STARTS)
def test_these_words_were_recorded(engine: str) -> None:
    """With the prompt on stdin, as we give it. Two were recorded under their long names, and one was not recorded."""
    recorded = [AS_RECORDED.get(word, word) for word in command_of(engine, "stdin")]
    model = recorded[recorded.index("-m") + 1] if "-m" in recorded else None
    unrecorded = ["--thinking"] if engine == "iflow" else []
    assert sorted(ENGINES[engine].launch(a_plan(model=model)).argv) == sorted([*recorded, *unrecorded])


@pytest.mark.parametrize("engine", STARTS)
def test_nothing_of_a_job_becomes_an_option(engine: str) -> None:
    for model in ("--share", "-c", "-"):
        with pytest.raises(ModelUnknown):
            ENGINES[engine].launch(a_plan(model=model))
    for session in ("--last", "-", "a b", "a\n", "../x"):
        with pytest.raises(InvalidRequest):
            ENGINES[engine].launch(a_plan(session))


@pytest.mark.parametrize("cli", CLIS)
def test_a_configured_command_comes_first(
    cli: type[CliEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = cli(EngineConfig(command=("node", "--max-old-space-size=512", "/opt/cli.js")))
    argv = engine.launch(a_plan()).argv
    assert argv == ("node", "--max-old-space-size=512", "/opt/cli.js", *words(STARTS[cli.name], None)[1:])
    # Where the engine runs, another file may have that name.
    monkeypatch.chdir(tmp_path)
    assert cli(EngineConfig(command=("bin/cli",))).launch(a_plan()).argv[0] == f"{tmp_path}/bin/cli"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cli(EngineConfig(command=("~/cli",))).launch(a_plan()).argv[0] == f"{tmp_path}/cli"


# Environment and files

SWITCHES = {
    "codex": {"CODEX_HOME": f"{HOME}/.codex"},
    "gemini": {"GEMINI_CLI_NO_RELAUNCH": "1", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
    "iflow": {},
    "opencode": {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    },
}
KEYS = {
    "codex": {"CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"},
    "gemini": {"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"},
    "iflow": {"IFLOW_API_KEY", "IFLOW_BASE_URL", "IFLOW_MODEL_NAME", "IFLOW_SELECTED_AUTH_TYPE"},
    "opencode": {
        *("ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
        *("GROQ_API_KEY", "MISTRAL_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY", "OPENROUTER_API_KEY"),
        "XAI_API_KEY",
    },
}
SECRET = "a-secret-of-the-operator"


def alone(monkeypatch: pytest.MonkeyPatch, **found: str) -> None:
    """The service's environment is this and a PATH."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {"PATH": "/usr/bin", **found}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("engine", SWITCHES)
def test_environment(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(
        monkeypatch, TURNKEEPER_TOKEN=SECRET, AWS_SECRET_ACCESS_KEY=SECRET, XDG_CONFIG_HOME="/etc", LANG="C"
    )
    private = {"PATH": "/usr/bin", "LANG": "C", "HOME": HOME, "TERM": "dumb", "NO_COLOR": "1"}
    assert ENGINES[engine].launch(a_plan()).env == private | SWITCHES[engine]


@pytest.mark.parametrize("engine", KEYS)
def test_an_engine_gets_its_own_keys_and_only_by_the_environment(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, **{name: SECRET for names in KEYS.values() for name in names})
    launch = ENGINES[engine].launch(a_plan("SES-1"))
    assert {name for name, value in launch.env.items() if value == SECRET} == KEYS[engine]
    assert SECRET not in " ".join(launch.argv)
    assert all(SECRET.encode() not in data for data in launch.files.values())
    assert not KEYS[engine] & set(PASSED_ON)


def test_codex_files() -> None:
    (path, config), *others = ENGINES["codex"].launch(a_plan()).files.items()
    assert (path, others) == (".codex/config.toml", [])
    assert tomllib.loads(config.decode()) == {
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        "features": {"plugins": False, "unbounded_connection_retries": False},
    }


@pytest.mark.parametrize(
    ("engine", "path", "settings"),
    [
        (
            "gemini",
            ".gemini/settings.json",
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
                "privacy": {"usageStatisticsEnabled": False},
                "telemetry": {"enabled": False},
            },
        ),
        ("iflow", ".iflow/settings.json", {"selectedAuthType": "openai-compatible"}),
        (
            "opencode",
            ".config/opencode/opencode.json",
            {"autoupdate": False, "share": "disabled", "compaction": {"auto": False}},
        ),
    ],
)
def test_files(engine: str, path: str, settings: object) -> None:
    files = ENGINES[engine].launch(a_plan()).files
    assert {name: json.loads(data) for name, data in files.items()} == {path: settings}


@pytest.mark.parametrize(
    ("engine", "skills_dir"),
    [
        ("codex", ".codex/skills"),
        ("gemini", ".gemini/skills"),
        ("iflow", ".iflow/skills"),
        ("opencode", ".config/opencode/skills"),
    ],
)
def test_what_a_cli_is(engine: str, skills_dir: str) -> None:
    cli = ENGINES[engine]
    assert (cli.name, cli.skills_dir, cli.is_demo) == (engine, skills_dir, False)
    assert (cli.profiles, cli.models, cli.own_parameters) == ((ProfileKind.RESUMABLE,), (), frozenset())


# Readiness


@pytest.fixture
def bin_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(path: Path, mode: int = 0o755) -> Path:
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(mode)
    return path


FIXES = {
    "codex": "npm install -g @openai/codex@0.166.0",
    "gemini": "npm install -g @google/gemini-cli@0.61.0",
    "iflow": (
        "iFlow is no longer offered on npm: set engines.iflow.command "
        "(or TURNKEEPER_ENGINES__IFLOW__COMMAND) to one that is installed"
    ),
    "opencode": "npm install -g opencode-ai@1.18.33",
}


@pytest.mark.parametrize("engine", FIXES)
def test_an_engine_is_ready_when_its_program_is_there(engine: str, bin_dir: Path) -> None:
    missing = ENGINES[engine].readiness()
    assert (missing.ready, missing.path, missing.fix) == (False, None, FIXES[engine])
    assert missing.reason == f"there is no program {engine!r} on the PATH of the service"
    found = program(bin_dir / engine)
    ready = ENGINES[engine].readiness()
    assert (ready.ready, ready.path, ready.reason) == (True, str(found), None)


def configured(*command: str) -> Engine:
    return CodexEngine(EngineConfig(command=command))


def test_a_configured_command_must_be_there(bin_dir: Path) -> None:
    found = program(bin_dir / "my-codex")
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
