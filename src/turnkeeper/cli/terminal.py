"""What the commands share: exit codes, refusals, work that can be interrupted, and how words reach a terminal."""

from __future__ import annotations

import os
import signal
import sys
import unicodedata
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, TypeVar

import typer

FOUND = FAILED = 1
USAGE = 2
WAITING = 3
CANCELED = 4
TIMEOUT = 5
INTERRUPTED = 130

DataDir = Annotated[Path | None, typer.Option(help="Where runs, logs and the database are kept.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

JOINERS = frozenset("\u200c\u200d")
"""Without them some scripts and most families of emoji fall apart; unlike other invisible signs they hide nothing."""

Report = Callable[[str], None]
_T = TypeVar("_T")


def complain(message: str, code: str | None = None) -> None:
    """In one form for all commands: what is wrong, and the service's code for it, by which it can be looked up."""
    lines = printable_lines(message)
    typer.echo(f"turnkeeper: {lines}{f' [{printable(code)}]' if code else ''}", err=True)


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def styled(text: str, **how: Any) -> str:
    """`echo` leaves colours out where there is no terminal; of a person who wants none it knows nothing."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if is_plain else typer.style(text, **how)


def printable(text: str) -> str:
    """What strangers wrote must not reach the terminal as commands, nor look like a line of ours."""
    return text if text.isprintable() else "".join(map(_printable, text))


def printable_lines(text: str) -> str:
    """The same for words that may have several lines."""
    return "\n".join(printable(line) for line in text.replace("\r\n", "\n").expandtabs(4).split("\n"))


def is_harmless(sign: str) -> bool:
    """It can be seen, or is a blank of some width."""
    return sign.isprintable() or sign in JOINERS or unicodedata.category(sign) == "Zs"


def _printable(sign: str) -> str:
    return sign if is_harmless(sign) else "\ufffd"


def run(about: str, work: Callable[[Report], Coroutine[Any, Any, _T]], *, plainly: bool) -> _T:
    """With its steps told. Ctrl-C or a SIGTERM cancels the work, which then ends the processes it started."""
    import asyncio

    try:
        with _progress(about, plainly=plainly) as report:
            return asyncio.run(_until_told(work(report)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        complain("interrupted")
        raise typer.Exit(INTERRUPTED) from None


async def _until_told(work: Coroutine[Any, Any, _T]) -> _T:
    import asyncio

    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


@contextmanager
def whole() -> Iterator[None]:
    """What must not be left half done: the first Ctrl-C comes when it is over, a second one breaks it off."""
    presses = 0

    def press(_number: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if presses:
        raise KeyboardInterrupt


@contextmanager
def busy(about: str) -> Iterator[None]:
    """A line that moves, while something is waited for; only where somebody sees it."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(f"[dim]{escape(printable(about))}", spinner_style="cyan"):
        yield


@contextmanager
def _progress(about: str, *, plainly: bool) -> Iterator[Report]:
    """Tells of steps on stderr: with a spinner and seconds on a terminal, elsewhere by a line each if `plainly`."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield (
            (lambda step: typer.echo(printable(f"{about}: {step}"), err=True))
            if plainly
            else (lambda _: None)
        )
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("[dim]{task.elapsed:.0f} s"))
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(escape(about), total=None)
        yield lambda step: shown.update(task, description=escape(printable(f"{about}: {step}")))
