"""The engines there are, by name. Adding one is one line here."""

from __future__ import annotations

from turnkeeper.engines.base import Engine
from turnkeeper.engines.demo import DemoEngine


def engines() -> dict[str, Engine]:
    known: list[Engine] = [DemoEngine()]
    return {engine.name: engine for engine in known}
