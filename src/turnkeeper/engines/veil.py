"""Hides secrets in a stream of bytes, whatever the pieces it comes in: those it is told of, and what looks like a key.

An agent can print its own environment. What it prints is stored and shown, so its keys are made unreadable before
anybody else sees the bytes; their number stays the same, and with it every offset. Line breaks stay where they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from turnkeeper.core.permission import PermissionAsked
from turnkeeper.core.run import Failure
from turnkeeper.core.turn import Echo, Ended, Reasoning, Remark, Text, TextDelta, ToolCall, TurnEvent
from turnkeeper.engines.keypatterns import Keys, Span

SHORTEST = 8
"""Characters of a secret that is hidden: a shorter one would be found in ordinary words."""
LONGEST_KEY = 8192
"""Characters at the end of a piece that are looked at for one."""

_SEEN = re.compile(rb"[^\r\n]")
# As many stars as the shortest key has that is known by its looks, and as the first line of a private key has.
_ENDS_HIDDEN = re.compile(r"(?<!\*)(?P<key>\*{15,26})\Z|\*{27,}(?:\r?\n[ \t]*\**)*\Z")
_GOES_ON = re.compile(r"[A-Za-z0-9_.+/=*-]*")
_BLOCK_GOES_ON = re.compile(r"[A-Za-z0-9_.+/=*-]*(?:\r?\n[ \t]*[A-Za-z0-9+/=*]*)*")


class Known:
    """The secrets that a service has been told, from its start on: one that was replaced is still a secret.

    Read by many threads; whoever adds to it puts a whole new set in place.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.forms: frozenset[bytes] = frozenset()
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        self.forms |= _all_forms(secrets)


class Veil:
    def __init__(self, secrets: Iterable[str] = (), known: Known | None = None) -> None:
        self._own = _all_forms(secrets)
        self._known = known or Known()
        self.has_hidden = False
        self._begin()

    def _begin(self) -> None:
        self._keys = Keys()
        self._values = _Values()
        self._held = b""
        self._base = 0
        """Of the stream: where what is held begins."""
        self._spans: list[Span] = []

    def hide(self, chunk: bytes) -> bytes:
        """What may be shown by now: a piece that could be the beginning of a secret waits for the next."""
        return self._show(chunk, is_last=False)

    def close(self) -> bytes:
        """The rest. What comes after it has nothing to do with it."""
        shown = self._show(b"", is_last=True)
        self._begin()
        return shown

    def whole(self, data: bytes) -> bytes:
        return self.hide(data) + self.close()

    def _show(self, chunk: bytes, *, is_last: bool) -> bytes:
        data = self._held + chunk
        forms = self._own | self._known.forms if self._own else self._known.forms
        values, until = self._values.find(chunk, forms, is_last=is_last)
        keys, settled = self._keys.find(chunk, is_last=is_last)
        cut = min(until, settled) - self._base
        spans = [*self._spans, *values, *keys]
        shown = self._starred(data[:cut], spans) if spans else data[:cut]
        self._held, self._base = data[cut:], self._base + cut
        self._spans = [span for span in spans if span[1] > self._base]
        return shown

    def _starred(self, data: bytes, spans: list[Span]) -> bytes:
        shown = bytearray(data)
        for start, end in spans:
            start, end = max(0, start - self._base), min(end - self._base, len(data))
            if start < end:
                self.has_hidden = True
                shown[start:end] = _SEEN.sub(b"*", data[start:end])
        return bytes(shown)


class _Values:
    """Where known secrets stand in a stream."""

    def __init__(self) -> None:
        self._held = b""
        self._base = 0

    def find(self, chunk: bytes, forms: frozenset[bytes], *, is_last: bool) -> tuple[list[Span], int]:
        """The spans, counted from the beginning of the stream; they may overlap. And how far that is settled."""
        data, base = self._held + chunk, self._base
        spans = [
            (base + at, base + at + len(form)) for form in forms if form in data for at in _places(form, data)
        ]
        begun = 0 if is_last else max((_begun(form, data) for form in forms), default=0)
        cut = len(data) - begun
        self._held, self._base = data[cut:], base + cut
        return spans, self._base


class Pieces:
    """The same for words that are told in pieces, each in a line of its own: no line has the whole secret."""

    def __init__(self, secrets: Iterable[str] = (), known: Known | None = None) -> None:
        self._veil = Veil(secrets, known)
        self._whole = Veil(secrets, known)
        self._open: TextDelta | Reasoning | None = None
        self._rest: re.Pattern[str] | None = None
        """What the last piece ended with was hidden in its own line: the rest of that is here."""
        self._has_hidden_rest = False

    @property
    def has_hidden(self) -> bool:
        return self._veil.has_hidden or self._whole.has_hidden or self._has_hidden_rest

    def hide(self, events: Iterable[TurnEvent]) -> list[TurnEvent]:
        """The events in their order; what is held back of a message comes before whatever ends it."""
        return [shown for event in events for shown in self._hide(event)]

    def close(self) -> list[TurnEvent]:
        held, last = self._veil.close(), self._open
        return [replace(last, text=_text(held))] if held and last else []

    def _hide(self, event: TurnEvent) -> list[TurnEvent]:
        if not isinstance(event, TextDelta | Reasoning):
            is_end = isinstance(event, Text | ToolCall | PermissionAsked | Echo | Ended)
            return [*(self.close() if is_end else []), self._read(event)]
        is_same = self._open is not None and replace(self._open, text="") == replace(event, text="")
        before = [] if is_same else self.close()
        self._open = event
        shown = self._veil.hide(_bytes(self._without_rest(event.text, is_same=is_same)))
        return [*before, *([replace(event, text=_text(shown))] if shown else [])]

    def _without_rest(self, text: str, *, is_same: bool) -> str:
        """A key that is long enough to be known was hidden where its line ended; nobody would know its rest again."""
        found = self._rest.match(text) if self._rest is not None and is_same else None
        if found is not None and found[0]:
            rest = re.sub(r"[^\s*]", "*", found[0])
            self._has_hidden_rest = self._has_hidden_rest or rest != found[0]
            text = rest + text[found.end() :]
        is_all = found is not None and found.end() == len(text)
        if not is_all:
            ends = _ENDS_HIDDEN.search(text[-LONGEST_KEY:])
            self._rest = None if ends is None else _GOES_ON if ends["key"] else _BLOCK_GOES_ON
        return text

    def _read(self, event: TurnEvent) -> TurnEvent:
        """JSON can be written in many ways: what was no secret in the line may be one when it is read."""
        match event:
            case Text(text):
                return replace(event, text=hidden_text(text, self._whole))
            case Remark():
                return replace(event, message=hidden_text(event.message, self._whole))
            case Ended(Failure() as failure):
                words = hidden((failure.message, failure.evidence), self._whole)
                return Ended(replace(failure, message=words[0], evidence=words[1]))
            case ToolCall():
                told = hidden((event.input, event.output), self._whole)
                return replace(event, input=told[0], output=told[1])
        return event


def hidden_text(text: str, veil: Veil) -> str:
    data = _bytes(text)
    shown = veil.whole(data)
    return text if shown == data else _text(shown)


def hidden(value: Any, veil: Veil, masked: list[str] | None = None) -> Any:
    """Every text of a JSON value, the names of its members too; `masked` gets the JSON pointers of those that were
    changed. Step by step, and not by a function that calls itself: a stranger chooses how deep it goes."""
    top: list[Any] = [value]
    waiting: list[tuple[Any, Any, str]] = [(top, 0, "")]
    while waiting:
        place, key, pointer = waiting.pop()
        inside = place[key]
        shown: Any
        if isinstance(inside, str):
            shown = hidden_text(inside, veil)
        elif isinstance(inside, dict):
            shown = {}
            for name, each in inside.items():
                told = hidden_text(name, veil) if isinstance(name, str) else name
                while told in shown:  # two secrets of one length look alike
                    told += "*"
                shown[told] = each
                below = f"{pointer}/{str(told).replace('~', '~0').replace('/', '~1')}"
                if told != name and masked is not None:
                    masked.append(below)
                waiting.append((shown, told, below))
        elif isinstance(inside, list | tuple):
            shown = list(inside)
            waiting += [(shown, at, f"{pointer}/{at}") for at in range(len(shown))]
        elif isinstance(inside, int | float) and not isinstance(inside, bool):
            written = repr(inside)
            starred = hidden_text(written, veil)
            shown = inside if starred == written else starred
        else:
            continue
        if isinstance(shown, str) and shown != inside and masked is not None:
            masked.append(pointer)
        place[key] = shown
    return top[0]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


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


def _all_forms(secrets: Iterable[str]) -> frozenset[bytes]:
    # Whoever prints a secret may leave away the line break that it was stored with.
    told = {text for secret in secrets for text in (secret, secret.strip()) if len(text) >= SHORTEST}
    return frozenset(form for text in told for form in _forms(text))


def _forms(secret: str) -> set[bytes]:
    """As it is, as it stands in an address, in Python, in a text of JSON, and in JSON that is quoted in JSON."""
    once = {*_quoted(secret), repr(secret)[1:-1]}
    texts = {
        quote(secret, safe="", errors="surrogatepass"),
        *once,
        *(twice for text in once for twice in _quoted(text)),
    }
    return {
        secret.encode("utf-8", "surrogateescape"),
        *(text.encode("utf-8", "surrogatepass") for text in texts),
    }


def _quoted(text: str) -> set[str]:
    """Some writers of JSON leave letters as they are, some escape all but ASCII, some what means something in HTML."""
    plain, ascii_only = json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
    for_html = plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return {plain, ascii_only, for_html}
