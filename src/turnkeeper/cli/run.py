"""`turnkeeper run` and `turnkeeper watch`: a run from its beginning, or from wherever it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnkeeper.cli import given
from turnkeeper.cli.completion import engine_names, run_ids, skill_ids
from turnkeeper.cli.embedded import NotStarted
from turnkeeper.cli.events import print_events
from turnkeeper.cli.follow import Follower, Left, Manner, has_person
from turnkeeper.cli.outcome import print_json, tell_end, tell_left, tell_waiting
from turnkeeper.cli.reach import SHOWN, Service, run_of, service
from turnkeeper.cli.screen import screen_for
from turnkeeper.cli.terminal import INTERRUPTED, TIMEOUT, AsJson, DataDir, busy, whole
from turnkeeper.core.errors import InvalidRequest

if TYPE_CHECKING:
    from turnkeeper.client import Run, Skill

Timeout = Annotated[
    float | None, typer.Option(metavar="SEC", min=0, help="Stop waiting after so long; the run goes on.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show also what the agent thinks and prints.")]


@dataclass(frozen=True, slots=True)
class Words:
    """What the command line says about the input."""

    input: list[str]
    parameter: list[str]
    file: list[str]


def run(
    skill: Annotated[
        str,
        typer.Argument(
            metavar="SKILL", help="A skill's id, or the path of its folder.", autocompletion=skill_ids
        ),
    ],
    engine: Annotated[
        str | None,
        typer.Option(
            help="The engine (the first that is ready; demo needs no login).", autocompletion=engine_names
        ),
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", metavar="K=V", help="An input: K=V, K=@FILE, @FILE.json or -."),
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", metavar="K=PATH", help="A file for an input.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="K=V", help="A parameter, like --input.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model, as the engine calls it.")] = None,
    permissions: Annotated[
        str | None, typer.Option(help="What an agent that asks is told: allow, ask or deny.")
    ] = None,
    interactive: Annotated[
        bool | None,
        typer.Option("--interactive/--auto", help="Whether the agent may ask (auto, if the skill can)."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Without a terminal: wait for answers from elsewhere.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start it, print its id, and leave.")
    ] = False,
    timeout: Timeout = None,
    verbose: Verbose = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Run a skill, show what happens, and ask you when the agent asks.

    A service is started if none runs. The conversation goes to stderr and the
    result to stdout. Ctrl-C offers to cancel the run or to leave it.

    For example: turnkeeper run interview --engine demo --input topic="our garden"

    Ends with 0 if the run succeeds, 1 if it fails, 2 if it cannot be started,
    3 if it waits for a person, 4 if it is canceled, 5 if the time is up.
    """
    words = Words(input_ or [], param or [], file or [])
    manner = Manner(has_person() and not as_json, waits=wait, timeout=timeout, verbose=verbose)
    with service(data_dir) as place:
        chosen = _skill(place, skill)
        job = _job(place, chosen, words) | {
            "engine": engine,
            "interactive": _mode(chosen, interactive),
            "model": model,
            "permissions": permissions,
        }
        code = _play(place, chosen, job, None if detach else manner, as_json=as_json)
    raise typer.Exit(code)


def watch(
    run_id: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Its id or the beginning of it, or last.", autocompletion=run_ids),
    ] = "last",
    timeout: Timeout = None,
    verbose: Verbose = False,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one event a line, as JSON.")] = False,
) -> None:
    """Follow a run from its beginning to its end, and answer what it asks.

    For example: turnkeeper watch last

    Ends with 0 if the run succeeds, 1 if it fails, 2 if there is none, 3 if you
    leave it at a question (Ctrl-D), 4 if it is canceled, 5 if the time is up.
    """
    with service(data_dir) as place:
        followed = run_of(place.client, run_id)
        if as_json:
            code = print_events(followed, timeout)
        else:
            manner = Manner(has_person(), timeout=timeout, verbose=verbose)
            code = follow(place, followed, manner, as_json=False)
    raise typer.Exit(code)


def _play(place: Service, skill: Skill, job: dict[str, Any], manner: Manner | None, *, as_json: bool) -> int:
    """Started, and followed if somebody said how."""
    started: Run | None = None
    try:
        # Broken off in the middle, nobody could say whether there is a run now.
        with busy("starting the run"), whole():
            started = place.client.run(skill.id, **job)
        if manner is None:
            return _tell_started(started, as_json=as_json)
        return follow(place, started, manner, as_json=as_json)
    except KeyboardInterrupt:
        if started is None:
            raise
        return _tell_interrupted(started)


def follow(place: Service, run: Run, manner: Manner, *, as_json: bool) -> int:
    """What happens, up to the exit code. Whatever goes wrong, who has started a run hears its id."""
    from turnkeeper.client import ServiceUnreachable

    try:
        return _follow(place, run, manner, as_json=as_json)
    except (ServiceUnreachable, NotStarted) as error:
        words = f"{error}\nRun {run.id} may go on; come back to it: turnkeeper watch {run.id[:SHOWN]}"
        raise type(error)(words) from error


def _follow(place: Service, run: Run, manner: Manner, *, as_json: bool) -> int:
    try:
        left = Follower(place, run, screen_for(silent=as_json), manner).follow()
    except KeyboardInterrupt:  # before anybody could be asked what is meant by it
        left = Left.INTERRUPTED
    match left:
        case Left.OVER:
            return tell_end(run, run.info(), as_json=as_json)
        case Left.WAITING:
            return tell_waiting(run, run.info(), as_json=as_json)
        case Left.TIMEOUT:
            tell_left(run, f"{manner.timeout:g} seconds are over.", as_json=as_json)
            return TIMEOUT
        case Left.DETACHED:
            tell_left(run, "Detached.", as_json=False)
            return 0
        case Left.INTERRUPTED:
            return _tell_interrupted(run)


def _tell_interrupted(run: Run) -> int:
    tell_left(run, "Interrupted.", as_json=False)
    return INTERRUPTED


def _tell_started(run: Run, *, as_json: bool) -> int:
    if as_json:
        print_json({"run": run.info().to_dict(), "result": None, "pending": None})
    else:
        typer.echo(run.id)
        typer.echo(f"Started. Follow it: turnkeeper watch {run.id[:SHOWN]}", err=True)
    return 0


# The job


def _skill(place: Service, named: str) -> Skill:
    """Installed first, if it is a folder."""
    folder = Path(named)
    if "/" not in named and not (folder / "SKILL.md").is_file():
        if not named:
            raise InvalidRequest("give the id of a skill, or the path of its folder")
        return place.client.skill(named)
    from turnkeeper.client import ApiError

    try:
        with busy(f"installing {folder}"):
            found = place.client.install_skill(folder, replace=True)
    except ApiError as error:
        if error.code != "SKILL_NOT_MANAGED" or not _is_same(error.facts.get("folder"), folder):
            raise
        from turnkeeper.skills.package import load

        return place.client.skill(load(folder.resolve()).id)  # a folder may be called otherwise
    typer.echo(f"Installed {found.id} {found.version} from {folder}", err=True)
    return found


def _is_same(there: Any, here: Path) -> bool:
    """The service reads its skills from the folder that this one is in."""
    return isinstance(there, str) and Path(there).resolve() == here.resolve().parent


def _mode(skill: Skill, wanted: bool | None) -> bool:
    return wanted if wanted is not None else "auto" not in skill.execution_modes


def _job(place: Service, skill: Skill, words: Words) -> dict[str, Any]:
    schemas = place.client.schemas(skill.id)
    files = given.files_of(words.file, schemas.input)
    if sum(word in ("-", "@-") or word.endswith("=@-") for word in words.input + words.parameter) > 1:
        raise InvalidRequest("stdin can be read only once: give - for one option")
    return {
        "input": given.object_of(words.input, schemas.input, "--input"),
        "parameter": given.object_of(words.parameter, schemas.parameter, "--param"),
        "files": files or None,
    }
