"""A process under test: started, heard, and gone with all that belongs to it when the test is over."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from turnkeeper.engines import census
from turnkeeper.engines.lines import Line
from turnkeeper.engines.process import Exit, Process
from turnkeeper.engines.spawn import Command

MIB = 1024 * 1024
PATIENCE_SEC = 30

T = TypeVar("T")


async def soon(what: asyncio.Future[T]) -> T:
    await asyncio.wait((what,), timeout=PATIENCE_SEC)
    return what.result()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Engine:
    """A process under test, with all its lines."""

    def __init__(
        self,
        tmp_path: Path,
        *argv: str,
        keep: int = 1024 * MIB,
        on_line: Callable[[str, Line], None] | None = None,
        secrets: frozenset[str] = frozenset(),
        walls: tuple[str, ...] = (),
    ) -> None:
        self.stdout, self.stderr = tmp_path / "stdout", tmp_path / "stderr"
        self.mark = f"{uuid.uuid4().hex}/run/1.1"
        self.lines: list[tuple[str, Line]] = []
        self._heard = asyncio.Event()
        self.process = Process.spawn(
            Command(argv, dict(os.environ), tmp_path, secrets, walls),
            mark=self.mark,
            stdout=self.stdout,
            stderr=self.stderr,
            on_line=on_line or self.hear,
            keep=keep,
        )

    def hear(self, stream: str, line: Line) -> None:
        self.lines.append((stream, line))
        self._heard.set()

    def said(self, stream: str = "stdout") -> list[bytes]:
        return [line.data for name, line in self.lines if name == stream]

    async def says(self, text: bytes, stream: str = "stdout") -> None:
        async with asyncio.timeout(PATIENCE_SEC):
            while text not in self.said(stream):
                self._heard.clear()
                await self._heard.wait()

    async def exits(self) -> Exit:
        return await soon(self.process.exited)

    def alive(self) -> int:
        return len(census.find(self.mark))


@asynccontextmanager
async def engine(
    tmp_path: Path,
    *argv: str,
    keep: int = 1024 * MIB,
    on_line: Callable[[str, Line], None] | None = None,
    secrets: frozenset[str] = frozenset(),
    walls: tuple[str, ...] = (),
) -> AsyncIterator[Engine]:
    before = open_files()
    engine = Engine(tmp_path, *argv, keep=keep, on_line=on_line, secrets=secrets, walls=walls)
    try:
        yield engine
    finally:
        assert await engine.process.end(first=signal.SIGKILL, step_sec=PATIENCE_SEC) == []
        engine.process.close()
        engine.process.close()
    assert census.find(engine.mark) == []
    assert census.identify(engine.process.pid) is None
    assert open_files() <= before  # fewer, if something of an earlier test has gone meanwhile


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-uc", f"import os, signal, subprocess, sys, time\n{code}"


def sh(script: str) -> tuple[str, ...]:
    return "sh", "-c", script
