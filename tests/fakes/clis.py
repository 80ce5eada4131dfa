"""Scripted CLIs as the engines of a service: how they are started, and what they noted in the homes of their runs."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.scripted_cli.surroundings import KEY, LOGINS
from tests.harness import Json, Place, opened, wait_for_file

CLI = Path(__file__).parent / "scripted_cli" / "__main__.py"
ENGINES = ("codex", "claude", "gemini", "opencode", "qwen", "iflow")

each_engine = pytest.mark.parametrize("engine", ENGINES)


def command(engine: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(CLI), engine]


def login(engine: str) -> str:
    """The variable that is its login."""
    return f"{LOGINS[engine]}={KEY}"


def configured(data_dir: Path) -> Json:
    """For the settings of a service. Nobody is logged in there but by a key."""
    home = data_dir.parent / "logins"
    return {
        engine: {"command": command(engine), "env": [login(engine)], "login_home": home} for engine in ENGINES
    }


@asynccontextmanager
async def engaged(data_dir: Path, **more: Any) -> AsyncIterator[Place]:
    """A service whose engines are scripted CLIs. None of them may have met anything that it did not expect."""
    async with opened(data_dir, **({"engines": configured(data_dir), "slots": 2} | more)) as place:
        yield place
    assert_expected(data_dir)


def assert_expected(data_dir: Path) -> None:
    met = {path: path.read_text() for path in data_dir.glob("runs/*/*/unexpected")}
    assert not met, met


async def start(place: Place, engine: str, words: str, skill: str = "answer", **job: Any) -> str:
    """A run whose first turn plays the words: they stand in the job's input, and so in its prompt."""
    return await place.client.create(skill, engine=engine, input={"task": words}, **job)


def warned(run: Json) -> list[str]:
    return [warning["code"] for warning in run["warnings"]]


async def printed(place: Place, run_id: str, attempt: int) -> str:
    """What the CLI wrote to its stdout in that turn."""
    answer = await place.client.http.get(f"/v1/jobs/{run_id}/logs/{attempt}/1/stdout")
    assert answer.status_code == 200, answer.text
    return answer.text


def notes(place: Place, run_id: str) -> Notes:
    return Notes(place.settings.data_dir, run_id)


class Notes:
    """What the processes of one run wrote down about themselves."""

    def __init__(self, data_dir: Path, run_id: str) -> None:
        self.home = data_dir / "runs" / run_id / "home"
        self.workspace = data_dir / "runs" / run_id / "workspace"

    @property
    def calls(self) -> list[Json]:
        lines = (self.home / "calls.jsonl").read_text().split("\n")
        return [json.loads(line) for line in lines if line]

    @property
    def commands(self) -> list[list[str]]:
        return [call["argv"] for call in self.calls]

    @property
    def sessions(self) -> list[str]:
        return [call["session"] for call in self.calls]

    async def reached(self) -> str:
        """Until a turn is where it stays: the word that holds it says what it started."""
        path = self.home / "reached"
        await wait_for_file(path)
        return path.read_text()

    def go_on(self) -> None:
        (self.workspace / "go").touch()
