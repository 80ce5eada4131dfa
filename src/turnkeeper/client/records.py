"""What the service tells, as records. What a newer service adds is ignored, what an older one lacks is empty."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import msgspec

from turnkeeper.client.errors import ClientError

TERMINAL = frozenset({"succeeded", "failed", "canceled"})
LAST = frozenset({"conversation.completed", "conversation.failed", "conversation.canceled"})
"""Types of the event that ends a log."""

Json = dict[str, Any]
T = TypeVar("T")


def decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise ClientError(
            f"the answer is not understood ({error}): something else answers there, or a much newer service"
        ) from None


@dataclass_transform(frozen_default=True)
class Record(msgspec.Struct, frozen=True):
    """Frozen, compared by value. What is made of it is frozen too; type checkers are told so above."""

    def to_dict(self) -> Json:
        """By the names of the API, with times as text."""
        return msgspec.json.decode(msgspec.json.encode(self), type=Json)


class Warned(Record):
    code: str
    message: str


class Failure(Record):
    """Why a run failed."""

    code: str
    message: str
    retry_after: float | None = None
    evidence: str | None = None
    """The engine's own words, where `message` only says what they mean."""


class Ending(Record):
    """The run was told to end."""

    why: str
    by: str
    at: datetime


class Recovery(Record):
    trigger: str
    at: datetime


class Profile(Record):
    kind: str
    reason: str = ""


class Option(Record):
    """One of the answers that the agent offers; any other text is an answer too."""

    label: str = ""
    value: Any = None
    """What to reply to choose it."""
    kind: str | None = None


if TYPE_CHECKING:
    Options = tuple[Option, ...]
    Hints = Json
else:
    # The service may say null for none; nobody who reads a question should have to think of that.
    Options = tuple[Option, ...] | None
    Hints = Json | None


class Question(Record):
    """What the agent asks. Who knows nothing but `prompt` can answer every one."""

    interaction_id: int
    prompt: str
    kind: str = "open_text"
    default_decision_policy: str = "engine_judgement"
    source: str = "backend"
    options: Options = ()
    ui_hints: Hints = {}
    context: Any = None
    requested_schema: Json | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "options", self.options or ())
        msgspec.structs.force_setattr(self, "ui_hints", self.ui_hints or {})


class RunInfo(Record):
    """A run as it was when the service was asked."""

    run_id: str
    status: str
    skill_id: str
    engine: str
    created_at: datetime
    updated_at: datetime
    skill_version: str = ""
    model: str | None = None
    execution_mode: str = "auto"
    interactive_profile: Profile | None = None
    interactive_require_user_reply: bool = True
    session_timeout_sec: float | None = None
    timeouts: dict[str, float] = {}
    on_interrupted: str = "resume"
    permissions: str = "allow"
    attempt_number: int = 0
    max_attempt: int | None = None
    pending_interaction_id: int | None = None
    pending: Question | None = None
    wait_deadline_at: datetime | None = None
    waiting_for: str | None = None
    queue_position: int | None = None
    upload_deadline_at: datetime | None = None
    files: Json = {}
    sandbox: str | None = None
    """What its last turn was played in: `bubblewrap` or `off`."""
    ending: Ending | None = None
    recovery: Recovery | None = None
    warnings: tuple[Warned, ...] = ()
    error: Failure | None = None
    candidate_result: Json | None = None
    usage: dict[str, int | float] = {}
    last_seq: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    created_by: str | None = None
    uploaded_by: str | None = None

    @property
    def is_over(self) -> bool:
        return self.status in TERMINAL

    @property
    def is_waiting(self) -> bool:
        """For a person."""
        return self.status == "waiting_user"


class RawRef(Record, rename={"try_number": "try"}):
    """Where the words of an event stand in the raw log of its attempt."""

    try_number: int
    stream: str
    offset: int
    length: int


class Meta(Record):
    attempt: int = 0


class Event(Record):
    """One entry of a run's log; docs/protocol.md lists the types and their data."""

    run_id: str
    seq: int
    ts: datetime
    type: str
    data: Json
    engine: str = ""
    protocol_version: str = ""
    meta: Meta = Meta()
    raw_ref: RawRef | None = None

    @property
    def attempt(self) -> int:
        """The turn it belongs to; 0 before the first."""
        return self.meta.attempt

    @property
    def is_last(self) -> bool:
        return self.type in LAST


class Receipt(Record):
    """A reply was taken."""

    interaction_id: int
    status: str
    resolution_mode: str
    accepted_at: datetime


class Answered(Record):
    """A question and what became of it; without an answer so far, `resolution_mode` is None."""

    interaction_id: int
    prompt: str
    asked_at: datetime
    attempt_number: int = 0
    kind: str = "open_text"
    source: str = "backend"
    response: str | None = None
    resolution_mode: str | None = None
    resolved_at: datetime | None = None
    resolved_by: str | None = None


class Cancellation(Record):
    """While `status` is not `canceled` yet, the run's process is being ended."""

    status: str
    ending: Ending | None = None


class Artifact(Record):
    path: str
    size: int
    mime: str
    role: str | None = None
    kind: str = "file"
    target: str | None = None
    """Where a link leads, in its own words."""

    @property
    def is_link(self) -> bool:
        """It is shown and never followed: there is nothing to fetch."""
        return self.kind == "link"


class Log(Record, rename={"try_number": "try"}):
    """The raw output of one try, on one stream."""

    attempt: int
    try_number: int
    stream: str
    size: int
    started_at: datetime
    ended_at: datetime | None = None
    pid: int | None = None
    verdict: Json | None = None


class Attempt(Record, rename={"try_number": "try"}):
    """One try of one turn: how it was started, what it used, what was seen and decided."""

    attempt: int
    try_number: int
    began_as: str
    started_at: datetime
    ended_at: datetime | None = None
    pid: int | None = None
    launch: Json | None = None
    model: str | None = None
    usage: dict[str, int | float] = {}
    evidence: Json | None = None
    verdict: Json | None = None


class Skill(Record):
    id: str
    version: str
    name: str
    description: str = ""
    engines: tuple[str, ...] = ()
    execution_modes: tuple[str, ...] = ()
    max_attempt: int | None = None
    timeouts: dict[str, float] = {}
    secrets: tuple[str, ...] = ()
    """The names of those that it asks for."""
    warnings: tuple[Warned, ...] = ()
    problems: tuple[str, ...] = ()
    managed: bool = False
    """It was installed through the API, and can be removed by it."""

    @property
    def is_broken(self) -> bool:
        """`problems` says why."""
        return bool(self.problems)


class Schemas(Record):
    """JSON Schemas, or None where the skill has none."""

    skill_id: str
    input: Json | None = None
    parameter: Json | None = None
    output: Json | None = None


class Finding(Record):
    """What lint has to say about a skill."""

    severity: str
    code: str
    where: str
    message: str


class Login(Record):
    kind: str
    source: str | None = None


class Resident(Record):
    ready: bool
    path: str | None = None
    version: str | None = None
    reason: str | None = None
    fix: str | None = None
    warning: str | None = None


class Engine(Record):
    name: str
    ready: bool
    path: str | None = None
    version: str | None = None
    login: Login | None = None
    reason: str | None = None
    fix: str | None = None
    """The command that makes it ready."""
    warning: str | None = None
    profiles: tuple[str, ...] = ()
    resident: Resident | None = None
    permissions: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    limit: int | None = None
    default: bool = False
    """The settings of the service name it for jobs that name none."""
