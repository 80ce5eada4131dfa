"""What a run adds to its own copy of `SKILL.md`: five modules, always in this order, some of them only where needed.

The words are in `fragments/`. Mode modules exclude each other: an agent that nobody can answer is never told how
to ask, and one that may ask is never told that it must not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from turnkeeper.core.contract import ArtifactRule, Contract
from turnkeeper.core.run import Mode
from turnkeeper.skills.words import render

BORDER = "\n\n---\n\n"


@dataclass(frozen=True, slots=True)
class Where:
    """The places that the words name."""

    workspace: Path
    skill_dir: Path


def modules(contract: Contract, mode: Mode, where: Where) -> list[str]:
    """1 runtime rules, 2 artifacts (if any), 3 output format, 4 output schema (if any), 5 mode."""
    parts = [render("runtime", workspace=str(where.workspace), skill_dir=str(where.skill_dir))]
    if contract.artifacts:
        listed = "\n".join(_line(rule) for rule in contract.artifacts)
        parts.append(render("artifacts", workspace=str(where.workspace), artifacts=listed))
    # Without a schema the text itself is the result, and the marker is all that is asked for.
    parts.append(render("output_text" if contract.output_schema is None else "output_json"))
    if contract.output_schema is not None:
        schema = json.dumps(contract.output_schema, ensure_ascii=False, indent=2)
        parts.append(render("output_schema", schema=schema))
    parts.append(render(f"mode_{mode.value}"))
    return [part.strip() for part in parts]


def patched(skill_text: bytes, contract: Contract, mode: Mode, where: Where) -> bytes:
    """Bytes, since a public skill may be in any encoding; what we add is UTF-8."""
    added = BORDER + "\n\n".join(modules(contract, mode, where)) + "\n"
    return skill_text.rstrip() + added.encode()


def _line(rule: ArtifactRule) -> str:
    said = [rule.role] if rule.role != rule.pattern else []
    said += [rule.mime] if rule.mime else []
    about = f" ({', '.join(said)})" if said else ""
    return f"- `{rule.pattern}`{about}: {'required' if rule.required else 'if there is anything to write'}"
