"""One request for permission: what is asked, and what became of it. The voices ask; this only remembers."""

from __future__ import annotations

from .jsontext import dumps
from .script import TurnFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OPTIONS = [
    {"optionId": "allow", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
CANCELED = "cancelled"


class Permission:
    def __init__(self, call_id: str, asked: dict[str, Any]) -> None:
        self.call_id = call_id
        self.tool: str = asked["tool"]
        self.title: str = asked.get("title", self.tool)
        self.input: dict[str, Any] = asked.get("input", {})
        self.options: list[dict[str, str]] = asked.get("options", OPTIONS)
        self.allowed_for_sec: float = asked.get("allowed_for_sec", float("inf"))
        self.chosen: dict[str, str] = {}  # the option; none is chosen of a request that was canceled

    @property
    def outcome(self) -> str:
        return self.chosen.get("optionId", CANCELED)

    @property
    def is_allowed(self) -> bool:
        return _allows(self.chosen)

    @property
    def status(self) -> str:
        return "completed" if self.is_allowed else "failed"

    @property
    def output(self) -> str:
        return "" if self.is_allowed else "rejected"

    def allow(self) -> None:
        """Where nobody can be asked: by the first option that allows it, if there is one."""
        self.chosen = next((option for option in self.options if _allows(option)), {})

    def hear(self, answer: dict[str, Any]) -> None:
        """What the client answered. An answer that no client should give fails the turn, so that it is seen."""
        match answer:
            case {"result": {"outcome": {"outcome": "selected", "optionId": str(chosen)}}}:
                for option in self.options:
                    if option["optionId"] == chosen:
                        self.chosen = option
                        return
            case {"result": {"outcome": {"outcome": "cancelled"}}} | {"error": dict()}:
                return
        raise TurnFailed("ANSWER_INVALID", f"not an answer to {self.title!r}: {dumps(answer)}")


def _allows(option: dict[str, str]) -> bool:
    return option.get("kind", "").startswith("allow_")
