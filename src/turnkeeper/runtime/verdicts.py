"""What is stored of a verdict and its evidence, and read back for the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnkeeper.core import gate
from turnkeeper.core.change import failure_view
from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure
from turnkeeper.engines.process import Exit
from turnkeeper.runtime.judging import HowEnded, Judgement
from turnkeeper.skills.output import Files


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
        "timeout": _maybe(how.timeout),
        "fault": _maybe(how.fault),
        "said": seen.said,
        "raw_is_whole": how.raw_is_whole,
        "decided": dict(how.decided),
    }


def how_ended(evidence: Mapping[str, Any], stderr: str) -> HowEnded:
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
        raw_is_whole=evidence["raw_is_whole"],
        decided=evidence.get("decided", {}),
    )


def verdict_view(verdict: gate.Verdict) -> dict[str, Any]:
    match verdict:
        case gate.Succeed(reason, warning):
            return {"verdict": "succeeded", "reason_code": reason, "warning": warning}
        case gate.Fail(failure):
            return {"verdict": "failed", "error": failure_view(failure)}
        case gate.Wait():
            return {"verdict": "waiting_user"}
        case gate.Cancel():
            return {"verdict": "canceled"}


def _maybe(failure: Failure | None) -> dict[str, Any] | None:
    return None if failure is None else failure_view(failure)


def _failure(view: Mapping[str, Any] | None) -> Failure | None:
    if view is None:
        return None
    return Failure(Code(view["code"]), view["message"], view.get("retry_after"), view.get("evidence"))
