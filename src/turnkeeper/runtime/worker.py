"""Owns the runs that hold a slot: claims a turn, plays it, commits its verdict, keeps a resident process waiting."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from turnkeeper.core import gate, lifecycle
from turnkeeper.core.change import Change
from turnkeeper.core.errors import Code, StorageUnavailable, Warn
from turnkeeper.core.fcmp import Event
from turnkeeper.core.run import Attempt, Failure, Run, RunWarning
from turnkeeper.core.skill import Skill
from turnkeeper.core.statechart import State
from turnkeeper.core.turn import Transcript
from turnkeeper.engines.census import Found
from turnkeeper.engines.process import SpawnFailed
from turnkeeper.runtime import judging
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.dispatch import Ticket
from turnkeeper.runtime.judging import HowEnded
from turnkeeper.runtime.recorder import Recorder
from turnkeeper.runtime.stage import Scene, Stage, StageFailed
from turnkeeper.runtime.turns import Interrupt, Session, Turn, first
from turnkeeper.store.base import Notice, Output, Stale, Store

log = logging.getLogger(__name__)

RETRY_SEC = 1.0


class Lost(Exception):
    """The run is no longer ours: stop its process and write nothing more."""


class Owner:
    """One run with a slot: its lease, its process if it has one, and the signals that reach it from outside."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.lease = uuid.uuid4().hex
        self.session: Session | None = None
        self.survivors: list[Found] = []
        loop = asyncio.get_running_loop()
        self.interrupted: asyncio.Future[Interrupt] = loop.create_future()
        self.replied = asyncio.Event()

    def interrupt(self, why: Interrupt) -> None:
        if not self.interrupted.done():
            self.interrupted.set_result(why)

    def hear(self, run: Run) -> None:
        """Somebody else changed the run: told to end, or answered."""
        if run.lease != self.lease:
            return
        if run.ending is not None:
            self.interrupt(Interrupt.ENDING)
        elif run.state is State.QUEUED:
            self.replied.set()


class Worker:
    def __init__(self, store: Store, stage: Stage, clock: Clock, release: Callable[[Ticket], None]) -> None:
        self._store = store
        self._stage = stage
        self._clock = clock
        self._release = release
        self._owners: dict[str, Owner] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, ticket: Ticket) -> None:
        task = asyncio.create_task(self._own(ticket), name=f"run {ticket.run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def hear(self, notice: Notice) -> None:
        owner = self._owners.get(notice.run_id)
        if owner is not None and notice.run is not None:
            owner.hear(notice.run)

    async def stop(self) -> None:
        """Ends every process and leaves each run where the next start can go on."""
        for owner in self._owners.values():
            owner.interrupt(Interrupt.STOPPING)
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def resident(self) -> int:
        """Live processes that wait for a person."""
        return sum(
            owner.session is not None and owner.session.turn is None for owner in self._owners.values()
        )

    async def _own(self, ticket: Ticket) -> None:
        owner = self._owners[ticket.run_id] = Owner(ticket.run_id)
        try:
            await self._serve(owner)
        except Lost:
            log.warning("run=%s was lost to somebody else", owner.run_id)
        except Exception:
            log.exception("run=%s stopped by a fault of ours", owner.run_id)
            await self._let_go(owner)
            await self._give_up(owner)
        finally:
            try:
                await self._let_go(owner)
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
        while True:
            run = await self._store.run(owner.run_id)
            if (
                run is None
                or run.state is not State.QUEUED
                or run.held
                or run.lease not in (None, owner.lease)
            ):
                return None
            if run.ending is not None:
                await self._settle(owner)
                return None
            change = lifecycle.start_turn(run, owner.lease, self._clock())
            assert change.attempt is not None
            try:
                started = await self._store.commit(change)
            except Stale:
                continue
            except StorageUnavailable as error:
                await self._pause(owner.run_id, error)
                continue
            log.info("run=%s turn %s.%s started", run.id, started.attempt_number, started.try_number)
            return started, change.attempt

    async def _take_turn(self, owner: Owner, run: Run, attempt: Attempt) -> Run:
        transcript = Transcript(run.attempt_number, run.try_number, run.handle)
        recorder = Recorder(self._store, _output(run, owner), lambda: owner.interrupt(Interrupt.LOST))
        skill: Skill | None = None
        warnings: list[RunWarning] = []
        try:
            scene = await self._stage.set(run, attempt)
            skill = scene.skill
            turn = await self._begin(owner, run, scene, transcript, recorder)
            attempt = replace(attempt, born=turn.born)
        except StageFailed as failed:
            how = _not_started(Failure(failed.code, failed.message))
        except SpawnFailed as failed:
            how = _not_started(Failure(Code.ENGINE_NOT_READY, str(failed)))
        else:
            how = await turn.play(owner.interrupted)
            how = replace(how, files=await self._stage.files(scene))
            warnings = turn.warnings
        rest = await recorder.close()
        return await self._finish(owner, attempt, skill, transcript, how, rest, warnings)

    async def _begin(
        self, owner: Owner, run: Run, scene: Scene, transcript: Transcript, recorder: Recorder
    ) -> Turn:
        logs = [scene.folder.raw(run.attempt_number, run.try_number, name) for name in ("stdout", "stderr")]
        if owner.session is not None and owner.session.is_alive:
            owner.session.process.redirect(*logs)
        else:
            await self._let_go(owner)
            if run.handle is not None and not run.handle.loadable:
                raise StageFailed(
                    Code.INTERACTION_PROCESS_LOST, "the resident process is gone, and its session with it"
                )
            command = await self._stage.command(scene)
            session = Session(scene.engine.dialect(scene.plan), run.job.timeouts)
            session.start(command, mark=f"{self._store.data_id}/{_mark(run)}", stdout=logs[0], stderr=logs[1])
            owner.session = session
        turn = Turn(owner.session, transcript, recorder, self._clock)
        recorder.bear(turn.born)
        turn.begin(scene.prompt)
        return turn

    async def _finish(
        self,
        owner: Owner,
        attempt: Attempt,
        skill: Skill | None,
        transcript: Transcript,
        how: HowEnded,
        rest: Sequence[Event],
        warnings: Sequence[RunWarning],
    ) -> Run:
        """Everything is dead and on disk before the change that says so is committed."""
        why = owner.interrupted.result() if owner.interrupted.done() else None
        if why is Interrupt.LOST:
            raise Lost
        was_stopped = why is Interrupt.STOPPING and how.is_cut_off
        if owner.session is not None:
            owner.session.turn = None
            await owner.session.process.sync()

        async def decide(run: Run) -> Change:
            now = self._clock()
            if was_stopped and run.ending is None:
                return lifecycle.interrupt_turn(
                    run,
                    now,
                    process_started=True,
                    counts=False,
                    attempt=attempt,
                    output=rest,
                    handle=transcript.handle,
                )
            judged = judging.judge(run, skill, transcript, replace(how, canceled=run.ending is not None))
            if not (isinstance(judged.verdict, gate.Wait) and run.is_sticky):
                await self._let_go(owner, gently=True)
            more = [*warnings, *_unreaped(owner)]
            report = judging.report(judged, transcript, rest, more)
            return lifecycle.finish_turn(
                run, attempt, judging.explained(judged.verdict, judged.finding), report, now
            )

        run = await self._commit(owner, decide)
        log.info("run=%s turn %s ended: %s", run.id, run.attempt_number, run.state.value)
        return run

    async def _await_reply(self, owner: Owner) -> bool:
        """A resident process waits for a person, and with it its slot. True when there is a reply to play."""
        session = owner.session
        assert session is not None
        replied = asyncio.ensure_future(owner.replied.wait())
        try:
            await first(session.process.exited, owner.interrupted, replied)
        finally:
            replied.cancel()
        if owner.interrupted.done():
            await self._let_go(owner)
            await self._settle(owner)
            return False
        if owner.replied.is_set():
            owner.replied.clear()
            return True
        await self._let_go(owner)
        run = await self._settle(owner)
        return run.lease == owner.lease

    async def _settle(self, owner: Owner) -> Run:
        """The resident process is gone: end the run if it was told to, else say what became of it."""

        async def decide(run: Run) -> Change | None:
            if run.state is State.WAITING_USER or run.ending is not None:
                return lifecycle.lose_process(run, self._clock())
            return None  # a reply came in the same moment; the next turn loads the session

        return await self._commit(owner, decide)

    async def _commit(self, owner: Owner, decide: Callable[[Run], Awaitable[Change | None]]) -> Run:
        """Reads, decides and writes until the guard holds: who else changed the run is taken into account."""
        while True:
            run = await self._store.run(owner.run_id)
            if run is None or run.lease != owner.lease:
                raise Lost
            change = await decide(run)
            if change is None:
                return run
            try:
                return await self._store.commit(change)
            except Stale:
                continue
            except StorageUnavailable as error:
                await self._pause(owner.run_id, error)

    async def _pause(self, run_id: str, error: StorageUnavailable) -> None:
        """A full disk is no verdict on a run: it keeps its slot until the write goes through."""
        log.error("run=%s waits for the database: %s", run_id, error.message)
        await asyncio.sleep(RETRY_SEC)

    async def _give_up(self, owner: Owner) -> None:
        failure = Failure(
            Code.INTERNAL_ERROR, "a fault of ours ended the turn; the service's log has the details"
        )

        async def decide(run: Run) -> Change:
            return lifecycle.reconcile_failed(run, failure, self._clock())

        with suppress(Lost):
            await self._commit(owner, decide)

    async def _let_go(self, owner: Owner, *, gently: bool = False) -> None:
        session = owner.session
        if session is not None:
            await (session.leave() if gently else session.end())
            owner.survivors = session.survivors
            session.close()
            owner.session = None


def _output(run: Run, owner: Owner) -> Output:
    return Output(
        run_id=run.id,
        lease=owner.lease,
        engine=run.job.engine,
        attempt_number=run.attempt_number,
        try_number=run.try_number,
    )


def _mark(run: Run) -> str:
    return f"{run.id}/{run.attempt_number}.{run.try_number}"


def _not_started(fault: Failure) -> HowEnded:
    return HowEnded(kind=gate.ExitKind.NONZERO, fault=fault)


def _unreaped(owner: Owner) -> list[RunWarning]:
    return [
        RunWarning(Warn.PROCESS_NOT_REAPED, f"process {found.pid} ({found.command}) does not die")
        for found in owner.survivors
    ]
