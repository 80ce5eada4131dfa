"""`turnkeeper list`: which runs there are, and what they ask."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from turnkeeper.cli.completion import engine_names, skill_ids
from turnkeeper.cli.outcome import print_json
from turnkeeper.cli.questions import in_time
from turnkeeper.cli.reach import SHOWN, refusing, service
from turnkeeper.cli.terminal import AsJson, DataDir, printable
from turnkeeper.core.errors import InvalidRequest
from turnkeeper.core.statechart import State

if TYPE_CHECKING:
    from turnkeeper.client import RunInfo

LIMIT = 20
NARROW = 80
"""Below, engine and age make room for the question."""
ANY_WIDTH = 1000
"""For a file or a pipe: nothing is cut."""
STYLES = {
    "waiting_user": "bold cyan",
    "running": "blue",
    "failed": "red",
    "canceled": "yellow",
    "succeeded": "green",
}
SHORT_STATES = {"waiting_user": "waiting"}


def list_runs(
    waiting: Annotated[
        bool, typer.Option("--waiting", "-w", help="Only those that wait for a person.")
    ] = False,
    status: Annotated[
        list[str] | None, typer.Option(metavar="STATE", help="Only those in this state; may be given again.")
    ] = None,
    skill: Annotated[
        str | None, typer.Option(help="Only those of this skill.", autocompletion=skill_ids)
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Only those on this engine.", autocompletion=engine_names)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, from the newest on.")] = LIMIT,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All of them.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first, with the question of those that wait.

    For example: turnkeeper list --waiting

    Ends with 0, also if there is none; with 2 if a state does not exist.
    """
    with refusing():
        states = _states(status or [], waiting=waiting)
    with service(data_dir) as place:
        most = None if everything else min(limit + 1, sys.maxsize)
        runs = list(
            islice(place.client.jobs(status=states or None, skill_id=skill, engine=engine, limit=most), most)
        )
    shown = runs if everything else runs[:limit]
    if as_json:
        print_json({"jobs": [run.to_dict() for run in shown]})
        return
    is_filtered = bool(states or skill or engine)
    typer.echo(table(shown) if shown else _none(waiting=waiting, is_filtered=is_filtered))
    if len(runs) > len(shown):
        typer.echo(f"The newest {limit}; all of them: --all", err=True)


def table(runs: Sequence[RunInfo]) -> str:
    """For a terminal as wide as it is; the question is cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else ANY_WIDTH
    shown = Table(box=None, pad_edge=False, header_style="dim", expand=is_terminal)
    shown.add_column("run", no_wrap=True, min_width=SHOWN)
    shown.add_column("state", no_wrap=True)
    shown.add_column("skill", no_wrap=True, overflow="ellipsis")
    if width >= NARROW:
        shown.add_column("engine", no_wrap=True, overflow="ellipsis")
        shown.add_column("age", no_wrap=True, justify="right")
    shown.add_column("", no_wrap=True, overflow="ellipsis", ratio=1 if is_terminal else None)
    for run in runs:
        state = Text(SHORT_STATES.get(run.status, run.status), STYLES.get(run.status, ""))
        more = (Text(printable(run.engine)), Text(_age(run))) if width >= NARROW else ()
        shown.add_row(
            Text(run.run_id[:SHOWN]), state, Text(printable(run.skill_id)), *more, Text(_remark(run))
        )
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(shown)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _remark(run: RunInfo) -> str:
    """What a person would want to know of it, in one line."""
    if run.pending:
        return printable(" ".join(run.pending.prompt.split()))
    if run.error:
        return printable(run.error.code)
    if run.queue_position:
        return f"number {run.queue_position} in line"
    return "waits for its files" if run.waiting_for == "upload" else ""


def _age(run: RunInfo) -> str:
    seconds = max(0.0, (datetime.now(UTC) - run.created_at).total_seconds())
    number, unit, *_ = in_time(int(seconds)).split()
    return f"{number} {unit}"


def _states(given: Sequence[str], *, waiting: bool) -> list[str]:
    known = [state.value for state in State]
    for each in given:
        if each not in known:
            raise InvalidRequest(f"there is no state {each!r}; there are: {', '.join(known)}")
    return [*given, *([State.WAITING_USER.value] if waiting else [])]


def _none(*, waiting: bool, is_filtered: bool) -> str:
    if waiting:
        return "Nothing waits for you."
    if is_filtered:
        return "There is no such run; all of them: turnkeeper list --all"
    return (
        "There are no runs yet. Start one: turnkeeper run SKILL (see which there are: turnkeeper skills list)"
    )
