"""What goes in comes out: every field of every record, odd text and nested JSON included."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.store.conftest import Opener
from tests.store.sample import (
    FULL_ATTEMPT,
    FULL_EVENTS,
    FULL_INTERACTION,
    FULL_JOB,
    FULL_RUN,
    bare,
    log_of,
    new_id,
    output,
    place,
    question_of,
    queued,
    running,
)
from turnkeeper.core.change import Change
from turnkeeper.core.contract import ArtifactRule, Contract
from turnkeeper.core.run import (
    Answer,
    Attempt,
    Born,
    Handle,
    Interaction,
    Job,
    Profile,
    Question,
    Run,
    Timeouts,
)
from turnkeeper.store import rows
from turnkeeper.store.base import Store

TEXT = st.text(max_size=20)
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
"""For what has a column of its own: not every database takes a NUL there."""
MOMENTS = st.integers(0, 2**52).map(
    lambda tick: datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=tick)
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FINITE | TEXT
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)

CONTRACTS = st.builds(
    Contract,
    name=TEXT,
    is_plain=...,
    output_schema=st.none() | OBJECTS,
    artifacts=st.lists(st.builds(ArtifactRule, role=TEXT, pattern=TEXT), max_size=2).map(tuple),
    prompt=st.none() | TEXT,
)
JOBS = st.builds(
    Job,
    skill_id=PLAIN,
    skill_version=TEXT,
    contract=CONTRACTS,
    engine=PLAIN,
    mode=...,
    strict=...,
    session_timeout_sec=FINITE,
    profile=st.builds(Profile, kind=..., reason=TEXT),
    model=st.none() | TEXT,
    input=OBJECTS,
    parameter=OBJECTS,
    timeouts=st.builds(Timeouts, first_byte_sec=FINITE, turn_sec=FINITE),
    on_interrupted=...,
    max_attempt=...,
)
QUESTIONS = st.builds(
    Question,
    prompt=TEXT,
    kind=TEXT,
    default_decision_policy=TEXT,
    options=st.lists(OBJECTS, max_size=3).map(tuple),
    ui_hints=OBJECTS,
    context=JSON,
    requested_schema=st.none() | OBJECTS,
    source=TEXT,
)
ANSWERS = st.builds(
    Answer, response=TEXT, resolution_mode=..., at=MOMENTS, by=TEXT, idempotency_key=st.none() | TEXT
)
HANDLES = st.none() | st.builds(Handle, session_id=PLAIN)


def test_the_full_samples_leave_nothing_at_its_default() -> None:
    full: tuple[Any, ...] = (FULL_JOB, FULL_RUN, FULL_INTERACTION, FULL_INTERACTION.question, FULL_ATTEMPT)
    for record in full:
        left = [f.name for f in fields(record) if getattr(record, f.name) == f.default]
        assert not left, f"{type(record).__name__} has no value of its own for {left}"


async def test_every_field_comes_back(store: Store) -> None:
    change = Change(
        before=None,
        after=FULL_RUN,
        trigger=None,
        events=FULL_EVENTS,
        interaction=FULL_INTERACTION,
        attempt=FULL_ATTEMPT,
    )
    assert await store.commit(change) == FULL_RUN
    assert await store.run(FULL_RUN.id) == FULL_RUN
    assert await store.interaction(FULL_RUN.id, 3) == FULL_INTERACTION
    assert await store.attempts(FULL_RUN.id) == [FULL_ATTEMPT]


async def test_every_field_comes_back_after_an_update(store: Store) -> None:
    first = bare(id=FULL_RUN.id, job=FULL_JOB, created_by=FULL_RUN.created_by)
    before = await place(store, first, replace(FULL_INTERACTION, answer=None))
    change = Change(
        before=before,
        after=FULL_RUN,
        trigger=None,
        events=FULL_EVENTS,
        interaction=FULL_INTERACTION,
        attempt=FULL_ATTEMPT,
    )
    assert await store.commit(change) == FULL_RUN
    assert await store.run(FULL_RUN.id) == FULL_RUN
    assert await store.interaction(FULL_RUN.id, 3) == FULL_INTERACTION
    assert await store.attempts(FULL_RUN.id) == [FULL_ATTEMPT]


async def test_an_update_can_empty_what_was_set(store: Store) -> None:
    full = await place(store, FULL_RUN)
    emptied = bare(id=FULL_RUN.id, job=FULL_JOB, version=10, created_by=FULL_RUN.created_by)
    assert await store.commit(Change(before=full, after=emptied, trigger=None)) == emptied
    assert await store.run(FULL_RUN.id) == emptied


async def test_everything_is_there_after_a_restart(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    run = await running(store)
    await store.append(output(run, "hello", handle=Handle("s", loadable=True), born=Born(4711, 99)))
    data_id, kept, log = store.data_id, await store.run(run.id), await log_of(store, run.id)
    attempts = await store.attempts(run.id)
    await store.close()

    again = await open_store(tmp_path)
    assert again.data_id == data_id
    assert await again.run(run.id) == kept
    assert await again.attempts(run.id) == attempts
    assert await log_of(again, run.id) == log
    await again.close()


async def test_each_data_directory_has_a_name_of_its_own(open_store: Opener, tmp_path: Path) -> None:
    names = set()
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        store = await open_store(folder)
        names.add(store.data_id)
        await store.close()
    assert len(names) == 2


async def test_what_was_never_written_is_not_there(store: Store) -> None:
    run = await queued(store)
    assert await store.asked(run.id) == (run, None)
    assert await store.asked("nobody", 1) is None
    assert await store.run("nobody") is None
    assert await store.interaction("nobody", 1) is None
    assert await store.interactions("nobody") == []
    assert await store.attempts("nobody") == []
    assert await log_of(store, "nobody") == []


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    job=JOBS,
    question=QUESTIONS,
    answer=st.none() | ANSWERS,
    handle=HANDLES,
)
async def test_odd_text_and_nested_json_come_back(
    store: Store, job: Job, question: Question, answer: Answer | None, handle: Handle | None
) -> None:
    run = bare(job=job, handle=handle, result=dict(job.input))
    asked = question_of(run, answer, question=question)
    await place(store, run, asked)
    assert await store.run(run.id) == run
    assert await store.interactions(run.id) == [asked]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXT, data=OBJECTS)
async def test_odd_text_in_events_comes_back(store: Store, text: str, data: dict[str, Any]) -> None:
    run = await running(store)
    said = output(run, text)
    await store.append(replace(said, events=[replace(said.events[0], data={"text": text, "data": data})]))
    last = (await log_of(store, run.id))[-1]
    assert json.loads(last.body)["data"] == {"text": text, "data": data}


@settings(max_examples=50)
@given(job=JOBS, handle=HANDLES)
@example(job=FULL_JOB, handle=Handle("", loadable=True))
def test_rows_hold_a_whole_run(job: Job, handle: Handle | None) -> None:
    run = replace(FULL_RUN, job=job, handle=handle)
    assert rows.run_of(rows.run_values(run)) == run


@settings(max_examples=50)
@given(question=QUESTIONS, answer=st.none() | ANSWERS)
def test_rows_hold_a_whole_interaction(question: Question, answer: Answer | None) -> None:
    asked: Interaction = replace(FULL_INTERACTION, question=question, answer=answer)
    assert rows.interaction_of(rows.interaction_values(asked)) == asked


@settings(max_examples=50)
@given(evidence=st.none() | OBJECTS, verdict=st.none() | OBJECTS)
def test_rows_hold_a_whole_attempt(evidence: dict[str, Any] | None, verdict: dict[str, Any] | None) -> None:
    attempt: Attempt = replace(FULL_ATTEMPT, evidence=evidence, verdict=verdict)
    assert rows.attempt_of(rows.attempt_values(attempt)) == attempt


def test_a_run_without_extras_has_an_empty_row() -> None:
    run: Run = bare(id=new_id())
    assert rows.run_of(rows.run_values(run)) == run
