"""Whatever is done to the service, in any order: each answer is one that a small model allows, and the promises hold.

`pytest tests/faults/test_model.py --hypothesis-profile=long` looks a hundred times as long. A failure prints its
steps as code: they belong at the end of this file, as a test that replays them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.faults.model_machine import FaultyDisk, Machine
from tests.faults.model_nursery import Nursery, nursery
from tests.faults.model_place import PROXY
from tests.faults.model_runs import Kind, Outcome, Terms

EXAMPLES, STEPS = 10, 30
LONG = 100


class Resumable(Machine):
    kinds = (Kind.RESUMABLE, Kind.RESUMABLE, Kind.AUTO)


class Resident(Machine):
    kinds = (Kind.RESIDENT,)
    sticky_slots = 2


@pytest.fixture(scope="module")
def nest() -> Iterator[Nursery]:
    with nursery(HTTPS_PROXY=PROXY) as made:
        yield made


@pytest.mark.parametrize("machine", [Resumable, Resident, FaultyDisk])
def test_every_promise_holds_whatever_happens(machine: type[Machine], nest: Nursery) -> None:
    machine.nursery = nest
    many = EXAMPLES * (LONG if settings.get_current_profile_name() == "long" else 1)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=many,
            stateful_step_count=STEPS,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )


@contextmanager
def replayed(machine: type[Machine], nest: Nursery) -> Iterator[Machine]:
    """For steps as a failure prints them: after each the same is looked at, and at the end. Each must be possible,
    whichever way its races go: -1 is the last one that a step can be done to."""
    machine.nursery = nest
    state = machine()
    state.is_replay = True
    try:
        yield state
    finally:
        state.teardown()


# Steps of failures, and those that no draw may miss


@pytest.mark.failure("H01", "H02", "H03", "H04", "H12")
def test_a_question_has_one_answer(nest: Nursery) -> None:
    job = Terms(kind=Kind.RESUMABLE)
    with replayed(Resumable, nest) as state:
        state.create(terms=job, questions=2, last=Outcome.DONE, key=None, twice=False, then_crash=False)
        state.reply_anyhow(which=0, number=1, words="blue", by="token")
        state.rivals_reply(which=0, first="blue", second="green")
        state.reply_anyhow(which=0, number=1, words="blue", by="token")
        state.reply_anyhow(which=0, number=1, words="green", by="page")
        state.turn_ends(which=0, then_crash=False)
        state.reply_anyhow(which=0, number=4, words="blue", by="page")
        state.rivals_reply(which=0, first="green", second="green")
        state.turn_ends(which=0, then_crash=True)
        state.reply_anyhow(which=0, number=2, words="blue", by="token")
        state.create(terms=job, questions=1, last=Outcome.DONE, key=None, twice=False, then_crash=False)
        state.reply_meets_cancel(which=0, words="blue", by="page")


@pytest.mark.failure("T03", "T04", "T06", "H10")
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(("machine", "kind"), [(Resumable, Kind.RESUMABLE), (Resident, Kind.RESIDENT)])
def test_a_deadline_is_kept_once(machine: type[Machine], kind: Kind, strict: bool, nest: Nursery) -> None:
    job = Terms(kind=kind, strict=strict)
    with replayed(machine, nest) as state:
        for _ in range(2):
            state.create(terms=job, questions=2, last=Outcome.DONE, key=None, twice=False, then_crash=False)
            state.goes_on(which=-1, words="blue")
            state.reply_meets_deadline(which=-1, words="blue", by="token")
            state.create(terms=job, questions=2, last=Outcome.DONE, key=None, twice=False, then_crash=False)
            state.goes_on(which=-1, words="blue")
            state.clock_jumps(hops=-1252)
            state.clock_jumps(hops=125_200)
            state.reply_anyhow(which=-1, number=1, words="blue", by="page")
            state.cancel(which=-2, then_crash=False)
            state.cancel(which=-1, then_crash=False)
        state.create(terms=job, questions=2, last=Outcome.DONE, key=None, twice=False, then_crash=False)
        state.reply(which=-1, words="blue", by="page", then_crash=True)
        state.turn_ends(which=-1, then_crash=False)
        state.goes_down(is_meant=False, hops=1)


@pytest.mark.failure("H07", "H13", "H14", "S11")
@pytest.mark.parametrize("loadable", [True, False])
def test_a_resident_that_is_lost(loadable: bool, nest: Nursery) -> None:
    job = Terms(kind=Kind.RESIDENT, loadable=loadable)
    with replayed(Resident, nest) as state:
        for is_meant in (True, False):
            state.create(terms=job, questions=2, last=Outcome.DONE, key=None, twice=False, then_crash=False)
            state.goes_on(which=-1, words="blue")
            state.engine_is_killed(which=-1)
            state.reply_anyhow(which=-1, number=1, words="blue", by="page")
            state.cancel(which=-1, then_crash=False)
            state.create(terms=job, questions=2, last=Outcome.DONE, key=None, twice=False, then_crash=False)
            state.goes_on(which=-1, words="green")
            state.goes_down(is_meant=is_meant, hops=0)
            state.reply_anyhow(which=-1, number=1, words="green", by="token")
            state.create(terms=job, questions=2, last=Outcome.DONE, key=None, twice=False, then_crash=False)
            state.goes_on(which=-1, words="blue")
            state.reply(which=-1, words="blue", by="page", then_crash=True)
            state.cancel(which=-2, then_crash=False)
            state.cancel(which=-1, then_crash=False)
        state.create(terms=job, questions=0, last=Outcome.LEAVES, key=None, twice=False, then_crash=False)
        state.goes_on(which=-1, words="blue")
        state.create(terms=job, questions=2, last=Outcome.DONE, key=None, twice=False, then_crash=True)


@pytest.mark.failure("H07", "H11", "V01")
@pytest.mark.parametrize(("machine", "kind"), [(Resumable, Kind.RESUMABLE), (Resident, Kind.RESIDENT)])
def test_what_was_accepted_outlives_a_kill(machine: type[Machine], kind: Kind, nest: Nursery) -> None:
    job = Terms(kind=kind)
    with replayed(machine, nest) as state:
        for _ in range(3):  # one more than there are slots
            state.create(terms=job, questions=2, last=Outcome.DONE, key=None, twice=False, then_crash=True)
        for which in (2, 0, 1):
            state.cancel(which=which, then_crash=True)
        for _ in range(3):  # after so many kills those before may have been over anyhow
            state.create(terms=job, questions=2, last=Outcome.DONE, key=None, twice=False, then_crash=False)
        state.goes_on(which=0, words="blue")
        state.reply(which=0, words="blue", by="page", then_crash=True)
        state.turn_ends(which=0, then_crash=True)
        for which in (5, 3, 4):
            state.cancel(which=which, then_crash=True)
        state.create(terms=job, questions=1, last=Outcome.QUIET, key="a", twice=True, then_crash=True)
        state.create_again(key="a")
        state.cancel(which=6, then_crash=True)


@pytest.mark.failure("E06", "E08", "V03")
def test_what_was_refused_is_not_there_and_what_was_taken_is(nest: Nursery) -> None:
    job = Terms(kind=Kind.RESUMABLE)
    with replayed(FaultyDisk, nest) as state:
        assert isinstance(state, FaultyDisk)
        state.create(terms=job, questions=1, last=Outcome.DONE, key="a", twice=True, then_crash=False)
        state.somebody_listens(which=0, is_new=True)
        state.create_again(key="a")
        state.goes_on(which=0, words="blue")
        state.disk_fails()
        state.create(terms=job, questions=1, last=Outcome.DONE, key="b", twice=True, then_crash=False)
        state.reply(which=0, words="blue", by="token", then_crash=False)
        state.cancel(which=0, then_crash=False)
        state.create_again(key="a")
        state.disk_works_again()
        state.create(terms=job, questions=0, last=Outcome.DONE, key="b", twice=True, then_crash=True)
        state.reply(which=0, words="blue", by="token", then_crash=False)
        state.disk_fails()
        state.turn_ends(which=0, then_crash=False)
        state.disk_works_again()
        state.somebody_listens(which=0, is_new=True)
