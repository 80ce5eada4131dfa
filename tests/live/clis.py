"""The real CLIs as the engines of a service: how each is set up for the scripted model, and how a test meets them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Json, Place, opened
from tests.live.model_server import ModelServer, Seen
from turnkeeper.engines import census

ENGINES = ("opencode", "qwen", "gemini", "claude", "codex")
"""The slowest first: whoever runs them side by side is done soonest in this order."""
CEILING = 240
"""Seconds after which a test gives up; a real CLI on a busy machine takes its time."""
PAUSE_SEC = 0.05
TIMEOUTS = {"first_byte_sec": 60, "idle_sec": 60, "turn_sec": 180, "result_grace_sec": 5, "step_sec": 2}
INTERACTIVE: Json = {"execution_mode": "interactive"}


def each(*engines: str, **known: pytest.MarkDecorator) -> pytest.MarkDecorator:
    """A test for each of these; `known` marks one of them. Side by side, the tests of an engine stay together."""
    marks = {engine: [pytest.mark.xdist_group(engine)] for engine in engines}
    for engine, mark in known.items():
        marks[engine].append(mark)
    return pytest.mark.parametrize(
        "engine", [pytest.param(engine, marks=marks[engine]) for engine in engines]
    )


each_engine = each(*ENGINES)


def key_of(engine: str) -> str:
    """Found nowhere by chance."""
    return f"tk-{engine}-Zr7vQm3xWc9LdT5hYb2NfK8sJg4PaE6uBq1"


# What the operator of each would write into the settings, with the address of the model and a key.


def _codex(url: str, key: str) -> Json:
    own = {"request_max_retries": 0, "stream_max_retries": 0}
    return {
        "model": "gpt-5.5",
        "env": [f"OPENAI_BASE_URL={url}/v1", f"OPENAI_API_KEY={key}"],
        "config": {"model_providers": {"turnkeeper": own}},
    }


def _claude(url: str, key: str) -> Json:
    return {"env": [f"ANTHROPIC_BASE_URL={url}", f"ANTHROPIC_API_KEY={key}", "CLAUDE_CODE_MAX_RETRIES=0"]}


def _gemini(url: str, key: str) -> Json:
    return {
        "model": "gemini-2.5-flash",
        "env": [f"GOOGLE_GEMINI_BASE_URL={url}", f"GEMINI_API_KEY={key}"],
        "config": {"general": {"maxAttempts": 1}},
    }


def _qwen(url: str, key: str) -> Json:
    return {"model": "scripted-model", "env": [f"OPENAI_BASE_URL={url}/v1", f"OPENAI_API_KEY={key}"]}


def _opencode(url: str, key: str) -> Json:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "{env:SCRIPTED_API_KEY}"},
        "models": {"scripted-model": {"name": "scripted", "limit": {"context": 128000, "output": 8192}}},
    }
    return {
        "model": "scripted/scripted-model",
        "env": [f"SCRIPTED_API_KEY={key}"],
        "config": {"provider": {"scripted": provider}},
    }


SETTINGS: dict[str, Callable[[str, str], Json]] = {
    "codex": _codex,
    "claude": _claude,
    "gemini": _gemini,
    "opencode": _opencode,
    "qwen": _qwen,
}


@dataclass(frozen=True)
class Live:
    """One engine, a model for it, and folders of its own for a test."""

    engine: str
    models: ModelServer
    root: Path
    engines_dir: Path

    @property
    def key(self) -> str:
        return key_of(self.engine)

    @property
    def operator_home(self) -> Path:
        return self.root / "operator"

    @property
    def tmp(self) -> Path:
        """What the CLI takes for /tmp."""
        return self.root / "tmp"

    @asynccontextmanager
    async def service(self, name: str = "data", url: str | None = None, **more: Any) -> AsyncIterator[Place]:
        """Sound at its end, with every turn judged again and nothing alive: see `opened`."""
        settings = SETTINGS[self.engine](url or self.models.url, self.key)
        given: Json = {
            "engines_dir": self.engines_dir,
            "engines": {self.engine: settings},
            "slots": 2,
            "timeouts": TIMEOUTS,
        }
        async with opened(self.root / name, **(given | more)) as place:
            yield place

    async def start(self, place: Place, words: str, skill: str = "answer", **job: Any) -> str:
        """A run whose first turn has these words in its prompt."""
        return await place.client.create(skill, engine=self.engine, input={"task": words}, **job)


async def settled(place: Place, run_id: str) -> Json:
    """The run once it waits or has ended."""
    async with asyncio.timeout(CEILING):
        while True:
            answer = await place.client.http.get(f"/v1/jobs/{run_id}", headers={"Prefer": "wait=10"})
            run = dict(answer.json())
            if run["status"] not in ("queued", "running"):
                return run


async def reaches(place: Place, run_id: str, status: str) -> Json:
    """The run, once it has settled in this state."""
    run = await settled(place, run_id)
    assert run["status"] == status, f"it is {run['status']}: {run['error']}, {run['warnings']}"
    return run


async def attempts(place: Place, run_id: str) -> list[Json]:
    answer = await place.client.http.get(f"/v1/jobs/{run_id}/attempts")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["attempts"])


def home_of(place: Place, run_id: str) -> Path:
    return place.settings.data_dir / "runs" / run_id / "home"


def conversations(seen: list[Seen]) -> list[Seen]:
    """Without side requests, which offer no tools."""
    return [each for each in seen if each.tools]


def command_lines(containing: str) -> list[str]:
    """Of all processes on this machine that have the text in theirs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue  # it is gone
        if containing in words:
            found.append(words)
    return found


async def appears(look: Callable[[], list[Any]]) -> None:
    """Until there is something."""
    deadline = time.monotonic() + CEILING
    while not await asyncio.to_thread(look):
        assert time.monotonic() < deadline, "it never appeared"
        await asyncio.sleep(PAUSE_SEC)


class Sightings:
    """What was alive of a service's runs at each look."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.marks: set[frozenset[str]] = set()
        """The turns that had a process in the same moment."""
        self.words: set[str] = set()

    async def keep_looking(self) -> None:
        while True:
            found = await asyncio.to_thread(self._place.processes)
            self._note(found)
            await asyncio.sleep(PAUSE_SEC)

    def _note(self, found: list[census.Found]) -> None:
        self.marks.add(frozenset(each.mark for each in found if each.mark))
        for each in found:
            try:
                words = Path(f"/proc/{each.pid}/cmdline").read_bytes()
            except OSError:
                continue  # it is gone
            self.words.add(words.replace(b"\0", b" ").decode("utf-8", "replace"))


@asynccontextmanager
async def watched(place: Place) -> AsyncIterator[Sightings]:
    """Looks at the processes of the service until the block ends."""
    sightings = Sightings(place)
    looking = asyncio.create_task(sightings.keep_looking())
    try:
        yield sightings
        assert not looking.done(), looking.exception()
    finally:
        looking.cancel()


@contextmanager
def refusing() -> Iterator[str]:
    """An address at which nobody listens, and nobody else will meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
