"""The words that open a turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnkeeper.core.run import Run
from turnkeeper.skills.words import fill, fragment, render


def start(run: Run, skill_dir: Path) -> str:
    contract = run.job.contract
    return fill(
        contract.prompt or fragment("start"),
        name=contract.name,
        skill_file=str(skill_dir / "SKILL.md"),
        input=_json(run.input),
        parameter=_json(run.job.parameter),
    )


def reply(text: str) -> str:
    """No CLI takes an empty prompt."""
    return text if text.strip() else render("empty_reply")


def cut_off(text: str) -> str:
    return render("interrupted", text=text)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
