"""The command line: parse, call, render. One file for each group of commands; this one says which there are."""

from __future__ import annotations

from typing import Annotated

import typer

from turnkeeper import __version__
from turnkeeper.cli import engines, runs, skills
from turnkeeper.cli.doctor import doctor
from turnkeeper.cli.serve import serve

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(serve)
app.command()(doctor)
app.command()(runs.show)
app.command()(runs.audit)
app.add_typer(skills.app, name="skills")
app.add_typer(engines.app, name="engines")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def _version_option(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def turnkeeper(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version_option, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Runs agent skills on agent CLIs, and asks a person when it matters."""
