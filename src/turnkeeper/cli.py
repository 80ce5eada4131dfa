"""The command line: parse, call, render."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnkeeper import __version__
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.settings import Settings, load_settings

if TYPE_CHECKING:
    from turnkeeper.wiring import Service

app = typer.Typer(
    help="Runs agent skills on agent CLIs, and asks a person when it matters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

USAGE = 2
FIRST_JOB = {"skill_id": "interview", "engine": "demo", "execution_mode": "interactive"}


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
        typer.echo(_banner(service, settings))

    await wiring.serve(settings, announce)


def _banner(service: Service, settings: Settings) -> str:
    where = "TURNKEEPER_TOKEN" if settings.token else f"kept in {settings.data_dir / 'token'}"
    token = shlex.quote(f"Authorization: Bearer {service.token}")
    if any(skill is not None and skill.id == FIRST_JOB["skill_id"] for skill, _ in service.house.shelf.all()):
        body = shlex.quote(json.dumps(FIRST_JOB))
        words = "Start a first run:"
        call = f"curl -s {service.url}/v1/jobs -H {token} -H 'Content-Type: application/json' -d {body}"
    else:
        words = f"See which skills are there (in {', '.join(map(str, settings.skills_dir))}):"
        call = f"curl -s {service.url}/v1/skills -H {token}"
    return (
        f"\nTurnkeeper {__version__} is ready at {service.url}\n"
        f"Token ({where}):\n  {service.token}\n\n"
        f"{words}\n  {call}\n"
    )
