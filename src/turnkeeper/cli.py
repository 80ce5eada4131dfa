"""The command line: parse, call, render."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from turnkeeper import __version__
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.settings import Settings, load_settings

app = typer.Typer(
    help="Runs agent skills on agent CLIs, and asks a person when it matters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

USAGE = 2


@app.command()
def serve(
    data_dir: Annotated[Path | None, typer.Option(help="Where runs, logs and the database are kept.")] = None,
    skills_dir: Annotated[
        list[Path] | None, typer.Option(help="A folder with skills; may be given again.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (default 127.0.0.1).")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on (default 9813; 0 picks a free one).")
    ] = None,
) -> None:
    """Start the service, for example: turnkeeper serve --skills-dir examples/skills"""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        settings = load_settings(data_dir=data_dir, skills_dir=skills_dir, host=host, port=port)
        asyncio.run(_serve(settings))
    except TurnkeeperError as error:
        typer.echo(f"turnkeeper: {error.message}", err=True)
        raise typer.Exit(USAGE) from None


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


async def _serve(settings: Settings) -> None:
    # The web stack takes most of the start-up time: `turnkeeper version` and a wrong setting should not pay for it.
    from turnkeeper import wiring

    def announce(service: wiring.Service) -> None:
        typer.echo(_banner(service.url, service.token, settings))

    await wiring.serve(settings, announce)


def _banner(url: str, token: str, settings: Settings) -> str:
    where = "TURNKEEPER_TOKEN" if settings.token else f"kept in {settings.data_dir / 'token'}"
    job = '{"skill_id": "interview", "engine": "demo", "execution_mode": "interactive"}'
    return (
        f"\nTurnkeeper {__version__} is ready at {url}\n"
        f"Token ({where}):\n  {token}\n\n"
        f"Start a first run:\n"
        f"  curl -s {url}/v1/jobs -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' "
        f"-d '{job}'\n"
    )
