"""The port of an engine: how its process is started and the dialect it speaks. Dialects do no I/O.

A dialect hears lines and says bytes, like a protocol library without sockets. So the same object serves a live
process, a resident one over many turns, and the audit that reads the stored bytes again.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from turnkeeper.core.permission import Decision
from turnkeeper.core.run import Handle, Mode, Permissions
from turnkeeper.core.skill import Skill
from turnkeeper.core.turn import TurnEvent
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.lines import Line
from turnkeeper.engines.objects import Objects
from turnkeeper.engines.process import Exit

PASSED_ON = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    *(
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
    ),
)
"""Of the service's own environment an engine sees nothing but these, and the keys that it declares."""
ANSWERS = {
    "DEBIAN_FRONTEND": "noninteractive",
    "GIT_TERMINAL_PROMPT": "0",
    "PIP_NO_INPUT": "1",
    # `npx` would ask before it installs a package; one that is meant to be installed says so by `npx --yes`.
    "npm_config_yes": "false",
}
"""What tools of an agent are told instead of being asked: nobody is there, and the answer is no."""

_USER_INFO = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?[^\s/:@]*:(?P<password>[^\s/@]+)@")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """Everything an engine may know about the turn it is asked to play."""

    profile: ProfileKind
    mode: Mode
    workspace: Path
    home: Path
    skill_dir: Path
    session: Handle | None = None
    """The session to go on with; None starts a new one."""
    used: Mapping[str, int] = field(default_factory=dict)
    """What the run has used so far: some engines count a whole session, and not a turn."""
    model: str | None = None
    permissions: Permissions = Permissions.ALLOW
    input: Mapping[str, Any] = field(default_factory=dict)
    parameter: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Config files, by path inside the run's private home."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The variables whose values nobody may see, and those that each was taken from."""
    login_files: Mapping[str, Path] = field(default_factory=dict)
    """Files of the operator's own login, by path inside the home: there for the turn, and not a moment longer."""
    version: str | None = None
    reads: tuple[str, ...] = ()
    """Paths that it has to read beside its program, also in a sandbox."""
    program: tuple[str, ...] = ()
    """What of `argv` is the program: it tells its version if it is asked by `--version`. Empty: it has none to tell."""


@dataclass(frozen=True, slots=True)
class Heard:
    events: Sequence[TurnEvent]
    answer: bytes = b""
    """What the dialect wants written to the process in return."""
    is_last: bool = False
    """The turn is over as far as this stream can tell; the other may still hold words of it. It closes at the exit."""


def together(heard: Sequence[Heard]) -> Heard | None:
    """What the objects of one line say; None if not one of them was understood."""
    if len(heard) < 2:
        return heard[0] if heard else None  # nearly always
    events = [event for each in heard for event in each.events]
    return Heard(events, b"".join(each.answer for each in heard), any(each.is_last for each in heard))


class Dialect(Protocol):
    keeps_stdin: bool
    """Whether the conversation goes on over stdin after the prompt."""

    def begin(self, prompt: str) -> bytes:
        """The bytes that open a turn."""

    def hear(self, line: Line) -> Heard | None:
        """A line of stdout. None: not understood; the line is kept as raw output."""

    def hear_stderr(self, line: Line) -> Heard | None:
        """The same for stderr. Its meaning must not hang on what stdout said meanwhile: that order is not kept."""

    def asks(self, stream: str, start: bytes) -> bool:
        """Whether the beginning of a line that does not end is a question that nobody can answer. Changes nothing."""

    def hint(self, words: Sequence[str], *, has_begun: bool) -> str:
        """What it may be waiting for that fell silent; `words`: what is alive, and what was printed last."""

    def finish(self, ended: Exit, stderr: str) -> Sequence[TurnEvent]:
        """What the exit itself says, if the turn was not closed before it."""

    def cancel(self) -> bytes:
        """The polite request to stop, if the dialect has one."""

    def answer(self, key: str, decision: Decision) -> bytes:
        """What was decided about a permission that the agent asked for."""


class LoginKind(StrEnum):
    KEY = "key"
    FILE = "file"
    SETTINGS = "settings"
    """The operator's own configuration or variables: only the engine can tell whether they are enough."""
    NOT_NEEDED = "not_needed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Login:
    """How an engine would show who it is, and what says so: the name of a variable, the path of a file."""

    kind: LoginKind
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    ready: bool
    path: str | None = None
    version: str | None = None
    login: Login = Login(LoginKind.NOT_NEEDED)
    reason: str | None = None
    fix: str | None = None
    """The command that makes it ready, or does away with the warning."""
    warning: str | None = None
    """It is ready, and there is something to know about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What the operator chose for one engine."""

    command: tuple[str, ...] = ()
    """How it is started; empty: a managed install, else found by its name."""
    resident_command: tuple[str, ...] = ()
    """The same for the program that makes a resident agent of it, where that is another."""
    asks: bool | None = None
    """Whether it asks before it acts; None: it is known, or not to be relied on."""
    modes: Mapping[Permissions, str] = field(default_factory=dict)
    """Of a resident agent that is not one of ours: the mode of its sessions, by the job's permissions."""
    model: str | None = None
    """The model of jobs that name none."""
    env: tuple[str, ...] = ()
    """More variables that it is given: `NAME` as the service has it, or `NAME=value`."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Laid over the settings that we write into the home of its runs."""
    login_home: Path | None = None
    """Where the operator's login files are; None: the home of the user that runs the service."""
    managed: Path | None = None
    """The folder with the engines that Turnkeeper installed itself."""
    refuses_root: bool = False
    """The service runs as root, and nobody has said that an agent may be root as well."""
    data_dir: Path | None = None
    """Named in the commands that we tell people to run; None: it is the one that they would mean anyhow."""

    def install_command(self, name: str) -> str:
        where = f" --data-dir {shlex.quote(str(self.data_dir))}" if self.data_dir else ""
        return f"turnkeeper engines install {name}{where}"


class Engine(Protocol):
    name: str
    is_demo: bool
    """Plays scripts: never chosen unless asked for by name."""
    profiles: tuple[ProfileKind, ...]
    """What it can do in interactive mode, best first."""
    asks: bool
    """As a resident it asks before it acts, if a job wants it to."""
    own_parameters: frozenset[str]
    """Job parameters that are for the engine and not for the skill's schema."""
    models: tuple[str, ...]
    """The only ones it has; empty: the engine itself knows."""
    default_model: str | None
    """Of a job that names none; None: the engine itself chooses."""
    skills_dir: str
    """Where it looks for skills, inside its home."""
    sessions_dir: str
    """Where it keeps its sessions there; empty: in the same folder of the home that its skills are in."""

    def readiness(self, kind: ProfileKind | None = None) -> Readiness:
        """Of one of its profiles, else of the first. Blocking: it looks at files, and may ask a program its version."""

    def login(self) -> Login:
        """As it is now: a person may log in at any time."""

    def require(self, skill: Skill, parameter: Mapping[str, Any]) -> None:
        """Raises InvalidRequest for a job that this engine could never start."""

    def launch(self, plan: TurnPlan) -> Launch: ...

    def dialect(self, plan: TurnPlan) -> Dialect: ...


class Headless:
    """A dialect of one process for each turn: the prompt goes in by stdin, one JSON object a line comes out."""

    keeps_stdin = False

    def __init__(self) -> None:
        self._objects = Objects()

    def begin(self, prompt: str) -> bytes:
        return prompt.encode()

    def hear(self, line: Line) -> Heard | None:
        if line.is_blank:
            return Heard(())
        told = [self.events(said) for said in self._objects.read(line)]
        return together([Heard(events) for events in told if events is not None])

    def hear_stderr(self, line: Line) -> Heard | None:
        return None

    def asks(self, stream: str, start: bytes) -> bool:
        return False

    def hint(self, words: Sequence[str], *, has_begun: bool) -> str:
        return ""

    def finish(self, ended: Exit, stderr: str) -> Sequence[TurnEvent]:
        return []

    def cancel(self) -> bytes:
        return b""

    def answer(self, key: str, decision: Decision) -> bytes:
        return b""  # it never asks

    def events(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        """What one object means; None: a kind we do not know."""
        raise NotImplementedError


def sessions_in(engine: Engine) -> str:
    """The folder of its sessions, inside the home: whatever else is there, tools of the agent have left."""
    return engine.sessions_dir or PurePosixPath(engine.skills_dir).parts[0]


def scratch(home: Path) -> Path:
    """For what a process leaves about. Emptied when it is gone: some leave megabytes each time."""
    return home / ".scratch"


def password_in(address: str) -> str | None:
    """Of `http://user:password@host`, with or without what stands before the user."""
    found = _USER_INFO.match(address)
    return found["password"] if found else None


def private_env(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """With a home of its own, and nobody there to be asked."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    own = {"HOME": str(home), "TMPDIR": str(scratch(home)), "TERM": "dumb", "NO_COLOR": "1"}
    return passed | own | ANSWERS | dict(more or {})
