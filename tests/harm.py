"""What a crash, a kill or too much work must never do to a run, as the soaks count it."""

from __future__ import annotations

from enum import StrEnum


class Harm(StrEnum):
    LOST = "lost"
    DOUBLED = "doubles"
    LEFTOVER = "leftovers"
    SLOT = "slots leaked"
    WRONG = "wrong otherwise"


class Violation(AssertionError):
    def __init__(self, harm: Harm, message: str) -> None:
        super().__init__(f"{harm}: {message}")
        self.harm = harm


def require(fact: object, harm: Harm, message: object) -> None:
    if not fact:
        raise Violation(harm, str(message))
