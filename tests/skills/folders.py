"""Skill folders as people leave them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]

OBJECT: Json = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}}


def skill_at(
    root: Path, text: str = "Do it.", runner: Any = None, files: Mapping[str, Any] | None = None
) -> Path:
    """`runner` and the values of `files` are written as JSON, or as they are if they are text."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "SKILL.md").write_text(text, encoding="utf-8")
    named = {"assets/runner.json": runner} if runner is not None else {}
    for name, value in {**named, **(files or {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return root
