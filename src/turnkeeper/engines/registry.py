"""The engines there are, by name. Adding one of ours is one line here; others come as installed packages, and an
agent that speaks the Agent Client Protocol comes by its command in the settings.

A package brings an engine by an entry point of the group `turnkeeper.engines`: the name is the engine's, the object
takes an `EngineConfig` and gives an `Engine`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points

from turnkeeper.core.errors import SettingsInvalid, TurnkeeperError
from turnkeeper.engines.agent import AcpAgent
from turnkeeper.engines.base import Engine, EngineConfig
from turnkeeper.engines.claude import ClaudeEngine
from turnkeeper.engines.codex import CodexEngine
from turnkeeper.engines.demo import DemoEngine
from turnkeeper.engines.gemini import GeminiEngine
from turnkeeper.engines.iflow import IflowEngine
from turnkeeper.engines.opencode import OpencodeEngine
from turnkeeper.engines.qwen import QwenEngine

GROUP = "turnkeeper.engines"
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
"""It becomes the name of a folder, and of a variable."""

Maker = Callable[[EngineConfig], Engine]

BUILT_IN: tuple[type[Engine], ...] = (
    CodexEngine,
    ClaudeEngine,
    GeminiEngine,
    OpencodeEngine,
    QwenEngine,
    IflowEngine,
    DemoEngine,
)
"""In this order the first ready one is chosen for a job that names none."""


def engines(configs: Mapping[str, EngineConfig]) -> dict[str, Engine]:
    """Every engine, as configured. A plug-in that cannot be loaded stops the start: without its engine the runs
    that wait on it would be given up."""
    makers: dict[str, Maker] = {engine.name: engine for engine in BUILT_IN}
    for point in entry_points(group=GROUP):
        if point.name in makers:
            raise SettingsInvalid(
                f"{_source(point)} brings an engine {point.name!r}, and there is one already"
            )
        makers[point.name] = _load(point)
    for name in sorted(set(configs) - set(makers)):
        makers[name] = _agent(name, configs[name], makers)
    return {name: make(configs.get(name, EngineConfig())) for name, make in makers.items()}


def _agent(name: str, config: EngineConfig, known: Iterable[str]) -> Maker:
    """One of the operator's own. Without a command it is more likely a name that was misspelled."""
    if not config.command:
        raise SettingsInvalid(
            f"engines.{name}: there is no such engine; there are: {', '.join(known)}. "
            "Another agent that speaks the Agent Client Protocol needs a command"
        )
    if not NAME.fullmatch(name):
        raise SettingsInvalid(
            f"engines.{name}: a name has small letters, digits and - only, and begins with a letter"
        )
    return partial(AcpAgent, name)


def _load(point: EntryPoint) -> Maker:
    def make(config: EngineConfig) -> Engine:
        try:
            engine: Engine = point.load()(config)
            name = engine.name
        except TurnkeeperError:
            raise
        except Exception as error:  # other people's code may fail in any way
            raise SettingsInvalid(
                f"the engine {point.name!r} of {_source(point)} cannot be loaded: {error!r}; "
                "mend or uninstall that package"
            ) from error
        if name != point.name:
            raise SettingsInvalid(f"{_source(point)} calls one engine both {point.name!r} and {name!r}")
        return engine

    return make


def _source(point: EntryPoint) -> str:
    return f"the package {point.dist.name!r}" if point.dist else point.value
