"""`turnkeeper result` and `turnkeeper artifacts`: what a run leaves behind, on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from turnkeeper.cli.completion import run_ids
from turnkeeper.cli.outcome import print_json, size, tell_end, tell_waiting
from turnkeeper.cli.reach import SHOWN, run_of, service
from turnkeeper.cli.terminal import FAILED, TIMEOUT, AsJson, DataDir, busy, complain, printable
from turnkeeper.core.errors import InvalidRequest

if TYPE_CHECKING:
    from turnkeeper.client import Artifact, Run, RunInfo

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Its id or the beginning of it, or last.", autocompletion=run_ids)
]


def result(
    run_id: RunArgument = "last",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run is over.")] = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="SEC", min=0, help="With --wait: so long at most.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Print the result of a run, as JSON.

    For example: turnkeeper result last --wait

    Ends with 0 if there is one, 1 if the run failed or is not over, 2 if there
    is no such run, 3 if it waits for a person, 4 if it was canceled, 5 if the
    time is up.
    """
    with service(data_dir) as place:
        if timeout is not None and not wait:
            raise InvalidRequest("--timeout is for waiting: say --wait too")
        run = run_of(place.client, run_id)
        raise typer.Exit(
            _result(run, _settled(run, timeout) if wait else run.info(), as_json=as_json, waited=wait)
        )


def _settled(run: Run, timeout: float | None) -> RunInfo:
    from turnkeeper.client import RunError

    try:
        with busy(f"waiting for run {run.id[:SHOWN]}"):
            run.result(timeout)
    except RunError as error:
        return error.info
    except TimeoutError:
        pass
    return run.info()


def _result(run: Run, info: RunInfo, *, as_json: bool, waited: bool) -> int:
    if info.is_over:
        return tell_end(run, info, as_json=as_json)
    if info.is_waiting:
        return tell_waiting(run, info, as_json=as_json)
    if as_json:
        print_json({"run": info.to_dict(), "result": None, "pending": None})
    else:
        complain(
            f"run {run.id} is {info.status} and has no result yet"
            + ("" if waited else "; wait for it: --wait")
        )
    return TIMEOUT if waited else FAILED


def artifacts(
    run_id: RunArgument = "last",
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="One of its files.")] = None,
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="Fetch into this folder.")] = None,
    bundle: Annotated[
        bool, typer.Option("--bundle", help="Fetch all of it as one zip, with the result.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the files of a run, or fetch them.

    With PATH that file is fetched, with --to alone all of them; a file that is
    there is never replaced without --force.

    For example: turnkeeper artifacts last summary.md --to .

    Ends with 0, 1 if a file is there already, 2 if there is no such run or file.
    """
    with service(data_dir) as place:
        run = run_of(place.client, run_id)
        folder = to or Path()
        if bundle:
            fetched = [_fetch_bundle(run, folder, force=force)]
        elif path is not None:
            fetched = _fetch(run, [path], folder, force=force)
        elif to is not None:
            fetched = _fetch(
                run, [each.path for each in run.artifacts() if not each.is_link], folder, force=force
            )
        else:
            _list(run, run.artifacts(), as_json=as_json)
            return
    if as_json:
        print_json({"run_id": run.id, "files": [str(each) for each in fetched]})
    else:
        typer.echo("\n".join(printable(str(each)) for each in fetched) or "The run has left no files.")


def _list(run: Run, found: list[Artifact], *, as_json: bool) -> None:
    if as_json:
        print_json({"run_id": run.id, "artifacts": [each.to_dict() for each in found]})
    elif not found:
        typer.echo("The run has left no files.")
    else:
        sizes = ["link" if each.is_link else size(each.size) for each in found]
        width = max(map(len, sizes))
        for each, told in zip(found, sizes, strict=True):
            leads = f" -> {printable(each.target or '')}" if each.is_link else ""
            typer.echo(f"{told:>{width}}  {printable(each.path)}{leads}")


def _fetch(run: Run, paths: Iterable[str], folder: Path, *, force: bool) -> list[Path]:
    """All names are looked at before the first file is written."""
    places = [(path, place_of(path, folder)) for path in paths]
    _refuse_taken((place for _, place in places), force=force)
    for path, place in places:
        _make(place.parent)
        with busy(f"fetching {path}"):
            run.download(path, place)
    return [place for _, place in places]


def _fetch_bundle(run: Run, folder: Path, *, force: bool) -> Path:
    place = folder / f"{run.id}.zip"
    _refuse_taken([place], force=force)
    _make(folder)
    with busy(f"fetching {place.name}"):
        return run.bundle(place)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"the folder {folder} cannot be made: {error.strerror}; choose another --to"
        ) from error


def place_of(path: str, folder: Path) -> Path:
    """Where a file goes. Agents choose the names: none may lead out of the folder, over `..` or over a link."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise InvalidRequest(f"{path!r} does not stay inside a folder, and is not fetched")
    place = folder.joinpath(*parts)
    if not place.parent.resolve().is_relative_to(folder.resolve()):
        raise InvalidRequest(f"{place} leads out of {folder} over a link, and is not fetched")
    return place


def _refuse_taken(places: Iterable[Path], *, force: bool) -> None:
    for place in places:
        if place.is_dir() or (os.path.lexists(place) and not force):
            complain(f"{place} is there already; choose another --to, or replace it: --force")
            raise typer.Exit(FAILED)
