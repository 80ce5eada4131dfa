"""What programs this machine can run, in the words by which npm packages name their builds."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

_CPUS = {"x86_64": "x64", "aarch64": "arm64"}
_CPU_INFO = Path("/proc/cpuinfo")


@cache
def builds() -> Mapping[str, str]:
    text = ""
    with suppress(OSError):
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    return builds_of(platform.machine(), has_glibc=has_glibc(), cpu_info=text)


def builds_of(machine: str, *, has_glibc: bool, cpu_info: str) -> Mapping[str, str]:
    """For the places in a pattern: `{cpu}` and `{machine}`; `{libc}` and `{baseline}`, which are empty for most."""
    cpu = _CPUS.get(machine, machine)
    # Without AVX2, a build that is not the baseline dies of an illegal instruction.
    has_avx2 = "avx2" in cpu_info.split()
    return {
        "cpu": cpu,
        "machine": machine,
        "libc": "" if has_glibc else "-musl",
        "baseline": "-baseline" if cpu == "x64" and not has_avx2 else "",
    }


def has_glibc() -> bool:
    """As this Python was built, and so the programs beside it."""
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (OSError, ValueError):  # musl knows the name, and has no answer
        return False
