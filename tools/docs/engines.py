"""What the code knows of the engines, and what their recorded turns show; and the scripts of the demo engine."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tools.docs.tables import listed, table, text
from turnkeeper.core.run import Handle, Mode, Permissions
from turnkeeper.core.turn import COUNTERS
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines import demo, registry
from turnkeeper.engines.base import Login, LoginKind, TurnPlan
from turnkeeper.engines.cli import CliEngine

TRANSCRIPTS = Path(__file__).parents[2] / "tests" / "transcripts"

HEADLESS = TurnPlan(
    profile=ProfileKind.RESUMABLE,
    mode=Mode.AUTO,
    workspace=Path("WORKSPACE"),
    home=Path("HOME"),
    skill_dir=Path("SKILL"),
    model="MODEL",
)
RESIDENT = replace(HEADLESS, profile=ProfileKind.STICKY)
"""For the command lines that are shown."""


def engines() -> str:
    """What the code declares, and what the recorded turns show."""
    head = (
        "engine",
        "tested version",
        "npm package",
        "profiles",
        "tools are told",
        "model is told",
        "tokens are told",
    )
    return table(head, (_capabilities(engine) for engine in _clis()))


def _capabilities(engine: CliEngine) -> tuple[str, ...]:
    recorded = json.loads((TRANSCRIPTS / engine.name / "expected.json").read_text(encoding="utf-8")).values()
    statuses = {tool["status"] for turn in recorded for tool in turn["tools"]}
    counted = {name for turn in recorded for name in turn["usage"]}
    package = engine.package
    return (
        f"`{engine.name}`",
        package.version if package else "a fork of 0.5.19",
        f"`{package.name}`" if package else "none any more",
        ", ".join(f"`{kind}`" for kind in engine.profiles),
        "from their beginning" if "in_progress" in statuses else "when they are over" if statuses else "no",
        "yes" if any(turn["model"] for turn in recorded) else "no",
        ", ".join(name.removesuffix("_tokens") for name in COUNTERS if name in counted),
    )


def logins() -> str:
    head = ("engine", "keys: one is enough", "other variables", "file of a login", "made by")
    return table(
        head,
        (
            (
                f"`{engine.name}`",
                listed(engine.keys),
                listed(engine.addresses),
                listed(engine.login_files[:1]),
                listed([engine.login_command] if engine.login_command else []),
            )
            for engine in _clis()
        ),
    )


def words() -> str:
    """The command lines as the engines make them."""
    resume = replace(HEADLESS, session=Handle("SESSION", loadable=True))
    return text(
        " ".join((engine.name, *engine.words(plan))) for engine in _clis() for plan in (HEADLESS, resume)
    )


def residents() -> str:
    head = ("engine", "program", "npm package", "tested version", "`permissions`", "session in a new process")
    return table(head, map(_resident, _clis()))


def _resident(engine: CliEngine) -> tuple[str, ...]:
    package = engine.adapter.package if engine.adapter else None
    return (
        f"`{engine.name}`",
        f"`{_resident_program(engine)}`",
        f"`{package.name}`" if package else "the engine itself",
        package.version if package else "the same",
        ", ".join(f"`{each}`" for each in Permissions if engine.asks or each is Permissions.ALLOW),
        "is loaded" if engine.manners(RESIDENT).loads else "is lost",
    )


def resident_words() -> str:
    """First as one that may do everything, then as one that asks, where that is another command."""
    lines = (
        " ".join((_resident_program(engine), *engine.resident_words(plan)))
        for engine in _clis()
        for plan in (RESIDENT, replace(RESIDENT, permissions=Permissions.ASK))
        if engine.asks or plan is RESIDENT
    )
    return text(dict.fromkeys(lines))


def _resident_program(engine: CliEngine) -> str:
    return engine.adapter.program if engine.adapter else engine.name


def homes() -> str:
    head = ("engine", "skills, in the run's home", "settings that we write there", "variables that we set")
    return table(
        head,
        (
            (
                f"`{engine.name}`",
                f"`{engine.skills_dir}`",
                f"`{engine.settings_file}`" if engine.settings(Login(LoginKind.KEY)) else "none",
                listed([*engine.places(Path("~")), *engine.switches]),
            )
            for engine in _clis()
        ),
    )


def _clis() -> list[CliEngine]:
    return [engine for engine in registry.engines({}).values() if isinstance(engine, CliEngine)]


def scripts() -> str:
    described = {name: script["description"] for name, script in _scripts().items() if "/" not in name}
    return table(
        ("script", "what it plays"), ((f"`{name}`", words) for name, words in sorted(described.items()))
    )


def chaos() -> str:
    """The scripts that play a failure, in the order of the failures."""
    rows = sorted((script["failures"], name) for name, script in _scripts().items() if "failures" in script)
    return table(
        ("failures", "script", "what it plays"),
        ((", ".join(ids), f"`{name}`", _scripts()[name]["description"]) for ids, name in rows),
    )


@cache
def _scripts() -> dict[str, dict[str, Any]]:
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in demo.built_in().items()}
