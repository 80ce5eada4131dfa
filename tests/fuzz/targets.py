"""Everything that reads what strangers write, each as a function of bytes that raises when a promise is broken.

Where an input is cut into chunks, the bytes themselves decide where: a file of the corpus always plays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.engines.recordings import NAMES
from tests.fuzz import agents, strangers, streams


@dataclass(frozen=True)
class Target:
    name: str
    check: Callable[[bytes], None]
    words: tuple[bytes, ...] = ()
    """What an input of this kind is made of: bytes alone would never come this far."""


_ALL = (
    Target("lines", streams.check_lines, streams.LINE_ENDS),
    Target("plain", streams.check_plain, streams.ESCAPES),
    Target("veil", streams.check_veil, streams.SECRETS),
    Target("client-sse", streams.check_client_sse, streams.FRAMES),
    Target("cursor", streams.check_cursor, streams.DIGITS),
    Target("marker", agents.check_marker, agents.RESULTS),
    Target("candidate", agents.check_candidate, agents.RESULTS),
    Target("ask", agents.check_ask, agents.QUESTIONS),
    *(Target(f"dialect-{name}", agents.dialect_check(name), agents.EVENTS) for name in NAMES),
    Target("yaml", strangers.check_yaml, strangers.YAML),
    Target("front", strangers.check_front, strangers.YAML),
    Target("runner", strangers.check_runner, strangers.RUNNER),
    Target("archive", strangers.check_archive, strangers.ZIP),
)
TARGETS = {target.name: target for target in _ALL}
