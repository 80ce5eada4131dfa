"""Hides secrets in a stream of bytes, whatever the pieces it comes in: those it is told of, and what looks like a key.

An agent can print its own environment. What it prints is stored and shown, so its keys are made unreadable before
anybody else sees the bytes; their number stays the same, and with it every offset. Line breaks stay where they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, assert_never
from urllib.parse import quote

from turnkeeper.core.permission import PermissionAsked, PermissionWithdrawn
from turnkeeper.core.run import Failure
from turnkeeper.core.secrets import SHORTEST, is_common
from turnkeeper.core.turn import (
    MAX_TOOL_TEXT,
    Echo,
    Ended,
    Model,
    Reasoning,
    Remark,
    SessionOpened,
    Text,
    TextDelta,
    ToolCall,
    TurnEvent,
    Usage,
)
from turnkeeper.engines.keypatterns import Keys, Span, may_hold_key

LONGEST_KEY = 8192
"""Characters after the last that is shown, which are looked at for the rest of one."""

_SEEN = re.compile(rb"[^\r\n]")
_STARS = 15
"""As many as the shortest key has that is known by its looks."""
_GOES_ON = re.compile(r"[A-Za-z0-9_.+/=*-]*(?:\r?\n[ \t]*[A-Za-z0-9+/=*]{16,})*")
"""The rest of a key; of a private one, the lines that follow."""
MOST_LINES = 64
"""Lines of a secret that are secrets of their own: more than the longest private key has."""
_SAFE = ("", "/", "!~*'()", ";,/?:@&=+$-_.!~*'()#")
"""What is left as it is in an address: by careful writers, by Python, and by the two of JavaScript."""
_PERCENT = re.compile("%[0-9A-F]{2}")
_ESCAPE = re.compile(r"((?<!\\)(?:\\\\)*\\u)([0-9a-f]{4})")
_SMALL = 10**6
"""Numbers below it are too short to be a secret: most are, and nobody looks at them any closer."""
_APART = b"\0"
"""Between two texts that are looked at together: no variable can hold it, so no secret goes over it."""


class Known:
    """The secrets that a service has been told, from its start on: one that was replaced is still a secret.

    Read by many threads; whoever adds to it puts a whole new set in place.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.index = _index(frozenset(secrets))

    def learn(self, secrets: Iterable[str]) -> None:
        forms = _index(frozenset(secrets)).forms
        if not forms <= self.index.forms:  # most are: each turn brings those of its engine along
            self.index = _Index(self.index.forms | forms)


class _Index:
    """The forms of secrets by how they begin: most texts have none of the beginnings, and the forms of one secret
    have few of them."""

    def __init__(self, forms: frozenset[bytes]) -> None:
        self.forms = forms
        self._by_head: dict[bytes, list[bytes]] = {}
        for form in forms:
            self._by_head.setdefault(form[:SHORTEST], []).append(form)
        self._begun = frozenset(head[:size] for head in self._by_head for size in range(1, SHORTEST))

    def has_head(self, data: bytes) -> bool:
        for head in self._by_head:  # noqa: SIM110 (the generator of `any` takes longer than all of this)
            if data.find(head) >= 0:  # `in` takes twice as long
                return True
        return False

    def near(self, data: bytes) -> list[bytes]:
        """Those of which at least the beginning is in the data."""
        return [form for head, forms in self._by_head.items() if head in data for form in forms]

    def begun(self, data: bytes) -> int:
        """How many bytes at the end of the data may be less than the beginning of one."""
        sizes = range(min(SHORTEST - 1, len(data)), 0, -1)
        return next((size for size in sizes if data[-size:] in self._begun), 0)


@lru_cache(maxsize=16)
def _index(secrets: frozenset[str]) -> _Index:
    """Never stale: the forms of a secret are always the same. A process has five veils, and the next turn's secrets are
    mostly those of the last; the few sets that are kept are of secrets that the service knows for its life anyhow."""
    return _Index(frozenset(form for secret in secrets for form in _all_forms(secret)))


class Veil:
    def __init__(self, secrets: Iterable[str] = (), known: Known | None = None) -> None:
        self._known = known or Known()
        own = _index(frozenset(secrets))
        # What is known stays known, and is not looked for twice.
        self._own = _index(frozenset()) if own.forms <= self._known.index.forms else own
        self.has_hidden = False
        self.stars: list[Span] = []
        """Where in what was shown last something is hidden."""
        self._begin()

    def _begin(self) -> None:
        self.is_fresh = True
        """Nothing was shown yet that belongs to what comes next. Most veils are only ever asked for whole texts without
        a sign of a secret, and never get to look any closer."""
        self._held = b""
        self._base = 0
        """Of the stream: where what is held begins."""
        self._spans: list[Span] = []

    def hide(self, chunk: bytes) -> bytes:
        """What may be shown by now: a piece that could be the beginning of a secret waits for the next."""
        return self._show(chunk, is_last=False)

    def close(self) -> bytes:
        """The rest. What comes after it has nothing to do with it."""
        return self.whole(b"")

    def whole(self, data: bytes) -> bytes:
        """With the rest of what was held, if there is any, and to the end."""
        if self.is_fresh and not self._is_suspect(data):
            self.stars = []
            return data
        shown = self._show(data, is_last=True)
        self._begin()
        return shown

    def _is_suspect(self, data: bytes) -> bool:
        """Most texts have neither the beginning of a secret in them nor anything that every key has."""
        return may_hold_key(data) or self._own.has_head(data) or self._known.index.has_head(data)

    def _show(self, chunk: bytes, *, is_last: bool) -> bytes:
        if self.is_fresh:
            self.is_fresh = False
            self._keys, self._values = Keys(), _Values()
        data = self._held + chunk
        values, until = self._values.find(chunk, (self._own, self._known.index), is_last=is_last)
        keys, settled = self._keys.find(chunk, is_last=is_last)
        cut = min(until, settled) - self._base
        spans = [*self._spans, *values, *keys]
        self.stars = []
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
                self.stars.append((start, end))
                shown[start:end] = _SEEN.sub(b"*", data[start:end])
        return bytes(shown)


class _Values:
    """Where known secrets stand in a stream."""

    def __init__(self) -> None:
        self._held = b""
        self._base = 0

    def find(self, chunk: bytes, known: tuple[_Index, _Index], *, is_last: bool) -> tuple[list[Span], int]:
        """The spans, counted from the beginning of the stream; they may overlap. And how far that is settled."""
        data, base = self._held + chunk, self._base
        near = {form for index in known for form in index.near(data)}
        spans = [(base + at, base + at + len(form)) for form in near for at in _places(form, data)]
        sizes = (*(index.begun(data) for index in known), *(_begun(form, data) for form in near))
        begun = 0 if is_last else max(sizes)
        cut = len(data) - begun
        self._held, self._base = data[cut:], base + cut
        return spans, self._base


_Whole = (
    SessionOpened
    | Model
    | Text
    | ToolCall
    | PermissionAsked
    | PermissionWithdrawn
    | Usage
    | Remark
    | Echo
    | Ended
)
"""What is told at once."""


class Pieces:
    """The same for words that are told in pieces, each in a line of its own: no line has the whole secret."""

    def __init__(self, secrets: Iterable[str] = (), known: Known | None = None) -> None:
        self._whole = Veil(secrets, known)
        # An agent thinks while it speaks: what it thinks does not end what it says.
        self._told = {kind: _Told(Veil(secrets, known)) for kind in (TextDelta, Reasoning)}
        self._has_begun = False
        """Something was told in pieces since the last close."""

    @property
    def has_hidden(self) -> bool:
        return self._whole.has_hidden or any(told.has_hidden for told in self._told.values())

    def hide(self, events: Iterable[TurnEvent], *, has_stars: bool = False) -> list[TurnEvent]:
        """The events in their order; what is held back of a message comes before whatever ends it.

        `has_stars`: something was hidden in their line already. Stars that somebody wrote are no sign of a key.
        """
        shown: list[TurnEvent] = []
        for event in events:
            shown += self._hide(event, has_stars)
        return shown

    def close(self) -> list[TurnEvent]:
        if not self._has_begun:
            return []
        self._has_begun = False
        return [shown for told in self._told.values() for shown in told.close()]

    def _hide(self, event: TurnEvent, has_stars: bool) -> list[TurnEvent]:
        match event:
            case TextDelta() | Reasoning():
                self._has_begun = True
                return self._told[type(event)].hide(event, has_stars)
            case Text() | ToolCall() | PermissionAsked() | Echo() | Ended():
                return [*self.close(), self._read(event)]
            case SessionOpened() | Model() | PermissionWithdrawn() | Usage() | Remark():
                return [self._read(event)]
        assert_never(event)

    def _read(self, event: _Whole) -> TurnEvent:
        """JSON can be written in many ways: what was no secret in the line may be one when it is read."""
        match event:
            case Text(text):
                shown = self._text(text)
                return event if shown is text else replace(event, text=shown)
            case Remark():
                return replace(event, message=self._text(event.message))
            case Model(name):
                return replace(event, name=self._text(name))
            case Ended(Failure() as failure):
                words = hidden((failure.message, failure.evidence), self._whole)
                return Ended(replace(failure, message=words[0], evidence=words[1]))
            case ToolCall():
                told = (event.call_id, event.name, event.status, _head(event.input), _head(event.output))
                return ToolCall(*hidden(told, self._whole))
            case PermissionAsked():
                # By its key and the ids of the choices the agent is answered.
                choices = tuple(
                    replace(each, label=self._text(each.label), kind=self._text(each.kind))
                    for each in event.choices
                )
                title, tool = hidden((event.title, dict(event.tool)), self._whole)
                return replace(event, title=title, choices=choices, tool=tool)
            case SessionOpened() | PermissionWithdrawn() | Usage() | Echo() | Ended():
                return event  # names by which things are found again, and numbers
        assert_never(event)

    def _text(self, text: str) -> str:
        return hidden_text(text, self._whole)


class _Told:
    """One sort of words, as they come."""

    def __init__(self, veil: Veil) -> None:
        self._veil = veil
        self._open: TextDelta | Reasoning | None = None
        self._is_cut = False
        """What the last piece ended with was hidden in its own line: the rest of that is here."""
        self._has_hidden_rest = False

    @property
    def has_hidden(self) -> bool:
        return self._veil.has_hidden or self._has_hidden_rest

    def close(self) -> list[TurnEvent]:
        if self._veil.is_fresh:
            return []  # nothing was told since the last close
        held, last = self._veil.close(), self._open
        self._is_cut = False
        return [replace(last, text=_text(held))] if held and last else []

    def hide(self, event: TextDelta | Reasoning, has_stars: bool) -> list[TurnEvent]:
        is_same = self._open is not None and replace(self._open, text="") == replace(event, text="")
        before = [] if is_same else self.close()
        self._open = event
        shown = self._veil.hide(_bytes(self._without_rest(event.text, has_stars)))
        return [*before, *([replace(event, text=_text(shown))] if shown else [])]

    def _without_rest(self, text: str, has_stars: bool) -> str:
        """A key that is long enough to be known was hidden where its line ended; nobody would know its rest again."""
        found = _GOES_ON.match(text) if self._is_cut else None
        if found is not None and found[0]:
            rest = re.sub(r"[^\s*]", "*", found[0])
            self._has_hidden_rest = self._has_hidden_rest or rest != found[0]
            text = rest + text[found.end() :]
        goes_on = found is not None and found.end() == len(text)
        self._is_cut = goes_on or (has_stars and text.endswith("*" * _STARS))
        return text


def hidden_text(text: str, veil: Veil) -> str:
    data = _bytes(text)
    shown = veil.whole(data)
    return text if shown == data else _text(shown)


def hidden(value: Any, veil: Veil, masked: list[str] | None = None) -> Any:
    """Every text of a JSON value, the names of its members too; `masked` gets the JSON pointers of those that were
    changed. All texts are looked at in one go: a stranger chooses how many there are."""
    texts = [_bytes(text) for text in _texts(value)]
    data = _APART.join(texts)
    shown = veil.whole(data)
    if shown == data:
        return value
    ends = accumulate(len(text) + len(_APART) for text in texts)
    told = (
        _text(shown[end - len(text) - len(_APART) : end - len(_APART)])
        for text, end in zip(texts, ends, strict=True)
    )
    return _rebuilt(value, told, [] if masked is None else masked)


def _texts(value: Any) -> Iterator[str]:
    """Step by step, and not by a function that calls itself: a stranger chooses how deep it goes, too."""
    waiting = [value]
    while waiting:
        inside = waiting.pop()
        if isinstance(inside, dict):
            yield from (name for name in inside if isinstance(name, str))
            waiting += [each for each in inside.values() if not _is_small(each)]
        elif isinstance(inside, list | tuple):
            waiting += [each for each in inside if not _is_small(each)]
        elif (written := _written(inside)) is not None:
            yield written


def _rebuilt(value: Any, told: Iterator[str], masked: list[str]) -> Any:
    """The same way through it as `_texts` has, which `told` goes along with."""
    top: list[Any] = [value]
    waiting: list[tuple[Any, Any, str]] = [(top, 0, "")]
    while waiting:
        place, key, above = waiting.pop()
        inside = place[key]
        if (written := _written(inside)) is not None:
            if (text := next(told)) != written:
                place[key] = text
                masked.append(above if place is top else _below(above, key))
            continue
        pointer = above if place is top else _below(above, key)
        if isinstance(inside, dict):
            names = {name: next(told) if isinstance(name, str) else name for name in inside}
            place[key] = shown = _renamed(inside, names)
            masked += [_below(pointer, new) for name, new in zip(inside, shown, strict=True) if new != name]
            waiting += [(shown, name, pointer) for name, each in shown.items() if not _is_small(each)]
        elif isinstance(inside, list | tuple):
            place[key] = copied = list(inside)
            waiting += [(copied, at, pointer) for at, each in enumerate(copied) if not _is_small(each)]
    return top[0]


def _below(pointer: str, key: Any) -> str:
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def _renamed(members: dict[Any, Any], names: dict[Any, Any]) -> dict[Any, Any]:
    """Two secrets of one length look alike: those after the first are numbered."""
    shown: dict[Any, Any] = {}
    taken = {name for name, new in names.items() if name == new}
    number = 1
    for name, each in members.items():
        new = names[name]
        while new != name and new in taken:
            number += 1
            new = f"{names[name]}{number}"
        taken.add(new)
        shown[new] = each
    return shown


def _is_small(value: Any) -> bool:
    return (
        value is None or value is True or value is False or (type(value) is int and -_SMALL < value < _SMALL)
    )


def _written(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return repr(value) if is_number else None


def _head(value: Any) -> Any:
    """What is told of a tool's words, and enough after it to know a key at its end; more is never shown."""
    most = MAX_TOOL_TEXT + LONGEST_KEY
    if isinstance(value, str):
        return value[:most]
    if not isinstance(value, dict | list):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= most else text[:most]


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


def _all_forms(secret: str) -> set[bytes]:
    told = {text for text in _spoken(secret) if len(text) >= SHORTEST}
    return {form for text in told for form in _forms(text)}


def _spoken(secret: str) -> Iterator[str]:
    """Whoever prints a secret may leave away the line break that it was stored with, end its lines in another way,
    or set them in. A line by which a file is known, and not who has it, is no secret."""
    yield from (secret, secret.strip())
    lines = [line.strip() for line in secret.splitlines()]
    if len(lines) > 1:
        yield "\r\n".join(secret.splitlines())
        yield from (
            line for line in lines[:MOST_LINES] if not line.startswith("-----") and not is_common(line)
        )


def _forms(secret: str) -> set[bytes]:
    """As it is, as it stands in an address, in Python, in a text of JSON, and in JSON that is quoted in JSON."""
    once = {*_quoted(secret), repr(secret)[1:-1]}
    texts = {
        *_in_address(secret),
        *once,
        *(twice for text in once for twice in _quoted(text)),
    }
    return {
        secret.encode("utf-8", "surrogateescape"),
        *(text.encode("utf-8", "surrogatepass") for text in texts),
    }


def _in_address(secret: str) -> Iterator[str]:
    for safe in _SAFE:
        written = quote(secret, safe=safe, errors="surrogatepass")
        for each in (written, _PERCENT.sub(lambda found: found[0].lower(), written)):
            yield each
            yield each.replace("%20", "+")


def _quoted(text: str) -> set[str]:
    """Some writers of JSON leave letters as they are, some escape all but ASCII, some what means something in HTML,
    some the slash; in small letters or in capitals."""
    plain, ascii_only = json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
    shouted = _ESCAPE.sub(lambda found: found[1] + found[2].upper(), ascii_only)
    return {
        *(plain, ascii_only, shouted),
        *(each.replace("/", "\\/") for each in (plain, ascii_only)),
        *(_escaped(each, "<>&", "04x") for each in (plain, ascii_only)),
        *(_escaped(each, "<>&'=", "04x") for each in (plain, ascii_only)),
        _escaped(shouted.replace('\\"', "\\u0022"), "<>&'+`", "04X"),
    }


def _escaped(text: str, signs: str, how: str) -> str:
    return text.translate({ord(sign): f"\\u{ord(sign):{how}}" for sign in signs})
