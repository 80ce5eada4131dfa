"""Installs the CLIs once, gives each test an engine of its own, and says at the end if nothing could be tried."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.clis import ENGINES, Live
from tests.live.model_server import ModelServer
from turnkeeper.core.errors import EngineNotReady
from turnkeeper.engines import managed, programs
from turnkeeper.engines.cli import CliEngine
from turnkeeper.engines.programs import Package, Program
from turnkeeper.engines.registry import engines

CACHE = "LIVE_CACHE"
SKIPPED = "no real CLI was run: "
UNREACHABLE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT"
    r"|network timeout"
)
PROBE_SEC = 60
NOBODY = "http://127.0.0.1:9"
"""A proxy that is not there: loopback is all that can be reached."""
CLIS = {name: engine for name, engine in engines({}).items() if isinstance(engine, CliEngine)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Engine by engine, in the order of `ENGINES`."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    callspec = getattr(item, "callspec", None)
    engine = callspec.params.get("engine") if callspec else None
    return ENGINES.index(engine) if engine in ENGINES else len(ENGINES)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """In a wrapper: what is written here comes last."""
    yield
    reports = terminalreporter.stats.get("skipped", [])
    told = {report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)}
    for reason in sorted(reason for reason in told if SKIPPED in reason):
        terminalreporter.write_sep("!", reason.removeprefix("Skipped: "), red=True, bold=True)


class Installs:
    """What this worker knows to be installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._done: set[str] = set()
        self._obstacle: str | None = None
        self._failures: dict[str, EngineNotReady] = {}

    async def ensure(self, engine: str) -> None:
        """One process at a time works in the folder: the others wait here, and then find it done."""
        if self._obstacle is not None:
            pytest.skip(self._obstacle)
        if engine in self._failures:
            raise self._failures[engine]
        if engine in self._done:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / ".live-lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            await self._install(engine)
        self._done.add(engine)

    async def _install(self, engine: str) -> None:
        for program, package in managed.packages_of(CLIS[engine]).items():
            found = programs.installed(program, package, self.folder / program, self.folder)
            if not isinstance(found, Program) or found.version != package.version:
                self._obstacle = await asyncio.to_thread(_obstacle, package)
                if self._obstacle is not None:
                    pytest.skip(self._obstacle)
            try:
                await managed.install(program, package, self.folder, lambda step: None)
            except EngineNotReady as failure:
                self._failures[engine] = failure  # said by each test, and tried once
                raise


def _obstacle(package: Package) -> str | None:
    """Why nothing can be fetched. Whatever else goes wrong is for the install to say, and a failure."""
    npm = shutil.which("npm")
    if npm is None:
        return f"{SKIPPED}npm is not on the PATH"
    words = [npm, "view", f"{package.name}@{package.version}", "version"]
    words += ["--fetch-retries=0", f"--fetch-timeout={PROBE_SEC * 500}"]
    try:
        probe = subprocess.run(words, capture_output=True, text=True, timeout=PROBE_SEC, check=False)
    except subprocess.TimeoutExpired:
        return f"{SKIPPED}the registry of npm did not answer in {PROBE_SEC} s"
    found = UNREACHABLE.search(probe.stderr) if probe.returncode else None
    return f"{SKIPPED}the registry of npm cannot be reached ({found[0]})" if found else None


def cache() -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(CACHE) or caches / "turnkeeper" / "live-engines")


@pytest.fixture(scope="session")
def installs() -> Installs:
    return Installs(cache())


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
async def live(
    engine: str,
    models: ModelServer,
    installs: Installs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Live:
    """Nobody is logged in, no key is set, and whatever is not on this machine cannot be reached."""
    await installs.ensure(engine)
    live = Live(engine, models, tmp_path, installs.folder)
    live.operator_home.mkdir()
    live.tmp.mkdir()
    for cli in CLIS.values():
        for name in (*cli.keys, *cli.addresses):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(live.operator_home))
    monkeypatch.setenv("TMPDIR", str(live.tmp))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, NOBODY)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    return live
