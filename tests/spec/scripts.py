"""What the demo engine plays in these scenarios, and the files by which a test meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.harness import Json, wait_for_file

INTERACTIVE: Json = {"execution_mode": "interactive"}
STICKY: Json = INTERACTIVE | {"interactive_profile": "sticky_process"}
LENIENT: Json = {"interactive_require_user_reply": False}

QUESTION = "Which colour should the banner be?"
ASK: Json = {"say": QUESTION}
ANSWER: Json = {"result": {"answer": "{{reply}}"}}


def script(*turns: list[Json], **more: Any) -> Json:
    return {"turns": list(turns), **more}


class Notebook:
    """The engine writes into it, from inside its process, what each turn was told."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "notebook.jsonl"
        self.step: Json = {"record": str(self._path)}

    def _column(self, name: str) -> list[Any]:
        return [json.loads(line)[name] for line in self._path.read_text().split("\n") if line]

    @property
    def pids(self) -> list[int]:
        return self._column("pid")

    @property
    def prompts(self) -> list[str]:
        return self._column("prompt")

    @property
    def arguments(self) -> list[list[str]]:
        return self._column("argv")


class Latch:
    """Holds a turn in its middle until the test lets it go on."""

    def __init__(self, folder: Path) -> None:
        self._reached, self._open = folder / "latch.reached", folder / "latch.open"
        self.steps: list[Json] = [{"touch": str(self._reached)}, {"wait_for": str(self._open)}]

    async def reached(self) -> None:
        await wait_for_file(self._reached)

    def open(self) -> None:
        self._open.touch()
