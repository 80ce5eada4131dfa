"""`turnkeeper engines`: which there are, how they are installed, and whether they work."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnkeeper.cli import engine_texts as texts
from turnkeeper.cli.completion import engine_names
from turnkeeper.cli.reach import folder_of
from turnkeeper.cli.terminal import FOUND, USAGE, AsJson, DataDir, Report, complain, run
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.settings import Settings, load_settings

if TYPE_CHECKING:
    from turnkeeper.engines.base import Engine
    from turnkeeper.wiring import Diagnosis, Installed

app = typer.Typer(no_args_is_help=True, help="Look after the agent CLIs that play turns.")

Name = Annotated[
    list[str],
    typer.Argument(metavar="NAME", help="Engines, such as codex.", autocompletion=engine_names),
]
SomeNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        help="Engines, such as codex; else all that are installed.",
        autocompletion=engine_names,
    ),
]


@app.command("list")
def list_all(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show which engines are ready, and what makes the others so.

    For example: turnkeeper engines list

    Ends with 0, also if no engine is ready; with 2 if a setting is wrong.
    """
    settings = _settings(data_dir)
    found = [_told(engine) for engine in _known(settings).values()]
    if as_json:
        _print_json({"engines": found})
        return
    texts.print_list(found, settings.engine_folder)
    if notes := texts.notes(found):
        typer.echo(notes)


@app.command()
def install(names: Name, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Install engines by npm.

    Each in the version that Turnkeeper is tested with, into a folder of its own,
    which it then prefers to the PATH.

    For example: turnkeeper engines install codex

    Ends with 0 if all are installed, 1 if not, 2 if there is no such engine.
    """
    settings = _settings(data_dir)
    done: list[Installed] = []
    failed: dict[str, TurnkeeperError] = {}
    for name in _chosen(settings, names):
        try:
            for each in _install(settings, name):
                done.append(each)
                if not as_json:
                    typer.echo(texts.installed(each))
        except TurnkeeperError as error:
            failed[name] = error
            complain(error.message)
        else:
            if not as_json:
                _tell_what_is_left(settings, name)
    if as_json:
        refusals = [
            {"name": name, "code": error.code, "message": error.message} for name, error in failed.items()
        ]
        _print_json({"installed": [asdict(each) for each in done], "failed": refusals})
    if failed:
        raise typer.Exit(FOUND)


@app.command()
def doctor(
    names: SomeNames = None,
    turn: Annotated[
        bool,
        typer.Option("--turn", help="Play one short turn too: it asks the model, and may cost a little."),
    ] = False,
    resident: Annotated[
        bool, typer.Option("--resident", help="As an agent that stays for a whole conversation.")
    ] = False,
    ask: Annotated[
        bool,
        typer.Option("--ask", help="Play a turn in which it has to ask for a permission (with --resident)."),
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Try engines as a run would.

    For example: turnkeeper engines doctor codex --turn

    Ends with 0 if all of them are good, 1 if not, 2 if there is no such engine.
    """
    settings = _settings(data_dir)
    known = _known(settings)
    chosen = _chosen(settings, names) if names else [name for name in known if _is_installed(known[name])]
    found: list[Diagnosis] = []
    how = {"with_turn": turn or ask, "as_resident": resident or ask, "asking": ask}
    for name in chosen:
        found.append(_examine(settings, name, how))
        if not as_json:
            typer.echo(texts.diagnosis(found[-1]))
    only_demo = not names and all(known[name].is_demo for name in chosen)
    if as_json:
        _print_json({"engines": [texts.diagnosis_json(each) for each in found]})
    else:
        example = known["codex"].readiness().fix if only_demo else None
        typer.echo(texts.conclusion(found, with_turn=turn or ask, example=example))
    if only_demo or not all(each.is_good for each in found):
        raise typer.Exit(FOUND)


def _settings(data_dir: Path | None) -> Settings:
    try:
        return load_settings(data_dir=folder_of(data_dir))
    except TurnkeeperError as error:
        complain(error.message)
        raise typer.Exit(USAGE) from None


def _known(settings: Settings) -> dict[str, Engine]:
    from turnkeeper import wiring

    try:
        return wiring.known_engines(settings)
    except TurnkeeperError as error:
        complain(error.message)
        raise typer.Exit(USAGE) from None


def _chosen(settings: Settings, names: list[str]) -> list[str]:
    known = _known(settings)
    unknown = [name for name in names if name not in known]
    if unknown:
        complain(f"there is no engine {unknown[0]!r}; there are: {', '.join(known)}")
        raise typer.Exit(USAGE)
    return list(dict.fromkeys(names))


def _install(settings: Settings, name: str) -> Iterator[Installed]:
    """One program after the other: what is there stays there, whatever becomes of the next."""
    from turnkeeper import wiring

    for program in wiring.programs_of(settings, name):
        yield run(name, partial(wiring.install_program, settings, name, program), plainly=True)


def _tell_what_is_left(settings: Settings, name: str) -> None:
    engine = _known(settings)[name]
    if settings.engines.get(name) and settings.engines[name].command:
        typer.echo(f"  it is not used as long as engines.{name}.command is set")
    elif not engine.readiness().ready:
        typer.echo(texts.notes([_told(engine)]))


def _examine(settings: Settings, name: str, how: dict[str, bool]) -> Diagnosis:
    from turnkeeper import wiring

    def examine(report: Report) -> Coroutine[Any, Any, Diagnosis]:
        return wiring.examine_engine(settings, name, report, **how)

    try:
        return run(name, examine, plainly=False)
    except OSError as error:  # there is no room, or no right, to make the folder that it is tried in
        complain(f"{name} cannot be examined: {error}")
        raise typer.Exit(FOUND) from None


def _is_installed(engine: Engine) -> bool:
    """Or meant to be: a command that leads nowhere is worth a word, a program that was never there is not."""
    return engine.readiness().path is not None


def _told(engine: Engine) -> dict[str, Any]:
    """In the words of the API."""
    from turnkeeper.web import views

    return views.engine_view(engine)


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=2, default=str))
