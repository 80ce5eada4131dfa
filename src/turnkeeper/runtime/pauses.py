"""A turn that stops in its middle for a permission: a person is asked, and the same process goes on."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from turnkeeper.core import lifecycle, permission, questions
from turnkeeper.core.change import Change
from turnkeeper.core.permission import PermissionAsked
from turnkeeper.core.run import Attempt, Resolution, Run
from turnkeeper.core.statechart import State
from turnkeeper.failpoints import Deed, around
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.judging import HowEnded
from turnkeeper.runtime.owner import Owner
from turnkeeper.runtime.recorder import Recorder
from turnkeeper.runtime.turns import Interrupt, Turn
from turnkeeper.store.base import Store

log = logging.getLogger(__name__)


class Pauses:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def play(self, owner: Owner, turn: Turn, recorder: Recorder, attempt: Attempt) -> HowEnded:
        """The turn to its end, however often it pauses. Whatever cuts a pause short, the turn itself finds out."""
        how = await turn.play(owner.interrupted)
        while isinstance(how, PermissionAsked):
            if await self._ask(owner, turn, recorder, replace(attempt, born=turn.born), how):
                await self._await_answer(owner, turn, recorder)
            how = await turn.play(owner.interrupted)
        return how

    async def _ask(
        self, owner: Owner, turn: Turn, recorder: Recorder, attempt: Attempt, asked: PermissionAsked
    ) -> bool:
        output = await recorder.pause()

        async def decide(run: Run) -> Change | None:
            if run.ending is not None or owner.interrupted.done():
                return None
            change = questions.ask_permission(
                run,
                permission.question(asked),
                self._clock(),
                output=output,
                handle=turn.transcript.handle,
            )
            return replace(change, attempt=attempt)

        with around(Deed.PAUSE):
            run = await owner.commit(decide)
        if run.state is State.RUNNING:
            recorder.go_on(output)
            turn.ask_again(asked)
            return False
        log.info("run=%s turn %s pauses for a permission", run.id, run.attempt_number)
        return True

    async def _await_answer(self, owner: Owner, turn: Turn, recorder: Recorder) -> None:
        await owner.reply_or(*turn.wakes)
        # A turn that closed before the service stopped is over, and judged.
        is_over = turn.is_closed and owner.is_told(Interrupt.STOPPING)
        if not turn.can_go_on or (owner.interrupted.done() and not is_over):
            return
        if not owner.replied.is_set():
            await owner.commit(self._withdraw)

        async def decide(run: Run) -> Change | None:
            return lifecycle.go_on(run, self._clock()) if run.ending is None else None

        run = await owner.commit(decide)
        owner.replied.clear()
        if run.state is not State.RUNNING:
            return
        recorder.go_on()
        asked = await owner.patiently(partial(self._store.interaction, run.id, run.questions))
        assert asked is not None
        assert asked.answer is not None
        if asked.answer.resolution_mode is Resolution.WITHDRAWN:
            turn.go_on()
        else:
            turn.answer(asked.interaction_id, permission.decide(asked.question, asked.answer))

    async def _withdraw(self, run: Run) -> Change | None:
        """Unless somebody was quicker."""
        if run.state is not State.WAITING_USER or run.ending is not None:
            return None
        pending = await self._store.interaction(run.id, run.questions)
        assert pending is not None
        log.info("run=%s question %s is withdrawn by the agent", run.id, run.questions)
        return questions.withdraw(run, pending, self._clock())
