"""The streams that a command is given: closed, full or of another encoding, none is worth a traceback."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from turnkeeper.cli.terminal import FAILED, complain

CLOSED = {"stdin": ("r", os.O_RDONLY), "stdout": ("w", os.O_WRONLY), "stderr": ("w", os.O_WRONLY)}
"""In the order of their numbers: what is opened gets the lowest that is free."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


@contextmanager
def usable() -> Iterator[None]:
    for name, (mode, flags) in CLOSED.items():
        if getattr(sys, name) is None:
            # Else the next file, such as a database, would get its number.
            number = os.open(os.devnull, flags)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.encoding.lower().startswith("utf"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        with suppress(OSError):
            complain(f"the output cannot be written: {error.strerror}")
        _drop()
        raise SystemExit(FAILED) from None


def _drop() -> None:
    """What is still in the buffers goes nowhere; Python would try it again, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
