"""Runs to store: brought to a state by the lifecycle, or put there as they are."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from turnkeeper.core import gate, lifecycle, questions
from turnkeeper.core.change import Change, TurnReport
from turnkeeper.core.contract import ArtifactRule, Contract
from turnkeeper.core.errors import Code
from turnkeeper.core.fcmp import Event, RawRef, Type
from turnkeeper.core.run import (
    Answer,
    Attempt,
    Born,
    Ending,
    EndingWhy,
    Failure,
    Handle,
    Interaction,
    Job,
    Mode,
    NextTurn,
    OnInterrupted,
    Permissions,
    Profile,
    Question,
    Recovery,
    Resolution,
    Run,
    RunWarning,
    SandboxKind,
    Timeouts,
)
from turnkeeper.core.statechart import State, Trigger
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.store.base import Batch, LogEntry, Store

CONTRACT = Contract(
    name="greet",
    is_plain=False,
    output_schema={"type": "object"},
    artifacts=(ArtifactRule(role="report", pattern="*.md", mime="text/markdown", required=True),),
    prompt="Begin.",
)

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
LEASE = "lease-1"
HANDLE = Handle("session-1", loadable=True)
QUESTION = Question(prompt="Which colour?")

_numbers = count(1)


def new_id() -> str:
    return f"run-{next(_numbers):06}"


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def job(kind: ProfileKind = ProfileKind.RESUMABLE, **fields: Any) -> Job:
    base = Job(
        contract=CONTRACT,
        skill_id="paint",
        skill_version="1.0.0",
        engine="demo",
        mode=Mode.INTERACTIVE,
        profile=Profile(kind, "asked for"),
        input={"wall": "north"},
    )
    return replace(base, **fields)


def creation(**fields: Any) -> Change:
    return lifecycle.create(new_id(), job(), NOW, **fields)


async def queued(store: Store, of: Job | None = None, now: datetime = NOW) -> Run:
    return await store.commit(lifecycle.create(new_id(), of or job(), now))


async def running(store: Store, of: Job | None = None) -> Run:
    run = await queued(store, of)
    return await store.commit(lifecycle.start_turn(run, LEASE, later(1)))


async def waiting(store: Store, of: Job | None = None) -> Run:
    run = await running(store, of)
    return await store.commit(await turn_end(store, run, gate.Wait()))


async def turn_end(store: Store, run: Run, verdict: gate.Verdict, *said: Event) -> Change:
    """The change that ends the turn of a running run; not committed."""
    attempt = (await store.attempts(run.id))[-1]
    report = TurnReport(
        output=said,
        handle=HANDLE,
        usage={"input_tokens": 3},
        question=QUESTION,
        result={"colour": "blue"},
        evidence={"exit": 0},
        verdict={"kind": type(verdict).__name__},
    )
    return lifecycle.finish_turn(run, attempt, verdict, report, later(2))


async def reply(store: Store, run: Run, text: str, now: datetime | None = None) -> Change:
    """The change that answers the open question of a waiting run; not committed."""
    pending = await store.interaction(run.id, run.questions)
    return questions.accept_reply(run, pending, text, now or later(3), by="ann")


def delta(text: str, attempt: int = 1) -> Event:
    return Event(Type.MESSAGE_DELTA, {"message_id": "1.1", "text": text}, later(1.5), attempt)


def output(run: Run, *texts: str, **fields: Any) -> Batch:
    said = Batch(
        run_id=run.id,
        lease=run.lease or LEASE,
        engine=run.job.engine,
        attempt_number=run.attempt_number,
        try_number=run.try_number,
        events=[delta(text) for text in texts],
    )
    return replace(said, **fields)


def bare(state: State = State.QUEUED, **fields: Any) -> Run:
    """A run in any state, without the history that leads there."""
    run = Run(id=new_id(), job=job(), state=state, version=1, created_at=NOW, updated_at=NOW)
    return replace(run, **fields)


async def place(store: Store, run: Run, interaction: Interaction | None = None) -> Run:
    """Writes a run as it is. Only tests do: they need runs that no lifecycle would make."""
    return await store.commit(Change(before=None, after=run, trigger=None, interaction=interaction))


def question_of(run: Run, answer: Answer | None = None, **fields: Any) -> Interaction:
    asked = Interaction(
        run_id=run.id, interaction_id=1, attempt_number=1, question=QUESTION, asked_at=NOW, answer=answer
    )
    return replace(asked, **fields)


async def log_of(store: Store, run_id: str) -> list[LogEntry]:
    return await store.events(run_id, after=0, upto=None, limit=10_000)


@dataclass(frozen=True)
class Memory:
    """All that the store holds about one run: equal before and after means that nothing was written."""

    run: Run | None
    interactions: list[Interaction]
    attempts: list[Attempt]
    log: list[LogEntry]


async def memory_of(store: Store, run_id: str) -> Memory:
    return Memory(
        await store.run(run_id),
        await store.interactions(run_id),
        await store.attempts(run_id),
        await log_of(store, run_id),
    )


FULL_JOB = Job(
    contract=CONTRACT,
    skill_id="paint",
    skill_version="2.1.0",
    engine="demo",
    mode=Mode.INTERACTIVE,
    strict=False,
    session_timeout_sec=12.5,
    profile=Profile(ProfileKind.STICKY, "the engine can stay"),
    model="large",
    input={"wall": {"name": "nørth", "sizes": [1, 2.5, None, True]}},
    parameter={"coats": 2, "huge": 2**70},
    timeouts=Timeouts(first_byte_sec=1.5, idle_sec=2.5, turn_sec=3.5, result_grace_sec=4.5, step_sec=5.5),
    on_interrupted=OnInterrupted.FAIL,
    permissions=Permissions.DENY,
    max_attempt=7,
)

FULL_RUN = Run(
    id="run-full",
    job=FULL_JOB,
    state=State.FAILED,
    version=9,
    created_at=NOW,
    updated_at=later(50),
    lease="lease-9",
    last_seq=2,
    attempt_number=4,
    try_number=2,
    interruptions=1,
    next_turn=NextTurn.CONTINUE,
    handle=Handle("session-9", loadable=False),
    held="upload",
    files={"paper": "uploads/„paper“.txt", "more": ["uploads/a", "uploads/b"]},
    ending=Ending(EndingWhy.CANCEL, "ann", later(40)),
    questions=3,
    pending_interaction_id=3,
    due_at=later(60),
    recovery=Recovery(Trigger.RESUME_TURN, later(30)),
    warnings=(RunWarning("TURN_RESTARTED", "it starts anew"), RunWarning("QUESTION_EMPTY", "not a word")),
    error=Failure(Code.ENGINE_FAILED, "„boom“", 1.5, "what it said"),
    result={"colour": "blue"},
    candidate_result={"colour": None},
    sandbox=SandboxKind.BUBBLEWRAP,
    usage={"input_tokens": 2**40, "output_tokens": 0},
    started_at=later(1),
    finished_at=later(50),
    created_by="key:ci",
    uploaded_by="page:ann",
)

FULL_INTERACTION = Interaction(
    run_id=FULL_RUN.id,
    interaction_id=3,
    attempt_number=4,
    question=Question(
        prompt="Which\ncolour?",
        kind="choose_one",
        default_decision_policy="first_option",
        options=({"label": "blue", "value": 1}, {"label": "green", "value": [None]}),
        ui_hints={"rows": 3},
        context=["a", {"b": 1.5}],
        requested_schema={"type": "object"},
        source="agent",
    ),
    asked_at=later(20),
    expires_at=later(60),
    answer=Answer("bluë", Resolution.USER_REPLY, later(25), "ann", "key-1"),
)

FULL_ATTEMPT = Attempt(
    run_id=FULL_RUN.id,
    attempt_number=4,
    try_number=2,
    started_at=later(10),
    next_turn=NextTurn.REPLY,
    ended_at=later(20),
    born=Born(4711, 2**60),
    launch={"argv": ["paint", "--„all“"], "env": {"KEY": None}, "secrets": {"KEY": "KEY"}},
    model="painter-2",
    usage={"input_tokens": 7, "cached_tokens": 2**40},
    evidence={"exit": 0, "marker": False},
    verdict={"kind": "wait"},
)

FULL_EVENTS = (
    Event(
        Type.TOOL_CALL,
        {"call_id": "c1", "input": {"deep": [1, {"er": "ü"}]}},
        later(11),
        4,
        RawRef(1, "out", 5, 9),
    ),
    Event(Type.FAILED, {"error": {"code": "ENGINE_FAILED", "message": "„boom“"}}, later(50), 4),
)
