"""What every answer says to a browser: that it is nobody else's to read, to frame, to run or to keep."""

from __future__ import annotations

import time
from email.utils import formatdate

from starlette.datastructures import MutableHeaders

ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
UNLESS_SET = {
    # Whatever an answer of the API turns out to be, a browser that shows it runs and loads nothing of it.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cache-Control": "no-store",
}
HSTS = "max-age=31536000"


def complete(headers: MutableHeaders, *, is_secure: bool) -> None:
    """`is_secure`: by TLS, under a name that is this service's alone."""
    headers["Date"] = formatdate(time.time(), usegmt=True)
    headers.update(ALWAYS)
    for name, value in UNLESS_SET.items():
        headers.setdefault(name, value)
    if is_secure:
        headers["Strict-Transport-Security"] = HSTS
