"""The command line: parse, call, render. One file for each group of commands; this one says which there are."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from turnkeeper import __version__

RUNS, SERVICE = "Runs", "The service"
"""Under these the list of commands is shown."""

COMMANDS = {
    "run": (RUNS, "run", "run"),
    "watch": (RUNS, "run", "watch"),
    "reply": (RUNS, "reply", "reply"),
    "link": (RUNS, "link", "link"),
    "cancel": (RUNS, "reply", "cancel"),
    "list": (RUNS, "listing", "list_runs"),
    "result": (RUNS, "fetch", "result"),
    "artifacts": (RUNS, "fetch", "artifacts"),
    "show": (RUNS, "runs", "show"),
    "audit": (RUNS, "runs", "audit"),
    "serve": (SERVICE, "serve", "serve"),
    "prune": (SERVICE, "prune", "prune"),
    "open": (SERVICE, "browse", "open_page"),
    "doctor": (SERVICE, "doctor", "doctor"),
    "journal": (SERVICE, "journal", "journal"),
    "version": (SERVICE, "version", "version"),
    "skills": (SERVICE, "skills", "app"),
    "engines": (SERVICE, "engines", "app"),
    "keys": (SERVICE, "keys", "app"),
    "secrets": (SERVICE, "secrets", "app"),
}
"""In the order in which they are shown: the panel, and the module and its function, or its group of commands."""


class _WhenNeeded(MutableMapping[str, Any]):
    """Commands by their names, as typer makes them, each loaded when somebody asks for it: a command line needs one of
    them, and a service that runs for months need not carry the others."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made(name, *COMMANDS[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("commands stand in COMMANDS")

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands stand in COMMANDS")


def _made(name: str, panel: str, module: str, what: str) -> Any:
    found = getattr(import_module(f"{__name__}.{module}"), what)
    around = typer.Typer(pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name, rich_help_panel=panel)
    else:
        around.command(name, rich_help_panel=panel)(found)
    return get_group(around).commands[name]


class _Root(TyperGroup):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _WhenNeeded()


app = typer.Typer(
    cls=_Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version_option(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def turnkeeper(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version_option, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Runs agent skills on agent CLIs, and asks a person when it matters."""
