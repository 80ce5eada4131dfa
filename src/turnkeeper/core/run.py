"""The records of the house: a run, what it was asked to do, its attempts and its interactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from turnkeeper.core.contract import Contract
from turnkeeper.core.errors import Code
from turnkeeper.core.statechart import State, Trigger
from turnkeeper.core.waiting import POLICIES, ProfileKind, WaitPolicy


class Mode(StrEnum):
    AUTO = "auto"
    INTERACTIVE = "interactive"


class OnInterrupted(StrEnum):
    RESUME = "resume"
    FAIL = "fail"


class Permissions(StrEnum):
    """What is said to an agent that asks before it acts."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class SandboxMode(StrEnum):
    """What the operator wants of the sandbox."""

    AUTO = "auto"
    OFF = "off"
    REQUIRED = "required"


class SandboxKind(StrEnum):
    """What a turn was really played in."""

    BUBBLEWRAP = "bubblewrap"
    OFF = "off"


class NextTurn(StrEnum):
    """What the next `turn.started` begins."""

    START = "start"
    REPLY = "reply"
    CONTINUE = "continue"
    """The same attempt again after a cut-off, in the session that the engine kept."""
    RESTART = "restart"
    """The same attempt again from its beginning: no process had been started."""
    PERMISSION = "permission"
    """Nothing anew: the turn goes on in its process, which asked for a permission."""

    @property
    def is_new_try(self) -> bool:
        """Of the same attempt."""
        return self in (NextTurn.CONTINUE, NextTurn.RESTART)


class Resolution(StrEnum):
    USER_REPLY = "user_reply"
    AUTO_DECIDE = "auto_decide_timeout"
    WITHDRAWN = "withdrawn"
    """Nobody answered: the agent did not wait for it any longer."""


class EndingWhy(StrEnum):
    CANCEL = "cancel"
    WAIT_TIMEOUT = "wait_timeout"


@dataclass(frozen=True, slots=True)
class Profile:
    kind: ProfileKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    first_byte_sec: float = 120.0
    idle_sec: float = 600.0
    turn_sec: float = 3600.0
    result_grace_sec: float = 5.0
    step_sec: float = 5.0
    """Between INT, TERM and KILL when a process is ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a client asked for, with every default settled. Never changes."""

    skill_id: str
    skill_version: str
    contract: Contract
    engine: str
    mode: Mode = Mode.AUTO
    strict: bool = True
    session_timeout_sec: float = 1200.0
    profile: Profile
    model: str | None = None
    input: Mapping[str, Any] = field(default_factory=dict)
    parameter: Mapping[str, Any] = field(default_factory=dict)
    timeouts: Timeouts = field(default_factory=Timeouts)
    on_interrupted: OnInterrupted = OnInterrupted.RESUME
    permissions: Permissions = Permissions.ALLOW
    max_attempt: int | None = None

    @property
    def wait_policy(self) -> WaitPolicy:
        return POLICIES[self.profile.kind, self.strict]


@dataclass(frozen=True, slots=True)
class Handle:
    """The engine's name for the session, and whether a new process can open it again."""

    session_id: str
    loadable: bool


@dataclass(frozen=True, slots=True)
class Ending:
    why: EndingWhy
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Recovery:
    trigger: Trigger
    at: datetime


@dataclass(frozen=True, slots=True)
class RunWarning:
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Failure:
    code: Code
    message: str
    retry_after: float | None = None
    """Seconds after which the engine's provider would take another try, if it told."""
    evidence: str | None = None
    """What the engine said, word for word, where the message is only its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    id: str
    job: Job
    state: State
    version: int
    created_at: datetime
    updated_at: datetime
    lease: str | None = None
    """Whoever holds it owns the run's slot and, if there is one, its process."""
    last_seq: int = 0
    attempt_number: int = 0
    try_number: int = 0
    interruptions: int = 0
    next_turn: NextTurn = NextTurn.START
    handle: Handle | None = None
    held: str | None = None
    files: Mapping[str, Any] = field(default_factory=dict)
    """The file inputs that were uploaded: where each is in the workspace, by its key."""
    ending: Ending | None = None
    questions: int = 0
    """How many were asked; the next one's id is one more, given by us and never by the agent."""
    pending_interaction_id: int | None = None
    due_at: datetime | None = None
    """The one deadline that runs without a process: of a wait, or of an upload."""
    recovery: Recovery | None = None
    warnings: tuple[RunWarning, ...] = ()
    error: Failure | None = None
    result: Mapping[str, Any] | None = None
    candidate_result: Mapping[str, Any] | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    sandbox: SandboxKind | None = None
    """Of its last turn; None: none has been started."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    created_by: str | None = None
    """None: by a version that did not record it."""
    uploaded_by: str | None = None

    @property
    def input(self) -> Mapping[str, Any]:
        """What the agent is given: the job's own values, and where its files are."""
        return {**self.job.input, **self.files}

    @property
    def is_sticky(self) -> bool:
        return self.job.profile.kind is ProfileKind.STICKY

    @property
    def is_paused(self) -> bool:
        """In the middle of a turn, for a permission; only the process that asked can be answered."""
        is_between = self.state in (State.QUEUED, State.WAITING_USER)
        return is_between and self.next_turn is NextTurn.PERMISSION


@dataclass(frozen=True, slots=True)
class Answer:
    response: str
    resolution_mode: Resolution
    at: datetime
    by: str
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the agent wants to know; `kind` is for display and never understood by us."""

    prompt: str
    kind: str = "open_text"
    default_decision_policy: str = "engine_judgement"
    options: tuple[Mapping[str, Any], ...] = ()
    ui_hints: Mapping[str, Any] = field(default_factory=dict)
    context: Any = None
    requested_schema: Mapping[str, Any] | None = None
    source: str = "backend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    run_id: str
    interaction_id: int
    attempt_number: int
    question: Question
    asked_at: datetime
    expires_at: datetime | None = None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Born:
    """A process of an attempt, as the census can recognise it."""

    pid: int
    start_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of one turn: who held it, which process it was, what was seen and decided."""

    run_id: str
    attempt_number: int
    try_number: int
    started_at: datetime
    next_turn: NextTurn
    ended_at: datetime | None = None
    born: Born | None = None
    launch: Mapping[str, Any] | None = None
    """How the process was started: argv, cwd, engine version, and the environment without its secrets."""
    model: str | None = None
    """As the engine named it, else as it was asked for."""
    usage: Mapping[str, int] = field(default_factory=dict)
    evidence: Mapping[str, Any] | None = None
    verdict: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Idempotency:
    key: str
    digest: str
    of: str | None = None
    """The API key that it came with: each has a book of its own, and the service's token has one."""

    @property
    def name(self) -> str:
        """As it stands in the book. No header can hold the line break."""
        return self.key if self.of is None else f"{self.of}\n{self.key}"
