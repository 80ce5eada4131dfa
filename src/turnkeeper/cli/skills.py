"""`turnkeeper skills`: which there are, how they come and go, and what an author of skills needs."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnkeeper.cli import reach
from turnkeeper.cli import skill_texts as texts
from turnkeeper.cli.completion import skill_ids
from turnkeeper.cli.desk import confirmed
from turnkeeper.cli.skill_new import new
from turnkeeper.cli.terminal import FAILED, FOUND, USAGE, AsJson, DataDir, busy, complain, printable

if TYPE_CHECKING:
    from turnkeeper.client import Client, Skill

app = typer.Typer(no_args_is_help=True, help="Look after skills.")

SkillId = Annotated[str, typer.Argument(metavar="SKILL", help="The skill's id.", autocompletion=skill_ids)]


@app.command("list")
def list_all(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show which skills there are; of those that are broken, what is wrong.

    For example: turnkeeper skills list

    Ends with 0, also if there are none; with 1 or 2 if the service cannot be asked.
    """
    with reach.service(data_dir) as service:
        found = list(service.client.skills())
    if as_json:
        _print_json({"skills": [each.to_dict() for each in found]})
    else:
        texts.print_list(found)


@app.command()
def show(skill_id: SkillId, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show one skill: what it takes and gives, where it runs, what the linter says.

    For example: turnkeeper skills show meeting-notes

    Ends with 0 if it can be used, 1 if it is broken, 2 if there is no such skill.
    """
    with reach.service(data_dir) as service:
        skill = _skill(service.client, skill_id)
        schemas = None if skill.is_broken else service.client.schemas(skill.id)
        findings = list(service.client.lint(skill.id))
    if as_json:
        told = {
            **skill.to_dict(),
            "schemas": schemas and schemas.to_dict(),
            "findings": [each.to_dict() for each in findings],
        }
        _print_json(told)
    else:
        texts.print_skill(skill, schemas, findings)
    if skill.is_broken:
        raise typer.Exit(FOUND)


def _skill(client: Client, skill_id: str) -> Skill:
    """From the list: asked for by its id alone, a broken one is refused."""
    for each in client.skills():
        if each.id == skill_id:
            return each
    return client.skill(skill_id)  # by the name of its folder, or the refusal that names the others


@app.command()
def install(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The skill's folder, or a zip of it.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Also in place of the same or a higher version.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Install a skill, or a higher version of one that is installed.

    Runs that have begun go on with the version that they began with.

    For example: turnkeeper skills install my-skills/meeting-notes

    Ends with 0 if it is installed, 1 if what is installed stays, 2 if it cannot be used.
    """
    if not path.exists():
        complain(f"there is no {path}; give the folder of a skill, or a zip of it")
        raise typer.Exit(USAGE)
    with reach.service(data_dir) as service, busy(f"installing {path}"):
        skill = service.client.install_skill(path, replace=replace)
    if as_json:
        _print_json(skill.to_dict())
        return
    typer.echo(printable(f"{skill.id} {skill.version} is installed; run it: turnkeeper run {skill.id}"))
    for warning in skill.warnings:
        typer.echo(printable(f"  {warning.code} {warning.message}"))


@app.command()
def remove(
    skill_id: SkillId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove a skill that was installed. Runs that have begun go on.

    For example: turnkeeper skills remove meeting-notes

    Ends with 0 if it is removed, 1 if it stays, 2 if there is no such skill.
    """
    if not yes and not sys.stdin.isatty():
        complain(f"nobody is there to ask; to remove {skill_id} all the same, say --yes")
        raise typer.Exit(USAGE)
    with reach.service(data_dir) as service:
        if not yes and not confirmed(printable(f"Remove {skill_id}?")):
            complain(f"{skill_id} stays")
            raise typer.Exit(FAILED)
        service.client.remove_skill(skill_id)
    if as_json:
        _print_json({"id": skill_id, "removed": True})
    else:
        typer.echo(printable(f"{skill_id} is removed"))


app.command()(new)


@app.command()
def lint(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="A skill's folder, or one with skills in it.")
    ],
    as_json: AsJson = False,
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as errors.")] = False,
) -> None:
    """Check skills strictly. It needs no service.

    For example: turnkeeper skills lint examples/skills

    Ends with 0 if there are no errors, 1 if there are, 2 if there is nothing to check.
    """
    from turnkeeper import engines
    from turnkeeper.skills.lint import lint_each

    found = lint_each(_skill_folders(paths), engines.names())
    counts = Counter(each.severity.value for findings in found.values() for each in findings)
    if as_json:
        listed = [{"path": str(root), "findings": [asdict(each) for each in found[root]]} for root in found]
        _print_json({"skills": listed, "errors": counts["error"], "warnings": counts["warning"]})
    else:
        for root, findings in found.items():
            typer.echo("\n".join(texts.finding_lines(str(root), findings)))
        typer.echo(f"\n{texts.summary(len(found), counts.elements())}")
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


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=2))
