"""What the engines that are CLIs share: found on PATH or configured, a process for each turn, a private home.

What differs has one file for each engine: the words of its command line, and the lines that come back.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from turnkeeper.core.errors import Code, InvalidRequest, ModelUnknown
from turnkeeper.core.run import Failure, Handle
from turnkeeper.core.skill import Skill
from turnkeeper.core.turn import Ended, SessionOpened, TurnEvent, Usage
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines import meaning
from turnkeeper.engines.base import (
    LARGEST_NUMBER,
    Dialect,
    EngineConfig,
    Headless,
    Heard,
    Launch,
    Readiness,
    TurnPlan,
    private_env,
    read_object,
)
from turnkeeper.engines.lines import MAX_LINE, Line, plain
from turnkeeper.engines.process import Exit

# What an engine calls its session becomes a word of a command line: it must not be taken for an option.
_SESSION_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")

MAX_ID = 200
"""Characters of an id that a dialect remembers: a longer one is met as if it were new."""


class CliEngine:
    """An engine that is a CLI with a process for each turn. Subclasses have its names, its words and its dialect."""

    name: str
    skills_dir: str
    install: ClassVar[str]
    """What to run, or to do, if it is not there."""
    keys: ClassVar[tuple[str, ...]] = ()
    """Variables of the service's environment that it is given: keys, and where they are valid."""
    switches: ClassVar[Mapping[str, str]] = {}
    """Variables that keep it from updating itself, reporting home or asking for somebody."""

    is_demo = False
    profiles: tuple[ProfileKind, ...] = (ProfileKind.RESUMABLE,)
    own_parameters: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()

    def __init__(self, config: EngineConfig) -> None:
        self._configured = bool(config.command)
        program, *rest = config.command or (self.name,)
        self._command = (_absolute(program), *rest)

    def readiness(self) -> Readiness:
        program = self._command[0]
        path = shutil.which(program)
        if path is not None:
            return Readiness(ready=True, path=path)
        if not self._configured:
            reason = f"there is no program {program!r} on the PATH of the service"
            return Readiness(ready=False, reason=reason, fix=self.install)
        setting = f"engines.{self.name}.command"
        reason = f"{setting} names {program!r}, which {_why_not(program)}"
        variable = f"TURNKEEPER_ENGINES__{self.name.upper()}__COMMAND"
        fix = f"set {setting} (or {variable}) to a program that can be started"
        return Readiness(ready=False, path=program, reason=reason, fix=fix)

    def require(self, skill: Skill, parameter: Mapping[str, Any]) -> None:
        """A CLI takes any skill."""

    def launch(self, plan: TurnPlan) -> Launch:
        if plan.model is not None and plan.model.startswith("-"):
            raise ModelUnknown(f"{plan.model!r} is no model: {self.name} would take it for an option")
        if plan.session is not None and not _SESSION_ID.fullmatch(plan.session.session_id):
            raise InvalidRequest(f"{plan.session.session_id!r} cannot be the id of a session of {self.name}")
        keys = {name: os.environ[name] for name in self.keys if name in os.environ}
        env = private_env(plan.home, **self.switches, **self.places(plan.home), **keys)
        return Launch(argv=(*self._command, *self.words(plan)), env=env, files=self.files())

    def words(self, plan: TurnPlan) -> Sequence[str]:
        """The command line after the program. The prompt is no part of it: that goes in by stdin."""
        raise NotImplementedError

    def dialect(self, plan: TurnPlan) -> Dialect:
        """What understands its lines; a new one for each turn."""
        raise NotImplementedError

    def places(self, home: Path) -> Mapping[str, str]:
        """Variables that point into the home."""
        return {}

    def files(self) -> Mapping[str, bytes]:
        return {}


def option(name: str, value: str | None) -> tuple[str, ...]:
    return () if value is None else (name, value)


def session_of(plan: TurnPlan) -> str | None:
    return plan.session.session_id if plan.session else None


def _absolute(program: str) -> str:
    """As the operator meant it: the engine itself is started in another folder, and the agent can write there."""
    if "/" not in program:
        return program
    path = Path(program)
    with suppress(RuntimeError):  # `~nobody/codex`: said by readiness
        path = path.expanduser()
    return str(path.absolute())


def _why_not(program: str) -> str:
    if "/" not in program:
        return "is not on the PATH of the service"
    return "is not executable" if Path(program).exists() else "does not exist"


class CliDialect(Headless):
    """One turn of one process. Subclasses say what a line means; what the exit means is mostly the same."""

    lost: ClassVar[re.Pattern[str] | None] = None
    """The line of stderr by which the CLI says that it does not know the session."""

    def __init__(self, plan: TurnPlan) -> None:
        self._resumed = session_of(plan)
        self._session: str | None = None
        self._has_spoken = False

    def hear(self, line: Line) -> Heard | None:
        self._has_spoken = self._has_spoken or bool(line.data.strip())
        return super().hear(line)

    def finish(self, ended: Exit, stderr: str) -> Sequence[TurnEvent]:
        if ended.code is None:
            return []  # whatever it said before, the signal is why it stopped
        failure = self._lost_session(ended.code, stderr) or self.failure(ended.code, stderr)
        return [Ended(failure)] if failure else []

    def failure(self, code: int, stderr: str) -> Failure | None:
        """What an exit without a closing event means; None: there is no better word for it than the exit itself."""
        return meaning.of_stderr(stderr) if code else None

    def opened(self, session_id: str) -> list[TurnEvent]:
        if self._session is not None or not _SESSION_ID.fullmatch(session_id):
            return []
        self._session = session_id
        if self._resumed not in (None, session_id):
            gone = f"the engine was asked to resume session {self._resumed} and began another"
            return [Ended(Failure(Code.SESSION_LOST, gone))]
        return [SessionOpened(Handle(session_id, loadable=True))]

    def _lost_session(self, code: int, stderr: str) -> Failure | None:
        if self._resumed is None or self._session is not None:
            return None
        if code == 0:
            silence = f"the engine was asked to resume session {self._resumed} and said nothing at all"
            return None if self._has_spoken else Failure(Code.SESSION_LOST, silence)
        line = next((line for line in stderr.splitlines() if self.lost and self.lost.search(line)), None)
        return Failure(Code.SESSION_LOST, line.strip()) if line is not None else None


def usage(**found: object) -> list[TurnEvent]:
    """Of what was found, the counts. Input includes what was cached, and output the reasoning where it is told."""
    counts = {name: n for name, n in found.items() if is_count(n)}
    return [Usage(counts)] if counts else []


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST_NUMBER


class SpreadObject:
    """A JSON object printed over many lines, from a line `{` to a line `}`, as scripts indent it."""

    def __init__(self, max_size: int = MAX_LINE) -> None:
        self._max_size = max_size
        self._lines: list[str] = []
        self._size = 0

    @property
    def is_open(self) -> bool:
        return bool(self._lines)

    def take(self, line: Line) -> dict[str, Any] | None:
        """The object, with its last line."""
        text = plain(line.data).rstrip()
        if text == "{":
            self.drop()
        elif not self._lines:
            return None
        self._lines.append(text)
        self._size += len(text) + 1
        if line.truncated or self._size > self._max_size:
            self.drop()
        if text != "}" or not self._lines:
            return None
        whole = "\n".join(self._lines).encode()
        self.drop()
        return read_object(Line(whole, line.offset, len(whole), truncated=False))

    def drop(self) -> None:
        self._lines, self._size = [], 0
