"""`turnkeeper show` and `turnkeeper audit`: a run as it is stored, beside a running service or without one."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnkeeper.cli.terminal import FOUND, USAGE, AsJson, DataDir, complain, printable
from turnkeeper.core.errors import RunNotFound, TurnkeeperError
from turnkeeper.core.run import Attempt, Run
from turnkeeper.settings import Settings, load_settings

if TYPE_CHECKING:
    from turnkeeper.wiring import Archive

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]


def show(
    run_id: RunArgument,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="One turn: what was seen, and how to play it by hand.")
    ] = None,
    try_number: Annotated[
        int | None, typer.Option("--try", min=1, help="Which try of it (the last).")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Print a run, or one of its turns, for example: turnkeeper show RUN --attempt 2"""
    with _refusing():
        settings = load_settings(data_dir=data_dir)
        run, attempts = asyncio.run(_read(settings, run_id))
        if attempt is None:
            typer.echo(_as_json(run, attempts) if as_json else _run_text(run, attempts))
            return
        chosen = _chosen(run, attempts, attempt, try_number)
        words = (
            settings.data_dir / "runs" / run.id / "raw" / f"{chosen.attempt_number}.{chosen.try_number}.stdin"
        )
        typer.echo(_attempt_json(chosen, words) if as_json else _attempt_text(chosen, words))


def audit(run_id: RunArgument, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Judge every turn of a run again, from its stored bytes, for example: turnkeeper audit RUN

    Ends with 0 if every verdict is the one that was stored, 1 if one is not.
    """
    with _refusing():
        opinions = asyncio.run(_audit(load_settings(data_dir=data_dir), run_id))
    if as_json:
        typer.echo(json.dumps({"run_id": run_id, "attempts": opinions}, indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join(map(_opinion_text, opinions)) or "the run has had no turn yet")
    if any(each["agrees"] is False for each in opinions):
        raise typer.Exit(FOUND)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except TurnkeeperError as error:
        complain(error.message)
        raise typer.Exit(USAGE) from None


async def _read(settings: Settings, run_id: str) -> tuple[Run, list[Attempt]]:
    from turnkeeper import wiring

    async with wiring.archive(settings) as archive:
        return await _run(archive, run_id), await archive.store.attempts(run_id)


async def _run(archive: Archive, run_id: str) -> Run:
    run = await archive.store.run(run_id)
    if run is None:
        raise RunNotFound(f"there is no run {run_id!r} in this data directory")
    return run


async def _audit(settings: Settings, run_id: str) -> list[dict[str, Any]]:
    from turnkeeper import wiring
    from turnkeeper.runtime.audit import judge_again

    async with wiring.archive(settings) as archive:
        run = await _run(archive, run_id)
        found = []
        interactions = await archive.store.interactions(run_id)
        for attempt in await archive.store.attempts(run_id):
            opinion = await asyncio.to_thread(judge_again, archive.stage, run, attempt, interactions)
            found.append(
                {
                    "attempt": attempt.attempt_number,
                    "try": attempt.try_number,
                    "stored": attempt.verdict,
                    "again": opinion and opinion.again,
                    "agrees": opinion and opinion.agrees,
                }
            )
        return found


def _chosen(run: Run, attempts: Sequence[Attempt], number: int, try_number: int | None) -> Attempt:
    found = [each for each in attempts if each.attempt_number == number]
    if try_number is not None:
        found = [each for each in found if each.try_number == try_number]
    if not found:
        there = ", ".join(f"{each.attempt_number}.{each.try_number}" for each in attempts) or "none"
        raise RunNotFound(f"run {run.id} has no such turn; it has: {there}")
    return found[-1]


# As text


def _run_text(run: Run, attempts: Sequence[Attempt]) -> str:
    job = run.job
    rows = {
        "run": run.id,
        "status": run.state.value,
        "skill": f"{job.skill_id} {job.skill_version}",
        "engine": f"{job.engine} ({job.mode.value}, {job.profile.kind.value})",
        "model": job.model or "the engine's own choice",
        "usage": _usage(run.usage),
        "error": run.error and f"{run.error.code}: {run.error.message}",
    }
    turns = "\n".join(map(_turn_line, attempts)) or "  none yet"
    return f"{_aligned(rows)}\nturns\n{turns}"


def _turn_line(attempt: Attempt) -> str:
    seconds = (attempt.ended_at - attempt.started_at).total_seconds() if attempt.ended_at else None
    lasted = "running" if seconds is None else f"{seconds:.1f} s"
    parts = (_verdict(attempt.verdict), attempt.model or "", _usage(attempt.usage))
    return printable(
        f"  {attempt.attempt_number}.{attempt.try_number}  {lasted:>8}  {'  '.join(filter(None, parts))}"
    )


def _attempt_text(attempt: Attempt, words: Path) -> str:
    seen: Mapping[str, Any] = attempt.evidence or {}
    launch = attempt.launch or {}
    rows = {
        "turn": f"{attempt.attempt_number}.{attempt.try_number} of run {attempt.run_id}",
        "engine": launch.get("engine_version") and f"version {launch['engine_version']}",
        "model": attempt.model,
        "usage": _usage(attempt.usage),
        "verdict": _verdict(attempt.verdict),
        "closed by": seen.get("terminal") and f"{seen['terminal']}, {seen['exit']['kind']}",
        "output": seen.get("output") and f"{seen['output']} ({seen['output_rung']})",
        "said": seen.get("said"),
    }
    if attempt.launch is None:
        return f"{_aligned(rows)}\nNothing is recorded of a process (yet): none was started, or it has not spoken."
    return f"{_aligned(rows)}\nBy hand (it plays in the run's own folder and session):\n\n{by_hand(launch, words)}"


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


def _verdict(verdict: Mapping[str, Any] | None) -> str:
    if verdict is None:
        return "not judged yet"
    error = verdict.get("error")
    return f"{verdict['verdict']} {error['code']}: {error['message']}" if error else str(verdict["verdict"])


def _usage(usage: Mapping[str, int]) -> str:
    return ", ".join(f"{name.removesuffix('_tokens')} {count}" for name, count in usage.items())


def _aligned(rows: Mapping[str, Any]) -> str:
    return "\n".join(_lines(rows))


def _lines(rows: Mapping[str, Any]) -> Iterator[str]:
    for name, value in rows.items():
        if value:
            first, *rest = str(value).splitlines()
            yield f"{name:<10} {printable(first)}"
            yield from (f"{'':<10} {printable(line)}" for line in rest)


def _opinion_text(opinion: Mapping[str, Any]) -> str:
    stored = _verdict(opinion["stored"])
    turn = f"{opinion['attempt']}.{opinion['try']}"
    if opinion["agrees"] is None:
        return printable(f"{turn}  {stored}  (nothing to compare with)")
    again = "the same again" if opinion["agrees"] else f"NOW {_verdict(opinion['again'])}"
    return printable(f"{turn}  {stored}  ({again})")


# As JSON


def _as_json(run: Run, attempts: Sequence[Attempt]) -> str:
    from turnkeeper.web import views

    told = {**views.run_view(run, None), "attempts": [views.attempt_view(each) for each in attempts]}
    return json.dumps(told, indent=2, ensure_ascii=False)


def _attempt_json(attempt: Attempt, words: Path) -> str:
    from turnkeeper.web import views

    command = by_hand(attempt.launch, words) if attempt.launch else None
    return json.dumps({**views.attempt_view(attempt), "command": command}, indent=2, ensure_ascii=False)
