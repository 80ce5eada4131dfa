"""`turnkeeper open`: the page of the service, in a browser."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from turnkeeper.cli.outcome import print_json
from turnkeeper.cli.reach import service
from turnkeeper.cli.terminal import AsJson, DataDir

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_page(
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Open the page in a browser, by an address that signs it in.

    The address works once, within ten minutes: give it to nobody else.

    For example: turnkeeper open --no-browser

    Ends with 0, 2 if there is no service to reach.
    """
    with service(data_dir) as place:
        found = place.client.sign_in()
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(found.url)
    if not no_browser and not as_json and any(os.environ.get(name) for name in DISPLAYS):
        _open(found.url)


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        typer.echo("No browser could be opened: copy the address.", err=True)
