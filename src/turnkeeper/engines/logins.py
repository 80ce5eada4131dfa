"""A CLI that asks somebody to log in, where nobody is: known by the lines that it prints, while it runs.

Only what cannot be anything else counts: the turn is ended for it. What an error says about logins is left to
`meaning`.
"""

from __future__ import annotations

import re

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure
from turnkeeper.engines.lines import Line, plain

MAX_READ = 2000
"""Characters of a line that are looked at: a question is short, but for its address."""
TO_DO = (
    "the engine asks somebody to log in, and nobody is there: "
    "log in by hand once, as the user of the service, or set a key for it"
)

# No quotes and no braces before the verb: what stands in those is a value of something, and no sentence.
_BEFORE = r"(?!')[^\n\"`{}\[\]]{0,100}?"
_VERB = r"(?<!not )(?<!failed to )(?<!unable to )\b(?:visit|open|go to|navigate to|paste|enter)\b"
_ADDRESS = (
    r"https?://(?!docs\.|help\.|support\.)(?!\S{1,300}/(?:docs?|blob|wiki|issues|help|support|discussions)/)"
    r"\S{1,300}?(?:oauth|/authorize|[/=]device|devicelogin|/login(?:[/?\s]|$)|user_code=)"
)
_ASKS = re.compile(
    rf"{_BEFORE}{_VERB}[^\n\"'`{{}}]{{0,120}}?{_ADDRESS}"
    rf"|{_BEFORE}\b(?:visit|open|go to|navigate to|use) (?:the following|this|the) (?:url|link|page|address)\b"
    r"[^\n\"'`{}]{0,40}\b(?:to authori[sz]e|to authenticate|to log ?in|to sign in|and (?:log|sign) in)\b"
    rf"|{_BEFORE}\bopen(?:ing)? (?:the |an? )?(?:authentication|authori[sz]ation|login|sign-in) page in your browser"
    rf"|{_BEFORE}\bopening (?:your |the )?browser to (?:sign in|log ?in|authenticate)\b"
    rf"|{_BEFORE}\b(?:enter|paste|type)(?: in)? (?:the |this |your )?"
    r"(?:authori[sz]ation|verification|one-time|device|login|auth) code\b"
    r"|\W{0,10}paste code here\b",
    re.IGNORECASE,
)
_INVITES = re.compile(
    rf"{_BEFORE}{_VERB}(?: (?:to|the following|this) ?(?:url|link|page)?)?(?: in (?:your|a) browser)?\W{{0,10}}",
    re.IGNORECASE,
)
_ONLY_ADDRESS = re.compile(rf"[^\w\"'`{{}}\[\]]{{0,10}}{_ADDRESS}\S{{0,2000}}\W{{0,20}}", re.IGNORECASE)
_HELPS = re.compile(
    r"\b(?:more information|more details|learn more|documentation|for help|see also)\b", re.IGNORECASE
)
# One of them is in every question: most lines are let go without a closer look.
_HINTS = (b"visit", b"open", b"go to", b"navigate", b"paste", b"enter", b"use t", b"type ")


class Prompts:
    """Of one stream, in its order: an address may stand below the line that invites to it."""

    def __init__(self) -> None:
        self._is_invited = False

    def hear(self, line: Line) -> Failure | None:
        """What a line asks for, if it certainly asks somebody to log in."""
        start = line.data[: 4 * MAX_READ]
        if not start.strip():
            return None
        was_invited, self._is_invited = self._is_invited, False
        low = start.lower()
        if not was_invited and not any(map(low.__contains__, _HINTS)):
            return None
        text = plain(start)[:MAX_READ].strip()
        if _HELPS.search(text):
            return None
        if _ASKS.match(text) or (was_invited and _ONLY_ADDRESS.fullmatch(text)):
            return Failure(Code.ENGINE_AUTH_REQUIRED, TO_DO, evidence=text)
        self._is_invited = _INVITES.fullmatch(text) is not None
        return None
