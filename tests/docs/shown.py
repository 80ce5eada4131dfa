"""Whether a command printed what its page shows. Stable parts are compared to the letter; the rest by its form.

- `…` stands for anything that was left out, and `,…,` may be nothing but a comma.
- The id of a run stands for one id: the first time for whatever is printed there, later for that same one. Shown
  commands are typed with the real one. The first twelve signs of an id go with it; eight and `…` stand for any id.
- Times, lengths of time, sign-in codes, pids, tokens and checksums stand for any of their kind.
- `127.0.0.1:9813` stands for the address of this service, `/home/ada/turnkeeper` for the folder of this copy.
- White space may be more or less, and a line may be broken anywhere: long lines are wrapped on a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

HOME = "/home/ada/turnkeeper"
PORT = "9813"
CUT = 12
"""Signs of an id in lists."""

_TOKEN = re.compile(
    r"(?P<fields>,…,)"
    r"|(?P<gap>…)"
    r"|(?P<sha>\b[0-9a-f]{64}\b)"
    r"|(?P<id>\b[0-9a-f]{32}\b)"
    r"|(?P<cut>\b0[0-9a-f]{11}\b)"
    r"|(?P<brief>\b0[0-9a-f]{7}…)"
    r"|(?P<time>\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)"
    r"|(?P<clock>\b\d\d:\d\d(?::\d\d)?\b)"
    r"|(?P<span>\b\d+(?:\.\d+)? (?:s|min|seconds)\b(?: \d+ s\b)?)"
    r"|(?P<code>(?<=#code=)[\w-]+)"
    r"|(?P<count>(?<=pid )\d+|(?<= input )\d+|(?<= output )\d+)"
    r"|(?P<space>\s+)"
    r"|(?P<sign>.)"
)
_FORMS = {
    "fields": r",(?:.*?,)?",
    "gap": r".*?",
    "brief": r"[0-9a-f]{8}.*?",
    "sha": r"[0-9a-f]{64}",
    "time": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?",
    "clock": r"\d\d:\d\d(?::\d\d)?",
    "span": r"\d+(?:\.\d+)? (?:s|min|seconds)(?: \d+ s)?",
    "code": r"[\w-]+",
    "count": r"\d+",
}


@dataclass(slots=True)
class Reality:
    """What stands here for what is shown there."""

    home: str
    port: str = PORT
    ids: dict[str, str] = field(default_factory=dict)

    def command(self, shown: str) -> str:
        """As a reader of the page would type it."""
        for told, real in (*self.ids.items(), (HOME, self.home), (f":{PORT}", f":{self.port}")):
            shown = shown.replace(told, real)
        return shown

    def difference(self, shown: str, printed: str) -> str | None:
        """Where the two part; None if they do not. New ids are learned."""
        printed = printed.replace(self.home, HOME).replace(f":{self.port}", f":{PORT}").strip()
        tokens = list(_TOKEN.finditer(shown.strip()))
        whole = re.fullmatch(self._pattern(tokens), printed, re.DOTALL)
        if whole is None:
            return self._parting(tokens, printed)
        self._learn(whole.groupdict())
        return None

    def has(self, shown: str, printed: str) -> bool:
        """For output that is still coming: is it all there?"""
        return self.difference(f"{shown.rstrip()}…", printed) is None

    def _pattern(self, tokens: list[re.Match[str]]) -> str:
        return "".join(self._forms(tokens))

    def _forms(self, tokens: list[re.Match[str]]) -> Iterator[str]:
        new: set[str] = set()
        for token in tokens:
            kind, text = token.lastgroup or "", token.group()
            if kind == "space":
                yield r"\s*" if "\n" in text else r"\s+"
            elif kind in ("id", "cut") and text not in self.ids:
                yield f"(?P=id{text})" if text in new else f"(?P<id{text}>[0-9a-f]{{{len(text)}}})"
                new.add(text)
            else:
                yield _FORMS.get(kind) or re.escape(self.ids.get(text, text))

    def _learn(self, groups: dict[str, str]) -> None:
        for name, real in groups.items():
            told = name.removeprefix("id")
            self.ids[told] = real
            self.ids[told[:CUT]] = real[:CUT]
        # Longer ones first: an id is replaced before its beginning is.
        self.ids = dict(sorted(self.ids.items(), key=lambda each: -len(each[0])))

    def _parting(self, tokens: list[re.Match[str]], printed: str) -> str:
        for end in range(len(tokens) - 1, -1, -1):
            found = re.match(self._pattern(tokens[:end]), printed, re.DOTALL)
            if found is not None:
                wanted = "".join(token.group() for token in tokens[end : end + 60])
                there = printed[found.end() : found.end() + 200]
                return f"shown: {wanted!r}\nprinted there: {there!r}\nall of it:\n{printed}"
        return f"nothing of it was printed, but:\n{printed}"
