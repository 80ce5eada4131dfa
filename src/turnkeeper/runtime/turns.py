"""One turn played by a real process: its lines become a transcript, its end becomes a `HowEnded`."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.fcmp import Event, RawRef
from turnkeeper.core.gate import ExitKind
from turnkeeper.core.permission import Decision, PermissionAsked, PermissionWithdrawn
from turnkeeper.core.run import Born, Failure, Handle, RunWarning
from turnkeeper.core.turn import MAX_SAME_ERROR, Remark, SessionOpened, Transcript
from turnkeeper.engines import memory, sandbox
from turnkeeper.engines.lines import Line, plain
from turnkeeper.engines.meter import Meter
from turnkeeper.engines.process import OutputNotKept
from turnkeeper.engines.veil import Pieces
from turnkeeper.engines.watch import Limit, Watch
from turnkeeper.runtime import stalls
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.judging import HowEnded
from turnkeeper.runtime.session import Session
from turnkeeper.runtime.waits import first

log = logging.getLogger(__name__)

MAX_REQUESTS = 100
"""Permissions that may wait to be asked about; an agent that wants more at once does not get them."""
NOBODY = 0
"""Who was asked about those: questions are numbered from 1."""
STDERR_LINES = 20
STDERR_CHARS = 2000

OWN = memory.Own()
UNPARSED_LINES = 10
"""Of stdout: what is remembered of those that nobody understood."""


class Interrupt(StrEnum):
    """Why the owner of a process is told to let go of it."""

    ENDING = "ending"
    STOPPING = "stopping"
    LOST = "lost"


class Notebook(Protocol):
    """Where a turn writes down what it hears; it never waits for it."""

    broken: asyncio.Future[Exception]

    @property
    def error(self) -> Exception | None: ...

    @property
    def is_behind(self) -> bool: ...

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
        self._pieces = Pieces(session.secrets, session.known)
        session.oom_kills = OWN.kills()
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self.unparsed = 0
        """Lines of stdout that nobody understood."""
        self._unparsed: deque[bytes] = deque(maxlen=UNPARSED_LINES)
        self._has_begun = False
        """Something was said that belongs to the turn."""
        self._started_at = self._loop.time()
        self._requests: deque[PermissionAsked] = deque()
        """Of permissions that are still to be asked about."""
        self._asked: asyncio.Future[None] = self._loop.create_future()
        self._open: PermissionAsked | None = None
        """What the turn has paused for."""
        self._moot: asyncio.Future[None] = self._loop.create_future()
        """The agent does not wait for the answer any longer."""
        self._decided: dict[str, int] = {}
        self._stuck: asyncio.Future[None] = self._loop.create_future()
        """It gets the same error again and again."""
        self._paused_at = 0.0
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
            self._keep_pace()
            return
        self._has_begun = self._has_begun or (stream == "stdout" and not line.is_blank)
        if heard.answer:
            self._session.process.write(heard.answer)
        ref = self._recorder.ref(stream, line)
        for event in self._pieces.hide(heard.events, has_stars=line.has_stars):
            is_over = self.transcript.ended is not None
            self._recorder.add(self.transcript.take(event, now, ref))
            match event:
                case SessionOpened(handle):
                    self._recorder.know(handle)
                    _tell(self._opened)
                case PermissionAsked() if is_over:
                    self._session.refuse(event)
                case PermissionAsked(key) if len(self._requests) >= MAX_REQUESTS:
                    self._decided[key] = NOBODY
                    self._session.refuse(event)
                case PermissionAsked():
                    self._requests.append(event)
                    _tell(self._asked)
                case PermissionWithdrawn(key):
                    self._forget(key)
        if self.transcript.same_error.count >= MAX_SAME_ERROR:
            _tell(self._stuck)
        if self.transcript.ended or heard.is_last:
            _tell(self._closed)
            _tell(self._moot)
        self._keep_pace()

    def _keep_pace(self) -> None:
        if self._recorder.is_behind:
            self._session.process.rest()

    def _keep_raw(self, stream: str, line: Line, now: datetime) -> None:
        if stream == "stdout":
            self.unparsed += 1
            self._unparsed.append(line.data[:STDERR_CHARS])
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
        process, meter = self._session.process, self._session.meter
        ends = (process.exited, self._closed, interrupted, process.broken, self._recorder.broken)
        with Watch(
            process,
            self._session.timeouts,
            started_at=self._started_at,
            paused_sec=self._paused_sec,
            has_begun=lambda: self._has_begun,
            on_silence=self._look_for_questions,
        ) as watch:
            overdue_ends = (watch.over, meter.over, self._stuck)
            while not (self._requests or any(end.done() for end in (*ends, *overdue_ends))):
                await first(*ends, *overdue_ends, self._asked)  # a request may be taken back at once
            is_overdue = any(end.done() for end in overdue_ends)
            overdue = await self._overdue(watch, meter) if is_overdue else None
        if overdue is None and not any(end.done() for end in ends):
            return self._pause()
        how = await self._how(interrupted, overdue)
        self._call_off()
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
            await self._end()
            return self._ended(ExitKind.ENDED_BY_US)
        error = process.error or self._recorder.error
        if error is not None:
            await session.end()
            code = Code.STORAGE_UNAVAILABLE if isinstance(error, OutputNotKept) else Code.INTERNAL_ERROR
            fault = Failure(code, f"the engine's output could not be taken in: {error}")
            return self._ended(ExitKind.ENDED_BY_US, fault=fault)
        if self._closed.done() and session.dialect.keeps_stdin:
            is_over = process.exited.done()
            return self._ended(session.exit_kind(process.exited.result()) if is_over else ExitKind.OK)
        if self._closed.done() and not process.exited.done():
            return await self._linger(interrupted)
        if overdue is not None and overdue.code is Code.ENGINE_LIMIT_EXCEEDED:
            await session.end(at_once=True)  # in a pause it is gone by now, and that was the reason
            return self._ended(ExitKind.ENDED_BY_US, timeout=overdue)
        if process.exited.done():
            await self._clear_leftovers()
            return self._ended(session.exit_kind(process.exited.result()), fault=self._refused())
        assert overdue is not None
        await self._end()
        return self._ended(ExitKind.ENDED_BY_US, timeout=overdue)

    # A pause

    def _pause(self) -> PermissionAsked:
        self._open = self._requests.popleft()
        self._paused_at = self._loop.time()
        self._moot = self._loop.create_future()
        return self._open

    @property
    def is_paused(self) -> bool:
        return self._open is not None

    @property
    def is_closed(self) -> bool:
        return self._closed.done()

    @property
    def can_go_on(self) -> bool:
        """Or is over, and has only to be judged."""
        has_failed = self._session.process.error or self._recorder.error
        return not has_failed and (self._session.is_alive or self.is_closed)

    @property
    def wakes(self) -> tuple[asyncio.Future[Any], ...]:
        """Whatever ends a pause beside an answer."""
        process = self._session.process
        return process.exited, process.broken, self._recorder.broken, self._moot

    def answer(self, number: int, decision: Decision) -> None:
        """Of the question with that number. An agent that has gone on without it is not told any more."""
        assert self._open is not None
        if self._moot.done():
            self.go_on()
            return
        self._decided[self._open.key] = number
        self._session.process.write(self._session.dialect.answer(self._open.key, decision))
        self._resume()

    def go_on(self) -> None:
        """Without an answer: there is none to wait for."""
        assert self._open is not None
        self._session.process.write(self._session.dialect.answer(self._open.key, Decision(None)))
        self._resume()

    def ask_again(self, asked: PermissionAsked) -> None:
        """Nobody was asked."""
        self._requests.appendleft(asked)
        self._resume()

    def _resume(self) -> None:
        """The next request, if there is one, is asked about when the turn is played again."""
        self._paused_sec += self._loop.time() - self._paused_at
        self._open = None
        if not self._requests:
            self._asked = self._loop.create_future()

    def _forget(self, key: str) -> None:
        if self._open is not None and self._open.key == key:
            _tell(self._moot)
            return
        self._requests = deque(each for each in self._requests if each.key != key)
        if not self._requests and self._asked.done():
            self._asked = self._loop.create_future()

    def _call_off(self) -> None:
        """The turn is over: an agent that lives on must not wait for answers of it."""
        left = [*([self._open] if self._open else []), *self._requests]
        for each in left if self._session.is_alive else ():
            self._session.process.write(self._session.dialect.answer(each.key, Decision(None)))
        self._open, self._requests = None, deque()

    def _look_for_questions(self) -> None:
        """One that is asked on an open line is waited at for ever. Its words count when the process is gone."""
        for stream, start in self._session.process.open_lines.items():
            if self._session.dialect.asks(stream, start):
                _tell(self._closed)

    def _refused(self) -> Failure | None:
        """The sandbox did not let it begin."""
        process = self._session.process
        if self._has_begun or not process.is_walled:
            return None
        why = sandbox.refusal(process.exited.result().code, self.stderr)
        return Failure(Code.ENGINE_NOT_READY, why) if why else None

    async def _overdue(self, watch: Watch, meter: Meter) -> Failure:
        """With what was going on: the tool that had not come back, what was alive, what it was connected to."""
        process, timeouts = self._session.process, self._session.timeouts
        if meter.over.done():
            return stalls.exceeding(meter.over.result(), self.transcript, self.stderr)
        if not watch.over.done():
            return stalls.repeating(self.transcript, self.stderr)
        limit = watch.over.result()
        if limit is Limit.TURN:
            return stalls.too_long(self.transcript, timeouts, self.stderr)
        # Of a resident that said something in an earlier turn, the session is open.
        is_fresh = process.last_byte_at is None and self.transcript.handle is not None
        seen = stalls.Seen(
            alive=watch.alive,
            connections=await stalls.look(process),
            resumed=self.transcript.handle if is_fresh else None,
            hint=self._hint(watch.alive, has_begun=limit is Limit.IDLE),
        )
        return stalls.silent(limit, self.transcript, timeouts, seen, self.stderr)

    def _hint(self, alive: Sequence[str], *, has_begun: bool) -> str:
        unread = map(plain, [*self._unparsed, *self._session.process.open_lines.values()])
        return self._session.dialect.hint([*alive, *self._stderr, *unread], has_begun=has_begun)

    async def _ask_to_stop(self) -> None:
        """An agent that understands a polite request gets a moment to follow it."""
        request = self._session.dialect.cancel()
        if request and self._session.is_alive:
            process = self._session.process
            process.write(request)
            await first(self._closed, process.exited, timeout=self._session.timeouts.result_grace_sec)

    async def _end(self) -> None:
        """In the middle of its work: what does not listen is killed, and tidies up nothing."""
        await self._session.end()
        exited = self._session.process.exited
        if exited.done() and exited.result().signal == signal.SIGKILL:
            message = (
                "the engine did not stop when it was told to, and was killed; locks of its tools may be left"
            )
            self.warnings.append(RunWarning(Warn.ENGINE_ENDED_BY_FORCE, message))

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
            decided=dict(self._decided),
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


def _tell(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
