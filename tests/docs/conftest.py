"""A fresh copy of the repository, as a reader has it after the first `make`, and the walk through a page."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.docs.pages import ASKED, How, Step, steps
from tests.docs.shown import PORT, Reality
from tests.docs.terminal import PATIENCE_SEC, Terminal
from tests.surroundings import SETTLED
from turnkeeper.lock import owner_of

ROOT = Path(__file__).parents[2]
_ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Every file that is in git, or would be; and a `.venv` that is ready, so that `make run` installs nothing."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    folder = tmp_path / "turnkeeper"
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(Path(sys.prefix) / "bin")
    (folder / ".venv" / ".run").touch()
    return folder


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Of a person who has nothing set up, on a machine that has nothing but the system."""
    home = tmp_path / "home"
    home.mkdir()
    # A free port: two of these tests, or a service that somebody really uses, must not meet.
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {
        **SETTLED,
        **kept,
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TURNKEEPER_PORT": "0",
    }


class Walk:
    """One terminal for what is typed, and one more for each command that stays open."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder, self._env = folder, env
        self._reality = Reality(str(folder))
        self._terminals: list[Terminal] = []
        self._desk = self._terminal()

    def close(self) -> None:
        """The first terminal first: a command in it must not find its service gone, and start another."""
        with ExitStack() as stack:
            for terminal in reversed(self._terminals):
                stack.callback(terminal.close)
        for lock in (*self._folder.glob("*/lock"), Path(self._env["HOME"], ".local/share/turnkeeper/lock")):
            _end_service(lock.parent)

    def play(self, page: Path) -> None:
        for step in steps(page):
            try:
                self._play(step)
            except AssertionError as error:
                raise AssertionError(f"{page.name}, line {step.line}:\n{step.script}\n{error}") from error

    def _play(self, step: Step) -> None:
        match step.how:
            case How.SKIP:
                pass
            case How.STAY:
                self._stay(step)
            case How.REPEAT:
                self._repeat(step)
            case _:
                self._run(step)

    def _run(self, step: Step) -> None:
        is_cut = step.how is How.INTERRUPT
        self._desk.begin(self._reality.command(step.script))
        if is_cut:
            self._wait_for(self._desk, step.shown or "")
            self._desk.interrupt()
        self._type(step)
        code = self._desk.end()
        printed = self._desk.printed
        if step.shown is not None:
            difference = self._reality.difference(
                f"{step.shown.rstrip()}…" if is_cut else step.shown, printed
            )
            assert difference is None, difference
        assert is_cut or code == step.code, f"it ended with {code} and printed\n{printed}"

    def _repeat(self, step: Step) -> None:
        deadline = time.monotonic() + PATIENCE_SEC
        while True:
            try:
                self._run(step)
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    def _type(self, step: Step) -> None:
        """Each line when all that is shown before it has come."""
        parts = (step.shown or "").split(ASKED)
        for count, line in enumerate(step.typed, 1):
            self._wait_for(self._desk, ASKED.join([*parts[:count], ""]))
            self._desk.type(line)

    def _stay(self, step: Step) -> None:
        """A service: its port is the one to use from here on."""
        terminal = self._terminal()
        terminal.begin(self._reality.command(step.script))
        assert terminal.wait_for(lambda printed: bool(_ADDRESS.search(printed))), terminal.printed
        found = _ADDRESS.search(terminal.printed)
        self._reality.port = found[1] if found else PORT
        if step.shown is not None:
            self._wait_for(terminal, step.shown)

    def _wait_for(self, terminal: Terminal, shown: str) -> None:
        came = terminal.wait_for(lambda printed: self._reality.has(shown, printed))
        assert came, self._reality.difference(f"{shown.rstrip()}…", terminal.printed)

    def _terminal(self) -> Terminal:
        scratch = self._folder.parent / f"typed-{len(self._terminals)}.sh"
        self._terminals.append(Terminal(self._folder, self._env, scratch))
        return self._terminals[-1]


def _end_service(data_dir: Path) -> None:
    """One that a command has started by itself would stay for a while."""
    owner = owner_of(data_dir)
    if owner is not None and owner.pid is not None:
        os.kill(owner.pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_SEC
        while owner_of(data_dir) is not None:
            assert time.monotonic() < deadline, f"{owner} does not end"
            time.sleep(0.05)


@pytest.fixture
def play(clone: Path, env: dict[str, str]) -> Iterator[Callable[[str], None]]:
    with closing(Walk(clone, env)) as walk:
        yield lambda page: walk.play(clone / page)
