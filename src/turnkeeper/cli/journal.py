"""`turnkeeper journal`: who changed what in the service itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from turnkeeper.cli.outcome import print_json
from turnkeeper.cli.reach import service
from turnkeeper.cli.tables import Column, print_table
from turnkeeper.cli.terminal import AsJson, DataDir, printable

if TYPE_CHECKING:
    from turnkeeper.client import Entry

LIMIT = 20
COLUMNS = (Column("when"), Column("who"), Column("what"), Column("of"), Column("more", is_cut=True))


def journal(
    limit: Annotated[int, typer.Option(min=1, help="How many, from the newest on.")] = LIMIT,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All of it.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show who changed keys and skills, or removed runs; the newest first.

    What happens to a run is in its own log: turnkeeper show RUN.

    For example: turnkeeper journal --limit 5

    Ends with 0, also if it is empty; with 1 or 2 if the service cannot be asked.
    """
    with service(data_dir) as place:
        found = list(place.client.journal(None if everything else limit))
    if as_json:
        print_json({"entries": [each.to_dict() for each in found]})
    elif found:
        print_table(COLUMNS, [_row(each) for each in found])
    else:
        typer.echo("Nothing has been changed yet.", err=True)


def _row(entry: Entry) -> tuple[str, ...]:
    told = {name: value for name, value in entry.detail.items() if value is not None}
    more = json.dumps(told, ensure_ascii=False) if told else ""
    cells = (entry.by, entry.what, entry.subject, more)
    return (f"{entry.at:%Y-%m-%d %H:%M:%S}", *map(printable, cells))
