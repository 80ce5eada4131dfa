"""`turnkeeper serve`: the service, and what it says when it is ready."""

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
from turnkeeper.cli.terminal import USAGE, DataDir, complain
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.settings import Settings, load_settings

if TYPE_CHECKING:
    from turnkeeper.wiring import Service

FIRST_JOB = {"skill_id": "interview", "engine": "demo", "execution_mode": "interactive"}


def serve(
    data_dir: DataDir = None,
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
        complain(error.message)
        raise typer.Exit(USAGE) from None


async def _serve(settings: Settings) -> None:
    # The web stack takes most of the start-up time: `turnkeeper version` and a wrong setting should not pay for it.
    from turnkeeper import wiring

    def announce(service: wiring.Service) -> None:
        typer.echo(_banner(service, settings))

    await wiring.serve(settings, announce)


def _banner(service: Service, settings: Settings) -> str:
    header, shown = _token_lines(service, settings)
    if any(skill is not None and skill.id == FIRST_JOB["skill_id"] for skill, _ in service.house.shelf.all()):
        body = shlex.quote(json.dumps(FIRST_JOB))
        words = "Start a first run:"
        call = f"curl -s {service.url}/v1/jobs -H {header} -H 'Content-Type: application/json' -d {body}"
    else:
        words = f"See which skills are there (in {', '.join(map(str, settings.skill_folders))}):"
        call = f"curl -s {service.url}/v1/skills -H {header}"
    return f"\nTurnkeeper {__version__} is ready at {service.url}\n{shown}\n\n{words}\n  {call}\n"


def _token_lines(service: Service, settings: Settings) -> tuple[str, str]:
    """The header for a shell, and what is said about the token. One that the operator gave is not repeated."""
    if settings.token is not None:
        return (
            '"Authorization: Bearer $TURNKEEPER_TOKEN"',
            "Token: the one from your settings (not shown; the line below takes it from TURNKEEPER_TOKEN)",
        )
    header = shlex.quote(f"Authorization: Bearer {service.token}")
    return header, f"Token (kept in {settings.data_dir / 'token'}):\n  {service.token}"
