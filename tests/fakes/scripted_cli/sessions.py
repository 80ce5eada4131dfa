"""Sessions as files in the run's home: a second process finds what the first one was told, in the same directory."""

# ruff: noqa: PTH103, PTH105, PTH108, PTH109, PTH118, PTH123

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CALLS = "calls.jsonl"
"""One line for each process of the run: what it was told, for the test to read."""


class Session:
    def __init__(self, home: str, session_id: str) -> None:
        self.home = home
        self.id = session_id
        self.prompts: list[str] = []
        self.messages = 0
        """Said in earlier turns, by either side."""
        self.calls = 0
        """To the model, in earlier turns."""
        self.later = ""
        """Words kept for a next prompt that brings none of its own."""

    @classmethod
    def find(cls, home: str, session_id: str) -> Session | None:
        """Of another directory is as good as unknown: the real ones file their sessions by it."""
        session = cls(home, session_id)
        try:
            with open(session._path, encoding="utf-8") as file:
                saved = json.load(file)
        except OSError:
            return None
        if saved["cwd"] != os.getcwd():
            return None
        session.prompts, session.messages = saved["prompts"], saved["messages"]
        session.calls, session.later = saved["calls"], saved["later"]
        return session

    @property
    def _path(self) -> str:
        return os.path.join(self.home, ".scripted", f"{self.id}.json")

    def save(self) -> None:
        os.makedirs(os.path.join(self.home, ".scripted"), exist_ok=True)
        kept = {
            "cwd": os.getcwd(),
            "prompts": self.prompts,
            "messages": self.messages,
            "calls": self.calls,
            "later": self.later,
        }
        with open(f"{self._path}.new", "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(f"{self._path}.new", self._path)

    def forget(self) -> None:
        os.unlink(self._path)


def note(home: str, **call: Any) -> None:
    with open(os.path.join(home, CALLS), "a", encoding="utf-8") as file:
        file.write(json.dumps(call) + "\n")


def skills(home: str) -> dict[str, str]:
    """Every SKILL.md that an engine could find in its home, by its path there."""
    found = {}
    for folder, _, files in os.walk(home):
        if "SKILL.md" in files:
            path = os.path.join(folder, "SKILL.md")
            with open(path, encoding="utf-8") as file:
                found[path.removeprefix(f"{home}/")] = file.read()
    return found
