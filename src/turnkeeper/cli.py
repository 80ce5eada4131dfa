"""The command line: parse, call, render."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnkeeper import __version__
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.settings import Settings, load_settings

if TYPE_CHECKING:
    from turnkeeper.skills.findings import Finding
    from turnkeeper.wiring import Service

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
skills = typer.Typer(no_args_is_help=True, help="Look after skills.")
app.add_typer(skills, name="skills")

FOUND = 1
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


@skills.command()
def lint(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="A skill's folder, or one with skills in it.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as errors.")] = False,
) -> None:
    """Check skills strictly, for example: turnkeeper skills lint examples/skills

    Ends with 0 if there are no errors, 1 if there are, 2 if there is nothing to check.
    """
    from turnkeeper import engines
    from turnkeeper.skills.lint import lint_each

    found = lint_each(_skill_folders(paths), engines.names())
    counts = Counter(each.severity.value for findings in found.values() for each in findings)
    if as_json:
        listed = [{"path": str(root), "findings": [asdict(each) for each in found[root]]} for root in found]
        summary = {"errors": counts["error"], "warnings": counts["warning"]}
        typer.echo(json.dumps({"skills": listed, **summary}, indent=2))
    else:
        typer.echo("\n".join(_skill_lines(root, findings) for root, findings in found.items()))
        numbers = (
            _counted(len(found), "skill"),
            *(_counted(counts[what], what) for what in ("error", "warning")),
        )
        typer.echo(f"\n{', '.join(numbers)}")
    if counts["error"] or (strict and counts["warning"]):
        raise typer.Exit(FOUND)


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


def _skill_folders(paths: list[Path]) -> list[Path]:
    from turnkeeper.skills.package import SKILL_FILE, roots

    found: list[Path] = []
    for path in paths:
        inside = [path] if os.path.lexists(path / SKILL_FILE) else roots(path)
        if not inside:
            problem = (
                f"there is no {SKILL_FILE} in it, nor in a folder in it"
                if path.is_dir()
                else "no such folder"
            )
            typer.echo(f"turnkeeper: {_printable(str(path))}: {problem}", err=True)
            raise typer.Exit(USAGE)
        found += inside
    named = [root if root.name not in ("", "..") else root.resolve() for root in found]
    return list({root.resolve(): root for root in named}.values())


def _skill_lines(root: Path, findings: list[Finding]) -> str:
    if not findings:
        return f"{_printable(str(root))}: {typer.style('good', fg='green')}"
    lines = [f"{_printable(str(root))}:"]
    for each in findings:
        colour = "red" if each.severity.value == "error" else "yellow"
        lines.append(
            f"  {typer.style(each.severity.value, fg=colour)} {each.code} {_printable(each.sentence)}"
        )
    return "\n".join(lines)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _printable(text: str) -> str:
    """What strangers wrote must not reach the terminal as commands."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


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
