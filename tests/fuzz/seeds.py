"""The inputs that are kept: interesting ones made by hand, and what fuzzing has found, by the name of its target."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).with_name("corpus")


def of(target: str) -> dict[str, bytes]:
    """By the names of the files."""
    return {path.name: path.read_bytes() for path in sorted((FOLDER / target).iterdir())}


def keep(target: str, data: bytes) -> Path:
    """The same input always gets the same name."""
    path = FOLDER / target / f"found-{hashlib.sha256(data).hexdigest()[:16]}"
    path.write_bytes(data)
    return path
