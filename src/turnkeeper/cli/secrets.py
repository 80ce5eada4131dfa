"""`turnkeeper secrets`: which there are, and who may have them. A value is typed unseen, or read; never an argument."""

from __future__ import annotations

import getpass
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnkeeper.cli import reach
from turnkeeper.cli.completion import secret_names, skill_ids
from turnkeeper.cli.desk import confirmed
from turnkeeper.cli.tables import Column, print_table
from turnkeeper.cli.terminal import FAILED, INTERRUPTED, USAGE, AsJson, DataDir, complain, printable
from turnkeeper.core import secrets as rules
from turnkeeper.core.errors import InvalidRequest, SecretInvalid

if TYPE_CHECKING:
    from turnkeeper.client import Secret

app = typer.Typer(no_args_is_help=True, help="Look after secrets, and grant them to skills.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Such as GITHUB_TOKEN.", autocompletion=secret_names)
]
SkillId = Annotated[str, typer.Argument(metavar="SKILL", help="The skill's id.", autocompletion=skill_ids)]


@app.command("list")
def list_all(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show the names of the secrets, and which skills may have them. Values are never shown.

    For example: turnkeeper secrets list

    Ends with 0, also if there are none; with 1 or 2 if the service cannot be asked.
    """
    with reach.service(data_dir) as service:
        found = list(service.client.secrets())
    if as_json:
        _print_json({"secrets": [each.to_dict() for each in found]})
    elif not found:
        typer.echo("There are no secrets; set one: turnkeeper secrets set NAME")
    else:
        rows = [(each.name, ", ".join(each.grants) or "nobody", _when(each), each.set_by) for each in found]
        print_table((Column("NAME"), Column("GRANTED TO", wraps=True), Column("SET"), Column("BY")), rows)


@app.command("set")
def set_value(
    name: Name,
    from_file: Annotated[
        Path | None, typer.Option("--from-file", metavar="PATH", help="Read the value from this file.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Set a secret, or give it another value; who may have it stays the same.

    The value is asked for and not shown while it is typed; without a terminal
    it is read from the input. One line break at its end is left away.

    For example: turnkeeper secrets set DEPLOY_KEY --from-file deploy.pem

    Ends with 0 if it is set, 1 or 2 if not.
    """
    with reach.refusing():
        if why := rules.wrong_name(name):
            raise SecretInvalid(f"the name {name[:100]!r} {why}")
        value = _value(name, from_file)
        if why := rules.wrong_value(value):
            raise SecretInvalid(f"the value of {name} {why}")
    with reach.service(data_dir) as service:
        secret = service.client.set_secret(name, value)
    if as_json:
        _print_json(secret.to_dict())
    elif secret.grants:
        typer.echo(printable(f"{name} is set; granted to {', '.join(secret.grants)}"))
    else:
        typer.echo(f"{name} is set; grant it to a skill: turnkeeper secrets grant {name} SKILL")


@app.command()
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove a secret. Runs of skills that need it fail at their next turn.

    For example: turnkeeper secrets remove GITHUB_TOKEN

    Ends with 0 if it is removed, 1 if it stays, 2 if there is no such secret.
    """
    if not yes and not sys.stdin.isatty():
        complain(f"nobody is there to ask; to remove {name} all the same, say --yes")
        raise typer.Exit(USAGE)
    with reach.service(data_dir) as service:
        if not yes and not confirmed(printable(f"Remove {name}?")):
            complain(f"{name} stays")
            raise typer.Exit(FAILED)
        service.client.remove_secret(name)
    if as_json:
        _print_json({"name": name, "removed": True})
    else:
        typer.echo(printable(f"{name} is removed"))


@app.command()
def grant(name: Name, skill_id: SkillId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Let a skill have a secret, if its runner.json asks for it.

    For example: turnkeeper secrets grant GITHUB_TOKEN release-notes

    Ends with 0 if it is granted, 2 if there is no such secret.
    """
    with reach.service(data_dir) as service:
        secret = service.client.grant_secret(name, skill_id)
        known = {each.id for each in service.client.skills()}
    if as_json:
        _print_json(secret.to_dict())
        return
    typer.echo(printable(f"{skill_id} may have {name}"))
    if skill_id not in known:
        complain(f"no skill of the id {skill_id!r} is installed yet")


@app.command()
def revoke(name: Name, skill_id: SkillId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Let a skill have a secret no longer. A turn that runs goes on with it.

    For example: turnkeeper secrets revoke GITHUB_TOKEN release-notes

    Ends with 0 if it is revoked, 2 if there is no such secret.
    """
    with reach.service(data_dir) as service:
        secret = service.client.revoke_secret(name, skill_id)
    if as_json:
        _print_json(secret.to_dict())
    else:
        typer.echo(printable(f"{skill_id} may not have {name} any more"))


def _value(name: str, path: Path | None) -> str:
    if path is not None:
        return _without_break(_read_file(path))
    if not sys.stdin.isatty():
        return _without_break(_decoded(sys.stdin.buffer.read(rules.LARGEST + 3), "the input"))
    try:
        return getpass.getpass(f"The value of {name} (it is not shown): ")
    except (EOFError, KeyboardInterrupt):
        complain("nothing was set")
        raise typer.Exit(INTERRUPTED) from None


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _decoded(file.read(rules.LARGEST + 3), str(path))
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from error


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{what} is not UTF-8, and no variable could hold it") from None


def _without_break(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _when(secret: Secret) -> str:
    return secret.set_at.astimezone().strftime("%Y-%m-%d %H:%M")


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=2))
