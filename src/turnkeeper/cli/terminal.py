"""What the commands share: exit codes, refusals, work that can be interrupted, and how words reach a terminal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

FOUND = 1
USAGE = 2
INTERRUPTED = 130

DataDir = Annotated[Path | None, typer.Option(help="Where runs, logs and the database are kept.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

Report = Callable[[str], None]
_T = TypeVar("_T")


def complain(message: str) -> None:
    lines = "\n".join(printable(line) for line in message.split("\n"))
    typer.echo(f"turnkeeper: {lines}", err=True)


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def printable(text: str) -> str:
    """What strangers wrote must not reach the terminal as commands, nor look like a line of ours."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def run(about: str, work: Callable[[Report], Coroutine[Any, Any, _T]], *, plainly: bool) -> _T:
    """With its steps told. Ctrl-C or a SIGTERM cancels the work, which then ends the processes it started."""
    try:
        with _progress(about, plainly=plainly) as report:
            return asyncio.run(_until_told(work(report)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        complain("interrupted")
        raise typer.Exit(INTERRUPTED) from None


async def _until_told(work: Coroutine[Any, Any, _T]) -> _T:
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


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
