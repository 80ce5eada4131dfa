"""One turn without a run behind it: played as a run's are, and what comes of it is told and not kept."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from turnkeeper.core import gate, permission
from turnkeeper.core.errors import Code, EngineNotReady
from turnkeeper.core.fcmp import Event, RawRef
from turnkeeper.core.permission import PermissionAsked
from turnkeeper.core.run import Failure, Handle, Mode, Timeouts
from turnkeeper.core.turn import Transcript
from turnkeeper.engines.base import Dialect
from turnkeeper.engines.lines import Line, plain
from turnkeeper.engines.process import Exit, Process
from turnkeeper.engines.spawn import Command, SpawnFailed
from turnkeeper.runtime import judging
from turnkeeper.runtime.clock import utc_now
from turnkeeper.runtime.judging import HowEnded
from turnkeeper.runtime.session import Session, Start
from turnkeeper.runtime.turns import Interrupt, Turn
from turnkeeper.skills.workspace import RunFolder

PROMPT = "Reply with the single word ready."
MAX_WORDS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of a turn."""

    answer: str
    model: str | None
    usage: Mapping[str, int]
    seconds: float
    failure: Failure | None
    problems: tuple[str, ...]
    """What went wrong when the operator's login was taken back."""
    asked: tuple[str, ...] = ()
    """The permissions that it asked for; none is given."""


async def play(
    start: Start, dialect: Dialect, folder: RunFolder, timeouts: Timeouts, prompt: str = PROMPT
) -> Played:
    transcript, session = Transcript(1), Session(start, dialect, timeouts)
    asked: list[str] = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        await asyncio.to_thread(session.move_in)
        failure = await _play(session, transcript, folder, prompt, asked)
    except EngineNotReady as error:
        failure = Failure(error.code, error.message)
    finally:
        problems = await asyncio.to_thread(session.move_out)
    return Played(
        answer=transcript.messages[-1] if transcript.messages else "",
        model=transcript.model,
        usage=transcript.usage,
        seconds=loop.time() - began,
        failure=failure,
        problems=tuple(problem.message for problem in problems),
        asked=tuple(asked),
    )


async def _play(
    session: Session, transcript: Transcript, folder: RunFolder, prompt: str, asked: list[str]
) -> Failure | None:
    try:
        session.start(_mark(folder, 1), folder.raw(1, 1, "stdout"), folder.raw(1, 1, "stderr"))
    except SpawnFailed as error:
        return Failure(Code.ENGINE_NOT_READY, str(error))
    try:
        turn = Turn(session, transcript, _Unkept(), utc_now)
        turn.begin(session.dialect.begin(prompt))
        nobody: asyncio.Future[Interrupt] = asyncio.get_running_loop().create_future()
        how = await turn.play(nobody)
        while isinstance(how, PermissionAsked):
            asked.append(how.title)
            turn.answer(len(asked), permission.rejected(how.choices))
            how = await turn.play(nobody)
        return _failure(transcript, how)
    finally:
        await session.leave()
        session.close()


def _failure(transcript: Transcript, how: HowEnded) -> Failure | None:
    """Any answer will do: only how the turn ended is judged."""
    seen = replace(judging.seen(transcript, how, Mode.AUTO), output=gate.Output.VALID)
    verdict = judging.told(gate.judge(seen), transcript)
    return verdict.failure if isinstance(verdict, gate.Fail) else None


async def call(
    command: Command, folder: RunFolder, *, limit_sec: float, step_sec: float
) -> tuple[Exit | None, str]:
    """A short command instead of a turn: how it ended, None if it did not, and its last complaint."""
    complaints: list[str] = []

    def hear(stream: str, line: Line) -> None:
        if stream == "stderr" and not line.is_blank:
            complaints[:] = [plain(line.data).strip()[:MAX_WORDS]]

    out, err = (folder.raw(0, 1, stream) for stream in ("stdout", "stderr"))
    process = Process.spawn(command, mark=_mark(folder, 0), stdout=out, stderr=err, on_line=hear)
    try:
        process.close_stdin()
        await asyncio.wait((process.exited,), timeout=limit_sec)
        ended = process.exited.result() if process.exited.done() else None
    finally:
        await process.end(step_sec=step_sec)
        process.close()
    return ended, f": {complaints[0]}" if complaints else ""


def _mark(folder: RunFolder, number: int) -> str:
    return f"trial-{secrets.token_hex(8)}/{folder.root.name}/{number}.1"


class _Unkept:
    """A notebook of nobody's: the transcript has all that is wanted."""

    error: Exception | None = None
    is_behind = False

    def __init__(self) -> None:
        self.broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    def know(self, handle: Handle) -> None: ...

    def ref(self, stream: str, line: Line) -> RawRef:
        return RawRef(1, stream, line.offset, line.length)

    def add(self, events: Iterable[Event]) -> None: ...

    def add_raw(self, stream: str, line: Line, now: datetime) -> bool:
        return True
