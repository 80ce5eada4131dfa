"""Any other agent that speaks the Agent Client Protocol: added in the settings by a name and a command.

Nothing is known of it but that. So its keys come by `engines.NAME.env`, and whether it asks before it acts, and in
which mode of its own, the operator has to tell.
"""

from __future__ import annotations

from typing import ClassVar

from turnkeeper.core.errors import SettingsInvalid
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines import programs
from turnkeeper.engines.acp import Manners
from turnkeeper.engines.base import EngineConfig, TurnPlan
from turnkeeper.engines.cli import CliEngine
from turnkeeper.engines.programs import Missing, Program


class AcpAgent(CliEngine):
    skills_dir = ".agents/skills"
    profiles: tuple[ProfileKind, ...] = (ProfileKind.STICKY,)
    takes: ClassVar[tuple[str, ...]] = ("command", "model", "env", "limit", "asks", "modes")

    def __init__(self, name: str, config: EngineConfig) -> None:
        self.name = name
        super().__init__(config)
        self.asks = bool(config.asks)

    def _find_cli(self) -> Program | Missing:
        return programs.named(self.name, self._config.command)

    def manners(self, plan: TurnPlan) -> Manners:
        return Manners(modes=self._config.modes, sets_model=True)

    def _refuse_unused(self) -> None:
        for name in ("resident_command", "config", "login_home"):
            if getattr(self._config, name):
                raise SettingsInvalid(
                    f"engines.{self.name}.{name}: nothing is known of this agent but its command; "
                    f"it takes {', '.join(self.takes)}"
                )
