"""Parrot, a CLI that repeats what it hears: an engine that comes as a package of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnkeeper.core.turn import Ended, Text, TurnEvent
from turnkeeper.engines import meaning
from turnkeeper.engines.base import Dialect, TurnPlan
from turnkeeper.engines.cli import CliEngine, option
from turnkeeper.engines.dialect import CliDialect, session_of


class ParrotEngine(CliEngine):
    name = "parrot"
    skills_dir = ".parrot/skills"
    install = "pip install parrot"
    keys = ("PARROT_API_KEY",)

    def words(self, plan: TurnPlan) -> Sequence[str]:
        return ("--json", *option("--model", plan.model), *option("--again", session_of(plan)))

    def headless(self, plan: TurnPlan) -> Dialect:
        return ParrotDialect(plan)


class ParrotDialect(CliDialect):
    def events(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        match said:
            case {"perch": str(session)}:
                return self.opened(session)
            case {"squawk": str(text)}:
                return [Text(text)]
            case {"hush": True}:
                return [Ended()]
            case {"ouch": str(message)}:
                return [Ended(meaning.failure(message))]
            case _:
                return None
