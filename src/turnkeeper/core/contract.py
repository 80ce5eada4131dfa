"""What a run's output is held to, taken from the skill when the job is accepted.

It is kept with the run and not in the run's folder: an agent can rewrite its copy of the skill, never this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRule:
    """Files that the skill is expected to leave in its workspace."""

    role: str
    pattern: str
    mime: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    name: str
    is_plain: bool
    """No `runner.json`: the result is the agent's text."""
    output_schema: Mapping[str, Any] | None = None
    artifacts: tuple[ArtifactRule, ...] = ()
    prompt: str | None = None
    """The skill's own opening words for this engine."""
