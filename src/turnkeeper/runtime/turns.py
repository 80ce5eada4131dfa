"""One turn played by a real process: its lines become a transcript, its end becomes a `HowEnded`."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from turnkeeper.core import permission
from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.fcmp import Event, RawRef
from turnkeeper.core.gate import ExitKind
from turnkeeper.core.permission import Decision, PermissionAsked
from turnkeeper.core.run import Born, Failure, Handle, RunWarning, Timeouts
from turnkeeper.core.turn import Remark, SessionOpened, Transcript
from turnkeeper.engines import census, memory
from turnkeeper.engines.base import Dialect
from turnkeeper.engines.lending import Lent, lend
from turnkeeper.engines.lines import Line, plain
from turnkeeper.engines.process import Exit, Process
from turnkeeper.engines.spawn import Command
from turnkeeper.engines.veil import Pieces
from turnkeeper.engines.watch import Limit, Watch
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.judging import HowEnded
from turnkeeper.skills.workspace import discard

LEAVE_SEC = 1.0
"""How long a resident agent may take to go by itself. Some count to two first, and what they know is on the disk."""
STDERR_LINES = 20
STDERR_CHARS = 2000

SILENT = {
    Limit.FIRST_BYTE: "the engine printed nothing at all for {limit:g} s, and nothing of it worked",
    Limit.IDLE: "the engine fell silent for {limit:g} s in the middle of its turn, and nothing of it worked",
}


class Interrupt(StrEnum):
    """Why the owner of a process is told to let go of it."""

    ENDING = "ending"
    STOPPING = "stopping"
    LOST = "lost"


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


class Session:
    """A process and the dialect it speaks: for one turn, or resident for many."""

    def __init__(self, start: Start, dialect: Dialect, timeouts: Timeouts) -> None:
        self._start = start
        self._lent: Lent | None = None
        self.oom_kills: int | None = None
        """How many there had been when the turn began."""
        self.dialect = dialect
        self.timeouts = timeouts
        self.turn: Turn | None = None
        self.process: Process

    @property
    def record(self) -> Mapping[str, Any]:
        return self._start.record

    def move_in(self) -> None:
        """Before the process: a place for its temporary files, and the operator's login if it needs that. Blocking."""
        start = self._start
        discard(start.scratch)  # of a turn that a crash cut off
        start.scratch.mkdir(mode=0o700, parents=True)
        if start.login_files:
            self._lent = lend(start.login_files, start.home, start.note)

    def move_out(self) -> list[RunWarning]:
        """When nothing of the process is alive, also if it never was. Blocking."""
        discard(self._start.scratch)
        lent, self._lent = self._lent, None
        problems = lent.take_back() if lent else []
        return [RunWarning(Warn.LOGIN_NOT_RETURNED, problem) for problem in problems]

    @property
    def secrets(self) -> frozenset[str]:
        lent = self._lent.secrets if self._lent is not None else frozenset()
        return self._start.command.secrets | lent

    def start(self, mark: str, stdout: Path, stderr: Path) -> None:
        command = replace(self._start.command, secrets=self.secrets)
        self.process = Process.spawn(command, mark=mark, stdout=stdout, stderr=stderr, on_line=self._hear)

    def exit_kind(self, ended: Exit) -> ExitKind:
        if ended.signal is None:
            return ExitKind.OK if ended.code == 0 else ExitKind.NONZERO
        is_counted = self.oom_kills is not None and (memory.oom_kills() or 0) > self.oom_kills
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
            self.turn.hear(stream, line)
        elif stream == "stdout":
            self._hear_aside(line)

    def _hear_aside(self, line: Line) -> None:
        """Between two turns nothing counts; but an agent that asks for something must not wait for ever."""
        heard = self.dialect.hear(line)
        for event in heard.events if heard else ():
            if isinstance(event, PermissionAsked):
                self.process.write(self.dialect.answer(event.key, permission.rejected(event.choices)))
        if heard and heard.answer:
            self.process.write(heard.answer)

    async def leave(self) -> list[census.Found]:
        """A polite end after the last turn: a resident agent exits when its input closes."""
        if self.is_alive:
            self.process.close_stdin()
            await first(self.process.exited, timeout=min(self.timeouts.result_grace_sec, LEAVE_SEC))
        return await self.end()

    async def end(self) -> list[census.Found]:
        """Nothing of the process's tree is alive after this but what survives even SIGKILL: that is returned."""
        if not self.is_alive and not await self.process.leftovers():
            return []
        return await self.process.end(step_sec=self.timeouts.step_sec)

    def close(self) -> None:
        self.process.close()


class Notebook(Protocol):
    """Where a turn writes down what it hears; it never waits for it."""

    broken: asyncio.Future[Exception]

    @property
    def error(self) -> Exception | None: ...

    def know(self, handle: Handle) -> None: ...

    def ref(self, stream: str, line: Line) -> RawRef: ...

    def add(self, events: Iterable[Event]) -> None: ...

    def add_raw(self, stream: str, line: Line, now: datetime) -> bool: ...


class Turn:
    def __init__(self, session: Session, transcript: Transcript, recorder: Notebook, clock: Clock) -> None:
        self.transcript = transcript
        self.warnings: list[RunWarning] = []
        self._session = session
        self._recorder = recorder
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        if transcript.handle is not None:
            self._opened.set_result(None)
        self._pieces = Pieces(session.secrets)
        session.oom_kills = memory.oom_kills()
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._started_at = self._loop.time()
        self._requests: deque[PermissionAsked] = deque()
        """Of permissions, none of them answered; the first is what the turn pauses for."""
        self._asked: asyncio.Future[None] = self._loop.create_future()
        self._paused_at: float | None = None
        self._paused_sec = 0.0
        session.turn = self

    @property
    def born(self) -> Born:
        return Born(self._session.process.pid, self._session.process.start_time)

    def begin(self, words: bytes) -> None:
        self._session.process.write(words)
        if not self._session.dialect.keeps_stdin:
            self._session.process.close_stdin()

    def hear(self, stream: str, line: Line) -> None:
        """Called by the reader of the pipes: quick, and never waiting."""
        now, dialect = self._clock(), self._session.dialect
        if stream == "stderr":
            self._stderr.append(plain(line.data)[:STDERR_CHARS])
            heard = dialect.hear_stderr(line)
        else:
            heard = dialect.hear(line)
        if heard is None:
            self._keep_raw(stream, line, now)
            return
        if heard.answer:
            self._session.process.write(heard.answer)
        ref = self._recorder.ref(stream, line)
        for event in self._pieces.hide(heard.events):
            self._recorder.add(self.transcript.take(event, now, ref))
            if isinstance(event, SessionOpened):
                self._recorder.know(event.handle)
                if not self._opened.done():
                    self._opened.set_result(None)
            elif isinstance(event, PermissionAsked):
                self._requests.append(event)
                if not self._asked.done():
                    self._asked.set_result(None)
        if (self.transcript.ended or heard.is_last) and not self._closed.done():
            self._closed.set_result(None)

    def _keep_raw(self, stream: str, line: Line, now: datetime) -> None:
        if not self._recorder.add_raw(stream, line, now):
            self._note(Warn.RAW_OUTPUT_CAPPED, "further unparsed output is only in the raw log", now)
        if line.truncated:
            self._note(Warn.LINE_TRUNCATED, f"a line of {line.length} bytes was not parsed", now)

    def _note(self, code: Warn, message: str, now: datetime) -> None:
        self._recorder.add(self.transcript.take(Remark(code, message), now))

    async def play(self, interrupted: asyncio.Future[Interrupt]) -> HowEnded | PermissionAsked:
        """Until the closing event, the exit, a limit or an interruption; a process that is done with is ended.

        Or until a permission is asked for: then the turn pauses, and goes on when it is played again.
        """
        process = self._session.process
        ends = (process.exited, self._closed, interrupted, process.broken, self._recorder.broken)
        with Watch(
            process, self._session.timeouts, started_at=self._started_at, paused_sec=self._paused_sec
        ) as watch:
            await first(*ends, watch.over, self._asked)
            overdue = self._overdue(watch.over.result(), watch.alive) if watch.over.done() else None
        if overdue is None and not any(end.done() for end in ends):
            self._paused_at = self._loop.time()
            return self._requests[0]
        how = await self._how(interrupted, overdue)
        self._hear_exit()
        return how

    async def _how(self, interrupted: asyncio.Future[Interrupt], overdue: Failure | None) -> HowEnded:
        session, process = self._session, self._session.process
        stopping = interrupted.done() and interrupted.result() is Interrupt.STOPPING
        # A turn that was closed before the stop is over: playing it again would do its work twice.
        if interrupted.done() and not (stopping and self._closed.done()):
            if stopping:
                # Without a handle the run could not go on at the next start; it comes within moments.
                await first(self._opened, process.exited, timeout=session.timeouts.result_grace_sec)
            await self._ask_to_stop()
            await session.end()
            return self._ended(ExitKind.ENDED_BY_US)
        error = process.error or self._recorder.error
        if error is not None:
            await session.end()
            fault = Failure(Code.INTERNAL_ERROR, f"the engine's output could not be taken in: {error}")
            return self._ended(ExitKind.ENDED_BY_US, fault=fault)
        if self._closed.done() and session.dialect.keeps_stdin:
            is_over = process.exited.done()
            return self._ended(session.exit_kind(process.exited.result()) if is_over else ExitKind.OK)
        if self._closed.done() and not process.exited.done():
            return await self._linger(interrupted)
        if process.exited.done():
            await self._clear_leftovers()
            return self._ended(session.exit_kind(process.exited.result()))
        await session.end()
        assert overdue is not None
        return self._ended(ExitKind.ENDED_BY_US, timeout=overdue)

    @property
    def is_alive(self) -> bool:
        return self._session.is_alive

    @property
    def is_paused(self) -> bool:
        return self._paused_at is not None

    async def resting(self, *until: asyncio.Future[Any]) -> None:
        """While the turn pauses: until one of these, or until it cannot go on."""
        process = self._session.process
        await first(process.exited, process.broken, self._recorder.broken, *until)

    def answer(self, decision: Decision) -> None:
        """To the request that the turn has paused for; the next one, if there is one, is asked when it is played."""
        assert self._paused_at is not None
        self._paused_sec += self._loop.time() - self._paused_at
        self._paused_at = None
        request = self._requests.popleft()
        if not self._requests:
            self._asked = self._loop.create_future()
        self._session.process.write(self._session.dialect.answer(request.key, decision))

    def _overdue(self, limit: Limit, alive: Sequence[str]) -> Failure:
        """With what was going on: the tool that had not come back, the processes that were there."""
        evidence = self.stderr or None
        tools = ", ".join(sorted(set(self.transcript.open_tools.values())))
        during = f"; it waited for its tool {tools}" if tools else ""
        if limit is Limit.TURN:
            allowed = self._session.timeouts.turn_sec
            return Failure(
                Code.TURN_TIMEOUT, f"the turn took longer than {allowed:g} s{during}", None, evidence
            )
        message = SILENT[limit].format(limit=getattr(self._session.timeouts, f"{limit.value}_sec"))
        there = f"; alive were: {', '.join(alive)}" if alive else ""
        return Failure(Code.ENGINE_STALLED, f"{message}{during}{there}", None, evidence)

    async def _ask_to_stop(self) -> None:
        """An agent that understands a polite request gets a moment to follow it."""
        request = self._session.dialect.cancel()
        if request and self._session.is_alive:
            process = self._session.process
            process.write(request)
            await first(self._closed, process.exited, timeout=self._session.timeouts.result_grace_sec)

    async def _linger(self, interrupted: asyncio.Future[Interrupt]) -> HowEnded:
        """The engine has closed its turn; it gets a moment to exit by itself."""
        process, grace = self._session.process, self._session.timeouts.result_grace_sec
        await first(process.exited, interrupted, timeout=grace)
        if process.exited.done():
            await self._clear_leftovers()
            return self._ended(self._session.exit_kind(process.exited.result()))
        await self._session.end()
        message = "the engine was still there after it had closed its turn, and was ended"
        self.warnings.append(RunWarning(Warn.ENGINE_LINGERED_AFTER_RESULT, message))
        return self._ended(ExitKind.ENDED_AFTER_RESULT)

    async def _clear_leftovers(self) -> None:
        """Tools may have left the engine's session; a run that waits or has ended owns no process."""
        left = await self._session.process.leftovers()
        if left:
            await self._session.end()
            names = ", ".join(sorted({found.command for found in left}))
            message = f"{len(left)} process(es) outlived the engine and were ended: {names}"
            self.warnings.append(RunWarning(Warn.ENGINE_LEFT_PROCESSES, message))

    def _ended(self, kind: ExitKind, **why: Any) -> HowEnded:
        process = self._session.process
        ended = process.exited.result() if process.exited.done() else None
        return HowEnded(
            kind=kind,
            exit=ended,
            stderr=self.stderr,
            # What was hidden in pieces is not hidden in the raw log: heard again it would be another turn.
            raw_is_whole=not (process.is_raw_capped or self._pieces.has_hidden),
            **why,
        )

    def _hear_exit(self) -> None:
        process, now = self._session.process, self._clock()
        ended = process.exited.result() if process.exited.done() else None
        said = self._session.dialect.finish(ended, self.stderr) if ended else ()
        for event in (*self._pieces.hide(said), *self._pieces.close()):
            self._recorder.add(self.transcript.take(event, now))
        self._recorder.add(self.transcript.close(now))

    @property
    def stderr(self) -> str:
        return "\n".join(self._stderr)[-STDERR_CHARS:]


async def first(*futures: asyncio.Future[Any], timeout: float | None = None) -> None:
    """Futures, not tasks: a turn costs one task however many things it waits for."""
    await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
