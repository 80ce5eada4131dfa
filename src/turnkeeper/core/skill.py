"""A skill as the rules see it: what it is called, where it may run, what its output must look like."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnkeeper.core.contract import ArtifactRule, Contract, FileInput, file_inputs
from turnkeeper.core.errors import EngineUnsupported, ModeUnsupported
from turnkeeper.core.run import Mode, RunWarning


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    id: str
    version: str
    name: str
    description: str
    root: str
    is_plain: bool
    """No `runner.json`: any engine, both modes, and the result is the agent's text."""
    engines: tuple[str, ...] = ()
    unsupported_engines: tuple[str, ...] = ()
    execution_modes: tuple[Mode, ...] = (Mode.AUTO, Mode.INTERACTIVE)
    max_attempt: int | None = None
    input_schema: Mapping[str, Any] | None = None
    parameter_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    artifacts: tuple[ArtifactRule, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    timeouts: Mapping[str, float] = field(default_factory=dict)
    """The skill's own limits: they replace the operator's, and a job's replace them."""
    secrets: tuple[str, ...] = ()
    """The names of those that it asks for; whether it gets them is the operator's to say."""
    warnings: tuple[RunWarning, ...] = ()

    @property
    def file_inputs(self) -> tuple[FileInput, ...]:
        return file_inputs(self.input_schema)

    def contract(self, engine: str) -> Contract:
        return Contract(
            name=self.name,
            is_plain=self.is_plain,
            input_schema=self.input_schema if self.file_inputs else None,
            output_schema=self.output_schema,
            artifacts=self.artifacts,
            prompt=self.prompts.get(engine) or self.prompts.get("default"),
            secrets=self.secrets,
        )

    def effective_engines(self, known: Collection[str]) -> tuple[str, ...]:
        allowed = self.engines or tuple(known)
        return tuple(name for name in allowed if name not in self.unsupported_engines)

    def require_mode(self, mode: Mode) -> None:
        if mode not in self.execution_modes:
            raise ModeUnsupported(
                f"skill {self.id!r} does not run in mode {mode.value!r}; "
                f"it runs in {', '.join(self.execution_modes)}: set execution_mode"
            )

    def require_engine(self, engine: str) -> None:
        """By the skill's own word alone; whether there is such an engine is another question."""
        allowed = self.effective_engines((*self.engines, engine))
        if engine not in allowed:
            raise EngineUnsupported(
                f"skill {self.id!r} does not run on {engine!r}; it runs on {', '.join(allowed) or 'no engine'}"
            )
