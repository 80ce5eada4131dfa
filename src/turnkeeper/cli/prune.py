"""`turnkeeper prune`: what is too old or too much goes, after a look at it."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from turnkeeper.cli.desk import confirmed
from turnkeeper.cli.listing import SHORT_STATES
from turnkeeper.cli.outcome import print_json, size
from turnkeeper.cli.questions import in_time
from turnkeeper.cli.reach import SHOWN, refusing, service
from turnkeeper.cli.tables import Column, print_table
from turnkeeper.cli.terminal import (
    FAILED,
    INTERRUPTED,
    USAGE,
    AsJson,
    DataDir,
    busy,
    complain,
    counted,
    printable,
)
from turnkeeper.core.errors import InvalidRequest
from turnkeeper.core.retention import REMOVABLE, Limits, Part
from turnkeeper.core.statechart import TERMINAL, State

if TYPE_CHECKING:
    from turnkeeper.client import Client, Pruned

AGES = {"m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
WORDS = {"homes": ("The homes of ", " with a home"), "logs": ("The raw logs of ", " with raw logs")}
"""Of the parts: before so many runs, and behind none."""
COLUMNS = (Column("run"), Column("state"), Column("skill", is_cut=True), Column("since"), Column("size"))


def prune(
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Those that ended so long ago: 90m, 12h, 30d, 8w.")
    ] = None,
    keep_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="The oldest, until all runs fit into this: 500MB, 10GB."),
    ] = None,
    status: Annotated[
        list[str] | None, typer.Option(metavar="STATE", help="Only those in this state; may be given again.")
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Those that wait for a person, too.")] = False,
    only: Annotated[Part, typer.Option(help="All of a run, or just a part of it.")] = Part.RUNS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="List what would be removed, and remove nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove runs that are over, by age, by size or both.

    A run in line or with a process is never removed, and one that waits for a
    person only with --waiting. With --only homes or --only logs the runs stay,
    without the engine's private home or without what the engine printed.

    For example: turnkeeper prune --older-than 30d --keep-size 10GB

    Ends with 0, also if there is nothing to remove; 1 if you say no, or if a file
    cannot be deleted; 2 if it is not said, or not understood, what may go.
    """
    with refusing():
        limits = _limits(older_than, keep_size, status or [], only, waiting=waiting)
    if not (yes or dry_run or sys.stdin.isatty()):
        complain("nobody is there to ask; to remove runs all the same, say --yes")
        raise typer.Exit(USAGE)
    with service(data_dir) as place:
        found = _look(place.client, limits) if dry_run or not yes else _remove(place.client, limits)
        if found.dry_run and found.count and not dry_run:
            _confirm(found)
            found = _remove(place.client, limits)
    if as_json:
        print_json(found.to_dict())
    else:
        _tell(found, limits)
    if found.undeleted:
        complain(
            f"{counted(found.undeleted, 'run')} left files that cannot be deleted; see the service's log"
        )
        raise typer.Exit(FAILED)


def _limits(
    older_than: str | None, keep_size: str | None, status: list[str], part: Part, *, waiting: bool
) -> Limits:
    if older_than is None and keep_size is None:
        raise InvalidRequest("say what may go: --older-than 30d, --keep-size 10GB, or both")
    known = [state.value for state in State if state in REMOVABLE]
    for each in status:
        if each not in known:
            raise InvalidRequest(f"no run is removed in state {each!r}, but in: {', '.join(known)}")
    if State.WAITING_USER in status and not waiting:
        raise InvalidRequest(
            "--status waiting_user: a run that waits for a person is removed only with --waiting"
        )
    states = {State(each) for each in status} or set(TERMINAL)
    return Limits(
        older_than=None if older_than is None else age(older_than),
        keep_bytes=None if keep_size is None else _bytes(keep_size),
        part=part,
        states=states | ({State.WAITING_USER} if waiting else set()),
    )


def age(text: str, option: str = "--older-than") -> timedelta:
    number = _number(text, AGES)
    if number is None or number > timedelta.max.total_seconds():
        raise InvalidRequest(f"{option} {text!r}: give a number and a unit, such as 90m, 12h, 30d or 8w")
    return timedelta(seconds=number)


def _bytes(text: str) -> int:
    number = _number(text, SIZES)
    if number is None:
        raise InvalidRequest(f"--keep-size {text!r}: give a number and a unit, such as 500MB or 10GB")
    return int(number)


def _number(text: str, units: dict[str, int]) -> float | None:
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([a-z]{1,2})", text.strip().lower())
    return float(found[1]) * units[found[2]] if found and found[2] in units else None


def _look(client: Client, limits: Limits) -> Pruned:
    with busy("looking"):
        return _asked(client, limits, dry_run=True)


def _remove(client: Client, limits: Limits) -> Pruned:
    try:
        with busy("removing"):
            return _asked(client, limits, dry_run=False)
    except KeyboardInterrupt:
        # Nobody waits for the answer any more, which may take minutes; the service does not stop for that.
        complain("interrupted; the service goes on removing, and turnkeeper list --all shows what is left")
        raise typer.Exit(INTERRUPTED) from None


def _asked(client: Client, limits: Limits, *, dry_run: bool) -> Pruned:
    return client.prune(
        older_than=limits.older_than,
        keep_bytes=limits.keep_bytes,
        status=[state.value for state in State if state in limits.states],
        only=limits.part.value,
        dry_run=dry_run,
    )


def _confirm(found: Pruned) -> None:
    typer.echo(_summary(found), err=True)
    if not confirmed("Remove them?"):
        complain("nothing was removed")
        raise typer.Exit(FAILED)


def _tell(found: Pruned, limits: Limits) -> None:
    if found.dry_run and found.runs:
        now = datetime.now(UTC)
        print_table(
            COLUMNS,
            [
                (
                    run.run_id[:SHOWN],
                    SHORT_STATES.get(run.status, run.status),
                    printable(run.skill_id),
                    in_time(max(0.0, (now - run.since).total_seconds())),
                    size(run.bytes),
                )
                for run in found.runs
            ],
        )
    typer.echo(_summary(found))
    if found.remaining_bytes is not None and found.remaining_bytes > (limits.keep_bytes or 0):
        left = size(found.remaining_bytes)
        typer.echo(f"What is left takes {left}: runs that are not over, or that were not named.", err=True)


def _summary(found: Pruned) -> str:
    what, having = WORDS.get(found.only, ("", ""))
    if not found.count:
        return f"Nothing to remove; no run{having} is that old, or too much."
    parts = {"homes": found.bytes.homes, "logs": found.bytes.logs, "files": found.bytes.files}
    told = ", ".join(f"{name} {size(count)}" for name, count in parts.items())
    more = f" ({told})" if found.only == "runs" else ""
    verb = "would be removed" if found.dry_run else "removed"
    return f"{what}{counted(found.count, 'run')} {verb}: {size(found.bytes.total)}{more}"
