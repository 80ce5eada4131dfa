"""The command line: parse, call, render. One file for each group of commands; this one says which there are."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from turnkeeper import __version__
from turnkeeper.cli import engines, keys, runs, secrets, skills
from turnkeeper.cli.browse import open_page
from turnkeeper.cli.doctor import doctor
from turnkeeper.cli.fetch import artifacts, result
from turnkeeper.cli.journal import journal
from turnkeeper.cli.link import link
from turnkeeper.cli.listing import list_runs
from turnkeeper.cli.prune import prune
from turnkeeper.cli.reply import cancel, reply
from turnkeeper.cli.run import run, watch
from turnkeeper.cli.serve import serve
from turnkeeper.cli.terminal import AsJson

RUNS, SERVICE = "Runs", "The service"
"""Under these the list of commands is shown."""

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command(rich_help_panel=RUNS)(run)
app.command(rich_help_panel=RUNS)(watch)
app.command(rich_help_panel=RUNS)(reply)
app.command(rich_help_panel=RUNS)(link)
app.command(rich_help_panel=RUNS)(cancel)
app.command("list", rich_help_panel=RUNS)(list_runs)
app.command(rich_help_panel=RUNS)(result)
app.command(rich_help_panel=RUNS)(artifacts)
app.command(rich_help_panel=RUNS)(runs.show)
app.command(rich_help_panel=RUNS)(runs.audit)
app.command(rich_help_panel=SERVICE)(serve)
app.command(rich_help_panel=SERVICE)(prune)
app.command("open", rich_help_panel=SERVICE)(open_page)
app.command(rich_help_panel=SERVICE)(doctor)
app.add_typer(skills.app, name="skills", rich_help_panel=SERVICE)
app.add_typer(engines.app, name="engines", rich_help_panel=SERVICE)
app.add_typer(keys.app, name="keys", rich_help_panel=SERVICE)
app.command(rich_help_panel=SERVICE)(journal)
app.add_typer(secrets.app, name="secrets", rich_help_panel=SERVICE)


@app.command(rich_help_panel=SERVICE)
def version(as_json: AsJson = False) -> None:
    """Print the version.

    For example: turnkeeper version

    Ends with 0.
    """
    typer.echo(json.dumps({"version": __version__}) if as_json else __version__)


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
