"""What those who look after the service did: an entry for each change of keys, skills and the like. Runs have logs of
their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class What(StrEnum):
    """A new kind of change is one more line, and a row in docs/protocol.md."""

    KEY_CREATED = "key.created"
    KEY_REVOKED = "key.revoked"
    TOKEN_REPLACED = "token.replaced"
    LINK_CREATED = "link.created"
    SECRET_SET = "secret.set"
    SECRET_REMOVED = "secret.removed"
    SECRET_GRANTED = "secret.granted"
    SECRET_REVOKED = "secret.revoked"
    SKILL_INSTALLED = "skill.installed"
    SKILL_REMOVED = "skill.removed"
    RUNS_PRUNED = "runs.pruned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    at: datetime
    by: str
    what: str
    """One of `What`; plain text here, since a newer version may have written it."""
    subject: str
    """The name of what was changed."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    seq: int = 0
    """Its number, given by the store."""
