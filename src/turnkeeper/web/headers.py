"""What every answer says to a browser: that it is nobody else's to read, to frame, to run or to keep."""

from __future__ import annotations

import time
from collections.abc import Iterable
from email.utils import formatdate

Raw = tuple[bytes, bytes]
"""As ASGI has them: a name in small letters, and its value."""

ALWAYS: tuple[Raw, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)
UNLESS_SET: tuple[Raw, ...] = (
    # Whatever an answer of the API turns out to be, a browser that shows it runs and loads nothing of it.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cache-control", b"no-store"),
)
HSTS = (b"strict-transport-security", b"max-age=31536000")
_OURS = {b"date", *(name for name, _ in ALWAYS)}


def completed(headers: Iterable[Raw], *, is_secure: bool) -> list[Raw]:
    """`is_secure`: by TLS, under a name that is this service's alone."""
    own = [each for each in headers if each[0] not in _OURS]
    names = {name for name, _ in own}
    unset = (each for each in UNLESS_SET if each[0] not in names)
    date = formatdate(time.time(), usegmt=True).encode()
    secure = (HSTS,) if is_secure else ()
    return [*own, (b"date", date), *ALWAYS, *unset, *secure]
