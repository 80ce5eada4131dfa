"""The verdict of a turn: one table over what was seen. The same function judges live and, later, from stored bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.run import Failure, Mode


class Terminal(StrEnum):
    """The event by which an engine closes a turn."""

    SUCCESS = "success"
    ERROR = "error"
    NONE = "none"


class Output(StrEnum):
    VALID = "valid"
    INVALID = "invalid"
    NONE = "none"


class ExitKind(StrEnum):
    OK = "exit 0"
    NONZERO = "exit not 0"
    ENDED_AFTER_RESULT = "ended by us after its result"
    ENDED_BY_US = "ended by us"
    FOREIGN_SIGNAL = "foreign signal"
    OOM_KILLED = "killed for memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    mode: Mode
    terminal: Terminal
    exit: ExitKind
    marker: bool
    output: Output
    attempt_number: int = 1
    max_attempt: int | None = None
    canceled: bool = False
    timeout: Failure | None = None
    """The limit of ours that ended the turn."""
    typed_failure: Failure | None = None
    """What the engine itself named: login, quota, a lost session."""
    said: str = ""
    """The engine's own words about its failure."""


@dataclass(frozen=True, slots=True)
class Succeed:
    reason_code: str
    warning: Warn | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    failure: Failure


@dataclass(frozen=True, slots=True)
class Wait:
    pass


@dataclass(frozen=True, slots=True)
class Cancel:
    pass


Verdict = Succeed | Fail | Wait | Cancel

DONE_MARKER = "DONE_MARKER"
OUTPUT_VALID = "OUTPUT_VALID"
_INVALID = Fail(Failure(Code.OUTPUT_INVALID, "the turn ended without output that passes the skill's schema"))


def judge(seen: Evidence) -> Verdict:
    """Precedence: cancel, our timeout, the engine's typed failure, then the table."""
    if seen.canceled:
        return Cancel()
    if seen.timeout:
        return Fail(seen.timeout)
    if seen.typed_failure:
        return Fail(seen.typed_failure)
    valid = seen.output is Output.VALID
    match (seen.mode, is_clean(seen), seen.marker, valid):
        case (Mode.INTERACTIVE, False, True, True):
            return Succeed(DONE_MARKER, Warn.ENGINE_FAILED_AFTER_RESULT)
        case (_, False, _, _):
            return Fail(_why_interrupted(seen))
        case (Mode.AUTO, True, _, True):
            return Succeed(OUTPUT_VALID)
        case (Mode.AUTO, True, _, False):
            return _INVALID
        case (Mode.INTERACTIVE, True, True, True):
            return Succeed(DONE_MARKER)
        case (Mode.INTERACTIVE, True, True, False):
            return _INVALID  # a marker without valid output never waits
        case (Mode.INTERACTIVE, True, False, True):
            return Succeed(OUTPUT_VALID, Warn.INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER)
        case _:
            return _no_evidence(seen)


def is_clean(seen: Evidence) -> bool:
    """Exit 0 alone is not success: some CLIs exit 0 when they are killed, so the closing event is needed too."""
    exited = seen.exit in (ExitKind.OK, ExitKind.ENDED_AFTER_RESULT)
    return exited and seen.terminal is Terminal.SUCCESS


def _no_evidence(seen: Evidence) -> Verdict:
    if seen.max_attempt is not None and seen.attempt_number >= seen.max_attempt:
        return Fail(
            Failure(
                Code.INTERACTIVE_MAX_ATTEMPT_EXCEEDED,
                f"INTERACTIVE_MAX_ATTEMPT_EXCEEDED: turn {seen.attempt_number} of at most {seen.max_attempt} "
                "ended without the done marker and without valid output",
            )
        )
    return Wait()


def _why_interrupted(seen: Evidence) -> Failure:
    if seen.exit is ExitKind.OOM_KILLED:
        words = "the engine was killed, and the kernel counted a kill for lack of memory meanwhile"
        return Failure(Code.ENGINE_OOM_KILLED, f"{words}: {seen.said}" if seen.said else words)
    if seen.exit is ExitKind.FOREIGN_SIGNAL:
        return Failure(Code.ENGINE_CRASHED, seen.said or "a signal that was not ours ended the engine")
    if seen.terminal is Terminal.ERROR or seen.exit is not ExitKind.OK:
        return Failure(Code.ENGINE_FAILED, seen.said or "the engine failed without saying why; see the logs")
    silence = "the engine exited without closing its turn"
    return Failure(Code.ENGINE_FAILED, f"{silence}: {seen.said}" if seen.said else silence)
