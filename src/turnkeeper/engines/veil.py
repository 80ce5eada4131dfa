"""Hides known secrets in a stream of bytes, whatever the pieces it comes in.

An agent can print its own environment. What it prints is stored and shown, so its keys are made unreadable before
anybody else sees the bytes; their number stays the same, and with it every offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from turnkeeper.core.permission import PermissionAsked
from turnkeeper.core.turn import Echo, Ended, Reasoning, Text, TextDelta, ToolCall, TurnEvent

SHORTEST = 8
"""Characters of a secret that is hidden: a shorter one would be found in ordinary words."""


class Veil:
    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
        self._held = b""
        self._hidden = 0
        """So many bytes at the beginning of what is held belong to a secret that was found already."""
        self.has_hidden = False

    def hide(self, chunk: bytes) -> bytes:
        """What may be shown by now: a piece that could be the beginning of a secret waits for the next."""
        if not self._forms:
            return chunk
        data = self._held + chunk
        spans = self._spans(data)
        cut = len(data) - max(_begun(form, data) for form in self._forms)
        self._held = data[cut:]
        self._hidden = max((end - cut for start, end in spans if start < cut < end), default=0)
        return self._starred(data[:cut], spans)

    def close(self) -> bytes:
        data, spans = self._held, self._spans(self._held)
        self._held, self._hidden = b"", 0
        return self._starred(data, spans)

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        """Where secrets stand; they may overlap."""
        found = [(at, at + len(form)) for form in self._forms for at in _places(form, data)]
        return [(0, self._hidden), *found] if self._hidden else found

    def _starred(self, data: bytes, spans: list[tuple[int, int]]) -> bytes:
        if not spans:
            return data
        self.has_hidden = True
        shown = bytearray(data)
        for start, end in spans:
            end = min(end, len(data))
            shown[start:end] = b"*" * max(0, end - start)
        return bytes(shown)


class Pieces:
    """The same for words that are told in pieces, each in a line of its own: no line has the whole secret."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._veil = Veil(secrets)
        self._open: TextDelta | Reasoning | None = None

    @property
    def has_hidden(self) -> bool:
        return self._veil.has_hidden

    def hide(self, events: Iterable[TurnEvent]) -> list[TurnEvent]:
        """The events in their order; what is held back of a message comes before whatever ends it."""
        return [shown for event in events for shown in self._hide(event)]

    def close(self) -> list[TurnEvent]:
        held, last = self._veil.close(), self._open
        return [replace(last, text=_text(held))] if held and last else []

    def _hide(self, event: TurnEvent) -> list[TurnEvent]:
        if not isinstance(event, TextDelta | Reasoning):
            is_end = isinstance(event, Text | ToolCall | PermissionAsked | Echo | Ended)
            return [*(self.close() if is_end else []), event]
        is_same = self._open is not None and replace(self._open, text="") == replace(event, text="")
        before = [] if is_same else self.close()
        self._open = event
        shown = self._veil.hide(event.text.encode("utf-8", "surrogatepass"))
        return [*before, *([replace(event, text=_text(shown))] if shown else [])]


def _text(shown: bytes) -> str:
    """Whole characters: a secret begins with one."""
    return shown.decode("utf-8", "surrogatepass")


def _places(form: bytes, data: bytes) -> Iterator[int]:
    at = data.find(form)
    while at >= 0:
        yield at
        at = data.find(form, at + 1)


def _begun(form: bytes, data: bytes) -> int:
    """How many bytes at the end of the data are the beginning of the secret."""
    at = data.find(form[:1], max(0, len(data) - len(form) + 1))
    while at >= 0 and not form.startswith(data[at:]):
        at = data.find(form[:1], at + 1)
    return len(data) - at if at >= 0 else 0


def _forms(secret: str) -> set[bytes]:
    """As it is, as it stands inside a text of JSON, and inside JSON that is quoted in JSON."""
    once = json.dumps(secret)[1:-1]
    texts = (once, json.dumps(once)[1:-1])
    return {secret.encode("utf-8", "surrogateescape"), *(text.encode() for text in texts)}
