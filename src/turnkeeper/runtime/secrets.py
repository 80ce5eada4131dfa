"""Named secrets and who is given them: kept in one file that only its owner can read, and nowhere else.

A skill gets one if its `runner.json` asks for it and the operator grants it: as a variable of its engine's process.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from turnkeeper.core import secrets as rules
from turnkeeper.core.errors import (
    SecretInvalid,
    SecretNotFound,
    SecretNotGranted,
    SettingsInvalid,
    StorageUnavailable,
)
from turnkeeper.core.fcmp import instant
from turnkeeper.failpoints import Deed, around
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.secrecy import Secrecy
from turnkeeper.skills.durable import unfinished, write_whole
from turnkeeper.skills.package import ID

_log = logging.getLogger(__name__)

FILE = "secrets.json"
VERSION = 1
MOST_GRANTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    name: str
    value: str = field(repr=False)
    set_at: datetime
    set_by: str
    grants: tuple[str, ...] = ()
    """The ids of the skills that may have it."""


class Secrets:
    """Its methods block: they wait for the disk, and for each other."""

    def __init__(
        self,
        path: Path,
        secrecy: Secrecy,
        clock: Clock,
        *,
        reserved: Collection[str] = (),
    ) -> None:
        self._path = path
        self._secrecy = secrecy
        self._clock = clock
        self._reserved = frozenset(reserved)
        self._lock = threading.Lock()
        with suppress(OSError):
            unfinished(path).unlink()  # of a service that was killed over it: it has values in it
        self._kept = _read(path)
        secrecy.learn(secret.value for secret in self._kept.values())
        for name in self._kept:
            if why := rules.wrong_name(name):  # an older version may have let it be called so
                _log.warning("the secret %s is given to nobody: its name %s", name[:100], why)

    def all(self) -> list[Secret]:
        return sorted(self._kept.values(), key=lambda secret: secret.name)

    def put(self, name: str, value: str, *, by: str) -> Secret:
        """New, or in place of the old value; its grants stay. Turns that run go on with the old one."""
        self._require_name(name)
        if why := rules.wrong_value(value) or rules.too_common(value):
            raise SecretInvalid(f"the value of {name} {why}")
        # Before it is anywhere: whoever speaks of it from now on is not understood.
        self._secrecy.learn([value])
        with self._lock:
            known = self._kept.get(name)
            if known is None and len(self._kept) >= rules.MOST:
                raise SecretInvalid(f"there are {rules.MOST} secrets already; remove one first")
            grants = known.grants if known else ()
            secret = Secret(name=name, value=value, set_at=self._clock(), set_by=by, grants=grants)
            self._keep({**self._kept, name: secret})
        return secret

    def remove(self, name: str) -> None:
        """With its grants. It stays hidden until the service starts again."""
        with self._lock:
            self._get(name)
            self._keep({each: secret for each, secret in self._kept.items() if each != name})

    def grant(self, name: str, skill_id: str) -> tuple[Secret, bool]:
        """To a skill, be it installed yet or not; and whether that is new."""
        if not ID.fullmatch(skill_id):
            raise SecretInvalid(f"{skill_id[:100]!r} is not the id of a skill")
        return self._change(name, lambda grants: {*grants, skill_id})

    def revoke(self, name: str, skill_id: str) -> tuple[Secret, bool]:
        """Turns that run go on with what they were given."""
        return self._change(name, lambda grants: {*grants} - {skill_id})

    def require(self, skill_id: str, names: Iterable[str]) -> None:
        """Raises SecretNotGranted, which names each that is missing and the command that helps."""
        self.given(skill_id, names)

    def given(self, skill_id: str, names: Iterable[str]) -> dict[str, str]:
        """The values of this moment."""
        kept = self._kept
        missing = [problem for name in names if (problem := _missing(kept.get(name), name, skill_id))]
        if missing:
            told = "; ".join(f"{each['name']} {each['why']}: {each['fix']}" for each in missing)
            raise SecretNotGranted(
                f"skill {skill_id!r} needs secrets that it does not have: {told}", secrets=missing
            )
        return {name: kept[name].value for name in names}

    def _change(self, name: str, decide: Callable[[Collection[str]], set[str]]) -> tuple[Secret, bool]:
        with self._lock:
            secret = self._get(name)
            grants = tuple(sorted(decide(secret.grants)))
            if grants == secret.grants:
                return secret, False
            if len(grants) > MOST_GRANTS:
                raise SecretInvalid(f"{name} is granted to {MOST_GRANTS} skills already")
            secret = replace(secret, grants=grants)
            self._keep({**self._kept, name: secret})
        return secret, True

    def _get(self, name: str) -> Secret:
        secret = self._kept.get(name)
        if secret is None:
            raise SecretNotFound(f"there is no secret {name[:100]!r}; set it: turnkeeper secrets set NAME")
        return secret

    def _require_name(self, name: str) -> None:
        why = rules.wrong_name(name)
        if why is None and name in self._reserved:
            why = "is a variable of an engine's own; choose another name"
        if why:
            raise SecretInvalid(f"the name {name[:100]!r} {why}")

    def _keep(self, secrets: dict[str, Secret]) -> None:
        """On the disk first: what cannot be kept is not so."""
        told = {
            name: {
                "value": secret.value,
                "set_at": instant(secret.set_at),
                "set_by": secret.set_by,
                "grants": list(secret.grants),
            }
            for name, secret in sorted(secrets.items())
        }
        data = json.dumps({"version": VERSION, "secrets": told}, indent=2).encode() + b"\n"
        try:
            with around(Deed.KEEP_SECRETS):
                write_whole(self._path, data)
        except OSError as error:
            raise StorageUnavailable(f"{self._path} cannot be written: {error.strerror}") from error
        self._kept = secrets


def _missing(secret: Secret | None, name: str, skill_id: str) -> dict[str, str] | None:
    if why := rules.wrong_name(name):
        fix = "ask for it in runner.json by another name, and set it by that"
        return {"name": name, "why": f"cannot be given, since its name {why}", "fix": fix}
    if secret is None:
        fix = f"turnkeeper secrets set {name} && turnkeeper secrets grant {name} {skill_id}"
        return {"name": name, "why": "is not set", "fix": fix}
    if skill_id not in secret.grants:
        fix = f"turnkeeper secrets grant {name} {skill_id}"
        return {"name": name, "why": "is not granted to it", "fix": fix}
    return None


def _read(path: Path) -> dict[str, Secret]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsInvalid(f"{path} cannot be used: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise SettingsInvalid(f"{path} is no ordinary file; move it away")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise SettingsInvalid(f"{path} can be read by others; run: chmod 600 {path}")
        data = file.read()
    try:
        return _parsed(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # Not even the place of the error is told: words of the file could be a part of it.
        raise SettingsInvalid(
            f"{path} is not as it was written; move it away and set the secrets again"
        ) from None


def _parsed(told: Any) -> dict[str, Secret]:
    if told["version"] != VERSION:
        raise ValueError("another version")
    return {
        name: Secret(
            name=name,
            value=_checked(name, each["value"]),
            set_at=datetime.fromisoformat(each["set_at"]),
            set_by=str(each["set_by"]),
            grants=tuple(sorted(map(str, each["grants"]))),
        )
        for name, each in told["secrets"].items()
    }


def _checked(name: str, value: Any) -> str:
    if not isinstance(value, str) or not rules.NAME.fullmatch(name) or rules.wrong_value(value):
        raise ValueError("no secret")
    return value
