"""What `turnkeeper engines` says, as text: no engine is looked at here."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnkeeper.cli.tables import Column, print_table
from turnkeeper.cli.terminal import counted, printable, styled

if TYPE_CHECKING:
    from turnkeeper.wiring import Diagnosis, Installed

OURS = Path(__file__).parents[1]
COLUMNS = (
    *map(Column, ("engine", "ready", "version", "login")),
    Column("profiles", wraps=True),
    Column("path", wraps=True),
)
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}

Told = Mapping[str, Any]


# List


def print_list(found: Iterable[Told], engine_folder: Path) -> None:
    rows = [_row(each, engine_folder) for each in found]
    if sys.stdout.isatty():  # a pipe gets paths that can be used
        rows = [tuple(map(_short, row)) for row in rows]
    print_table(COLUMNS, rows)


def _row(told: Told, engine_folder: Path) -> tuple[str, ...]:
    cells = (
        told["name"],
        "yes" if told["ready"] else "no",
        told["version"] or "-",
        _login(told["login"]),
        ", ".join(told["profiles"]),
        _place(told["path"], engine_folder / told["name"]),
    )
    return tuple(printable(cell) for cell in cells)


def _place(path: str | None, managed: Path) -> str:
    if path is None:
        return "-"
    if Path(path).is_relative_to(OURS):
        return "built in"
    return str(managed) if Path(path).is_relative_to(managed) else path  # below that, it is npm's to arrange


def _login(login: Told) -> str:
    match login:
        case {"kind": "key" | "file", "source": str(source)}:
            return _short(source)
        case {"kind": "none"}:
            return "-"
        case {"kind": str(kind)}:
            return kind.replace("_", " ")
        case _:
            return "-"


def _short(path: str) -> str:
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path


def notes(found: Iterable[Told]) -> str:
    """Why engines are not ready and what to do, and what is to be known of those that are."""
    lines: list[str] = []
    for told in found:
        if not told["ready"]:
            lines += ["", f"{told['name']} is not ready: {told['reason']}"]
            lines += [f"  fix: {told['fix']}"] if told["fix"] else []
            continue
        lines += ["", told["warning"]] if told["warning"] else []
        resident = told["resident"]
        if resident and resident["warning"] not in (None, told["warning"]):
            lines += ["", resident["warning"]]
        if resident and not resident["ready"]:
            lines += ["", f"{told['name']} cannot be a resident agent: {resident['reason']}"]
            lines += [f"  fix: {resident['fix']}"] if resident["fix"] else []
    return "\n".join(printable(line) for line in lines)


# Install


def installed(done: Installed) -> str:
    if done.was_there:
        return printable(f"{done.name} {done.version} was installed already, in {done.path}")
    cost = f"{done.size / 1e6:.0f} MB in {done.seconds:.0f} s"
    return printable(f"{done.name} {done.version} is installed: {cost}, in {done.path}")


# Doctor


def diagnosis(found: Diagnosis) -> str:
    word = styled("good", fg="green") if found.is_good else styled("not good", fg="red")
    lines = [f"{printable(found.engine)}: {word}"]
    for check in found.checks:
        outcome = styled(f"{check.outcome.value:4}", fg=COLOURS[check.outcome.value])
        lines.append(f"  {outcome}  {check.name:8} {printable(check.sentence)}")
        if check.fix:
            lines.append(f"{'':17}fix: {printable(check.fix)}")
    return "\n".join(lines)


def diagnosis_json(found: Diagnosis) -> dict[str, Any]:
    turn = found.turn
    failure = turn.failure if turn else None
    return {
        "name": found.engine,
        "good": found.is_good,
        "checks": [
            {
                "name": each.name,
                "outcome": each.outcome.value,
                "message": each.sentence,
                "fix": each.fix,
            }
            for each in found.checks
        ],
        "turn": turn
        and {
            "answer": turn.answer,
            "model": turn.model,
            "usage": dict(turn.usage),
            "seconds": round(turn.seconds, 3),
            "error": failure and {"code": failure.code.value, "message": failure.message},
        },
    }


def conclusion(found: list[Diagnosis], *, with_turn: bool, example: str | None) -> str:
    """`example`: how to install an engine, where there is none."""
    good = sum(each.is_good for each in found)
    lines = ["", f"{counted(len(found), 'engine')}: {good} good, {len(found) - good} not"]
    if example is not None:
        lines.append(f"No agent CLI is installed. For example: {example}")
    elif not with_turn:
        lines.append("No turn was played; --turn plays one.")
    return "\n".join(lines)
