"""Random walks through the lifecycle: whatever happens in whatever order, a run and its log tell one story."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.examples import (
    LOADABLE,
    NOTE,
    NOW,
    RESUMABLE,
    SAID,
    TIED,
    TIMEOUT,
    a_job,
    finish,
    later,
)
from turnkeeper.core import fcmp, lifecycle, questions
from turnkeeper.core.change import Change, TurnReport
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.core.fcmp import Event, Type
from turnkeeper.core.gate import Cancel, Fail, Succeed, Verdict, Wait
from turnkeeper.core.run import Attempt, Interaction, Job, OnInterrupted, Question
from turnkeeper.core.statechart import TABLE, State, Trigger
from turnkeeper.core.waiting import ProfileKind


class Ledger:
    """A store of one run: numbers the events, keeps the rows, and looks at every change before it takes it."""

    def __init__(self, first: Change) -> None:
        assert (first.before, first.trigger, first.after.version) == (None, None, 1)
        assert (first.after.state, first.events[0].type) == (State.QUEUED, Type.CONVERSATION_STARTED)
        self.log: list[tuple[int, Event]] = []
        self.questions: dict[int, Interaction] = {}
        self.attempts: dict[tuple[int, int], Attempt] = {}
        self._write(first)

    @property
    def pending(self) -> Interaction | None:
        return self.questions.get(self.run.pending_interaction_id or 0)

    def commit(self, change: Change) -> None:
        before, after = self.run, change.after
        assert change.before is not None
        assert (change.before.version, change.before.lease) == (before.version, before.lease)
        assert after.version == before.version + 1
        if change.trigger is None:
            assert after.state is before.state
        else:
            assert after.state is TABLE[before.state, change.trigger]
        moves = [(before.state, after.state, change.trigger)] if after.state is not before.state else []
        told = [event.data for event in change.events if event.type is Type.STATE_CHANGED]
        assert [(data["from"], data["to"], data["trigger"]) for data in told] == moves
        if moves and before.ending is not None:
            assert after.state.is_terminal, "an accepted end was undone"
        self._write(change)

    def _write(self, change: Change) -> None:
        after = change.after
        free = after.lease is None and after.held is None
        assert change.enqueue == (after.state is State.QUEUED and free), (
            "a turn is dispatched once, and never in vain"
        )
        self.log += enumerate(change.events, len(self.log) + 1)
        self.run = replace(change.after, last_seq=len(self.log))
        if change.interaction is not None:
            self.questions[change.interaction.interaction_id] = change.interaction
        if change.attempt is not None:
            key = (change.attempt.attempt_number, change.attempt.try_number)
            assert (key in self.attempts) == (change.attempt.ended_at is not None)
            self.attempts[key] = change.attempt


# What can happen to a run. Each move is one step, taken as the service would take it.

Move = Callable[[Ledger, st.DataObject], None]

verdicts: st.SearchStrategy[Verdict] = st.sampled_from([*[Wait()] * 8, Succeed("DONE_MARKER"), Fail(TIMEOUT)])
handles = st.sampled_from([LOADABLE, LOADABLE, LOADABLE, TIED, None])


def upload_or_start(house: Ledger, data: st.DataObject) -> None:
    if house.run.held:
        house.commit(lifecycle.complete_input(house.run, {}, NOW))
    elif house.run.is_paused:
        house.commit(lifecycle.go_on(house.run, NOW))
    else:
        house.commit(lifecycle.start_turn(house.run, house.run.lease or f"lease-{house.run.version}", NOW))


def finish_turn(house: Ledger, data: st.DataObject) -> None:
    words = {"output": [SAID], "usage": {"input_tokens": 1}, "warnings": [NOTE]}
    house.commit(finish(house.run, data.draw(verdicts), handle=data.draw(handles), **words))


def ask_permission(house: Ledger, data: st.DataObject) -> None:
    """Only a resident agent can."""
    if house.run.is_sticky:
        asks = Question(prompt="May I?", kind="permission", source="permission")
        house.commit(questions.ask_permission(house.run, asks, NOW, output=[SAID], handle=data.draw(handles)))


def interrupt(house: Ledger, data: st.DataObject) -> None:
    started, counts, handle = data.draw(st.booleans()), data.draw(st.booleans()), data.draw(handles)
    house.commit(
        lifecycle.interrupt_turn(
            house.run,
            NOW,
            process_started=started,
            counts=counts,
            attempt=house.attempts[house.run.attempt_number, house.run.try_number],
            report=TurnReport(output=[SAID], handle=handle),
        )
    )


def reply(house: Ledger, data: st.DataObject) -> None:
    house.commit(questions.accept_reply(house.run, house.pending, "blue", NOW, by="ann"))


def lose_process(house: Ledger, data: st.DataObject) -> None:
    run = house.run
    if run.lease is not None:
        attempt = house.attempts[run.attempt_number, run.try_number] if run.is_paused else None
        report = TurnReport(output=[SAID], usage={"input_tokens": 1}) if run.is_paused else TurnReport()
        house.commit(lifecycle.lose_process(run, NOW, attempt=attempt, report=report))


def pass_time(house: Ledger, data: st.DataObject) -> None:
    passed, due_at = data.draw(st.sampled_from([1, 59, 65, 10**6])), house.run.due_at
    change = questions.apply_deadline(house.run, house.pending, later(passed))
    assert (change is not None) == (due_at is not None and due_at <= later(passed))
    if change is not None:
        house.commit(change)


def cancel(house: Ledger, data: st.DataObject) -> None:
    change = lifecycle.cancel(house.run, NOW, by="ann")
    assert change is not None
    house.commit(change)


def end_the_process(house: Ledger, data: st.DataObject) -> None:
    if house.run.state is State.RUNNING and data.draw(st.booleans()):
        house.commit(finish(house.run, Cancel(), output=[SAID], usage={"input_tokens": 1}))
    else:
        house.commit(lifecycle.finish_ending(house.run, NOW))


MOVES: dict[State, list[Move]] = {
    State.QUEUED: [*[upload_or_start] * 8, pass_time, cancel],
    State.RUNNING: [*[finish_turn] * 6, *[ask_permission] * 2, interrupt, interrupt, interrupt, cancel],
    State.WAITING_USER: [*[reply] * 4, pass_time, pass_time, lose_process, lose_process, cancel],
}


# What holds after every step


def check_log(house: Ledger) -> None:
    numbers, events = zip(*house.log, strict=True)
    assert numbers == tuple(range(1, len(events) + 1))
    types = [event.type for event in events]
    assert types.index(Type.CONVERSATION_STARTED) == 0
    assert types.count(Type.CONVERSATION_STARTED) == 1
    closing = [type_ in fcmp.TERMINAL for type_ in types]
    assert sum(closing) == closing[-1] == house.run.state.is_terminal


def check_log_tells_the_run(house: Ledger) -> None:
    state, asked, usage = "queued", None, 0
    for _, event in house.log:
        match event.type:
            case Type.STATE_CHANGED:
                assert event.data["from"] == state
                state, asked = event.data["to"], event.data.get("pending_interaction_id")
            case Type.INPUT_REQUIRED:
                assert (state, event.data["interaction_id"]) == ("waiting_user", asked)
            case Type.USAGE:
                usage += event.data["input_tokens"]
    assert (state, asked) == (house.run.state, house.run.pending_interaction_id)
    assert usage == house.run.usage.get("input_tokens", 0)


def check_fields(house: Ledger) -> None:
    run = house.run
    assert (run.pending_interaction_id is not None) == (run.state is State.WAITING_USER)
    assert (run.finished_at is not None) == run.state.is_terminal
    assert (run.error is not None) == (run.state is State.FAILED)
    assert list(house.questions) == list(range(1, run.questions + 1))
    if run.state is State.WAITING_USER:
        assert house.pending is not None
        assert house.pending.answer is None
    open_tries = [key for key, attempt in house.attempts.items() if attempt.ended_at is None]
    assert run.ending is not None or len(open_tries) == (run.state is State.RUNNING or run.is_paused)
    if run.state is State.RUNNING:
        assert run.lease is not None
        assert (run.attempt_number, run.try_number) == max(house.attempts)
    if run.state.is_terminal or (run.state is State.WAITING_USER and run.job.profile.kind is RESUMABLE):
        assert run.lease is None


def check_wrong_steps(house: Ledger) -> None:
    """Whatever a confused caller tries: what the table does not list is refused."""
    run = house.run
    tries: list[tuple[set[Trigger], Callable[[], object]]] = [
        ({Trigger.INPUT_COMPLETED}, partial(lifecycle.complete_input, run, {}, NOW)),
        ({Trigger.TURN_STARTED}, partial(lifecycle.start_turn, run, "lease", NOW)),
        ({Trigger.TURN_NEEDS_INPUT}, partial(finish, run, Wait())),
        ({Trigger.TURN_SUCCEEDED}, partial(finish, run, Succeed("DONE_MARKER"))),
        ({Trigger.TURN_FAILED}, partial(finish, run, Fail(TIMEOUT))),
        ({Trigger.RECONCILE_FAILED}, partial(lifecycle.reconcile_failed, run, TIMEOUT, NOW)),
        (
            {Trigger.PRESERVE_WAITING, Trigger.PROCESS_LOST, Trigger.RECONCILE_FAILED},
            partial(lifecycle.lose_process, run, NOW),
        ),
        (
            {Trigger.TURN_NEEDS_PERMISSION},
            partial(questions.ask_permission, run, Question(prompt="?"), NOW, output=(), handle=None),
        ),
        (
            {Trigger.RESUME_TURN, Trigger.RECONCILE_FAILED},
            partial(lifecycle.interrupt_turn, run, NOW, process_started=False),
        ),
    ]
    for triggers, step in tries:
        may_end = run.ending is not None and not run.state.is_terminal
        if not may_end and not any((run.state, trigger) in TABLE for trigger in triggers):
            assert is_refused(step)
    for number in range(len(house.questions) + 2):
        if number != run.pending_interaction_id or run.ending is not None:
            wrong = house.questions.get(number)
            assert is_refused(partial(questions.accept_reply, run, wrong, "red", NOW, by="bob"))
    if run.state.is_terminal or run.ending is not None:
        assert lifecycle.cancel(run, NOW, by="bob") is None
        assert questions.apply_deadline(run, house.pending, later(10**9)) is None


def is_refused(step: Callable[[], object]) -> bool:
    try:
        step()
    except TurnkeeperError:
        return True
    return False


jobs = st.builds(
    a_job,
    st.sampled_from(ProfileKind),
    strict=st.booleans(),
    on_interrupted=st.sampled_from([*[OnInterrupted.RESUME] * 4, OnInterrupted.FAIL]),
)


@given(jobs, st.booleans(), st.data())
@settings(max_examples=200)
def test_any_walk_tells_one_story(job: Job, held: bool, data: st.DataObject) -> None:
    upload = lifecycle.create("run-1", job, NOW, held="upload", due_at=later(60))
    house = Ledger(upload if held else lifecycle.create("run-1", job, NOW))
    for _ in range(40):
        check_log(house)
        check_log_tells_the_run(house)
        check_fields(house)
        check_wrong_steps(house)
        if house.run.state.is_terminal:
            break
        ends = house.run.ending is not None
        move = end_the_process if ends else data.draw(st.sampled_from(MOVES[house.run.state]))
        move(house, data)
