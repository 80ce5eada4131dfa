"""Keys that are known by their looks: found in a stream of bytes, whatever the pieces it comes in.

Nobody told us of these keys: a person pasted one, or a tool printed one that it found. What is decided about a byte
hangs on the bytes before it and on a bounded number after it, never on where a piece ended.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

Span = tuple[int, int]

CONTEXT = 16
"""Bytes before a key that say whether it begins there."""
DECIDED = 256
"""Bytes of something that may be a key, after which nothing more is waited for."""

_WORD = rb"[A-Za-z0-9_-]"
_ALNUM = rb"[A-Za-z0-9]"

_MIXED = rb"(?=%b{0,99}[0-9])(?=%b{0,99}[A-Z])(?=%b{0,99}[a-z])"
"""Of words, most have no digit, or no capital, or neither: of keys, not one in a thousand."""
_SK = (
    # Its makers are known: it may have hyphens.
    rb"(?:proj|ant(?:-[a-z]{2,8}[0-9]{2})?|svcacct|admin|or-v1|live|test|None)[-_]%b%b{20}"
    % (_MIXED.replace(b"%b", _WORD), _WORD),
    # Of others, twenty letters and digits in one.
    rb"(?:[A-Za-z0-9]{1,12}[-_]){0,2}%b%b{20}" % (_MIXED.replace(b"%b", _ALNUM), _ALNUM),
    rb"(?:[a-z0-9]{1,12}-){0,2}[0-9a-f]{32}",
    rb"(?:[a-z0-9]{1,12}-){0,2}[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}",
)
"""There are words that begin so, in a style sheet or in the address of a page in Slovak: those are none."""

_TABLE: tuple[tuple[bytes, bytes, bytes], ...] = (
    # how it begins, what it may go on with, what must follow the beginning to make it a key.
    (rb"sk-", _WORD, rb"(?:%b)" % b"|".join(_SK)),
    (rb"[sr]k_(?:live|test)_", _ALNUM, rb"%b{16}" % _ALNUM),
    (rb"gh[pousr]_", _ALNUM, rb"%b{20}" % _ALNUM),
    (rb"github_pat_", rb"[A-Za-z0-9_]", rb"%b{20}" % _ALNUM),
    (rb"glpat-", _WORD, rb"%b{20}" % _WORD),
    (rb"A[KS]IA", rb"[A-Z0-9]", rb"[A-Z0-9]{16}"),
    (rb"AIza", _WORD, rb"%b{30}" % _WORD),
    (rb"xox[abeprs]-", rb"[A-Za-z0-9-]", rb"[A-Za-z0-9-]{10}"),
    (rb"npm_", _ALNUM, rb"%b{30}" % _ALNUM),
    (rb"hf_", _ALNUM, rb"%b{30}" % _ALNUM),
    # Our own, as `core/keys.py` writes them, and links to answer by: what those say begins with `["`.
    (rb"(?<!_)tk_", _WORD, rb"[a-z2-7]{8}_%b{16}" % _ALNUM),
    (rb"(?<!_)tkl_", rb"[A-Za-z0-9_.-]", rb"Wy[IJ][A-Za-z0-9_-]{13}"),
)
_HINTS = (
    *(rb"sk-", rb"k_(?:live|test)_", rb"gh[pousr]_", rb"github_pat_", rb"glpat-", rb"A(?:[KS]IA|Iza)"),
    *(rb"xox[abeprs]-", rb"npm_(?!config_)", rb"hf_", rb"tkl?_"),
)
"""One of them is in every key: most of what an engine prints has none, and is not looked at any closer (the names of
npm's own settings, which every engine is given one of, are none). Several
searches, since each begins with one letter, for which memory is scanned at full speed: all in one take thirty times as
long."""
_BEGINNINGS = frozenset(
    word[:size]
    for word in (
        *(
            b"sk-",
            b"sk_live_",
            b"rk_live_",
            b"sk_test_",
            b"rk_test_",
            b"ghp_",
            b"gho_",
            b"ghu_",
            b"ghs_",
            b"ghr_",
        ),
        *(
            b"github_pat_",
            b"glpat-",
            b"AKIA",
            b"ASIA",
            b"AIza",
            b"npm_",
            b"hf_",
            b"tk_",
            b"tkl_",
            b"-----BEGIN ",
        ),
        *(b"xoxa-", b"xoxb-", b"xoxe-", b"xoxp-", b"xoxr-", b"xoxs-"),
    )
    for size in range(1, len(word) + 1)
)
_BEFORE = re.compile(
    rb"(?:^|[^A-Za-z0-9]|\\[bfnrt]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|\[[0-9;]{0,10}m)\Z", re.DOTALL
)
"""A key does not begin in the middle of a word. What ends in a letter and is no word: an escape of JSON, of an address,
of a terminal's colours."""

_PEM_BEGIN = b"-----BEGIN "
_PEM_MARK = re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_OPEN = re.compile(rb"-----BEGIN [A-Z0-9 -]*\Z")
_PEM_HEADERS = (b"Proc-Type:", b"DEK-Info:", b"Comment:", b"Version:")
_PEM_HEADER = b"|".join(_PEM_HEADERS)
_PEM_INSIDE = re.compile(
    rb"(?:(?:[\r\n]|\\{1,8}[nr])[ \t]{0,16}){0,3}(?:%b|(?:[A-Za-z0-9+/=]|\\{1,4}/){16})" % _PEM_HEADER
)
"""What makes it a key: a mark alone is often a text about keys."""
_PEM_MAY_FOLLOW = re.compile(rb"[A-Za-z0-9+/=\\: \t\r\n-]*\Z")


@dataclass(frozen=True, slots=True)
class Kind:
    run: re.Pattern[bytes]
    """All that belongs together, beginning included, key or not."""
    key: re.Pattern[bytes]
    more: re.Pattern[bytes]
    """What is hidden with it: all that a key of any kind may go on with, else the next could hide its head in this."""


class _Pem(Enum):
    """Where in a block of a private key one is. A block is base64, or headers; as it is, or inside a text of JSON."""

    BODY = "body"
    LINE = "line"
    HEAD = "head"


_KINDS = {
    f"k{number}": Kind(
        re.compile(rb"(?:%b)%b*+" % (begin, body)),
        re.compile(rb"(?:%b)%b" % (begin, rest)),
        re.compile(rb"[A-Za-z0-9_.-]*+" if begin.endswith(rb"tkl_") else rb"%b*+" % _WORD),
    )
    for number, (begin, body, rest) in enumerate(_TABLE)
}
_KEY = re.compile(b"|".join(rb"(?P<k%d>%b)" % (number, begin) for number, (begin, _, _) in enumerate(_TABLE)))

_BREAK = rb"(?P<line>[\r\n]|\\{1,8}[nr])"
# Five hyphens are the end of the block, or the beginning of the next.
_BODY = rb"(?P<body>[A-Za-z0-9+/=,]+|-(?!----)|\\{1,8}/)"
_HEAD = rb"(?P<head>%b)" % _PEM_HEADER
_PEM_NEXT = {
    _Pem.BODY: re.compile(b"|".join((_BODY, _BREAK))),
    _Pem.LINE: re.compile(b"|".join((_HEAD, _BODY, _BREAK, rb"(?P<blank>[ \t]+)"))),
    _Pem.HEAD: re.compile(b"|".join((rb'(?P<text>[^"\\\x00-\x1f\x7f-\xff]+)', _BREAK))),
}
_PEM_THEN = {
    "body": _Pem.BODY,
    "line": _Pem.LINE,
    "blank": _Pem.LINE,
    "head": _Pem.HEAD,
    "text": _Pem.HEAD,
}
_HEAD_BEGUN = b"|".join(word[:size] for word in _PEM_HEADERS for size in range(1, len(word)))
_PEM_UNSURE = {
    _Pem.BODY: re.compile(rb"(?:\\{1,8}|-{1,4})\Z"),
    _Pem.LINE: re.compile(rb"(?:\\{1,8}|-{1,4}|%b)\Z" % _HEAD_BEGUN),
    _Pem.HEAD: re.compile(rb"\\{1,8}\Z"),
}


class _Finder(ABC):
    """Finds one sort of key: where it may begin, whether it is one, how far it goes."""

    begins: ClassVar[re.Pattern[bytes]]
    hints: ClassVar[Sequence[re.Pattern[bytes]]]
    beginnings: ClassVar[frozenset[bytes]]
    longest: ClassVar[int]

    def __init__(self) -> None:
        self._held = b""
        self._base = 0
        """Of the stream: where what is held begins."""
        self._from = 0
        """Of what is held: where one looks on."""
        self._is_open = False
        """A key was found, and may go on."""

    def find(self, chunk: bytes, *, is_last: bool) -> tuple[list[Span], int]:
        data = self._held + chunk
        spans = [(self._base + start, self._base + end) for start, end in self._look(data, is_last)]
        settled = self._base + self._from
        kept = max(0, self._from - CONTEXT)
        self._held, self._base, self._from = data[kept:], self._base + kept, self._from - kept
        return spans, settled

    def _look(self, data: bytes, is_last: bool) -> Iterator[Span]:
        if not self._is_open and not any(hint.search(data) for hint in self.hints):
            self._stop(data, is_last)
            return
        while self._from < len(data):
            if self._is_open:
                start = self._from
                self._from, self._is_open = self._follow(data, start, is_last)
                if self._from > start:
                    yield start, self._from
                if self._is_open:
                    return
            found = self.begins.search(data, self._from)
            if found is None:
                self._stop(data, is_last)
                return
            at = self._from = found.start()
            # What may be a key, as far as can be seen, waits for what follows.
            can_grow = not is_last and len(data) - at < DECIDED
            end = self._begin(data, at, found.lastgroup or "", can_grow)
            if end is None:
                return
            self._is_open = end > at
            if self._is_open:
                yield at, end
            self._from = max(end, at + 1)

    def _stop(self, data: bytes, is_last: bool) -> None:
        """What may be how a key begins is looked at again with what follows."""
        looked, self._from = self._from, len(data)
        for size in range(min(self.longest, len(data) - looked), 0, -1) if not is_last else ():
            at = len(data) - size
            if data[at:] in self.beginnings and self._may_begin(data, at):
                self._from = at
                return

    @abstractmethod
    def _may_begin(self, data: bytes, at: int) -> bool: ...

    @abstractmethod
    def _begin(self, data: bytes, at: int, name: str, can_grow: bool) -> int | None:
        """How far a key goes that begins here, as far as it is certain; `at` if it is none; None if that is open."""

    @abstractmethod
    def _follow(self, data: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        """How far it goes on, and whether it may go on after that."""


class _Words(_Finder):
    begins = _KEY
    hints = tuple(map(re.compile, _HINTS))
    beginnings = _BEGINNINGS
    longest = max(map(len, _BEGINNINGS))

    def __init__(self) -> None:
        super().__init__()
        self._kind = _KINDS["k0"]

    def _may_begin(self, data: bytes, at: int) -> bool:
        return _BEFORE.search(data[max(0, at - CONTEXT) : at]) is not None

    def _begin(self, data: bytes, at: int, name: str, can_grow: bool) -> int | None:
        if not self._may_begin(data, at):
            return at
        self._kind = _KINDS[name]
        key = self._kind.key.match(data, at)
        if key is not None:
            return key.end()
        run = self._kind.run.match(data, at)
        return None if can_grow and run is not None and run.end() == len(data) else at

    def _follow(self, data: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        more = self._kind.more.match(data, at)
        end = more.end() if more else at
        return end, end == len(data) and not is_last


class _Blocks(_Finder):
    begins = re.compile(_PEM_BEGIN)
    hints = (begins,)
    beginnings = frozenset(_PEM_BEGIN[:size] for size in range(1, len(_PEM_BEGIN) + 1))
    longest = len(_PEM_BEGIN)

    def __init__(self) -> None:
        super().__init__()
        self._place = _Pem.BODY

    def _may_begin(self, data: bytes, at: int) -> bool:
        return True

    def _begin(self, data: bytes, at: int, name: str, can_grow: bool) -> int | None:
        mark = _PEM_MARK.match(data, at)
        if mark is None:
            return None if can_grow and _PEM_OPEN.match(data, at) else at
        if not _PEM_INSIDE.match(data, mark.end()):
            return None if can_grow and _PEM_MAY_FOLLOW.match(data, mark.end()) else at
        self._place = _Pem.BODY
        return mark.end()

    def _follow(self, data: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        while at < len(data):
            if not is_last and _PEM_UNSURE[self._place].match(data, at):
                return at, True
            token = _PEM_NEXT[self._place].match(data, at)
            if token is None:
                return at, False
            at, self._place = token.end(), _PEM_THEN[token.lastgroup or ""]
        return at, not is_last


_ANCHORS = tuple(hint.search for finder in (_Words, _Blocks) for hint in finder.hints)
_SIGNS = (b"-", b"_", b"AKIA", b"ASIA", b"AIza")
"""One of them is in every hint, and none in most sentences."""


def may_hold_key(data: bytes) -> bool:
    """False of a whole text in which there is none, nor any that is only begun."""
    for sign in _SIGNS:
        if data.find(sign) >= 0:
            break
    else:
        return False
    for search in _ANCHORS:  # noqa: SIM110 (the generator of `any` takes as long as the searches)
        if search(data):
            return True
    return False


class Keys:
    """Where keys stand in a stream. They may overlap: in what is left of a private key, another can begin."""

    def __init__(self) -> None:
        self._finders = (_Words(), _Blocks())

    def find(self, chunk: bytes, *, is_last: bool = False) -> tuple[list[Span], int]:
        """The spans of keys, counted from the beginning of the stream, and how far that is settled."""
        (words, one), (blocks, other) = (each.find(chunk, is_last=is_last) for each in self._finders)
        return [*words, *blocks], min(one, other)
