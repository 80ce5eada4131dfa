"""From a transcript and the end of its process to a verdict, and to what is stored of both.

The worker calls this when a turn ends, the audit when it reads the stored bytes again: one function, one verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnkeeper.core import asking, gate
from turnkeeper.core.change import TurnReport
from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.evidence import read_claim
from turnkeeper.core.fcmp import Event
from turnkeeper.core.run import Failure, Run, RunWarning
from turnkeeper.core.skill import Skill
from turnkeeper.core.turn import Transcript
from turnkeeper.engines.process import Exit
from turnkeeper.skills.output import Files, Finding, examine
from turnkeeper.skills.yamltext import load_yaml

NOTHING = Finding(read_claim([]), gate.Output.NONE, None)
"""What is found when the turn never got as far as its skill."""


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


def judge(run: Run, skill: Skill | None, transcript: Transcript, how: HowEnded) -> Judgement:
    finding = examine(transcript.messages, skill, run.job.mode, how.files) if skill else NOTHING
    evidence = gate.Evidence(
        mode=run.job.mode,
        terminal=transcript.terminal,
        exit=how.kind,
        marker=finding.claim.marker,
        output=finding.output,
        attempt_number=run.attempt_number,
        max_attempt=run.job.max_attempt,
        canceled=how.canceled,
        timeout=how.timeout,
        typed_failure=how.fault or transcript.typed_failure,
        said=_said(transcript, how),
    )
    return Judgement(gate.judge(evidence), evidence, finding, how)


def report(
    judged: Judgement, transcript: Transcript, output: Sequence[Event], more: Sequence[RunWarning]
) -> TurnReport:
    """Everything of the turn that goes into the change that ends it."""
    warnings = list(more)
    question, asked = asking.question(transcript.messages, load_yaml)
    if isinstance(judged.verdict, gate.Wait):
        warnings += asked
    claim = judged.finding.claim
    if isinstance(judged.verdict, gate.Succeed) and claim.marker and not claim.marker_in_last:
        warnings.append(RunWarning(Warn.MARKER_BEFORE_LAST_MESSAGE, "more was said after the done marker"))
    return TurnReport(
        output=output,
        handle=transcript.handle,
        usage=transcript.usage,
        noted=transcript.warnings,
        warnings=warnings,
        question=question,
        result=judged.finding.value if judged.finding.output is gate.Output.VALID else None,
        evidence=evidence_view(judged),
        verdict=verdict_view(judged.verdict, judged.finding),
    )


def evidence_view(judged: Judgement) -> dict[str, Any]:
    seen, how, finding = judged.evidence, judged.how, judged.finding
    return {
        "terminal": seen.terminal.value,
        "exit": {
            "kind": how.kind.value,
            "code": how.exit and how.exit.code,
            "signal": how.exit and how.exit.signal,
        },
        "marker": seen.marker,
        "output": seen.output.value,
        "output_rung": finding.claim.rung.value,
        "output_errors": list(finding.errors),
        "files": {"there": list(how.files.there), "missing": list(how.files.missing)},
        "canceled": how.canceled,
        "timeout": failure_view(how.timeout),
        "fault": failure_view(how.fault),
        "said": seen.said,
    }


def how_ended(evidence: Mapping[str, Any], stderr: str) -> HowEnded:
    """The inverse of `evidence_view`, for the audit."""
    ended = evidence["exit"]
    known = ended["code"] is not None or ended["signal"] is not None
    return HowEnded(
        kind=gate.ExitKind(ended["kind"]),
        exit=Exit(code=ended["code"], signal=ended["signal"]) if known else None,
        timeout=_failure(evidence["timeout"]),
        fault=_failure(evidence["fault"]),
        canceled=evidence["canceled"],
        stderr=stderr,
        files=Files(tuple(evidence["files"]["there"]), tuple(evidence["files"]["missing"])),
    )


def verdict_view(verdict: gate.Verdict, finding: Finding) -> dict[str, Any]:
    match verdict:
        case gate.Succeed(reason, warning):
            return {"verdict": "succeeded", "reason_code": reason, "warning": warning}
        case gate.Fail(failure):
            return {"verdict": "failed", "error": failure_view(_explain(failure, finding))}
        case gate.Wait():
            return {"verdict": "waiting_user"}
        case gate.Cancel():
            return {"verdict": "canceled"}


def explained(verdict: gate.Verdict, finding: Finding) -> gate.Verdict:
    """The verdict with the schema's errors in its sentence, so that a person can act on it."""
    return gate.Fail(_explain(verdict.failure, finding)) if isinstance(verdict, gate.Fail) else verdict


def failure_view(failure: Failure | None) -> dict[str, str] | None:
    return None if failure is None else {"code": failure.code.value, "message": failure.message}


def _failure(view: Mapping[str, str] | None) -> Failure | None:
    return None if view is None else Failure(Code(view["code"]), view["message"])


def _explain(failure: Failure, finding: Finding) -> Failure:
    if failure.code is not Code.OUTPUT_INVALID or not finding.errors:
        return failure
    return Failure(failure.code, f"{failure.message}: {'; '.join(finding.errors[:20])}")


def _said(transcript: Transcript, how: HowEnded) -> str:
    """The engine's own words first, then its stderr, then the bare exit."""
    if transcript.ended and transcript.ended.failure:
        return transcript.ended.failure.message
    words = how.stderr.strip()
    if how.exit is None or (how.exit.code == 0 and not words):
        return words
    return f"the engine ended with {how.exit}" + (f": {words}" if words else "")
