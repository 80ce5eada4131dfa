"""`turnkeeper serve`: the service, and what it says when it is ready."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnkeeper import __version__
from turnkeeper.beacon import TOKEN
from turnkeeper.cli.terminal import USAGE, DataDir, complain
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.runtime.alarm import WatchedLoop
from turnkeeper.settings import Settings, load_settings

if TYPE_CHECKING:
    from turnkeeper.wiring import Service

FIRST_SKILL, SKILL_FILE = "interview", "SKILL.md"
BANNER = """
Turnkeeper {version} is ready at {url}

  In a browser (this address signs one browser in, once, within ten minutes):
    {sign_in}

  In another terminal:
    {command} {first}

  Over HTTP: {url}/v1, with the token {token}
  A new address for a browser: {command} open
"""


def serve(
    data_dir: DataDir = None,
    skills_dir: Annotated[
        list[Path] | None, typer.Option(help="A folder with skills; may be given again.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (default 127.0.0.1).")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on (default 9813; 0 picks a free one).")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate for TLS (PEM, with those that signed it).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, if that is another file.")] = None,
    behind_proxy: Annotated[
        bool | None,
        typer.Option("--behind-proxy", help="A proxy with TLS stands in front, and nobody gets past it."),
    ] = None,
    idle_stop: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.1, help="Stop after so long with nothing to do and nobody asking."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="When ready, print one JSON object instead of words.")
    ] = False,
) -> None:
    """Start the service.

    For example: turnkeeper serve --skills-dir examples/skills

    Ends with 0 when it is stopped by Ctrl-C or SIGTERM, 2 if it cannot start.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        settings = load_settings(
            data_dir=data_dir,
            skills_dir=skills_dir,
            host=host,
            port=port,
            tls_cert=tls_cert,
            tls_key=tls_key,
            behind_proxy=behind_proxy,
        )
        with asyncio.Runner(loop_factory=WatchedLoop) as runner:
            runner.run(_serve(settings, idle_stop, as_json=as_json))
    except TurnkeeperError as error:
        complain(error.message)
        raise typer.Exit(USAGE) from None


async def _serve(settings: Settings, idle_stop: float | None, *, as_json: bool) -> None:
    # The web stack takes most of the start-up time: `turnkeeper version` and a wrong setting should not pay for it.
    from turnkeeper import wiring

    def announce(service: wiring.Service) -> None:
        typer.echo(_json(service) if as_json else _banner(service, settings))

    await wiring.serve(settings, announce, idle_stop_sec=idle_stop)


def _json(service: Service) -> str:
    told = {"url": service.url, "sign_in": service.sign_in(), "pid": os.getpid(), "version": __version__}
    return json.dumps(told)


def _banner(service: Service, settings: Settings) -> str:
    return BANNER.format(
        version=__version__,
        url=service.url,
        sign_in=service.sign_in(),
        command=_command(),
        first=_first_command(settings),
        token=_token_words(settings),
    )


def _command() -> str:
    """As it can be typed here: in a clone the program is not on the PATH."""
    path = Path(sys.argv[0])
    if shutil.which("turnkeeper") or path.name != "turnkeeper":
        return "turnkeeper"
    here, there = Path.cwd(), path.absolute()
    return shlex.quote(str(there.relative_to(here) if there.is_relative_to(here) else there))


def _first_command(settings: Settings) -> str:
    """Nobody needs the skills yet: to read them all would take longer, and more memory, than to start the service."""
    has_it = any((folder / FIRST_SKILL / SKILL_FILE).is_file() for folder in settings.skill_folders)
    return f"run {FIRST_SKILL} --engine demo --interactive" if has_it else "skills new my-first-skill"


def _token_words(settings: Settings) -> str:
    """Where it is, and not what it is: a terminal is scrolled back, copied and recorded."""
    return "of your settings" if settings.token is not None else f"in {settings.data_dir / TOKEN}"
