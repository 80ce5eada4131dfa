"""`turnkeeper show` and `turnkeeper audit`: a run as it is stored, beside a running service or without one.

With TURNKEEPER_URL `show` asks that service instead. An audit needs the stored bytes.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnkeeper.cli.completion import run_ids
from turnkeeper.cli.outcome import print_json, usage
from turnkeeper.cli.reach import LAST, SHORT, SHOWN, URL, WHOLE, folder_of, only, refusing, run_of, service
from turnkeeper.cli.terminal import FOUND, AsJson, DataDir, printable
from turnkeeper.core.errors import InvalidRequest, RunNotFound
from turnkeeper.core.run import Run
from turnkeeper.settings import Settings, load_settings

if TYPE_CHECKING:
    from turnkeeper.wiring import Archive

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Its id or the beginning of it, or last.", autocompletion=run_ids)
]
Json = Mapping[str, Any]
HOME = "home"
MOST_LIKE = 200
"""Runs that a text may fit before those are picked whose id begins with it."""


@dataclass(frozen=True, slots=True)
class Record:
    """A run and its attempts, as the API shows them."""

    run: Json
    attempts: Sequence[Json]
    folder: Path | None = None
    """Of the run; None: on another machine."""


def show(
    run_id: RunArgument = LAST,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="One turn: what was seen, and how to play it by hand.")
    ] = None,
    try_number: Annotated[
        int | None, typer.Option("--try", min=1, help="Which try of it (the last).")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Print a run, or one of its turns. It needs no service.

    For example: turnkeeper show last --attempt 2

    Ends with 0, with 2 if there is no such run or turn.
    """
    with refusing():
        if attempt is None and try_number is not None:
            raise InvalidRequest("--try is for one turn: say --attempt too")
        if data_dir is None and os.environ.get(URL):
            found = _asked(run_id)
        else:
            found = asyncio.run(_read(_settings(data_dir), run_id))
        if attempt is None:
            _print_run(found, as_json=as_json)
        else:
            _print_attempt(found, _chosen(found, attempt, try_number), as_json=as_json)


def audit(run_id: RunArgument = LAST, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Judge every turn of a run again, from its stored bytes. It needs no service.

    For example: turnkeeper audit last

    Ends with 0 if every verdict is the one that was stored, 1 if one is not,
    2 if there is no such run.
    """
    with refusing():
        run, opinions = asyncio.run(_audit(_settings(data_dir), run_id))
    if as_json:
        print_json({"run_id": run, "attempts": opinions})
    else:
        typer.echo("\n".join(map(_opinion_text, opinions)) or "the run has had no turn yet")
    if any(each["agrees"] is False for each in opinions):
        raise typer.Exit(FOUND)


def _settings(data_dir: Path | None) -> Settings:
    return load_settings(data_dir=folder_of(data_dir))


def _asked(given: str) -> Record:
    with service(None) as place:
        run = run_of(place.client, given)
        return Record(run.info().to_dict(), [each.to_dict() for each in run.attempts()])


async def _read(settings: Settings, given: str) -> Record:
    from turnkeeper import wiring
    from turnkeeper.web import views

    async with wiring.archive(settings) as archive:
        run = await _run(archive, given, settings.data_dir)
        attempts = await archive.store.attempts(run.id)
        folder = settings.data_dir / "runs" / run.id
        return Record(views.run_view(run, None), [views.attempt_view(each) for each in attempts], folder)


async def _run(archive: Archive, given: str, data_dir: Path) -> Run:
    """As `reach.run_of` finds one, without a service."""
    from turnkeeper.store.base import RunFilter

    found = await archive.store.run(given)
    if found is None and given == LAST:
        found = next(iter(await archive.store.runs(RunFilter(), 1)), None)
    elif found is None and SHORT <= len(given) < WHOLE:
        runs = await archive.store.runs(RunFilter(text=given), MOST_LIKE)
        fitting = {run.id: run for run in runs if run.id.startswith(given.lower())}
        found = fitting[only(list(fitting), given)] if fitting else None
    if found is None:
        raise RunNotFound(f"there is no run {given!r} in {data_dir}; for another one: --data-dir")
    return found


async def _audit(settings: Settings, given: str) -> tuple[str, list[dict[str, Any]]]:
    from turnkeeper import wiring
    from turnkeeper.runtime.audit import judge_again, why_not

    async with wiring.archive(settings) as archive:
        run = await _run(archive, given, settings.data_dir)
        found = []
        interactions = await archive.store.interactions(run.id)
        for attempt in await archive.store.attempts(run.id):
            opinion = await asyncio.to_thread(judge_again, archive.stage, run, attempt, interactions)
            found.append(
                {
                    "attempt": attempt.attempt_number,
                    "try": attempt.try_number,
                    "stored": attempt.verdict,
                    "again": opinion and opinion.again,
                    "agrees": opinion and opinion.agrees,
                    "why_not": why_not(archive.stage, run, attempt),
                }
            )
        return run.id, found


def _chosen(found: Record, number: int, try_number: int | None) -> Json:
    fitting = [each for each in found.attempts if each["attempt"] == number]
    if try_number is not None:
        fitting = [each for each in fitting if each["try"] == try_number]
    if not fitting:
        there = ", ".join(map(_number, found.attempts)) or "none"
        raise InvalidRequest(f"run {found.run['run_id']} has no such turn; it has: {there}")
    return fitting[-1]


def _number(attempt: Json) -> str:
    return f"{attempt['attempt']}.{attempt['try']}"


# A run


def _print_run(found: Record, *, as_json: bool) -> None:
    if as_json:
        print_json({**found.run, "attempts": found.attempts})
        return
    turns = "\n".join(map(_turn_line, found.attempts)) or "  none yet"
    typer.echo(f"{_aligned(_rows(found.run))}\nturns\n{turns}")


def _rows(run: Json) -> Json:
    profile, error = run["interactive_profile"] or {}, run["error"]
    return {
        "run": run["run_id"],
        "status": run["status"],
        "question": _question(run),
        "skill": f"{run['skill_id']} {run['skill_version']}",
        "engine": f"{run['engine']} ({run['execution_mode']}, {profile.get('kind')})",
        "sandbox": run["sandbox"],
        "model": run["model"] or "the engine's own choice",
        "usage": usage(run["usage"]),
        "error": error and f"{error['code']}: {error['message']}",
        "evidence": error and error.get("evidence"),
        "warnings": "\n".join(f"{each['code']}: {each['message']}" for each in run["warnings"]),
    }


def _question(run: Json) -> str:
    number = run["pending_interaction_id"]
    return (
        f"number {number} is open; see and answer it: turnkeeper reply {run['run_id'][:SHOWN]}"
        if number
        else ""
    )


def _turn_line(attempt: Json) -> str:
    lasted = "running"
    if attempt["ended_at"]:
        seconds = (_moment(attempt["ended_at"]) - _moment(attempt["started_at"])).total_seconds()
        lasted = f"{seconds:.1f} s"
    parts = (_verdict(attempt["verdict"]), attempt["model"] or "", usage(attempt["usage"]))
    return printable(f"  {_number(attempt)}  {lasted:>8}  {'  '.join(filter(None, parts))}")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


# One of its turns


def _print_attempt(found: Record, attempt: Json, *, as_json: bool) -> None:
    command = None
    if attempt["launch"] and found.folder is not None and (found.folder / HOME).exists():
        command = by_hand(attempt["launch"], found.folder / "raw" / f"{_number(attempt)}.stdin")
    if as_json:
        print_json({**attempt, "command": command})
    else:
        typer.echo(f"{_aligned(_seen(found.run, attempt))}\n{_to_repeat(found, attempt, command)}")


def _seen(run: Json, attempt: Json) -> Json:
    seen, launch = attempt["evidence"] or {}, attempt["launch"] or {}
    return {
        "turn": f"{_number(attempt)} of run {run['run_id']}",
        "engine": launch.get("engine_version") and f"version {launch['engine_version']}",
        "sandbox": launch.get("sandbox"),
        "model": attempt["model"],
        "usage": usage(attempt["usage"]),
        "verdict": _verdict(attempt["verdict"]),
        "closed by": seen.get("terminal") and f"{seen['terminal']}, {seen['exit']['kind']}",
        "output": seen.get("output") and f"{seen['output']} ({seen['output_rung']})",
        "said": seen.get("said"),
    }


def _to_repeat(found: Record, attempt: Json, command: str | None) -> str:
    if command is not None:
        return f"By hand (it plays in the run's own folder and session):\n\n{command}"
    if attempt["launch"] is not None and found.folder is not None:
        return "It cannot be played by hand any more: the run's home was deleted."
    if attempt["launch"] is not None:
        words = f"turnkeeper show {found.run['run_id']} --attempt {attempt['attempt']}"
        return f"How to play it by hand is told on the service's own machine: {words}"
    return "Nothing is recorded of a process (yet): none was started, or it has not spoken."


def by_hand(launch: Mapping[str, Any], words: Path) -> str:
    """A command for a shell that starts the same process; secrets are taken from the shell's own environment."""
    env, home = launch["env"], Path(launch["env"]["HOME"])
    copies = {path: str(home / name) for name, path in launch["login_files"].items()}
    lines = [
        shlex.join(["mkdir", "-p", env["TMPDIR"]]),
        *(shlex.join(["cp", *each]) for each in copies.items()),
    ]
    lines += [f"cd {shlex.quote(launch['cwd'])} && env -i \\"]
    lines += [f"  {_variable(launch, name)} \\" for name in launch["env"]]
    lines += [f"  {shlex.join(launch['argv'])} \\", f"  < {shlex.quote(str(words))}"]
    lines += [shlex.join(["rm", *copies.values()])] if copies else []
    return "\n".join(lines)


def _variable(launch: Mapping[str, Any], name: str) -> str:
    value = launch["env"][name]
    return f'{name}="${launch["secrets"][name]}"' if value is None else f"{name}={shlex.quote(value)}"


def _verdict(verdict: Json | None) -> str:
    if verdict is None:
        return "not judged yet"
    error = verdict.get("error")
    return f"{verdict['verdict']} {error['code']}: {error['message']}" if error else str(verdict["verdict"])


def _aligned(rows: Json) -> str:
    return "\n".join(_lines(rows))


def _lines(rows: Json) -> Iterator[str]:
    for name, value in rows.items():
        if value:
            first, *rest = str(value).splitlines()
            yield f"{name:<10} {printable(first)}"
            yield from (f"{'':<10} {printable(line)}" for line in rest)


def _opinion_text(opinion: Json) -> str:
    stored = _verdict(opinion["stored"])
    turn = f"{opinion['attempt']}.{opinion['try']}"
    if opinion["agrees"] is None:
        return printable(f"{turn}  {stored}  ({opinion['why_not']})")
    again = "the same again" if opinion["agrees"] else f"NOW {_verdict(opinion['again'])}"
    return printable(f"{turn}  {stored}  ({again})")
