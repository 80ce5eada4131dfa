"""`turnkeeper skills new`: a skill to start from, and what to do with it next."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from turnkeeper.cli.terminal import FOUND, USAGE, AsJson, complain, printable
from turnkeeper.core.errors import TurnkeeperError

NEXT = {
    "play it": "turnkeeper run {path} --engine demo",
    "check it": "turnkeeper skills lint {path}",
    "install it": "turnkeeper skills install {path}",
}


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Small letters, digits and hyphens: meeting-notes.")
    ],
    folder: Annotated[
        Path, typer.Option("--in", metavar="DIR", help="Where the skill's folder is made.")
    ] = Path(),
    interactive: Annotated[
        bool, typer.Option("--interactive/--auto", help="One that asks a person, or one that never does.")
    ] = True,
    description: Annotated[
        str | None, typer.Option(help="What it does, and when to use it: agents choose by it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a new skill that runs at once, to be changed by you.

    It comes with input, parameters, a result, and a script for the demo engine.

    For example: turnkeeper skills new meeting-notes --in my-skills

    Ends with 0 if it is made, 1 if it cannot be, 2 if the name or the description
    cannot be used. A folder that is there already is left alone.
    """
    from turnkeeper.skills.draft import DESCRIPTION, Draft

    draft = Draft(name, DESCRIPTION if description is None else description.strip(), asks=interactive)
    refused_with = USAGE
    try:
        draft.require_good()
        refused_with = FOUND
        place = draft.write(folder)
    except TurnkeeperError as error:
        complain(error.message)
        raise typer.Exit(refused_with) from None
    if as_json:
        told = {"name": name, "path": str(place.absolute()), "files": list(draft.files())}
        typer.echo(json.dumps(told, indent=2))
    else:
        typer.echo(_text(place, list(draft.files())))


def _text(place: Path, files: list[str]) -> str:
    path = shlex.quote(str(place) if place.is_absolute() else f"./{place}")
    width = max(map(len, NEXT)) + 1
    steps = (f"  {f'{what}:':{width}} {command.format(path=path)}" for what, command in NEXT.items())
    made = [f"{place} is made:", *(f"  {name}" for name in files), "", "Next, make it yours, and"]
    return "\n".join(map(printable, (*made, *steps)))
