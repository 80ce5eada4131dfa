"""`turnkeeper version`."""

from __future__ import annotations

import json

import typer

from turnkeeper import __version__
from turnkeeper.cli.terminal import AsJson


def version(as_json: AsJson = False) -> None:
    """Print the version.

    For example: turnkeeper version

    Ends with 0.
    """
    typer.echo(json.dumps({"version": __version__}) if as_json else __version__)
