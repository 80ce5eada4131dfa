"""Who may call what: one table for every route. What is not in it is refused, see `admission.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.routing import compile_path

from turnkeeper.core.access import Caller, Scope
from turnkeeper.web import files as files  # it names the form of a path that is used below


@dataclass(frozen=True, slots=True)
class Rule:
    scopes: frozenset[Scope] = frozenset()
    """One of these suffices, and `admin` always does."""
    is_open: bool = False
    """For everybody, strangers too."""
    by_link: bool = False
    """For who has the link to one question, and nobody else."""

    def admits(self, caller: Caller) -> bool:
        if self.by_link or caller.asked is not None:
            return self.by_link and caller.asked is not None
        return any(caller.has(scope) for scope in self.scopes)

    @property
    def names(self) -> list[str]:
        """Of the scopes that suffice, in their usual order."""
        if self.is_open or self.by_link:
            return []
        return [scope.value for scope in Scope if scope in self.scopes or scope is Scope.ADMIN]


def _one_of(*scopes: Scope) -> Rule:
    return Rule(frozenset(scopes))


OPEN, LINK = Rule(is_open=True), Rule(by_link=True)
ANY = _one_of(*Scope)
"""Every caller that is known, whatever their key is good for."""
READ, RUN, ANSWER, ADMIN = map(_one_of, Scope)
INBOX = _one_of(Scope.READ, Scope.ANSWER)
OUTCOME = _one_of(Scope.READ, Scope.RUN)
A_RUN = _one_of(Scope.READ, Scope.RUN, Scope.ANSWER)
"""Who starts it looks whether it is over, who answers it whether it waits."""

_RUN = "/v1/jobs/{run_id}"
RULES: dict[tuple[str, str], Rule] = {
    ("GET", "/"): OPEN,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/metrics"): READ,
    ("GET", "/v1/openapi.json"): ANY,
    ("GET", "/v1/status"): READ,
    # runs
    ("GET", "/v1/jobs"): INBOX,
    ("POST", "/v1/jobs"): RUN,
    ("GET", _RUN): A_RUN,
    ("POST", f"{_RUN}/upload"): RUN,
    ("POST", f"{_RUN}/cancel"): RUN,
    ("GET", f"{_RUN}/interaction/pending"): INBOX,
    ("POST", f"{_RUN}/interaction/reply"): ANSWER,
    ("POST", f"{_RUN}/interaction/links"): ANSWER,
    ("GET", "/v1/answer"): LINK,
    ("POST", "/v1/answer"): LINK,
    ("GET", f"{_RUN}/interaction/history"): READ,
    ("GET", f"{_RUN}/request"): READ,
    ("GET", f"{_RUN}/attempts"): READ,
    ("GET", f"{_RUN}/events"): READ,
    ("GET", f"{_RUN}/events/history"): READ,
    ("GET", f"{_RUN}/result"): OUTCOME,
    ("GET", f"{_RUN}/artifacts"): READ,
    ("GET", f"{_RUN}/artifacts/{{path:file}}"): READ,
    ("GET", f"{_RUN}/bundle"): READ,
    ("GET", f"{_RUN}/logs"): READ,
    ("GET", f"{_RUN}/logs/{{attempt}}/{{try_number}}/{{stream}}"): READ,
    # what there is to run
    ("GET", "/v1/skills"): READ,
    ("POST", "/v1/skills"): ADMIN,
    ("GET", "/v1/skills/{skill_id}"): READ,
    ("DELETE", "/v1/skills/{skill_id}"): ADMIN,
    ("GET", "/v1/skills/{skill_id}/schemas"): READ,
    ("GET", "/v1/skills/{skill_id}/lint"): READ,
    ("GET", "/v1/engines"): READ,
    ("GET", "/v1/engines/{name}"): READ,
    # the service
    ("POST", "/v1/session"): OPEN,
    ("DELETE", "/v1/session"): OPEN,
    ("POST", "/v1/session/codes"): ANY,
    ("GET", "/v1/me"): ANY,
    ("GET", "/v1/keys"): ADMIN,
    ("POST", "/v1/keys"): ADMIN,
    ("DELETE", "/v1/keys/{key_id}"): ADMIN,
    ("GET", "/v1/secrets"): ADMIN,
    ("PUT", "/v1/secrets/{name}"): ADMIN,
    ("DELETE", "/v1/secrets/{name}"): ADMIN,
    ("PUT", "/v1/secrets/{name}/grants/{skill_id}"): ADMIN,
    ("DELETE", "/v1/secrets/{name}/grants/{skill_id}"): ADMIN,
    ("GET", "/v1/journal"): ADMIN,
    ("POST", "/v1/prune"): ADMIN,
}


@dataclass(frozen=True, slots=True)
class Found:
    """The rule of a request, and what its path names."""

    method: str
    template: str
    rule: Rule
    params: dict[str, str]


def find(method: str, path: str) -> Found | None:
    wanted = "GET" if method == "HEAD" else method
    for template, pattern in _PATTERNS.get(wanted, ()):
        if found := pattern.match(path):
            return Found(wanted, template, RULES[wanted, template], found.groupdict())
    return None


def _patterns() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for method, template in RULES:
        found.setdefault(method, []).append((template, compile_path(template)[0]))
    return found


_PATTERNS = _patterns()
