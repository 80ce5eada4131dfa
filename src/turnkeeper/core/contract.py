"""What a run's files and output are held to, taken from the skill when the job is accepted.

It is kept with the run and not in the run's folder: an agent can rewrite its copy of the skill, never this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

INPUT_SOURCE = "x-input-source"
"""On a property of the input schema: `file` for what is uploaded; else it is `inline`, in the job itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRule:
    """Files that the skill is expected to leave in its workspace."""

    role: str
    pattern: str
    mime: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class FileInput:
    key: str
    required: bool
    many: bool
    """A list of files, not one."""


def file_inputs(schema: Mapping[str, Any] | None) -> tuple[FileInput, ...]:
    """The properties of an input schema that come by upload. Only those at the top count."""
    schema = schema or {}
    required = schema.get("required", ())
    return tuple(
        FileInput(key, required=key in required, many=entry.get("type") == "array")
        for key, entry in schema.get("properties", {}).items()
        if isinstance(entry, Mapping) and entry.get(INPUT_SOURCE) == "file"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    name: str
    is_plain: bool
    """No `runner.json`: the result is the agent's text."""
    input_schema: Mapping[str, Any] | None = None
    """Kept only where files are still to come: everything else is checked when the job is accepted."""
    output_schema: Mapping[str, Any] | None = None
    artifacts: tuple[ArtifactRule, ...] = ()
    prompt: str | None = None
    """The skill's own opening words for this engine."""
    secrets: tuple[str, ...] = ()
    """The names of those that its turns are given, if the operator grants them."""
