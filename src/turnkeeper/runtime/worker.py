"""Works for the runs that hold a slot: claims a turn, plays it, commits its verdict, keeps a resident process."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from turnkeeper.core import asking, gate, lifecycle
from turnkeeper.core.change import Change, TurnReport
from turnkeeper.core.errors import Code, StorageUnavailable, Warn
from turnkeeper.core.fcmp import Event
from turnkeeper.core.run import Attempt, Failure, Question, Run, RunWarning
from turnkeeper.core.statechart import State
from turnkeeper.core.turn import Transcript
from turnkeeper.engines.sandbox import Sandbox
from turnkeeper.engines.spawn import replaced_files
from turnkeeper.failpoints import Deed, around
from turnkeeper.runtime import judging, launching, verdicts
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.dispatch import Ticket
from turnkeeper.runtime.judging import HowEnded, Judgement
from turnkeeper.runtime.owner import Lost, Owner
from turnkeeper.runtime.pauses import Pauses
from turnkeeper.runtime.recorder import Recorder
from turnkeeper.runtime.session import Session
from turnkeeper.runtime.stage import Scene, Stage, StageFailed
from turnkeeper.runtime.turns import Interrupt, Turn
from turnkeeper.skills.yamltext import load_yaml
from turnkeeper.store.base import Batch, Notice, Stale, Store

log = logging.getLogger(__name__)

GIVE_UP_PAUSE_SEC = 1.0


@dataclass(slots=True)
class Played:
    """A turn from its claim to its verdict."""

    run: Run
    attempt: Attempt
    transcript: Transcript
    how: HowEnded
    was_started: bool = False
    scene: Scene | None = None
    """What it was played on, if it was."""
    rest: Sequence[Event] = ()
    warnings: list[RunWarning] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Concluded:
    """What follows from a turn that is over."""

    judged: Judgement
    question: Question | None
    warnings: Sequence[RunWarning]
    """About the form of the question."""


class Worker:
    def __init__(self, store: Store, stage: Stage, clock: Clock, release: Callable[[Ticket], None]) -> None:
        self._store = store
        self._stage = stage
        self._clock = clock
        self._release = release
        self.unparsed: Counter[str] = Counter()
        """Lines that no parser understood, by engine: one that was updated may have begun to speak differently."""
        self._pauses = Pauses(store, clock)
        self._owners: dict[str, Owner] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, ticket: Ticket) -> None:
        owner = self._owners[ticket.run_id] = Owner(ticket.run_id, self._store)
        task = asyncio.create_task(self._own(owner, ticket), name=f"run {ticket.run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def hear(self, notice: Notice) -> None:
        owner = self._owners.get(notice.run_id)
        if owner is not None and notice.run is not None:
            owner.hear(notice.run, notice.answered)

    def known(self, run_id: str) -> Run | None:
        """As the last change left it, if we have it in hand; output since then does not count."""
        owner = self._owners.get(run_id)
        return owner.run if owner is not None else None

    async def stop(self) -> None:
        """Ends every process and leaves each run where the next start can go on."""
        for owner in self._owners.values():
            owner.interrupt(Interrupt.STOPPING)
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def resident(self) -> int:
        """Live processes that wait for a person."""
        sessions = (owner.session for owner in self._owners.values())
        return sum(session is not None and session.is_resting for session in sessions)

    async def _own(self, owner: Owner, ticket: Ticket) -> None:
        try:
            await self._serve(owner)
        except Lost:
            log.warning("run=%s is left to whoever takes it up next", owner.run_id)
        except Exception as error:
            log.exception("run=%s stopped by a fault of ours", owner.run_id)
            await self._give_up(owner, _failure(error))
        finally:
            try:
                await owner.let_go()
            finally:
                del self._owners[ticket.run_id]
                self._release(ticket)

    async def _serve(self, owner: Owner) -> None:
        claimed = await self._claim(owner)
        while claimed is not None:
            run = await self._take_turn(owner, *claimed)
            if run.lease != owner.lease or not await self._await_reply(owner):
                return
            claimed = await self._claim(owner)

    async def _claim(self, owner: Owner) -> tuple[Run, Attempt] | None:
        """`turn.started` under our lease; None if the run has nothing for us to do (any more)."""
        while not owner.is_told(Interrupt.STOPPING):
            run = await owner.look()
            if (
                run is None
                or run.state is not State.QUEUED
                or run.held
                or run.lease not in (None, owner.lease)
            ):
                return None
            if run.ending is not None:
                await owner.let_go()
                await self._settle(owner)
                return None
            change = lifecycle.start_turn(run, owner.lease, self._clock(), self._stage.sandbox.kind)
            assert change.attempt is not None
            try:
                with around(Deed.CLAIM):
                    started = await owner.write(change)
            except Stale:
                continue
            owner.replied.clear()  # the reply that is played now; the next can only come after the next question
            log.info("run=%s turn %s.%s started", run.id, started.attempt_number, started.try_number)
            return started, change.attempt
        return None

    async def _take_turn(self, owner: Owner, run: Run, attempt: Attempt) -> Run:
        transcript = Transcript(run.attempt_number, run.try_number, run.handle)
        recorder = Recorder(self._store, _batch(run, owner), lambda: owner.interrupt(Interrupt.LOST))
        played = Played(run, attempt, transcript, HowEnded(kind=gate.ExitKind.ENDED_BY_US))
        try:
            scene = await self._set(owner, run, attempt)
            turn = await self._begin(owner, scene, played, recorder)
        except StageFailed as failed:
            played.how = HowEnded(kind=gate.ExitKind.NONZERO, fault=Failure(failed.code, failed.message))
        else:
            if turn is not None:
                played.scene = scene
                played.how = await self._pauses.play(owner, turn, recorder, played.attempt)
                self.unparsed[run.job.engine] += turn.unparsed
                played.warnings += turn.warnings
        played.rest = await recorder.close()
        return await self._finish(owner, played)

    async def _set(self, owner: Owner, run: Run, attempt: Attempt) -> Scene:
        """With a process that has only to be started, if there is none to go on with."""
        while True:
            if not owner.has_process:
                await owner.let_go()
            is_fresh = owner.session is None
            look = partial(self._stage.set, run, attempt, is_fresh=is_fresh, heard=owner.answered)
            scene = await owner.patiently(partial(launching.prepared, look))
            if is_fresh or owner.has_process:  # it may have ended meanwhile
                return scene

    async def _begin(self, owner: Owner, scene: Scene, played: Played, recorder: Recorder) -> Turn | None:
        """The process and the first words to it; None if we are told to let go before anything is started."""
        if owner.interrupted.done():
            await self._stage.strike(scene)
            return None
        played.was_started = True
        run, fresh = played.run, scene.fresh
        logs = [scene.folder.raw(run.attempt_number, run.try_number, name) for name in ("stdout", "stderr")]
        if fresh is not None:
            words, session = fresh.words, fresh.session
            played.attempt = replace(played.attempt, launch=session.record)
            played.warnings += [fresh.grown] if fresh.grown else []
            played.warnings += _unwalled(run, self._stage.sandbox)
            mark = f"{self._store.data_id}/{run.id}/{run.attempt_number}.{run.try_number}"
            await launching.start(session, mark, logs)
            owner.session = session
        else:
            assert owner.session is not None
            session = owner.session
            played.attempt = replace(played.attempt, launch=session.record)
            words = session.dialect.begin(scene.prompt)
            await launching.redirect(session, logs, partial(self._stage.keep_words, scene, run, words))
        # With no wait in between: whatever a resident says from here on is of this turn.
        turn = Turn(session, played.transcript, recorder, self._clock)
        played.attempt = replace(played.attempt, born=turn.born)
        recorder.bear(turn.born, session.record)
        with around(Deed.SPEAK):
            turn.begin(words)
        return turn

    async def _finish(self, owner: Owner, played: Played) -> Run:
        """Everything is dead and on disk before the change that says so is committed."""
        if owner.is_told(Interrupt.LOST):
            raise Lost
        if owner.session is not None:
            owner.session.turn = None
        known = await owner.look() or played.run
        with around(Deed.SYNC_LOGS):
            concluded = await asyncio.to_thread(self._wrap_up, played, owner.session, known)

        async def decide(run: Run) -> Change:
            nonlocal concluded
            if run.is_paused and run.ending is None:
                how = played.how
                await owner.let_go()
                report = _said(played, owner.parting)
                return lifecycle.lose_process(
                    run, self._clock(), attempt=played.attempt, report=report, fault=how.fault or how.timeout
                )
            if owner.is_told(Interrupt.STOPPING) and played.how.is_cut_off and run.ending is None:
                await owner.let_go()
                return self._cut_off(run, played, _said(played, owner.parting))
            if concluded.judged.how.canceled != (run.ending is not None):  # told to end in this very moment
                concluded = await asyncio.to_thread(_conclude, played, run)
            verdict = concluded.judged.verdict
            if not (isinstance(verdict, gate.Wait) and run.is_sticky):
                await owner.let_go(gently=True)
            report = _report(concluded, played, owner.parting)
            return lifecycle.finish_turn(run, played.attempt, verdict, report, self._clock())

        with around(Deed.FINISH):
            run = await owner.commit(decide)
        log.info("run=%s turn %s ended: %s", run.id, run.attempt_number, run.state.value)
        return run

    def _wrap_up(self, played: Played, session: Session | None, run: Run) -> Concluded:
        """What else is to be known of a turn that is over, its bytes on the disk, and what follows. Blocking: files are
        looked for and synced, and long messages and large schemas take their time."""
        how, hide = played.how, self._stage.secrecy.hide_failure
        if played.scene is not None:
            played.warnings += _replaced(played.attempt)
            try:
                how = replace(how, files=self._stage.files(played.scene, run.job.contract))
            except StorageUnavailable as error:
                how = _faulty(how, error.message)
        if session is not None:
            how = _synced(session, how)
        played.how = replace(how, fault=hide(how.fault), timeout=hide(how.timeout))
        played.warnings = self._stage.secrecy.hide_warnings(played.warnings)
        return _conclude(played, run)

    def _cut_off(self, run: Run, played: Played, report: TurnReport) -> Change:
        """The service stops on purpose: the turn goes on at the next start, and it does not count."""
        return lifecycle.interrupt_turn(
            run,
            self._clock(),
            process_started=played.was_started,
            counts=False,
            attempt=played.attempt,
            report=report,
        )

    async def _await_reply(self, owner: Owner) -> bool:
        """A resident process waits for a person, and with it its slot. True when there is a reply to play."""
        assert owner.session is not None
        if await owner.reply_or(owner.session.process.exited):
            return True
        await owner.let_go()
        run = await self._settle(owner)
        return run.lease == owner.lease and not owner.interrupted.done()

    async def _settle(self, owner: Owner) -> Run:
        """The resident process is gone: end the run if it was told to, else say what became of it."""

        async def decide(run: Run) -> Change | None:
            if run.state is State.WAITING_USER or run.ending is not None:
                return lifecycle.lose_process(
                    run,
                    self._clock(),
                    report=TurnReport(warnings=owner.parting),
                    is_meant=owner.is_told(Interrupt.STOPPING),
                )
            return None  # a reply came in the same moment; the next turn loads the session

        return await owner.commit(decide)

    async def _give_up(self, owner: Owner, failure: Failure) -> None:
        """A fault of ours must not leave a run that nobody owns."""

        async def decide(run: Run) -> Change:
            attempts = await owner.patiently(partial(self._store.attempts, run.id))
            return lifecycle.give_up(run, failure, self._clock(), attempts)

        while not owner.is_told(Interrupt.STOPPING):
            try:
                await owner.let_go()
                await owner.commit(decide)
            except Lost:
                return
            except Exception:  # whatever it is, the next try may find it gone
                log.exception("run=%s cannot be ended yet", owner.run_id)
                await asyncio.sleep(GIVE_UP_PAUSE_SEC)
            else:
                return


def _failure(error: Exception) -> Failure:
    if isinstance(error, StorageUnavailable):
        return Failure(error.code, error.message)
    if isinstance(error, OSError):
        why = f"a file of the run cannot be read or written: {error.strerror or error}"
        return Failure(Code.STORAGE_UNAVAILABLE, why)
    return Failure(Code.INTERNAL_ERROR, "a fault of ours ended the turn; the service's log has the details")


def _batch(run: Run, owner: Owner) -> Batch:
    return Batch(
        run_id=run.id,
        lease=owner.lease,
        engine=run.job.engine,
        attempt_number=run.attempt_number,
        try_number=run.try_number,
    )


def _synced(session: Session, how: HowEnded) -> HowEnded:
    """No verdict stands on bytes that may not be there tomorrow."""
    try:
        session.process.sync()
    except OSError as error:
        log.error("%s: its raw log is not on the disk: %s", session.process.mark, error)
        return _faulty(how, f"the raw log cannot be kept: {error.strerror}")
    return how


def _faulty(how: HowEnded, message: str) -> HowEnded:
    """A turn that was cut off needs no files: nobody judges it."""
    if how.fault is not None or how.is_cut_off:
        return how
    return replace(how, fault=Failure(Code.STORAGE_UNAVAILABLE, message))


def _unwalled(run: Run, sandbox: Sandbox) -> list[RunWarning]:
    """Said once for each run: one that was wanted without walls is no news to anybody."""
    if not sandbox.is_missed or any(each.code == Warn.SANDBOX_UNAVAILABLE for each in run.warnings):
        return []
    return [RunWarning(Warn.SANDBOX_UNAVAILABLE, f"the agent has no sandbox: {sandbox.reason}")]


def _replaced(attempt: Attempt) -> list[RunWarning]:
    """What runs is what was started, whatever is on the disk by now; but it may be why it behaved as it did."""
    gone = replaced_files((attempt.launch or {}).get("program", {}))
    words = f"replaced or removed while the engine ran: {', '.join(gone)}"
    return [RunWarning(Warn.ENGINE_REPLACED, words)] if gone else []


def _said(played: Played, parting: Sequence[RunWarning]) -> TurnReport:
    said = played.transcript
    return TurnReport(
        output=played.rest,
        handle=said.handle,
        usage=said.usage,
        model=said.model,
        noted=said.warnings,
        warnings=[*played.warnings, *parting],
    )


def _conclude(played: Played, run: Run) -> Concluded:
    """Blocking: long messages and large schemas take their time, and so does YAML."""
    how = replace(played.how, canceled=run.ending is not None)
    judged = judging.judge(run, played.transcript, how)
    if not isinstance(judged.verdict, gate.Wait):
        return Concluded(judged, None, ())
    return Concluded(judged, *asking.question(played.transcript.messages, load_yaml))


def _report(concluded: Concluded, played: Played, parting: Sequence[RunWarning]) -> TurnReport:
    """Everything of the turn that goes into the change that ends it."""
    judged, report = concluded.judged, _said(played, parting)
    claim, warnings = judged.finding.claim, [*report.warnings, *concluded.warnings]
    if isinstance(judged.verdict, gate.Cancel) and played.was_started and report.handle is None:
        untold = "the run was canceled before its engine had named a session: nothing of it can be resumed"
        warnings.append(RunWarning(Warn.SESSION_NOT_NAMED, untold))
    if isinstance(judged.verdict, gate.Succeed) and claim.marker and not claim.marker_in_last:
        warnings.append(RunWarning(Warn.MARKER_BEFORE_LAST_MESSAGE, "more was said after the done marker"))
    return replace(
        report,
        warnings=warnings,
        question=concluded.question,
        result=judged.finding.value if judged.finding.output is gate.Output.VALID else None,
        evidence=verdicts.evidence_view(judged),
        verdict=verdicts.verdict_view(judged.verdict),
    )
