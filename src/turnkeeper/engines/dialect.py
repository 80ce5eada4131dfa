"""What the dialects of CLIs share: a process for each turn, sessions by name, what an exit means, how tokens count."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.run import Failure, Handle
from turnkeeper.core.turn import Ended, Model, Remark, SessionOpened, TurnEvent, Usage
from turnkeeper.engines import broken, gates, meaning
from turnkeeper.engines.base import Headless, Heard, TurnPlan
from turnkeeper.engines.lines import MAX_LINE, Line, plain
from turnkeeper.engines.objects import LARGEST_NUMBER, read_object
from turnkeeper.engines.process import Exit

# What an engine calls its session becomes a word of a command line: it must not be taken for an option.
SESSION_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")

MAX_ID = 200
"""Characters of an id that a dialect remembers: a longer one is met as if it were new."""
MAX_MISUSE = 2000
"""Bytes of a line that refuses an argument, or a permission."""
PREAMBLE = 20
"""Lines of stdout that are remembered of a CLI that has not begun its turn."""
NOTHING_SAID = "the engine exited with 0 and printed nothing at all; nobody knows what it did"
_REFUSED = re.compile(
    r"permission requested: .{1,500}; auto-reject|\bauto(?:matically)?[- ]reject(?:ed|ing)\b", re.I
)
"""How a CLI says that it refused a permission itself, since there was nobody to be asked."""


def session_of(plan: TurnPlan) -> str | None:
    return plan.session.session_id if plan.session else None


class CliDialect(Headless):
    """One turn of one process. Subclasses say what a line means; what the exit means is mostly the same."""

    lost: ClassVar[re.Pattern[str] | None] = None
    """The line of stderr by which the CLI says that it does not know the session."""
    distrusts: ClassVar[re.Pattern[str] | None] = None
    """The one by which it says that it does not trust the workspace."""
    misused: ClassVar[re.Pattern[str]] = meaning.MISUSED
    """The one by which it refuses an argument, before it shows at length which there are."""
    exits: ClassVar[Mapping[int, Failure]] = {}
    """What an exit code of its own says by itself."""
    takes_commands: ClassVar[bool] = False
    """A prompt that opens with a slash would be one."""

    def __init__(self, plan: TurnPlan) -> None:
        super().__init__()
        self._resumed = session_of(plan)
        self._session: str | None = None
        self._has_spoken = False
        self._is_understood = False
        """A line of stdout was: from there on it is the agent's turn, and not the start of the CLI."""
        self._preamble: deque[bytes] = deque(maxlen=PREAMBLE)
        self._asks, self._asks_aside = gates.Questions(), gates.Questions()
        self._asked: Failure | None = None
        """For a login or another answer, on stderr."""
        self._asked_login: Failure | None = None
        self._misuse: str | None = None
        self._refusal: str | None = None
        """Of a permission, by the CLI itself."""

    def begin(self, prompt: str) -> bytes:
        """A reply that opens with a slash is a reply, and no command to the CLI."""
        is_command = self.takes_commands and prompt.startswith("/")
        return super().begin(f"\n{prompt}" if is_command else prompt)

    def hear(self, line: Line) -> Heard | None:
        is_blank = line.is_blank
        self._has_spoken = self._has_spoken or not is_blank
        heard = super().hear(line)
        if heard is None and not self._is_understood:
            self._preamble.append(line.data[:MAX_MISUSE])
            asked = self._asks.hear(line)
            return Heard([Ended(asked)]) if asked else None
        self._is_understood = self._is_understood or not is_blank
        if heard is None or self._resumed is None:
            return heard
        return replace(heard, events=[_of_its_session(event) for event in heard.events])

    def hear_stderr(self, line: Line) -> Heard | None:
        """A question for a login ends the turn, unless stdout has closed it: which came first cannot be known. One for
        something else ends only what has not begun: later on it is a tool that speaks of it."""
        text = plain(line.data) if len(line.data) <= MAX_MISUSE else ""
        if self._misuse is None:
            self._misuse = _line(self.misused, text)
        asked, told = self._asks_aside.hear(line), gates.heard(line)
        if asked is None:
            return Heard([told]) if told else self._hear_refusal(_line(_REFUSED, text))
        self._asked = self._asked or asked
        if _is_login(asked):
            self._asked_login = self._asked_login or asked
        return Heard((), is_last=True) if self._counts(asked) else None

    def asks(self, stream: str, start: bytes) -> bool:
        """Whether the line that it has begun there, and does not end, waits for somebody's answer."""
        line = Line(start, 0, len(start), truncated=False)
        if stream == "stderr":
            asked = self._asks_aside.would_be(line)
            return asked is not None and self._counts(asked)
        return not self._is_understood and self._asks.would_be(line) is not None

    def _counts(self, asked: Failure) -> bool:
        return _is_login(asked) or not self._is_understood

    def hint(self, words: Sequence[str], *, has_begun: bool) -> str:
        return gates.hint(words, "" if has_begun else gates.BY_HAND)

    def _hear_refusal(self, words: str | None) -> Heard | None:
        if words is None:
            return None
        self._refusal = self._refusal or words
        return Heard(
            [Remark(Warn.PERMISSION_DENIED, f"nobody could be asked, and the engine refused: {words}")]
        )

    def finish(self, ended: Exit, stderr: str) -> Sequence[TurnEvent]:
        # By all that stdout said, and not by when: whoever reads the stored bytes again knows no more than that.
        asked = self._asked_login if self._is_understood else self._asked
        if asked is not None:
            return [Ended(asked)]
        if ended.code is None:
            return []  # whatever it said before, the signal is why it stopped
        failure = (
            self._lost_session(ended.code, stderr)
            or self._refused(ended.code, stderr)
            or self.failure(ended.code, stderr)
        )
        if failure is None or failure.code is Code.ENGINE_FAILED:
            failure = self._broken_session(ended.code, stderr) or failure or self._silence(ended.code, stderr)
        return [Ended(failure)] if failure else []

    def _silence(self, code: int, stderr: str) -> Failure | None:
        """It left as if all were well, without its closing event: the reason may be a permission that it refused."""
        if code != 0:
            return None
        if self._refusal is not None:
            words = f"the engine refused a permission that nobody was asked about, and left: {self._refusal}"
            return Failure(Code.ENGINE_FAILED, words, None, meaning.evidence(stderr, words))
        return None if self._has_spoken or stderr.strip() else Failure(Code.ENGINE_FAILED, NOTHING_SAID)

    def failure(self, code: int, stderr: str) -> Failure | None:
        """What an exit without a closing event means; None: there is no better word for it than the exit itself."""
        if code in self.exits:
            return meaning.explained(self.exits[code], stderr)
        return meaning.of_stderr(stderr) if code else None

    def opened(self, session_id: str) -> list[TurnEvent]:
        if self._session is not None or not SESSION_ID.fullmatch(session_id):
            return []
        self._session = session_id
        if self._resumed not in (None, session_id):
            gone = f"the engine was asked to resume session {self._resumed} and began another"
            return [Ended(Failure(Code.SESSION_LOST, gone))]
        return [SessionOpened(Handle(session_id, loadable=True))]

    def _lost_session(self, code: int, stderr: str) -> Failure | None:
        if self._resumed is None or self._session is not None:
            return None
        if code == 0:
            silence = f"the engine was asked to resume session {self._resumed} and said nothing at all"
            return None if self._has_spoken else Failure(Code.SESSION_LOST, silence)
        line = _line(self.lost, stderr)
        return Failure(Code.SESSION_LOST, line) if line is not None else None

    def _broken_session(self, code: int, stderr: str) -> Failure | None:
        """By words that are not the CLI's own for it: whatever has a certain name is not asked about."""
        if self._resumed is None or self._session is not None or code == 0:
            return None
        line = broken.line_in(stderr)
        return Failure(Code.SESSION_LOST, line) if line is not None else None

    def _refused(self, code: int, stderr: str) -> Failure | None:
        """It did not even begin. Once it has spoken, words like these are of a tool that it used."""
        if code == 0 or self._is_understood:
            return None
        line = _line(self.distrusts, stderr)
        if line is not None:
            return Failure(Code.ENGINE_TRUST_REQUIRED, line, None, meaning.evidence(stderr, line))
        refused = gates.refused("\n".join((stderr, *map(plain, self._preamble))))
        if refused is not None or self._misuse is None:
            return refused
        message = f"the engine does not take the arguments that it was started with: {self._misuse}"
        return Failure(Code.ENGINE_ARGS_REJECTED, message, None, meaning.evidence(stderr, message))


def _is_login(asked: Failure) -> bool:
    return asked.code is Code.ENGINE_AUTH_REQUIRED


def _of_its_session(event: TurnEvent) -> TurnEvent:
    """A turn that could not go on with its session has lost it, whatever the error was called."""
    if isinstance(event, Ended) and event.failure is not None:
        return Ended(broken.as_lost(event.failure))
    return event


def _line(pattern: re.Pattern[str] | None, text: str) -> str | None:
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if pattern and pattern.search(line)), None)


def named(model: object) -> list[TurnEvent]:
    """The model, if that is a name."""
    return [Model(model)] if isinstance(model, str) and 0 < len(model) <= MAX_ID else []


def usage(**found: object) -> list[TurnEvent]:
    """Of what was found, the counts, by the names of `COUNTERS`: each token in one of them."""
    counts = {name: n for name, n in found.items() if is_count(n)}
    return [Usage(counts)] if counts else []


def inclusive_usage(
    *,
    input_tokens: object,
    cached_tokens: object = None,
    output_tokens: object,
    reasoning_tokens: object = None,
) -> list[TurnEvent]:
    """Of an engine that counts what is cached as input too, and what is reasoning as output."""
    return usage(
        input_tokens=_less(input_tokens, cached_tokens),
        cached_tokens=cached_tokens,
        output_tokens=_less(output_tokens, reasoning_tokens),
        reasoning_tokens=reasoning_tokens,
    )


def session_usage(used: Mapping[str, int], **totals: object) -> list[TurnEvent]:
    """Of an engine that counts like that, and its whole session: what earlier turns used is taken off."""
    cached, reasoning = used.get("cached_tokens", 0), used.get("reasoning_tokens", 0)
    before = {
        "input_tokens": used.get("input_tokens", 0) + cached,
        "cached_tokens": cached,
        "output_tokens": used.get("output_tokens", 0) + reasoning,
        "reasoning_tokens": reasoning,
    }
    return inclusive_usage(**{name: _less(totals.get(name), count) for name, count in before.items()})


def _less(whole: object, part: object) -> object:
    if isinstance(whole, int) and isinstance(part, int) and is_count(whole) and is_count(part):
        return max(0, whole - part)
    return whole


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST_NUMBER


class SpreadObject:
    """A JSON object printed over many lines, from a line `{` to a line `}`, as scripts indent it."""

    def __init__(self, max_size: int = MAX_LINE) -> None:
        self._max_size = max_size
        self._lines: list[str] = []
        self._size = 0

    @property
    def is_open(self) -> bool:
        return bool(self._lines)

    def take(self, line: Line) -> dict[str, Any] | None:
        """The object, with its last line."""
        text = plain(line.data).rstrip()
        if text == "{":
            self.drop()
        elif not self._lines:
            return None
        self._lines.append(text)
        self._size += len(text) + 1
        if line.truncated or self._size > self._max_size:
            self.drop()
        if text != "}" or not self._lines:
            return None
        whole = "\n".join(self._lines).encode()
        self.drop()
        return read_object(Line(whole, line.offset, len(whole), truncated=False))

    def drop(self) -> None:
        self._lines, self._size = [], 0
