"""`turnkeeper doctor`: one look at the whole installation, beside a running service or without one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from turnkeeper import __version__
from turnkeeper.cli.reach import folder_of
from turnkeeper.cli.terminal import FOUND, USAGE, AsJson, DataDir, busy, complain, counted, printable, styled
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.core.fcmp import instant
from turnkeeper.settings import load_settings

if TYPE_CHECKING:
    from turnkeeper.cli.checkup import Checkup

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
BELOW = " " * 18


def doctor(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Look at everything: data, service, who holds its slots, engines.

    For example: turnkeeper doctor

    Ends with 0 if nothing is broken, 1 if something is, 2 if a setting is wrong.
    A service that does not run is not broken.
    """
    folder, found = _look(data_dir)
    if as_json:
        typer.echo(json.dumps(_json(folder, found), indent=2, default=instant))
    else:
        typer.echo("\n".join(_text(found)))
    if not found.is_good:
        raise typer.Exit(FOUND)


def _look(data_dir: Path | None) -> tuple[Path, Checkup]:
    # The web stack takes most of the start-up time: `turnkeeper version` should not pay for it.
    from turnkeeper.cli import checkup

    try:
        settings = load_settings(data_dir=folder_of(data_dir))
        with busy("looking at everything"):
            return settings.data_dir, checkup.look(settings)
    except TurnkeeperError as error:
        complain(error.message)
        raise typer.Exit(USAGE) from None


# As text


def _text(found: Checkup) -> Iterator[str]:
    from turnkeeper.cli import checkup

    for check in found.checks:
        yield _line(check.outcome.value, check.name, check.sentence)
        if check.name == "slots" and found.status:
            yield from (f"{BELOW}{printable(line)}" for line in checkup.held(found.status))
        if check.fix:
            yield f"{BELOW}fix: {printable(check.fix)}"
    yield f"engines, as {'the service sees them' if found.status else 'they are seen from here'}"
    yield from (_line(*_engine(told)) for told in found.engines)
    yield from ("", _conclusion(found))


def _line(word: str, name: str, sentence: str) -> str:
    return f"  {styled(f'{word:4}', fg=COLOURS.get(word))}  {printable(name):9} {printable(sentence)}"


def _engine(told: Mapping[str, Any]) -> tuple[str, str, str]:
    """One that was never installed is no trouble; one that is, and does not work, may be meant to."""
    fix = f" (fix: {told['fix']})" if told["fix"] else ""
    known = told["login"] or {"source": None, "kind": "unknown"}
    login = known["source"] or known["kind"].replace("_", " ")
    match (told["ready"], told["warning"], told["path"]):
        case (True, None, _):
            return "ok", told["name"], f"version {told['version'] or 'unknown'}, login: {login}"
        case (True, warning, _):
            return "warn", told["name"], f"{warning}{fix}"
        case (False, _, None):
            return "-", told["name"], f"{told['reason']}{fix}"
        case _:
            return "warn", told["name"], f"{told['reason']}{fix}"


def _conclusion(found: Checkup) -> str:
    outcomes = Counter(
        [*(check.outcome.value for check in found.checks), *(_engine(e)[0] for e in found.engines)]
    )
    word = styled("good", fg="green") if found.is_good else styled("not good", fg="red")
    warnings = f", {counted(outcomes['warn'], 'warning')}" if outcomes["warn"] else ""
    return f"Turnkeeper {__version__}: {word}{warnings}"


# As JSON


def _json(data_dir: Path, found: Checkup) -> dict[str, Any]:
    return {
        "good": found.is_good,
        "version": __version__,
        "data_dir": str(data_dir),
        "checks": [
            {"name": each.name, "outcome": each.outcome.value, "message": each.sentence, "fix": each.fix}
            for each in found.checks
        ],
        "service": found.beacon and asdict(found.beacon),
        "status": found.status and found.status.to_dict(),
        "engines": found.engines,
    }
