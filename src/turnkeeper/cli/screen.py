"""How a conversation looks: lines for a file or a pipe; on a terminal Markdown, colours and a status that moves.

All of it goes to stderr, so that stdout has the result alone. What comes from outside reaches the terminal as words and
never as commands.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import typer

from turnkeeper.cli.conversation import Asked, Note, Said, Shown, Tone
from turnkeeper.cli.questions import Form, form_of, how_to_answer, in_time, time_left
from turnkeeper.cli.terminal import printable, printable_lines

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

MOST_STREAMED = 12
"""Lines of a message that is still being said; it is shown whole afterwards."""
QUIET_SEC = 5
"""So long without a sign of the agent is worth telling."""

MARKS = {Tone.QUIET: "·", Tone.TOOL: "→", Tone.THOUGHT: "~", Tone.WARNING: "!", Tone.REPLY: ">"}
STYLES = {
    Tone.QUIET: "dim",
    Tone.TOOL: "dim",
    Tone.THOUGHT: "dim italic",
    Tone.WARNING: "yellow",
    Tone.REPLY: "cyan",
}
WORDS = {
    "queued": "in line",
    "running": "the agent is at work",
    "waiting_user": "waiting for an answer",
}


@dataclass(slots=True)
class Progress:
    """What the moving line tells; changed by the follower, read by the screen whenever it likes."""

    began: float
    heard: float
    state: str = "queued"
    attempt: int = 0
    queue_position: int | None = None
    waiting_for: str | None = None
    streaming: str = ""

    def sentence(self, now: float) -> str:
        parts = [
            self._where(),
            f"turn {self.attempt}" if self.attempt else "",
            in_time(int(now - self.began)),
        ]
        if self.state == "running" and now - self.heard >= QUIET_SEC:
            parts.append(f"quiet for {in_time(int(now - self.heard))}")
        return " · ".join(filter(None, parts))

    def _where(self) -> str:
        words = WORDS.get(self.state, self.state)
        if self.state != "queued":
            return words
        if self.waiting_for == "upload":
            return "waiting for its files"
        return f"{words}, number {self.queue_position}" if self.queue_position else words


class Screen(Protocol):
    def show(self, item: Shown) -> None: ...

    def moving(self, progress: Progress) -> AbstractContextManager[None]: ...


def lines_of(item: Shown) -> list[str]:
    """As plain text."""
    match item:
        case Said(text):
            return printable_lines(text).splitlines()
        case Note(text, tone):
            first, *rest = printable_lines(text).splitlines() or [""]
            return [f"{MARKS[tone]} {first}", *(f"  {line}" for line in rest)]
        case Asked(question, is_told, is_open):
            return question_lines(form_of(question), is_told=is_told, is_open=is_open)


def question_lines(form: Form, *, is_told: bool = False, is_open: bool = True) -> list[str]:
    """As plain text: the words (unless they were just said), what can be chosen, and until when if it still can."""
    lines = [f"? {'Permission' if form.is_permission else 'Question'} {form.interaction_id}"]
    lines += [] if is_told else printable_lines(form.prompt).splitlines()
    lines += [f"  {printable(each)}" for each in form.wants]
    lines += [
        f"  {mark}. {printable(option.label)}" for mark, option in zip(form.marks, form.options, strict=True)
    ]
    left = time_left(form, datetime.now(UTC)) if is_open else None
    return [*lines, f"  {left}"] if left else lines


class PlainScreen:
    """A line for each thing, as it comes; nothing moves."""

    def show(self, item: Shown) -> None:
        for line in lines_of(item):
            typer.echo(line, err=True)

    @contextmanager
    def moving(self, _progress: Progress) -> Iterator[None]:
        yield


class SilentScreen:
    """For programs, which read the end."""

    def show(self, _item: Shown) -> None:
        pass

    @contextmanager
    def moving(self, _progress: Progress) -> Iterator[None]:
        yield


class LiveScreen:
    """On a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, item: Shown) -> None:
        from rich.text import Text

        match item:
            case Said(text):
                self._console.print()
                self._console.print(SafeMarkdown(text))
            case Asked(question, is_told, is_open):
                self._console.print()
                self._console.print(_question(form_of(question), is_told=is_told, is_open=is_open))
            case Note(_, tone):
                is_own = tone in (Tone.THOUGHT, Tone.REPLY, Tone.WARNING)
                for line in lines_of(item):
                    shown = Text(line, STYLES[tone])
                    self._console.print(shown, no_wrap=not is_own, overflow="fold" if is_own else "ellipsis")

    @contextmanager
    def moving(self, progress: Progress) -> Iterator[None]:
        """A line at the bottom that says what is going on, until something must be typed."""
        if self._console.is_dumb_terminal:
            yield
            return
        from rich.live import Live

        status = _Status(self._console, progress)
        with Live(status, console=self._console, transient=True, refresh_per_second=8):
            yield


class SafeMarkdown:
    """Markdown knows ways to write a sign (entities, links) that a look at its source does not find."""

    def __init__(self, text: str) -> None:
        self._text = printable_lines(text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.markdown import Markdown
        from rich.segment import Segment

        for segment in console.render(Markdown(self._text, hyperlinks=False), options):
            if not segment.control:
                yield Segment("\n".join(map(printable, segment.text.split("\n"))), segment.style)


class _Status:
    """Asked again for every picture."""

    def __init__(self, console: Console, progress: Progress) -> None:
        from rich.spinner import Spinner

        self._progress = progress
        self._spinner = Spinner("dots" if console.encoding.startswith("utf") else "line", style="cyan")

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        progress = self._progress
        self._spinner.update(
            text=Text(progress.sentence(time.monotonic()), "dim", no_wrap=True, overflow="ellipsis")
        )
        lines = printable_lines(progress.streaming).splitlines()[-MOST_STREAMED:]
        return Group(Text("\n".join(lines), overflow="fold"), self._spinner) if lines else self._spinner


def _question(form: Form, *, is_told: bool, is_open: bool) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    title, *_ = question_lines(form, is_told=True)
    parts: list[RenderableType] = [Text(title, "bold cyan")]
    parts += [] if is_told else [SafeMarkdown(form.prompt)]
    parts += [Text(f"  {printable(each)}", "yellow") for each in form.wants]
    for mark, option in zip(form.marks, form.options, strict=True):
        parts.append(Text.assemble((f"  {mark}. ", "bold"), printable(option.label)))
    if not is_open:
        return Group(*parts)
    left = time_left(form, datetime.now(UTC))
    parts += [Text(f"  {left}", "yellow")] if left else []
    return Group(*parts, Text(f"  {how_to_answer(form)}", "dim"))


def screen_for(*, silent: bool = False) -> Screen:
    if silent:
        return SilentScreen()
    if not sys.stderr.isatty():
        return PlainScreen()
    from rich.console import Console

    return LiveScreen(Console(stderr=True, highlight=False, emoji=False, markup=False))
