"""Who asks, and what they may do: scopes, the limits of a key, and the one question that a link is good for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    READ = "read"
    """See runs, their events and files, and what skills and engines there are."""
    RUN = "run"
    """Start runs, bring them their files, cancel them."""
    ANSWER = "answer"
    """See open questions and answer them."""
    ADMIN = "admin"
    """Everything, keys, secrets and skills among it."""


EVERYTHING = frozenset({Scope.ADMIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question of one run."""

    run_id: str
    interaction_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whoever makes a request, as the door has found out."""

    by: str
    """As it is recorded with each change: `token`, `page`, `key:NAME`, `page:NAME`, `link`, `link:NAME`."""
    scopes: frozenset[Scope] = EVERYTHING
    skills: frozenset[str] | None = None
    """Only runs of these skills are there for them; None: of all."""
    engines: frozenset[str] | None = None
    key_id: str | None = None
    """None: the token of the service itself."""
    asked: Asked | None = None
    """All that a link is good for."""

    def has(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes

    @property
    def is_limited(self) -> bool:
        return self.skills is not None or self.engines is not None

    def may_use(self, *, skill_id: str, engine: str) -> bool:
        of_skill = self.skills is None or skill_id in self.skills
        return of_skill and (self.engines is None or engine in self.engines)
