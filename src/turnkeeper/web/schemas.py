"""The shapes of jobs and runs, in and out; OpenAPI is made from these and those beside them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from turnkeeper.core.errors import OptionConflict, UnknownFields
from turnkeeper.core.run import Mode, OnInterrupted, Permissions
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.runtime.intake import JobRequest
from turnkeeper.web.problems import MOST_ERRORS, unknown_fields

# Strict: neither `true` nor "5" is a number; who sends them means something else.
Seconds = Annotated[float, Field(strict=True, gt=0, le=365 * 24 * 3600, allow_inf_nan=False)]
Truth = Annotated[bool, Field(strict=True)]
MODEL = r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}"
"""It becomes an argument of a command line: never one that looks like an option."""
LARGEST = 2**53 - 1
"""Beyond this, readers of JSON disagree about integers."""
State = Literal["queued", "running", "waiting_user", "succeeded", "failed", "canceled"]
T = TypeVar("T")


def _storable(value: T) -> T:
    """Python reads more than JSON can say (NaN, half a surrogate pair); what we could not write we do not take."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from None
    return value


def number(value: Any) -> Any:
    """JSON knows one kind of number: 1.0 is 1, which strictness would refuse."""
    if isinstance(value, bool | str):
        raise ValueError("should be a number")
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(_storable)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, given: Any) -> Any:
        """An error for each of a few hundred thousand fields would take seconds to make, on the event loop."""
        if isinstance(given, dict) and len(given) > len(cls.model_fields) + MOST_ERRORS:
            unknown = [name for name in given if name not in cls.model_fields]
            raise UnknownFields(unknown_fields(unknown))
        return given


class TimeoutsIn(Strict):
    first_byte_sec: Seconds | None = None
    idle_sec: Seconds | None = None
    turn_sec: Seconds | None = None
    result_grace_sec: Seconds | None = None
    step_sec: Seconds | None = None


class ProfileIn(Strict):
    kind: Literal["auto", "resumable", "sticky_process"]


ProfileChoice = Literal["auto", "resumable", "sticky_process"]


class Options(Strict):
    """May stand at the top of the request or in `runtime_options`."""

    execution_mode: Literal["auto", "interactive"] | None = None
    interactive_require_user_reply: Truth | None = None
    session_timeout_sec: Seconds | None = None
    interactive_profile: ProfileChoice | ProfileIn | None = None
    permissions: Literal["allow", "ask", "deny"] | None = Field(
        default=None,
        description="What is said to an agent that asks before it acts; `ask`: a person decides.",
    )
    timeouts: TimeoutsIn | None = None
    on_interrupted: Literal["resume", "fail"] | None = None


class CreateJob(Options):
    skill_id: Annotated[str, Field(min_length=1, max_length=200)]
    engine: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    input: JsonObject = Field(default_factory=dict)
    parameter: JsonObject = Field(default_factory=dict)
    model: Annotated[str, Field(max_length=200, pattern=f"^{MODEL}$")] | None = None
    runtime_options: Options = Field(default_factory=Options)

    def request(self) -> JobRequest:
        chosen = {name: self._option(name) for name in Options.model_fields}
        kind = chosen["interactive_profile"]
        timeouts = chosen["timeouts"].model_dump(exclude_none=True) if chosen["timeouts"] else {}
        strict = chosen["interactive_require_user_reply"]
        return JobRequest(
            skill_id=self.skill_id,
            engine=self.engine,
            input=self.input,
            parameter=self.parameter,
            model=self.model,
            mode=Mode(chosen["execution_mode"] or Mode.AUTO),
            strict=True if strict is None else strict,
            session_timeout_sec=chosen["session_timeout_sec"],
            profile=ProfileKind(kind) if kind not in (None, "auto") else None,
            timeouts=timeouts,
            on_interrupted=OnInterrupted(chosen["on_interrupted"] or OnInterrupted.RESUME),
            permissions=Permissions(chosen["permissions"] or Permissions.ALLOW),
        )

    def _option(self, name: str) -> Any:
        top, nested = _meant(getattr(self, name)), _meant(getattr(self.runtime_options, name))
        if top is not None and nested is not None and top != nested:
            raise OptionConflict(
                f"{name} is given twice with different values, at the top and in runtime_options"
            )
        return nested if top is None else top


def _meant(option: Any) -> Any:
    """`"resumable"` and `{"kind": "resumable"}` say the same."""
    return option.kind if isinstance(option, ProfileIn) else option


class Created(BaseModel):
    request_id: str
    run_id: str
    status: State
    cache_hit: bool = False


class ErrorOut(BaseModel):
    code: str
    message: str


class FailureOut(ErrorOut):
    retry_after: float | None = Field(description="Seconds, if the engine's provider told.")
    evidence: str | None = Field(
        description="What the engine said, word for word, if the message is not that."
    )


class Problem(BaseModel):
    """`application/problem+json`; the codes are listed in docs/protocol.md."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    error: ErrorOut


class WarningOut(BaseModel):
    code: str
    message: str


class ProfileOut(BaseModel):
    kind: Literal["resumable", "sticky_process"]
    reason: str


class EndingOut(BaseModel):
    why: str
    by: str
    at: str


class RecoveryOut(BaseModel):
    trigger: str
    at: str


class RunOut(BaseModel):
    request_id: str
    run_id: str
    status: State
    skill_id: str
    skill_version: str
    engine: str
    model: str | None
    execution_mode: Literal["auto", "interactive"]
    interactive_profile: ProfileOut
    interactive_require_user_reply: bool
    session_timeout_sec: float
    timeouts: dict[str, float] = Field(description="The limits of each turn, in seconds.")
    on_interrupted: Literal["resume", "fail"]
    permissions: Literal["allow", "ask", "deny"]
    attempt_number: int
    max_attempt: int | None
    pending_interaction_id: int | None
    wait_deadline_at: str | None
    waiting_for: Literal["upload", "slot", "sticky_slot", "engine_limit", "user"] | None
    queue_position: int | None
    upload_deadline_at: str | None
    files: dict[str, Any] = Field(description="Uploaded file inputs: where each is in the workspace.")
    sandbox: Literal["bubblewrap", "off"] | None = Field(
        description="What its last turn was played in; null: none has been started."
    )
    ending: EndingOut | None
    recovery: RecoveryOut | None
    warnings: list[WarningOut]
    error: FailureOut | None
    candidate_result: dict[str, Any] | None
    usage: dict[str, int | float]
    last_seq: int
    created_at: str
    updated_at: str
    started_at: str | None
    finished_at: str | None
    created_by: str | None = Field(
        description="`token`, `page`, `key:NAME`…; null: it was not recorded then."
    )
    uploaded_by: str | None = Field(description="Who brought its files, if it has any.")


class Pending(BaseModel):
    interaction_id: int
    kind: str
    prompt: str
    default_decision_policy: str
    source: Literal["backend", "ask_user", "permission"]
    options: list[dict[str, Any]] | None = None
    ui_hints: dict[str, Any] | None = None
    context: Any = None
    requested_schema: dict[str, Any] | None = None
    expires_at: str | None = None


class RunListed(RunOut):
    pending: Pending | None = Field(description="The open question.")


class RunList(BaseModel):
    jobs: list[RunListed]
    next_cursor: str | None


class PendingOut(BaseModel):
    request_id: str
    status: State
    pending: Pending | None


class Words(Strict):
    response: Annotated[str | dict[str, Any] | list[Any] | int | float | bool, AfterValidator(_storable)] = (
        Field(description='Any text. `{"text": "…"}` is unwrapped, other JSON is passed on as text.')
    )
    idempotency_key: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class Reply(Words):
    interaction_id: Annotated[int, Field(ge=1, le=LARGEST), BeforeValidator(number)]


class ReplyOut(BaseModel):
    request_id: str
    status: State
    accepted: Literal[True] = True
    interaction_id: int
    resolution_mode: Literal["user_reply"]
    accepted_at: str


class HistoryEntry(BaseModel):
    interaction_id: int
    attempt_number: int
    kind: str
    prompt: str
    source: str
    asked_at: str
    response: str | None
    resolution_mode: Literal["user_reply", "auto_decide_timeout", "withdrawn"] | None
    resolved_at: str | None
    resolved_by: str | None


class History(BaseModel):
    request_id: str
    interactions: list[HistoryEntry]


class CancelOut(BaseModel):
    request_id: str
    status: State
    ending: EndingOut | None


class EventPage(BaseModel):
    request_id: str
    events: list[dict[str, Any]]
    last_seq: int
    next_from_seq: int | None


class ResultOut(BaseModel):
    request_id: str
    status: State
    result: dict[str, Any]
    warnings: list[WarningOut]


class ArtifactOut(BaseModel):
    path: str = Field(description="With stars where it holds a secret; good for fetching it all the same.")
    kind: Literal["file", "link"] = Field(
        description="A link is shown and never followed: it cannot be fetched."
    )
    size: int
    mime: str
    role: str | None
    target: str | None = Field(default=None, description="Where a link leads, in its own words.")


class Artifacts(BaseModel):
    request_id: str
    artifacts: list[ArtifactOut]


class LogOut(BaseModel):
    attempt: int
    try_: int = Field(alias="try")
    stream: Literal["stdout", "stderr"]
    size: int
    started_at: str
    ended_at: str | None
    pid: int | None
    verdict: dict[str, Any] | None


class Logs(BaseModel):
    request_id: str
    logs: list[LogOut]


class LaunchOut(BaseModel):
    argv: list[str]
    cwd: str
    sandbox: Literal["bubblewrap", "off"] | None = Field(
        default=None, description="What it was started in; null: before there were any."
    )
    env: dict[str, str | None] = Field(description="The whole environment; null stands for a secret.")
    secrets: dict[str, str] = Field(description="Where each secret came from: a variable of the service.")
    engine_version: str | None
    program: dict[str, str] = Field(
        default_factory=dict, description="The files of its program, each with the SHA-256 that it had."
    )
    login_files: dict[str, str] = Field(description="Files of the operator's login that were lent to it.")


class AttemptOut(BaseModel):
    attempt: int
    try_: int = Field(alias="try")
    began_as: Literal["start", "reply", "continue", "restart"]
    started_at: str
    ended_at: str | None
    pid: int | None
    launch: LaunchOut | None = Field(description="How its process was started; null until it speaks.")
    model: str | None = Field(description="As the engine named it, else as the job asked for it.")
    usage: dict[str, int]
    evidence: dict[str, Any] | None
    verdict: dict[str, Any] | None


class Attempts(BaseModel):
    request_id: str
    attempts: list[AttemptOut]
