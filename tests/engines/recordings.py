"""Recorded turns of real CLIs, played through their dialects and told as plain JSON.

`python -m tests.engines.recordings` writes each engine's `expected.json` again; read the diff.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.core.examples import NOW, a_job, running
from turnkeeper.core.contract import Contract
from turnkeeper.core.errors import Code
from turnkeeper.core.fcmp import Event, Type
from turnkeeper.core.gate import ExitKind, Fail, Succeed, Wait
from turnkeeper.core.run import Failure, Handle, Mode
from turnkeeper.core.turn import Transcript
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.base import Dialect, Heard, TurnPlan
from turnkeeper.engines.lines import Line, LineAssembler, plain
from turnkeeper.engines.process import Exit
from turnkeeper.engines.registry import engines
from turnkeeper.runtime.judging import HowEnded, judge
from turnkeeper.runtime.turns import STDERR_CHARS, STDERR_LINES

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"
ENGINES = {name: engine for name, engine in engines({}).items() if not engine.is_demo}
NAMES = list(ENGINES)
CONTRACT = Contract(name="any object", is_plain=False, output_schema={"type": "object"})

OVERDUE = Failure(Code.TURN_TIMEOUT, "the turn took too long")
_TOLD = {Type.TOOL_CALL: "tools", Type.REASONING: "reasoning", Type.MESSAGE_FINAL: "finals"}


@dataclass(frozen=True)
class Recording:
    """One turn as it was: what the CLI printed, how it ended, and the session it was asked to resume."""

    engine: str
    case: str
    stdout: bytes
    stderr: bytes
    how: HowEnded
    session: str | None

    def __str__(self) -> str:
        return f"{self.engine}-{self.case}"

    @property
    def plan(self) -> TurnPlan:
        return a_plan(self.session)

    @property
    def expected(self) -> Any:
        return expected(self.engine)[self.case]

    def ended(self, kind: ExitKind, code: int | None = None, signal: int | None = None) -> Recording:
        return replace(self, how=replace(self.how, kind=kind, exit=Exit(code, signal), timeout=None))


@dataclass
class Played:
    transcript: Transcript
    events: list[Event] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)

    @property
    def told(self) -> tuple[Any, ...]:
        return self.events, self.raw, essence(self)


def a_plan(session: str | None = None, **more: Any) -> TurnPlan:
    folder = Path("/runs/1")
    return TurnPlan(
        profile=ProfileKind.RESUMABLE,
        mode=more.pop("mode", Mode.INTERACTIVE),
        workspace=folder / "workspace",
        home=folder / "home",
        skill_dir=folder / "home" / "skill",
        session=Handle(session, loadable=True) if session else None,
        **more,
    )


@cache
def expected(engine: str) -> dict[str, Any]:
    return dict(json.loads((TRANSCRIPTS / engine / "expected.json").read_text(encoding="utf-8")))


def a_dialect(engine: str, session: str | None = None) -> Dialect:
    return ENGINES[engine].dialect(a_plan(session))


def cases(engine: str) -> list[str]:
    return sorted(path.stem for path in (TRANSCRIPTS / engine).glob("*.ndjson"))


def recording(engine: str, case: str) -> Recording:
    stdout, stderr, ended, command = (
        (TRANSCRIPTS / engine / f"{case}.{kind}").read_bytes() for kind in ("ndjson", "stderr", "exit", "cmd")
    )
    how = replace(_how(ended.decode().strip()), stderr=tail(stderr))
    return Recording(engine, case, stdout, stderr, how, resumed(command.decode()))


def recordings() -> list[Recording]:
    return [recording(engine, case) for engine in NAMES for case in cases(engine)]


def command_of(engine: str, case: str) -> list[str]:
    """The recorded words, from the program on."""
    line = (TRANSCRIPTS / engine / f"{case}.cmd").read_text().splitlines()[0]
    words = shlex.split(line.split(" && ", 1)[1].split(" < ", 1)[0])
    return [word for word in words if not re.match(r"[A-Z_]+=", word)]


def resumed(command: str) -> str | None:
    words = shlex.split(command.splitlines()[0])
    for option in ("--resume", "--session"):
        if option in words:
            return words[words.index(option) + 1]
    return words[words.index("<") - 2] if "resume" in words else None


def _how(ended: str) -> HowEnded:
    if not ended.lstrip("-").isdigit():  # it never ended by itself
        return HowEnded(kind=ExitKind.ENDED_BY_US, exit=Exit(None, 9), timeout=OVERDUE)
    code = int(ended)
    if code < 0:
        return HowEnded(kind=ExitKind.FOREIGN_SIGNAL, exit=Exit(None, -code))
    return HowEnded(kind=ExitKind.NONZERO if code else ExitKind.OK, exit=Exit(code, None))


def lines_of(*chunks: bytes) -> list[Line]:
    assembler = LineAssembler()
    return [line for chunk in chunks for line in assembler.feed(chunk)] + assembler.close()


def tail(stderr: bytes) -> str:
    """As a turn keeps it."""
    last = deque((plain(line.data)[:STDERR_CHARS] for line in lines_of(stderr)), maxlen=STDERR_LINES)
    return "\n".join(last)[-STDERR_CHARS:]


def play(turn: Recording, *chunks: bytes, stderr: Sequence[bytes] = (), stdout_first: bool = False) -> Played:
    """The whole turn; `chunks` are its stdout, and `stderr` its stderr, if they come in pieces."""
    dialect = ENGINES[turn.engine].dialect(turn.plan)
    dialect.begin("prompt")
    played = Played(Transcript(1, handle=turn.plan.session))
    streams = [
        (dialect.hear_stderr, lines_of(*stderr or [turn.stderr])),
        (dialect.hear, lines_of(*chunks or [turn.stdout])),
    ]
    for hear, lines in reversed(streams) if stdout_first else streams:
        for line in lines:
            heard = hear(line)
            if heard is not None:
                _take(played, heard)
            elif hear == dialect.hear:
                played.raw.append(plain(line.data))
    if turn.how.exit is not None:
        _take(played, Heard(dialect.finish(turn.how.exit, turn.how.stderr)))
    played.events += played.transcript.close(NOW)
    return played


def _take(played: Played, heard: Heard) -> None:
    for event in heard.events:
        played.events += played.transcript.take(event, NOW)


def judged(turn: Recording, played: Played, mode: Mode) -> str:
    run = running(replace(a_job(), contract=CONTRACT, mode=mode))
    match judge(run, played.transcript, turn.how).verdict:
        case Succeed(reason, warning):
            return " ".join(["succeeded", reason, *([warning] if warning else [])])
        case Fail(failure):
            return f"failed {failure.code}"
        case Wait():
            return "waiting_user"
        case other:
            return type(other).__name__


def snapshot(turn: Recording, played: Played) -> dict[str, Any]:
    said = played.transcript
    failure = said.ended.failure if said.ended else None
    told: dict[str, list[Any]] = {"tools": [], "reasoning": [], "finals": []}
    for event in played.events:
        if event.type in _TOLD:
            told[_TOLD[event.type]].append(event.data)
    assert [final["text"] for final in told.pop("finals")] == said.messages
    return {
        "session": said.handle.session_id if said.handle else None,
        "model": said.model,
        "messages": said.messages,
        **told,
        "usage": said.usage,
        "warnings": [[warning.code, warning.message] for warning in said.warnings],
        "closed": said.terminal.value,
        "failure": _failed(failure) if failure else None,
        "not_understood": played.raw,
        "verdict": {mode.value: judged(turn, played, mode) for mode in Mode},
    }


def _failed(failure: Failure) -> list[Any]:
    pause = [] if failure.retry_after is None else [failure.retry_after]
    return [failure.code.value, failure.message, *pause]


def essence(played: Played) -> dict[str, Any]:
    """What no noise may change; the evidence of a failure has the noise in it."""
    said = played.transcript
    failure = said.ended.failure if said.ended else None
    return {
        "session": said.handle,
        "model": said.model,
        "messages": said.messages,
        "usage": said.usage,
        "closed": said.terminal,
        "failure": failure and replace(failure, evidence=None),
        "warnings": said.warnings,
    }


def _write() -> None:
    for engine in NAMES:
        told = {
            case: snapshot(turn, play(turn)) for case in cases(engine) for turn in [recording(engine, case)]
        }
        text = json.dumps(told, indent=2, ensure_ascii=False)
        (TRANSCRIPTS / engine / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
