"""`turnkeeper link`: an address by which somebody else answers the question of a run."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import typer

from turnkeeper.cli.completion import run_ids
from turnkeeper.cli.outcome import print_json
from turnkeeper.cli.prune import AGES
from turnkeeper.cli.reach import run_of, service
from turnkeeper.cli.terminal import AsJson, DataDir
from turnkeeper.core.errors import InvalidRequest


def link(
    run_id: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Its id or the beginning of it, or last.", autocompletion=run_ids),
    ],
    for_: Annotated[
        str | None, typer.Option("--for", metavar="NAME", help="Who it is for; recorded with the answer.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="How long it is good: 90m, 12h, 7d (the default), 4w; 30d at most."),
    ] = None,
    to: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only if this is the open question.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Print an address by which somebody else can answer the open question of a run.

    Whoever has the address can answer this one question, once, and see nothing
    else. It ends with the question.

    For example: turnkeeper link last --for anna --expires 2d

    Ends with 0, 1 if no question is open, 2 if there is no such run.
    """
    with service(data_dir) as place:
        lasts = None if expires is None else _span(expires)
        run = run_of(place.client, run_id)
        found = place.client.answer_link(run.id, interaction_id=to, for_=for_, expires_in=lasts)
    if as_json:
        print_json({"run_id": run.id, **found.to_dict()})
    else:
        typer.echo(found.url)


def _span(text: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) ?([a-z])", text.strip().lower())
    if not found or found[2] not in AGES:
        raise InvalidRequest(f"--expires {text!r}: give a number and a unit, such as 90m, 12h, 7d or 4w")
    return timedelta(seconds=float(found[1]) * AGES[found[2]])
