"""Reads a finished turn again from its stored bytes and judges it anew, with the functions that judged it live."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from turnkeeper.core import permission
from turnkeeper.core.permission import PermissionAsked
from turnkeeper.core.run import Attempt, Interaction, NextTurn, Run
from turnkeeper.core.turn import Transcript
from turnkeeper.engines.base import Dialect
from turnkeeper.engines.lines import Line, LineAssembler, plain
from turnkeeper.runtime import judging, verdicts
from turnkeeper.runtime.stage import Stage
from turnkeeper.runtime.turns import STDERR_CHARS, STDERR_LINES

CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    stored: Any
    again: Any

    @property
    def agrees(self) -> bool:
        """What was not stored yet when the turn was judged cannot disagree."""
        return bool(_known(self.stored) == _known(self.again))


def _known(verdict: Any) -> Any:
    """Without what is empty."""
    if not isinstance(verdict, dict):
        return verdict
    return {name: _known(value) for name, value in verdict.items() if value is not None}


def judge_again(
    stage: Stage, run: Run, attempt: Attempt, interactions: Sequence[Interaction]
) -> SecondOpinion | None:
    """None where there is nothing to compare, see `why_not`.

    `interactions`: all of the run's; those about permissions of the turn belong to it. Blocking: it reads files.
    """
    if attempt.evidence is None or why_not(stage, run, attempt) is not None:
        return None
    stdout, stderr = _raw(stage, attempt)
    how = verdicts.how_ended(attempt.evidence, _tail(stderr))
    told = {each.interaction_id: each for each in interactions}
    transcript = _replay(stage, run, attempt, how, told, stdout=stdout, stderr=stderr)
    then = replace(run, attempt_number=attempt.attempt_number)
    judged = judging.judge(then, transcript, how)
    return SecondOpinion(attempt.verdict, verdicts.verdict_view(judged.verdict))


def why_not(stage: Stage, run: Run, attempt: Attempt) -> str | None:
    """Why the turn cannot be judged again, if it cannot."""
    if attempt.evidence is None:
        return "it never was judged"
    if not attempt.evidence["raw_is_whole"]:
        return "more was said than is kept"
    if not stage.knows(run.job.engine):
        return f"the engine {run.job.engine!r} is not known here any more"
    # Both are there before the process is; an engine that never started has said nothing.
    if attempt.born is not None and not all(path.exists() for path in _raw(stage, attempt)):
        return "its raw log was deleted, so it can no longer be judged"
    return None


def _raw(stage: Stage, attempt: Attempt) -> tuple[Path, Path]:
    folder = stage.folder(attempt.run_id)
    number = attempt.attempt_number, attempt.try_number
    return folder.raw(*number, "stdout"), folder.raw(*number, "stderr")


def _replay(
    stage: Stage,
    run: Run,
    attempt: Attempt,
    how: judging.HowEnded,
    told: Mapping[int, Interaction],
    *,
    stdout: Path,
    stderr: Path,
) -> Transcript:
    plan = stage.plan(run)
    if attempt.attempt_number == 1 and attempt.next_turn in (NextTurn.START, NextTurn.RESTART):
        plan = replace(plan, session=None)
    dialect = stage.engine(run.job.engine).dialect(plan)
    dialect.begin("")
    transcript = Transcript(attempt.attempt_number, attempt.try_number, plan.session)
    for heard in chain(map(dialect.hear_stderr, _lines(stderr)), map(dialect.hear, _lines(stdout))):
        for event in heard.events if heard else ():
            transcript.take(event, attempt.started_at)
            if isinstance(event, PermissionAsked) and event.key in how.decided:
                _answer(dialect, event, told.get(how.decided[event.key]))
    if how.exit is not None:
        for event in dialect.finish(how.exit, how.stderr):
            transcript.take(event, attempt.started_at)
    transcript.close(attempt.started_at)
    return transcript


def _answer(dialect: Dialect, request: PermissionAsked, asked: Interaction | None) -> None:
    """What nobody was asked about was refused."""
    decision = permission.rejected(request.choices)
    if asked is not None and asked.answer is not None:
        decision = permission.decide(asked.question, asked.answer)
    dialect.answer(request.key, decision)


def _lines(path: Path) -> Iterator[Line]:
    if not path.exists():
        return
    assembler = LineAssembler()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield from assembler.feed(chunk)
    yield from assembler.close()


def _tail(path: Path) -> str:
    last = deque((plain(line.data)[:STDERR_CHARS] for line in _lines(path)), maxlen=STDERR_LINES)
    return "\n".join(last)[-STDERR_CHARS:]
