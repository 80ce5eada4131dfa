"""`turnkeeper skills`: what an author of skills needs."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnkeeper.cli.terminal import FOUND, USAGE, AsJson, complain, counted, printable

if TYPE_CHECKING:
    from turnkeeper.skills.findings import Finding

app = typer.Typer(no_args_is_help=True, help="Look after skills.")


@app.command()
def lint(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="A skill's folder, or one with skills in it.")
    ],
    as_json: AsJson = False,
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
            counted(len(found), "skill"),
            *(counted(counts[what], what) for what in ("error", "warning")),
        )
        typer.echo(f"\n{', '.join(numbers)}")
    if counts["error"] or (strict and counts["warning"]):
        raise typer.Exit(FOUND)


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
            complain(f"{path}: {problem}")
            raise typer.Exit(USAGE)
        found += inside
    named = [root if root.name not in ("", "..") else root.resolve() for root in found]
    return list({root.resolve(): root for root in named}.values())


def _skill_lines(root: Path, findings: list[Finding]) -> str:
    if not findings:
        return f"{printable(str(root))}: {typer.style('good', fg='green')}"
    lines = [f"{printable(str(root))}:"]
    for each in findings:
        colour = "red" if each.severity.value == "error" else "yellow"
        lines.append(
            f"  {typer.style(each.severity.value, fg=colour)} {each.code} {printable(each.sentence)}"
        )
    return "\n".join(lines)
