"""What can go wrong, each with a sentence that says what to do. Whoever catches `ClientError` catches them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnkeeper.client.records import RunInfo


class ClientError(Exception):
    """The base of all; raised itself only for what has no name of its own."""


class ServiceNotFound(ClientError):
    """Nobody said where the service is, and none runs where one was looked for."""


class ServiceUnreachable(ClientError):
    """It does not answer, or the connection broke before it did."""


class ApiError(ClientError):
    """The service refused: `code` is one of those in docs/protocol.md, `facts` what it said besides."""

    def __init__(
        self,
        code: str,
        message: str,
        status: int,
        facts: Mapping[str, Any] | None = None,
        errors: Sequence[str] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.facts = dict(facts or {})
        self.errors = list(errors)
        """Everything that is wrong with the request, by JSON pointer."""
        self.retry_after = retry_after
        """Seconds after which to try again, if the service told."""


class RunError(ClientError):
    """A run that gives no result (now); `info` is the run."""

    def __init__(self, message: str, info: RunInfo) -> None:
        super().__init__(message)
        self.info = info


class RunFailed(RunError):
    def __init__(self, info: RunInfo) -> None:
        why = f"{info.error.code}: {info.error.message}" if info.error else "no reason was told"
        super().__init__(f"run {info.run_id} failed: {why}", info)

    @property
    def code(self) -> str:
        """Why, as docs/protocol.md lists it under failed runs."""
        return self.info.error.code if self.info.error else ""


class RunCanceled(RunError):
    def __init__(self, info: RunInfo) -> None:
        super().__init__(f"run {info.run_id} was canceled and has no result", info)


class WaitingForPerson(RunError):
    def __init__(self, info: RunInfo) -> None:
        asked = f": {info.pending.prompt}" if info.pending else ""
        super().__init__(
            f"run {info.run_id} waits for a person{asked} (answer by reply(), then ask for the result again)",
            info,
        )
