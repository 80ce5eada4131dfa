"""A process and the dialect it speaks, from what it is lent to its end: for one turn, or resident for many."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnkeeper.core import permission
from turnkeeper.core.errors import Warn
from turnkeeper.core.gate import ExitKind
from turnkeeper.core.permission import PermissionAsked
from turnkeeper.core.run import RunWarning, Timeouts
from turnkeeper.engines import census, memory
from turnkeeper.engines.base import Dialect
from turnkeeper.engines.lending import Lent, lend
from turnkeeper.engines.lines import Line
from turnkeeper.engines.meter import Excess, Meter
from turnkeeper.engines.process import Exit, Process
from turnkeeper.engines.sandbox import Limits
from turnkeeper.engines.spawn import Command
from turnkeeper.engines.veil import Known
from turnkeeper.runtime.waits import first
from turnkeeper.skills.clearing import clear, weigh
from turnkeeper.skills.workspace import discard, is_gone

if TYPE_CHECKING:
    from turnkeeper.runtime.turns import Turn

log = logging.getLogger(__name__)

LEAVE_SEC = 1.0
"""How long a resident agent may take to go by itself. Some count to two first, and what they know is on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a process is started, what of that may be remembered, and what it is lent meanwhile."""

    command: Command
    record: Mapping[str, Any] = field(default_factory=dict)
    login_files: Mapping[str, Path] = field(default_factory=dict)
    home: Path
    scratch: Path
    note: Path
    """Where it is written down what was lent."""
    limits: Limits | None = None
    """Of what it may use; None: nobody holds it to any."""


class Session:
    """A process and the dialect it speaks: for one turn, or resident for many."""

    def __init__(self, start: Start, dialect: Dialect, timeouts: Timeouts) -> None:
        self._start = start
        self._lent: Lent | None = None
        self.oom_kills: memory.Kills | None = None
        """How many there had been when the turn began."""
        self._placed: Turn | None = None
        """The turn whose first word has been heard."""
        self.dialect = dialect
        self.timeouts = timeouts
        self.turn: Turn | None = None
        self.process: Process
        self.meter: Meter
        """For as long as the process lives."""

    @property
    def record(self) -> Mapping[str, Any]:
        return self._start.record

    @property
    def limits(self) -> Limits | None:
        return self._start.limits

    def weigh(self) -> int:
        """Bytes of all that the engine can write. Blocking."""
        folders = (self._start.command.cwd, self._start.home)
        return sum(weigh(folder.parent, folder.name) for folder in folders)

    def move_in(self) -> None:
        """Before the process: a place for its temporary files, and the operator's login if it needs that. Blocking."""
        start = self._start
        try:
            start.scratch.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            # Of a turn that a crash cut off. What keeps it from going is raised: a shortage passes, and is tried again.
            clear(start.scratch.parent, start.scratch.name)
            start.scratch.mkdir(mode=0o700)
        if start.login_files:
            self._lent = lend(start.login_files, start.home, start.note)
            if self.known is not None:
                self.known.learn(self._lent.secrets)

    def has_left(self) -> bool:
        """When nothing of the process is alive: whether nothing was lent to it, and it has left nothing about."""
        return self._lent is None and is_gone(self._start.scratch)

    def move_out(self) -> list[RunWarning]:
        """When nothing of the process is alive, also if it never was. Blocking."""
        lent, self._lent = self._lent, None
        problems = lent.take_back() if lent else []
        discard(self._start.scratch)
        return [RunWarning(Warn.LOGIN_NOT_RETURNED, problem) for problem in problems]

    @property
    def secrets(self) -> frozenset[str]:
        lent = self._lent.secrets if self._lent is not None else frozenset()
        return self._start.command.secrets | lent

    @property
    def known(self) -> Known | None:
        return self._start.command.known

    def start(self, mark: str, stdout: Path, stderr: Path) -> None:
        command = replace(self._start.command, secrets=self.secrets)
        self.process = Process.spawn(command, mark=mark, stdout=stdout, stderr=stderr, on_line=self._hear)
        self.meter = Meter(self.process, self.limits, self.weigh)
        self.meter.over.add_done_callback(self._on_excess)

    def _on_excess(self, over: asyncio.Future[Excess]) -> None:
        """Also while it rests, when nobody else would look: each moment more may be the machine's last."""
        if not over.cancelled():
            log.warning("%s is killed: %s", self.process.mark, over.result().words)
            self.process.kill_inside()

    def exit_kind(self, ended: Exit) -> ExitKind:
        if ended.signal is None:
            return ExitKind.OK if ended.code == 0 else ExitKind.NONZERO
        is_counted = self.oom_kills is not None and self.oom_kills.are_more
        return (
            ExitKind.OOM_KILLED if ended.signal == signal.SIGKILL and is_counted else ExitKind.FOREIGN_SIGNAL
        )

    @property
    def is_alive(self) -> bool:
        return not self.process.exited.done()

    @property
    def is_resting(self) -> bool:
        """Between two turns, or in a pause of one."""
        return self.turn is None or self.turn.is_paused

    def _hear(self, stream: str, line: Line) -> None:
        if self.turn is not None:
            self._count_kills(self.turn)
            self.turn.hear(stream, line)
        elif stream == "stdout":
            self._hear_aside(line)

    def _count_kills(self, turn: Turn) -> None:
        """Where the engine is when it says its first word: a wrapper may have put it into a cgroup of its own by then,
        and once it is dead nobody can tell any more."""
        if self._placed is not turn:
            self._placed = turn
            if not self.process.has_exited:
                self.oom_kills = memory.oom_kills(self.process.pid, self.oom_kills)

    def _hear_aside(self, line: Line) -> None:
        """Between two turns nothing counts; but an agent that asks for something must not wait for ever."""
        heard = self.dialect.hear(line)
        for event in heard.events if heard else ():
            if isinstance(event, PermissionAsked):
                self.refuse(event)
        if heard and heard.answer:
            self.process.write(heard.answer)

    def refuse(self, asked: PermissionAsked) -> None:
        """Nobody could be asked about it."""
        log.warning("%s asked for a permission that nobody could be asked about", self.process.mark)
        self.process.write(self.dialect.answer(asked.key, permission.rejected(asked.choices)))

    async def leave(self) -> list[census.Found]:
        """A polite end after the last turn: a resident agent exits when its input closes."""
        if self.is_alive:
            self.process.close_stdin()
            await first(self.process.exited, timeout=min(self.timeouts.result_grace_sec, LEAVE_SEC))
        return await self.end()

    async def end(self, *, at_once: bool = False) -> list[census.Found]:
        """Nothing of the process's tree is alive after this but what survives even SIGKILL: that is returned."""
        if not self.is_alive and not await self.process.leftovers():
            return []
        first = signal.SIGKILL if at_once else signal.SIGINT
        return await self.process.end(step_sec=self.timeouts.step_sec, first=first)

    def close(self) -> None:
        self.meter.close()
        self.process.close()
