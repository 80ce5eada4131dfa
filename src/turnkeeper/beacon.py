"""Where a running service is found: a small file in its data directory, there for as long as the service answers.

It says where to ask and proves nothing: a service that was killed leaves it behind. The lock on the directory tells
whether somebody serves. The token is only for who has the lock: whoever has taken the port of a service that was killed
must not be told.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from turnkeeper.failpoints import Deed, around
from turnkeeper.lock import Owner, owner_of

log = logging.getLogger(__name__)

NAME = "service.json"
TOKEN = "token"
"""The file with the token that was made at the first start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beacon:
    url: str
    pid: int
    version: str
    started_at: datetime
    cert: str | None = None
    """The service's certificate, if it speaks TLS: by this one, and no other, it is known on this machine."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a data directory tells about the service that uses it."""

    owner: Owner | None
    """None: nobody does."""
    beacon: Beacon | None
    """The owner's own, as soon as it answers; without an owner, that of a service which was killed."""
    is_elsewhere: bool = False
    """The owner is on another machine, or in another container."""


@contextmanager
def lit(data_dir: Path, beacon: Beacon) -> Iterator[None]:
    """A service that cannot be found this way serves all the same."""
    try:
        _write(data_dir / NAME, msgspec.json.encode(beacon))
    except OSError as error:
        log.warning("%s cannot be written (%s): no command will find this service", data_dir / NAME, error)
    try:
        yield
    finally:
        put_out(data_dir)


def put_out(data_dir: Path) -> None:
    """Only by who has the lock: what is there is its own, or of a service that was killed."""
    with suppress(OSError):
        (data_dir / NAME).unlink(missing_ok=True)


def seen(data_dir: Path) -> Beacon | None:
    """Nothing but a plain file: whoever waits for something else to speak would wait for ever."""
    try:
        file = os.open(data_dir / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as kept:
            is_plain = stat.S_ISREG(os.fstat(kept.fileno()).st_mode)
            return msgspec.json.decode(kept.read(), type=Beacon) if is_plain else None
    except (OSError, msgspec.DecodeError):
        return None


def sight(data_dir: Path) -> Sighting:
    owner, left = owner_of(data_dir), seen(data_dir)
    # Who has just taken the directory has not written down yet where it is.
    is_elsewhere = owner is not None and owner.pid is not None and owner.host != socket.gethostname()
    if owner is not None and left is not None and (is_elsewhere or left.pid != owner.pid):
        # Of one that was killed, or of another machine: whoever listens there here must not be told our token.
        left = None
    return Sighting(owner, left, is_elsewhere)


def kept_token(data_dir: Path) -> str | None:
    """For who only wants to ask: none is made."""
    try:
        return (data_dir / TOKEN).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _write(path: Path, text: bytes) -> None:
    """Whole or not at all, and for nobody else's eyes."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as out:
        out.write(text)
    with around(Deed.LIGHT_BEACON):
        fresh.replace(path)
