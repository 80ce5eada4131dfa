"""The words that open a turn. They live in `fragments/`; every placeholder must be rendered."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from pathlib import Path

from turnkeeper.core.run import Job

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def start(job: Job, skill_dir: Path) -> str:
    return _fill(
        job.contract.prompt or fragment("start"),
        name=job.contract.name,
        skill_file=str(skill_dir / "SKILL.md"),
        input=json.dumps(job.input, ensure_ascii=False, indent=2),
        parameter=json.dumps(job.parameter, ensure_ascii=False, indent=2),
    )


def cut_off(text: str) -> str:
    return _fill(fragment("interrupted"), text=text)


@cache
def fragment(name: str) -> str:
    return (resources.files("turnkeeper.skills") / "fragments" / f"{name}.md").read_text(encoding="utf-8")


def _fill(template: str, **values: str) -> str:
    """In one pass, so that a placeholder inside a value stays as it is; so does one that we do not know."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)
