"""A person's machine for tests: a home of its own, commands with and without a terminal, and what they start."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]

from tests.cli.test_serve import environment
from tests.harness import PATIENCE, SKILLS, Json
from turnkeeper import beacon
from turnkeeper.client import Client

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
WORKS = {"turns": [[{"say": "Working."}, {"wait_for": "go"}, {"result": {"answer": "done"}}]]}
"""A turn that stays in its middle until the file `go` is in its workspace."""
COMMAND = [sys.executable, "-m", "turnkeeper"]
Ended = subprocess.CompletedProcess[str]


class Machine:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.env = environment(
            home,
            TERM="xterm",
            COLUMNS="100",
            TURNKEEPER_DATA_DIR=str(self.data),
            TURNKEEPER_SKILLS_DIR=f"{EXAMPLES}{os.pathsep}{SKILLS}",
        )

    # Commands

    def call(self, *words: str, given: str | None = None, by: Sequence[str] = COMMAND, **env: str) -> Ended:
        """Without a terminal."""
        ended = subprocess.run(
            [*by, *words],
            env=self.env | env,
            cwd=self.home,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert "Traceback" not in ended.stderr, ended.stderr
        return ended

    def told(self, *words: str, code: int = 0) -> Json:
        """What a command says to a program."""
        ended = self.call(*words, "--json")
        assert ended.returncode == code, ended.stderr
        return dict(json.loads(ended.stdout))

    def begin(self, *words: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *words],
            env=self.env | env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def terminal(self, *words: str, shell: str | None = None) -> Iterator[Terminal]:
        child = Terminal(self, [*COMMAND, *words] if shell is None else ["sh", "-c", shell])
        try:
            yield child
        finally:
            child.close(force=True)

    def client(self) -> Client:
        return Client(data_dir=self.data)

    # What they start

    @property
    def service(self) -> int | None:
        """The pid of the one that serves."""
        owner = beacon.sight(self.data).owner
        return owner.pid if owner else None

    def kill_service(self) -> int:
        pid = self.service
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: self.service != pid)
        return pid

    def workspace(self, run_id: str) -> Path:
        return self.data / "runs" / run_id / "workspace"

    def newest(self) -> Json:
        return dict(self.told("list")["jobs"][0])

    def until(self, holds: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not (found := holds()):
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.02)
        return found

    def clear(self) -> None:
        """Nothing that a command has started lives longer than its test."""
        pid = self.service
        if pid is not None:
            with suppress(ProcessLookupError):  # it has just stopped by itself
                os.kill(pid, signal.SIGTERM)
        self.until(lambda: not self.processes())
        log = self.data / "service.log"
        assert not log.exists() or "Traceback" not in log.read_text(), log.read_text()

    def processes(self) -> list[int]:
        """Of the services on this machine's data."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = entry.read_bytes().split(b"\0")
                if b"serve" in words and str(self.data).encode() in words:
                    found.append(int(entry.parent.name))
        return found


class Terminal(pexpect.spawn):  # type: ignore[misc]
    """A command at a terminal of 24 by 100, and the person before it."""

    def __init__(self, machine: Machine, command: list[str]) -> None:
        super().__init__(
            command[0],
            command[1:],
            env=machine.env,
            cwd=str(machine.home),
            encoding="utf-8",
            timeout=PATIENCE,
            dimensions=(24, 100),
        )
        self.delaybeforesend = None

    def sees(self, *texts: str) -> None:
        """In this order."""
        for text in texts:
            self.expect_exact(text)

    def asks(self, *texts: str) -> None:
        """Sees these, and then may type."""
        self.sees(*texts)
        self.expect_exact("> ")

    def ends(self, code: int) -> str:
        """With this exit code; what was said until then, without colours."""
        self.expect(pexpect.EOF)
        self.close()
        rest = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(self.before))
        assert self.exitstatus == code, rest
        assert "Traceback" not in rest
        return rest
