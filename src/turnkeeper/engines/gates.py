"""A CLI that stops before its turn has begun, and why: it wants a person, a terminal, another user, a newer self.

What certainly waits for an answer is known while it runs, and ended; logins are in `logins.py`. What is only likely is
told as a hint, once its time is over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.run import Failure
from turnkeeper.core.turn import Remark
from turnkeeper.engines import meaning
from turnkeeper.engines.lines import Line, plain
from turnkeeper.engines.logins import Prompts

MAX_READ = 2000
"""Characters of a line that are looked at."""
FOLLOWS_WITHIN = 8
"""Lines from the offer of an update to the question about it."""

_OFFERS = re.compile(
    r"\b(?:update|upgrade|new(?:er)? (?:version|release)) (?:is )?(?:now )?available\b"
    r"|\bupdate (?:now|to \S{1,40} now)\b|\binstall (?:the|this) update\b",
    re.IGNORECASE,
)
_WAITS = re.compile(
    r"[\[(]y(?:es)?(?:\s?/\s?n(?:o)?)?[\])]\s*\W{0,3}$|\bpress (?:enter|return|any key)\b|^\W{0,5}1[.)] update now\b",
    re.IGNORECASE,
)
# In its beginning, behind a frame or the sign of a prompt: in the middle of a line somebody tells of the question.
_TRUST = re.compile(
    r"[\s\u2500-\u25ff\u26a0\u2022\u203a\u276f|?>*!]{0,20}"
    r"do you (?:want to )?trust (?:the (?:files|contents|authors)\b.{0,40}|this |the )"
    r"(?:folder|directory|workspace)\b",
    re.IGNORECASE,
)
# As with logins: what stands in quotes or braces is a value of something, and no sentence. An apostrophe is no quote.
_QUOTED = re.compile(r"[\"`{}]|(?<!\w)'|'(?!\w)")
UPDATE = (
    "the engine offers an update of itself and waits for an answer, and nobody is there: "
    "update it by hand, or use the version that is tested: turnkeeper engines install NAME"
)
TRUST = "the engine asks a person to trust the workspace, and nobody is there"

_ROOT = re.compile(
    r"\b(?:cannot|can't|must not|may not|refus\w{1,4}|not (?:be )?(?:allowed|permitted|supported)|do not|don't)\b"
    r".{0,80}\b(?:as|with|by|under) (?:the )?(?:root|sudo|superuser|uid 0)\b",
    re.IGNORECASE,
)
ROOT = "the engine does not run as root: run the service as another user ({line})"
_TERMINAL = re.compile(
    r"\braw mode is not supported\b|\bsetRawMode is not a function\b|\bfailed to (?:enable|set) raw mode\b"
    r"|\b(?:stdin|stdout|standard input|input device|the input) is not a (?:tty|terminal)\b"
    r"|\b(?:requires?|needs?|without|must be run in) an? (?:interactive )?(?:tty|terminal)\b"
    r"|\b(?:open|opening|access) /dev/tty\b|/dev/tty: (?:no such|cannot|permission)",
    re.IGNORECASE,
)
TERMINAL = "the engine wants a terminal, and here is none: {line}"

_DOWNGRADED = re.compile(
    r"\bapproval mode (?:was |is |has been )?(?:overridden|downgraded|changed|reset) to\b"
    r"|\byolo mode (?:is |was )?(?:disabled|ignored|not (?:available|allowed|permitted))\b"
    r"|`?(?:approval_policy|sandbox_mode|permission_profile)`?.{0,40}\bis (?:disallowed|not allowed)\b"
    r"|\bbypass(?:ing)? ?permissions?\b.{0,40}\b(?:disabled|not (?:available|allowed))\b",
    re.IGNORECASE,
)
_NAMED = r"[`'\"(]?(?P<{}>[\w.@/-]{{1,80}})[`'\")]?"
_SOME = r"(?<!\b0 )(?<!\bno )(?<!\bnone )(?<!\bwithout )"
"""A count of none is no failure."""
_SERVER = re.compile(
    rf"\bMCP (?:client|server)s?(?: for| named)?:? {_NAMED.format('a')}.{{0,120}}?"
    rf"\b{_SOME}(?:failed|error|timed out|timeout|could not|cannot|did not|disconnected|unable|closed|exited)\b"
    rf"|\b{_SOME}(?:error|failed|unable|could not|timed out|timeout)\b.{{0,80}}"
    rf"\bMCP (?:client|server) {_NAMED.format('b')}"
    r"|\bservice=mcp\b.{0,120}?\bkey=(?P<c>[\w.@/-]{1,80})",
    re.IGNORECASE,
)
# Most lines are let go without a closer look: a flood of them must not cost its length again.
_OF_QUESTIONS = (b"updat", b"upgrad", b"version", b"release", b"trust")
_OF_REMARKS = (b"mcp", b"approval", b"yolo", b"sandbox_mode", b"permission")
# A hint is for whoever reads the failure: the first that fits what was printed last, or what was still alive.
HINTS = (
    (
        re.compile(
            r"keychain|key ?ring|libsecret|secret[- ]service|secret-tool|d-?bus|kwallet", re.IGNORECASE
        ),
        "it may wait for a keychain, which a service has not: give it a key, or let it keep its login in a file",
    ),
    (
        re.compile(r"\bMCP (?:client|server)|\bservice=mcp\b", re.IGNORECASE),
        "a server of tools (MCP) may not come up: the last that it said of one is `{line}`",
    ),
    (_OFFERS, "it may wait for an answer about an update: turn its updates off"),
    (
        re.compile(
            r"\b(?:themes?|onboarding|welcome to|let'?s get started|first[- ]run|text style)\b"
            r"|\b(?:terms of (?:service|use)|licen[cs]e agreement|privacy (?:notice|policy))\b",
            re.IGNORECASE,
        ),
        "it may show the screen of a first start: settings that answer it belong into engines.NAME.config",
    ),
    (
        re.compile(
            r"[\[(]y(?:es)?(?:\s?/\s?n(?:o)?)?[\])]\s*\W{0,3}$|\bpress (?:enter|return|any key)\b",
            re.IGNORECASE,
        ),
        "it may wait for an answer that nobody can give: `{line}`",
    ),
)
BY_HAND = "started by hand as the user of the service, it may show what it waits for: a login, a keychain, a question"


class Questions:
    """Of one stream, in its order: those that somebody would have to answer before anything happens."""

    def __init__(self) -> None:
        self._logins = Prompts()
        self._offered = 0

    def hear(self, line: Line) -> Failure | None:
        login = self._logins.hear(line)
        start = line.data[: 4 * MAX_READ]
        if login is not None or not start.strip():
            return login
        if not self._offered and not any(map(start.lower().__contains__, _OF_QUESTIONS)):
            return None
        text = plain(start)[:MAX_READ].strip()
        if _TRUST.match(text) and not _QUOTED.search(text):
            return Failure(Code.ENGINE_TRUST_REQUIRED, TRUST, evidence=text)
        self._offered = FOLLOWS_WITHIN if _OFFERS.search(text) else max(self._offered - 1, 0)
        waits = _WAITS.search(text) if self._offered else None
        # Behind its words there may be quotes: a choice tells the command that it runs.
        if waits and not _QUOTED.search(text, 0, waits.end()):
            return Failure(Code.ENGINE_NOT_READY, UPDATE, evidence=text)
        return None

    def would_be(self, line: Line) -> Failure | None:
        """The question, if the line were over: whoever asks on the same line waits there."""
        trial = copy(self)
        trial._logins = copy(self._logins)
        return trial.hear(line)


def refused(words: str) -> Failure | None:
    """Of what a program printed that did not even begin."""
    for pattern, code, sentence in (
        (_ROOT, Code.ENGINE_NOT_READY, ROOT),
        (_TERMINAL, Code.ENGINE_TTY_REQUIRED, TERMINAL),
    ):
        line = _line(pattern, words)
        if line is not None:
            message = sentence.format(line=line)
            return Failure(code, message, None, meaning.evidence(words, message))
    return None


def heard(line: Line) -> Remark | None:
    """What a line of stderr is worth a warning of."""
    start = line.data[:MAX_READ]
    return remark(plain(start)) if any(map(start.lower().__contains__, _OF_REMARKS)) else None


def remark(words: str) -> Remark | None:
    """What is worth a warning of its own, of the words by which a CLI warns."""
    words = words[:MAX_READ].strip()
    if _DOWNGRADED.search(words):
        return Remark(Warn.APPROVAL_MODE_DOWNGRADED, words)
    found = _SERVER.search(words)
    if found is None:
        return None
    name = next(name for name in found.groups() if name)
    return Remark(Warn.TOOL_SERVER_FAILED, f"the tool server {name} is not there: {words}")


def hint(words: Iterable[str], otherwise: str = "") -> str:
    """What it may be waiting for; `words`: the last that was printed comes last."""
    lines = [line.strip() for line in words]
    for pattern, sentence in HINTS:
        line = next((line for line in reversed(lines) if pattern.search(line)), None)
        if line is not None:
            return sentence.format(line=line[:200])
    return otherwise


def _line(pattern: re.Pattern[str], words: str) -> str | None:
    lines = (line.strip()[:MAX_READ] for line in words.splitlines())
    return next((line for line in lines if pattern.search(line)), None)
