"""`turnkeeper keys`: who may come in, and what for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from turnkeeper.cli.completion import engine_names, skill_ids
from turnkeeper.cli.outcome import print_json
from turnkeeper.cli.prune import age
from turnkeeper.cli.questions import in_time
from turnkeeper.cli.reach import refusing, service
from turnkeeper.cli.tables import Column, print_table
from turnkeeper.cli.terminal import AsJson, DataDir, printable
from turnkeeper.core.access import Scope

if TYPE_CHECKING:
    from turnkeeper.client import Key

app = typer.Typer(no_args_is_help=True, help="Look after keys: who may come in, and what for.")

COLUMNS = (
    Column("name"),
    Column("id"),
    Column("scopes"),
    Column("only", is_cut=True),
    Column("last used"),
    Column("ends"),
)
NEVER = "-"


@app.command()
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="For whom; no later key can have the same name.")
    ],
    scope: Annotated[list[Scope], typer.Option("--scope", "-s", help="What it may do; may be given again.")],
    skill: Annotated[
        list[str] | None,
        typer.Option(help="Only this skill and its runs; may be given again.", autocompletion=skill_ids),
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(help="Only this engine and its runs; may be given again.", autocompletion=engine_names),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="AGE", help="After so long it ends: 90m, 12h, 30d, 8w.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is printed once, and kept nowhere.

    read: see runs, their files, skills and engines. run: start runs and cancel
    them. answer: see open questions and answer them. admin: everything.

    For example: turnkeeper keys create ci --scope run --scope read --expires 30d

    Ends with 0 if it is made; 1 if the name is taken; 2 if it is not understood,
    or you may not make keys.
    """
    with refusing():
        ends = None if expires is None else age(expires, "--expires")
    with service(data_dir) as place:
        made = place.client.create_key(
            name, [each.value for each in scope], skills=skill, engines=engine, expires=ends
        )
    if as_json:
        print_json(made.to_dict())
        return
    end = "" if made.expires_at is None else f", until {made.expires_at:%Y-%m-%d %H:%M} UTC"
    typer.echo(
        printable(f"The key {made.name} may: {_what(made)}{end}. It is shown this once; keep it safe:"),
        err=True,
    )
    typer.echo(made.key)
    typer.echo("Programs take it as TURNKEEPER_TOKEN; the page takes it where one signs in.", err=True)


@app.command("list")
def list_all(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Those that are revoked or have expired, too.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the keys, with what each is good for.

    The one called token is the service's own.

    For example: turnkeeper keys list --all

    Ends with 0; with 1 or 2 if the service cannot be asked.
    """
    with service(data_dir) as place:
        keys = place.client.keys()
    found = [key for key in keys if everything or key.is_active]
    if as_json:
        print_json({"keys": [key.to_dict() for key in found]})
        return
    now = datetime.now(UTC)
    print_table(COLUMNS, [_row(key, now) for key in found])


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The key's name or id.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key, at once and for good.

    Whoever signed in to the page with it is signed out. Its runs go on.

    For example: turnkeeper keys revoke ci

    Ends with 0 if it is revoked, also if it was already; 1 if it is the service's
    own token; 2 if there is no such key.
    """
    with service(data_dir) as place:
        key = place.client.revoke_key(name)
    if as_json:
        print_json(key.to_dict())
    else:
        typer.echo(printable(f"{key.name} is revoked"))


def _what(key: Key) -> str:
    only = _only(key)
    return f"{', '.join(key.scopes)}{f' (only {only})' if only else ''}"


def _only(key: Key) -> str:
    return ", ".join((*(key.skills or ()), *(f"on {name}" for name in key.engines or ())))


def _row(key: Key, now: datetime) -> tuple[str, ...]:
    used = NEVER if key.last_used_at is None else f"{in_time((now - key.last_used_at).total_seconds())} ago"
    ends = NEVER if key.expires_at is None else f"{key.expires_at:%Y-%m-%d %H:%M}"
    if not key.is_active:
        ends = key.status
    return (
        printable(key.name),
        key.id,
        ", ".join(key.scopes),
        printable(_only(key)),
        used,
        ends,
    )
