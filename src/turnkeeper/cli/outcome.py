"""How a run ended, for people and for programs: the result on stdout, all words about it on stderr, an exit code."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from turnkeeper.cli.questions import in_time
from turnkeeper.cli.reach import SHOWN
from turnkeeper.cli.terminal import CANCELED, FAILED, WAITING, is_harmless, printable, printable_lines, styled
from turnkeeper.core.fixes import FIX

if TYPE_CHECKING:
    from turnkeeper.client import Artifact, Run, RunInfo

CODES = {"succeeded": 0, "failed": FAILED, "canceled": CANCELED, "waiting_user": WAITING}
COLOURS = {"succeeded": "green", "failed": "red", "canceled": "yellow"}
FIXES = {str(code): words.replace("`", "") for code, words in FIX.items()}
"""By the names that services give them; a newer one may have more."""
MOST_FILES = 10


def tell_end(run: Run, info: RunInfo, *, as_json: bool) -> int:
    """Everything about a run that is over; the exit code."""
    result = run.result() if info.status == "succeeded" else None
    if as_json:
        print_json({"run": info.to_dict(), "result": result, "pending": None})
        return CODES[info.status]
    for line in summary(info, run.artifacts() if info.status == "succeeded" else []):
        typer.echo(line, err=True)
    if result is not None:
        print_json(result)
    return CODES[info.status]


def summary(info: RunInfo, files: list[Artifact]) -> Iterator[str]:
    """In lines."""
    run, parts = info.run_id[:SHOWN], [f"run {info.run_id}"]
    if info.started_at and info.finished_at:
        parts.append(in_time((info.finished_at - info.started_at).total_seconds()))
    parts += [f"{info.attempt_number} turns" if info.attempt_number != 1 else "1 turn", usage(info.usage)]
    yield f"{styled(info.status, fg=COLOURS.get(info.status), bold=True)}  {', '.join(filter(None, parts))}"
    if info.error:
        yield from _failure(info)
    for each in files[:MOST_FILES]:
        yield f"  {printable(each.path)}  {'link' if each.is_link else size(each.size)}"
    if len(files) > MOST_FILES:
        yield f"  and {len(files) - MOST_FILES} more files: turnkeeper artifacts {run}"
    if any(not each.is_link for each in files):
        yield f"  fetch them: turnkeeper artifacts {run} --to DIR"


def _failure(info: RunInfo) -> Iterator[str]:
    assert info.error is not None
    first, *rest = printable_lines(info.error.message).splitlines() or [""]
    yield f"  {first} [{printable(info.error.code)}]"
    yield from (f"  {line}" for line in rest)
    for line in printable_lines(info.error.evidence or "").strip().splitlines():
        yield styled(f"  | {line}", dim=True)
    if info.error.retry_after is not None:
        yield f"  it can be tried again in {in_time(info.error.retry_after)}"
    if info.error.code in FIXES:
        yield f"  fix: {printable(_of_this_run(FIXES[info.error.code], info))}"


def _of_this_run(fix: str, info: RunInfo) -> str:
    """With its own names in the commands, so that they can be typed as they stand."""
    names = {"NAME": info.engine, "RUN": info.run_id[:SHOWN], "N": str(max(1, info.attempt_number))}
    return re.sub(r"\b(?:NAME|RUN|N)\b", lambda found: names[found[0]], fix)


def tell_waiting(run: Run, info: RunInfo, *, as_json: bool) -> int:
    """The question stands, and nobody here answers it."""
    pending = info.pending or run.pending()
    if as_json:
        asked = pending.to_dict() if pending else None
        print_json({"run": info.to_dict(), "result": None, "pending": asked})
    else:
        typer.echo(f'The run waits. Answer: turnkeeper reply {info.run_id[:SHOWN]} "…"', err=True)
    return WAITING


def tell_left(run: Run, why: str, *, as_json: bool) -> None:
    """The run goes on without us."""
    if as_json:
        info = run.info()
        print_json(
            {"run": info.to_dict(), "result": None, "pending": info.pending and info.pending.to_dict()}
        )
    else:
        typer.echo(f"{why} The run goes on; come back to it: turnkeeper watch {run.id[:SHOWN]}", err=True)


def print_json(value: Any) -> None:
    """For a pipe exactly, for a terminal also without a sign that would command it: as JSON both are the same."""
    text = json_text(value, indent=2)
    if sys.stdout.isatty():
        _print_colourful(text)
    else:
        typer.echo(text)


def json_text(value: Any, indent: int | None = None) -> str:
    """As it may be printed here."""
    return harmless(json.dumps(value, indent=indent, ensure_ascii=not _can_print(value)))


def harmless(text: str) -> str:
    """JSON in which signs that cannot be seen stand as their numbers; outside of texts there are none."""
    return "".join(each if each == "\n" or is_harmless(each) else _escaped(each) for each in text)


def usage(counts: Mapping[str, float]) -> str:
    """In words; empty if nothing is known."""
    told = ", ".join(f"{name.removesuffix('_tokens')} {count:.0f}" for name, count in counts.items())
    return told and f"tokens: {told}"


def size(count: int) -> str:
    for unit, limit in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count} B"


def _escaped(sign: str) -> str:
    return json.dumps(sign)[1:-1] if ord(sign) > 0x7F or ord(sign) < 0x20 else f"\\u{ord(sign):04x}"


def _can_print(value: Any) -> bool:
    """Terminals and pipes of another encoding get the numbers."""
    try:
        json.dumps(value, ensure_ascii=False).encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _print_colourful(text: str) -> None:
    from rich.console import Console
    from rich.highlighter import JSONHighlighter
    from rich.text import Text

    shown = Text(text, no_wrap=False, overflow="fold")
    JSONHighlighter().highlight(shown)
    Console(soft_wrap=True).print(shown)
