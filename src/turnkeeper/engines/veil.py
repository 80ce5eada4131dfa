"""Hides known secrets in a stream of bytes, whatever the pieces it comes in.

An agent can print its own environment. What it prints is stored and shown, so its keys are made unreadable before
anybody else sees the bytes; their number stays the same, and with it every offset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from turnkeeper.core.turn import TextDelta, TurnEvent

SHORTEST = 8
"""Characters of a secret that is hidden: a shorter one would be found in ordinary words."""
STAR = b"*"


class Veil:
    def __init__(self, secrets: Iterable[str]) -> None:
        known = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
        # Longest first: of two that begin alike, the whole one is hidden.
        self._forms = sorted(known, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._forms))) if known else None
        self._held = b""

    def hide(self, chunk: bytes) -> bytes:
        """What may be shown by now: a piece that could be the beginning of a secret waits for the next."""
        if self._pattern is None:
            return chunk
        data = self._pattern.sub(_stars, self._held + chunk)
        shown = len(data) - max(_begun(form, data) for form in self._forms)
        self._held = data[shown:]
        return data[:shown]

    def close(self) -> bytes:
        held, self._held = self._held, b""
        return held


class Pieces:
    """The same for a message that is told in pieces, each in a line of its own: no line has the whole secret."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._veil = Veil(secrets)
        self._message: str | None = None

    def hide(self, events: Iterable[TurnEvent]) -> list[TurnEvent]:
        """The events in their order; what is held back of a message comes before whatever ends it."""
        return [shown for event in events for shown in self._hide(event)]

    def close(self) -> list[TurnEvent]:
        held = self._veil.close()
        return [TextDelta(_text(held), self._message)] if held else []

    def _hide(self, event: TurnEvent) -> list[TurnEvent]:
        if not isinstance(event, TextDelta):
            return [*self.close(), event]
        before = self.close() if event.message_id != self._message else []
        self._message = event.message_id
        shown = self._veil.hide(event.text.encode("utf-8", "surrogatepass"))
        return [*before, *([TextDelta(_text(shown), event.message_id)] if shown else [])]


def _text(shown: bytes) -> str:
    """Whole characters: a secret begins with one."""
    return shown.decode("utf-8", "surrogatepass")


def _begun(form: bytes, data: bytes) -> int:
    """How many bytes at the end of the data are the beginning of the secret."""
    at = data.find(form[:1], max(0, len(data) - len(form) + 1))
    while at >= 0 and not form.startswith(data[at:]):
        at = data.find(form[:1], at + 1)
    return len(data) - at if at >= 0 else 0


def _forms(secret: str) -> set[bytes]:
    """As it is, and as it stands inside a text of JSON."""
    return {secret.encode("utf-8", "surrogateescape"), json.dumps(secret)[1:-1].encode()}


def _stars(found: re.Match[bytes]) -> bytes:
    return STAR * len(found[0])
