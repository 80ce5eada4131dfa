"""Whether the kernel ended a process because memory ran out."""

from __future__ import annotations

from pathlib import Path

_COUNTER = "oom_kill "


def oom_kills() -> int | None:
    """How often since boot, on this machine; None where the kernel does not count."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = (line.removeprefix(_COUNTER) for line in lines if line.startswith(_COUNTER))
    return next((int(count) for count in found), None)
