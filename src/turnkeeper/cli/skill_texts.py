"""What `turnkeeper skills` says, as text: no service is asked here."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol

import typer

from turnkeeper.cli.tables import COLOURS, Column, print_table
from turnkeeper.cli.terminal import counted, printable, styled

if TYPE_CHECKING:
    from turnkeeper.client import Schemas, Skill

LIST = (
    Column("skill"),
    Column("version"),
    Column("modes", wraps=True),
    Column("from"),
    Column("description", is_cut=True),
)
FACTS = (Column(""), Column("", wraps=True))
NONE_YET = """\
There are no skills yet.
  make one:      turnkeeper skills new my-first-skill
  install one:   turnkeeper skills install PATH"""
KINDS = {"input": "Input", "parameter": "Parameters", "output": "Result"}
LONGEST = 60
"""Of a default that is shown in a table."""


class Finding(Protocol):
    """The linter's own, or what the service tells of it."""

    @property
    def severity(self) -> str: ...
    @property
    def code(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def message(self) -> str: ...


# List


def print_list(skills: Sequence[Skill]) -> None:
    if not skills:
        typer.echo(NONE_YET)
        return
    print_table(LIST, map(_row, skills))
    for skill in skills:
        if skill.is_broken:
            typer.echo(f"\n{printable(skill.id)} cannot be used:")
            typer.echo("\n".join(f"  {printable(problem)}" for problem in skill.problems))


def _row(skill: Skill) -> Sequence[str]:
    modes = "broken" if skill.is_broken else ", ".join(skill.execution_modes)
    origin = "installed" if skill.managed else "folder"
    cells = (skill.id, skill.version or "-", modes, origin, _first_sentence(skill.description) or "-")
    return tuple(printable(cell) for cell in cells)


def _first_sentence(description: str) -> str:
    """What it does; when to use it, most say in the second."""
    first, stop, _ = " ".join(description.split()).partition(". ")
    return first + stop.strip()


# Show


def print_skill(skill: Skill, schemas: Schemas | None, findings: Sequence[Finding]) -> None:
    """Without schemas if it is broken."""
    typer.echo(styled(printable(f"{skill.id} {skill.version}".rstrip()), bold=True))
    if skill.description:
        _echo_prose(skill.description)
    typer.echo()
    print_table(FACTS, list(_facts(skill)))
    if schemas is not None:
        for kind, title in KINDS.items():
            typer.echo(f"\n{title}")
            _print_schema(getattr(schemas, kind))
    typer.echo()
    typer.echo("\n".join(finding_lines("Lint", findings)))
    if not skill.is_broken:
        typer.echo(f"\nRun it: turnkeeper run {printable(skill.id)}")


def _echo_prose(text: str) -> None:
    words = printable(" ".join(text.split()))
    width = _width()
    typer.echo("\n".join(wrap(words, width)) if width else words)


def _width() -> int | None:
    """Of a terminal, as far as text is read with ease."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return min(Console().width, 100)


def _facts(skill: Skill) -> Iterator[tuple[str, str]]:
    origin = "installed through the service" if skill.managed else "a folder of the operator's"
    facts = {
        "name": skill.name if skill.name != skill.id else "",
        "from": origin,
        "state": "broken" if skill.is_broken else "",
        "modes": ", ".join(skill.execution_modes),
        "engines": ", ".join(skill.engines),
        "turns": f"{skill.max_attempt} at the most" if skill.max_attempt else "",
        "secrets": ", ".join(skill.secrets),
        "timeouts": ", ".join(f"{name} {seconds:g}" for name, seconds in skill.timeouts.items()),
    }
    for name, value in facts.items():
        if value:
            yield name, printable(value)


def _print_schema(schema: Mapping[str, Any] | None) -> None:
    """The fields at its top; `--json` has all of it."""
    fields = schema.get("properties") if schema else None
    if not schema or not isinstance(fields, dict) or not fields:
        typer.echo("  anything" if not schema else "  no fields" if _is_closed(schema) else "  any fields")
        return
    required = schema.get("required", ())
    rows = [row for name, each in fields.items() for row in _field(name, each, name in required)]
    print_table(FACTS, rows, indent=2)


def _is_closed(schema: Mapping[str, Any]) -> bool:
    return schema.get("additionalProperties") is False


def _field(name: str, schema: object, is_required: bool) -> Iterator[tuple[str, str]]:
    told: Mapping[str, Any] = schema if isinstance(schema, dict) else {}
    yield printable(name), printable(", ".join(filter(None, (_kind(told), _note(told, is_required)))))
    if description := " ".join(str(told.get("description", "")).split()):
        yield "", printable(description)


def _note(schema: Mapping[str, Any], is_required: bool) -> str:
    if "default" in schema:
        value = json.dumps(schema["default"], ensure_ascii=False)
        return f"default {value if len(value) <= LONGEST else f'{value[: LONGEST - 1]}…'}"
    return "required" if is_required else ""


def _kind(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"x-input-source": "file", "type": "array"}:
            return "files"
        case {"x-input-source": "file"}:
            return "file"
        case {"enum": list(values)}:
            return " | ".join(map(str, values))
        case {"const": value}:
            return str(value)
        case {"type": "array", "items": {"type": str(each)}}:
            return f"list of {each}"
        case {"type": list(kinds)}:
            return " or ".join(map(str, kinds))
        case {"type": str(kind)}:
            return "list" if kind == "array" else kind
        case _:
            return "any"


# Lint


def finding_lines(about: str, findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        yield f"{printable(about)}: {styled('good', fg='green')}"
        return
    yield f"{printable(about)}:"
    for each in findings:
        word = styled(str(each.severity), fg=COLOURS[each.severity])
        yield f"  {word} {each.code} {printable(f'{each.where}: {each.message}')}"


def summary(count: int, severities: Iterable[str]) -> str:
    counts = Counter(severities)
    numbers = (counted(counts[what], what) for what in ("error", "warning"))
    return ", ".join((counted(count, "skill"), *numbers))
