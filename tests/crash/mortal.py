"""A service that dies where a plan says, and what was true at that moment: by it one judges what came after."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests import harness
from tests.crash.armed import Kill, Order, traced
from tests.crash.nursery import nursery
from tests.crash.restarts import Daemon
from tests.harm import Harm, require
from tests.harness import PATIENCE, Client
from turnkeeper.beacon import kept_token
from turnkeeper.core.lifecycle import MAX_INTERRUPTIONS
from turnkeeper.core.run import Run
from turnkeeper.core.statechart import State
from turnkeeper.engines import census
from turnkeeper.skills.workspace import RunFolder
from turnkeeper.store.reads import DATABASE, connect
from turnkeeper.store.rows import RUN_COLUMNS, run_of


@dataclass(frozen=True, slots=True)
class Death:
    """What a killed service left behind."""

    kill: Kill | None
    """None: it was killed from outside."""
    processes: frozenset[tuple[int, int]]
    runs: dict[str, Run]


class Mortal(Daemon):
    """Its n-th start dies at the n-th kill of the plan, if it comes by there; later starts live on."""

    def __init__(self, data_dir: Path, plan: Sequence[Kill | None] = (), **env: str) -> None:
        super().__init__(data_dir, **env)
        self.plan = list(plan)
        self.starts = 0
        self.deaths: list[Death] = []
        self.excuses: dict[str, set[str]] = {}
        """Codes by which a run may have failed, since it was struck where it could not go on."""
        self.makes_token = False
        """Instead of being told one; its client reads it where any client on this machine would."""
        self._known_id = ""

    def trace(self, start: int) -> Path:
        return self.data_dir.parent / f"trace.{start}"

    def _launch(self, command: list[str], env: dict[str, str], log: IO[str]) -> harness.ServiceProcess:
        if self.makes_token:
            del env["TURNKEEPER_TOKEN"]
        order = Order(self.trace(self.starts), self._due)
        self.starts += 1
        return nursery().grow(command, env, log, order)

    @property
    def _due(self) -> Kill | None:
        return self.plan[self.starts] if self.starts < len(self.plan) else None

    def start(self) -> None:
        """Until it is up; a start that dies as it was told is followed by the next one."""
        while True:
            kill = self._due
            try:
                super().start()
            except AssertionError:
                if kill is None or not self._died_by(kill):
                    raise
                self._bury(kill)
            else:
                break
        if self.makes_token:
            self.client = Client(self.client.url, kept_token(self.data_dir) or "none was kept")
        self._known_id = super().data_id  # asked while somebody else has it open, too: the log stays as it is
        self._require_clean()

    @property
    def data_id(self) -> str:
        return self._known_id or super().data_id

    def fall(self) -> None:
        """Its client has lost it: it died, and as it was told."""
        assert self._process is not None
        kill = self.plan[self.starts - 1] if self.starts <= len(self.plan) else None
        code = self._process.wait(PATIENCE)
        fell = kill is not None and self._died_by(kill)
        require(fell, Harm.WRONG, f"the service ended with {code}, and nobody had told it to")
        self._forget()
        self._bury(kill)

    def fell_at(self, start: int, code: int) -> bool:
        """It was being stopped and is gone: whether it died of its plan before it was done."""
        kill = self.plan[start - 1] if start <= len(self.plan) else None
        if code != -signal.SIGKILL or kill is None or not self._died_by(kill):
            return False
        self._bury(kill)
        return True

    def strike(self) -> None:
        """Killed from outside, where it stands."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)
        self._forget()
        self._bury(None)

    def _forget(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def _died_by(self, kill: Kill) -> bool:
        return traced(self.trace(self.starts - 1))[-1:] == [kill]

    def _bury(self, kill: Kill | None) -> None:
        left = census.find(self._known_id) if self._known_id else []
        processes = frozenset((found.pid, found.start_time) for found in left)
        self.deaths.append(Death(kill, processes, self._remembered()))
        for run in self.deaths[-1].runs.values():
            self.excuses.setdefault(run.id, set()).update(excuses(run, self.data_dir))

    def _remembered(self) -> dict[str, Run]:
        """Read from a copy: whoever opens the database itself would tidy its log up for the next start."""
        with tempfile.TemporaryDirectory(dir=self.data_dir.parent) as folder:
            for name in (DATABASE, f"{DATABASE}-wal"):
                if (self.data_dir / name).exists():
                    shutil.copy(self.data_dir / name, folder)
            with closing(connect(Path(folder, DATABASE))) as copy:
                if not copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone():
                    return {}
                return {row["id"]: run_of(row) for row in copy.execute(f"SELECT {RUN_COLUMNS} FROM runs")}

    def _require_clean(self) -> None:
        """Nothing that the dead had started is alive when the next one answers."""
        old = frozenset[tuple[int, int]]().union(*(death.processes for death in self.deaths))
        left = [found for found in self.processes() if (found.pid, found.start_time) in old]
        require(not left, Harm.LEFTOVER, f"processes of a killed service live on: {left}")


def excuses(run: Run, data_dir: Path) -> set[str]:
    """Why a run may fail that was in this state when its service was killed; most may not."""
    if run.is_paused:
        return {"INTERACTION_PROCESS_LOST"}
    loadable = run.handle is not None and run.handle.loadable
    if run.state is State.WAITING_USER and not loadable:
        return {"INTERACTION_PROCESS_LOST"}
    if run.state is State.QUEUED and run.handle is not None and not loadable:
        return {"INTERACTION_PROCESS_LOST"}  # answered, and there is nobody left to hear it
    if run.state is not State.RUNNING:
        return set()
    log = RunFolder(data_dir / "runs" / run.id).raw(run.attempt_number, run.try_number, "stdout")
    struck_out = run.interruptions >= MAX_INTERRUPTIONS
    return {"RUN_INTERRUPTED"} if struck_out or (log.exists() and not loadable) else set()
