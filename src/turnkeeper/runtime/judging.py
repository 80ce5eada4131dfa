"""From a transcript and the end of its process to a verdict.

The worker calls this when a turn ends, the audit when it reads the stored bytes again: one function, one verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from turnkeeper.core import gate
from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure, Mode, Run
from turnkeeper.core.turn import Transcript
from turnkeeper.engines.process import Exit
from turnkeeper.skills.output import Files, Finding, examine


@dataclass(frozen=True, slots=True, kw_only=True)
class HowEnded:
    """What we know of the end of a turn beside the engine's own words."""

    kind: gate.ExitKind
    exit: Exit | None = None
    """None while a resident process lives on."""
    timeout: Failure | None = None
    fault: Failure | None = None
    """It could not be started, or we could not listen."""
    canceled: bool = False
    stderr: str = ""
    files: Files = field(default_factory=Files)
    decided: Mapping[str, int] = field(default_factory=dict)
    """The questions about permissions whose answers the agent was told, by the keys of its requests; 0: it was refused,
    and nobody asked."""
    raw_is_whole: bool = True
    """False when the engine printed more than a raw log may hold: such a turn cannot be judged again."""

    @property
    def is_cut_off(self) -> bool:
        """We ended it, and for no reason of its own."""
        return self.kind is gate.ExitKind.ENDED_BY_US and self.timeout is None and self.fault is None


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: gate.Verdict
    evidence: gate.Evidence
    finding: Finding
    how: HowEnded


def judge(run: Run, transcript: Transcript, how: HowEnded) -> Judgement:
    """Blocking: long messages and large schemas take their time."""
    finding = examine(transcript.messages, run.job.contract, run.job.mode, how.files)
    evidence = replace(
        seen(transcript, how, run.job.mode),
        marker=finding.claim.marker,
        output=finding.output,
        attempt_number=run.attempt_number,
        max_attempt=run.job.max_attempt,
    )
    verdict = told(_reachable(gate.judge(evidence), run, transcript), transcript)
    return Judgement(_listed(verdict, finding), evidence, finding, how)


def seen(transcript: Transcript, how: HowEnded, mode: Mode) -> gate.Evidence:
    """All but what its output proves."""
    return gate.Evidence(
        mode=mode,
        terminal=transcript.terminal,
        exit=how.kind,
        marker=False,
        output=gate.Output.NONE,
        canceled=how.canceled,
        timeout=how.timeout,
        typed_failure=how.fault or transcript.typed_failure,
        said=_said(transcript, how),
    )


def _reachable(verdict: gate.Verdict, run: Run, transcript: Transcript) -> gate.Verdict:
    """A question whose answer would begin another session, with nothing of this one, is no question."""
    if not isinstance(verdict, gate.Wait) or transcript.handle is not None or run.is_sticky:
        return verdict
    return gate.Fail(
        Failure(Code.SESSION_LOST, "the engine asked, but named no session that a reply could go to")
    )


def told(verdict: gate.Verdict, transcript: Transcript) -> gate.Verdict:
    """With all that the engine itself told about its failure."""
    failure = transcript.ended.failure if transcript.ended else None
    is_same = isinstance(verdict, gate.Fail) and failure is not None and failure.code is verdict.failure.code
    return gate.Fail(failure) if is_same and failure is not None else verdict


def _listed(verdict: gate.Verdict, finding: Finding) -> gate.Verdict:
    """With the schema's errors in its sentence, so that a person can act on it."""
    if not isinstance(verdict, gate.Fail) or verdict.failure.code is not Code.OUTPUT_INVALID:
        return verdict
    message = f"{verdict.failure.message}: {'; '.join(finding.errors[:20])}"
    return gate.Fail(replace(verdict.failure, message=message))


def _said(transcript: Transcript, how: HowEnded) -> str:
    """The engine's own words first, then its stderr, then the bare exit."""
    if transcript.ended and transcript.ended.failure:
        return transcript.ended.failure.message
    words = how.stderr.strip()
    if how.exit is None or (how.exit.code == 0 and not words):
        return words
    return f"the engine ended with {how.exit}" + (f": {words}" if words else "")
