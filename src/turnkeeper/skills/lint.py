"""The strict reading of a skill, for its author: all that breaks it, and all that only looks wrong."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from turnkeeper.core.contract import INPUT_SOURCE
from turnkeeper.core.skill import Skill
from turnkeeper.skills import schema
from turnkeeper.skills.findings import LINT as LINT
from turnkeeper.skills.findings import Finding, Severity, as_text, finding
from turnkeeper.skills.package import KINDS, RUNNER_FILE, SKILL_FILE, VERSION, Package, read

Found = Iterator[Finding]

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
PLACEHOLDERS = ("name", "skill_file", "input", "parameter")
"""What a prompt of a skill is filled with; see `prompt.py`."""
KNOWN: Mapping[str, tuple[str, ...]] = {
    "": (
        *("id", "version", "name", "description", "engines", "unsupported_engines", "execution_modes"),
        *("max_attempt", "schemas", "artifacts", "entrypoint", "timeouts", "secrets", "$schema", "$comment"),
    ),
    "schemas": KINDS,
    "artifacts": ("role", "pattern", "mime", "required"),
    "entrypoint": ("prompts",),
}
"""The fields of `runner.json`: at its top, and inside those that have fields of their own."""

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_PLACEHOLDER = re.compile(r"\{\{([^{}\n]{1,100})\}\}")
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(\s*<?([^()\[\]\s<>]+)")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[/#]")
_TEMPLATE = re.compile(r"[{}$*]")


def lint(root: Path, engines: Collection[str]) -> list[Finding]:
    """Errors first. Those of the loader are the problems that a broken skill is shown with."""
    return _all(root, read(root), engines)


def lint_each(roots: Iterable[Path], engines: Collection[str]) -> dict[Path, list[Finding]]:
    """Several, in the order of the shelf: of those with one id only the first is ever run."""
    found: dict[Path, list[Finding]] = {}
    first: dict[str, Path] = {}
    for root in roots:
        package = read(root)
        found[root] = _all(root, package, engines)
        skill_id = package.shown_id
        if first.setdefault(skill_id, root) != root:
            message = f"{first[skill_id]} has the id {skill_id!r} as well, and comes first"
            found[root].append(finding("ID_TWICE", SKILL_FILE, message))
    return found


def _all(root: Path, package: Package, engines: Collection[str]) -> list[Finding]:
    found = [*package.findings, *_front(root, package), *_links(root, package.text.body)]
    if not VERSION.fullmatch(package.skill.version):
        where = SKILL_FILE if package.runner is None or "version" not in package.runner else RUNNER_FILE
        message = f"the version {package.skill.version[:50]!r} is not numbers with dots, such as 1.2.0"
        found.append(finding("VERSION_NOT_NUMBERS", where, message))
    if package.runner is not None:
        found += _keys(package.runner)
        found += _engines(package.skill, engines)
        found += _prompts(package.skill, engines)
        found += _modes_and_artifacts(package.skill, package.runner)
        found += _schemas(package.skill, package.runner)
    return sorted(found, key=lambda each: each.severity is Severity.WARNING)


def _front(root: Path, package: Package) -> Found:
    if any(each.code in ("FRONT_MATTER_MISSING", "FRONT_MATTER_TOO_LONG") for each in package.findings):
        return  # that says it all
    name, description = package.text.front.get("name"), package.text.front.get("description")
    if not name:
        yield finding("NAME_MISSING", SKILL_FILE, "the front matter has no name")
    elif len(as_text(name)) > LONGEST_NAME or not NAME.fullmatch(as_text(name)):
        message = f"the name {as_text(name)[:80]!r} is not 1 to 64 small letters, digits and single hyphens"
        yield finding("NAME_INVALID", SKILL_FILE, message)
    elif as_text(name) != root.name:
        yield finding("NAME_NOT_FOLDER", SKILL_FILE, f"the name {name!r} is not the folder's, {root.name!r}")
    if not description:
        yield finding("DESCRIPTION_MISSING", SKILL_FILE, "the front matter has no description")
    elif len(as_text(description)) > LONGEST_DESCRIPTION:
        message = (
            f"the description has {len(as_text(description))} characters, more than {LONGEST_DESCRIPTION}"
        )
        yield finding("DESCRIPTION_TOO_LONG", SKILL_FILE, message)


def _links(root: Path, body: str) -> Found:
    for target in dict.fromkeys(_LINK.findall(_without_code(body))):
        if _ELSEWHERE.match(target) or _TEMPLATE.search(target):
            continue
        if not _is_there(root, unquote(re.split(r"[#?]", target)[0])):
            yield finding("LINK_BROKEN", SKILL_FILE, f"links to {target[:200]!r}, which is not in the folder")


def _without_code(body: str) -> str:
    kept = []
    fence = ""
    for line in body.split("\n"):
        mark = line.lstrip()[:3]
        if mark in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        elif not fence:
            kept.append(_CODE.sub("", line))
    return "\n".join(kept)


def _is_there(root: Path, name: str) -> bool:
    try:
        path = (root / name).resolve()
        return path.is_relative_to(root.resolve()) and path.exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _keys(runner: Mapping[str, Any]) -> Found:
    yield from _unknown(runner, "")
    for key in ("schemas", "artifacts", "entrypoint"):
        inside = runner.get(key)
        for entry in inside if isinstance(inside, list) else [inside]:
            if isinstance(entry, dict):
                yield from _unknown(entry, key)


def _unknown(given: Mapping[str, Any], place: str) -> Found:
    known = KNOWN[place]
    for key in given:
        if key not in known:
            inside = f" in {place}" if place else ""
            yield finding(
                "KEY_UNKNOWN", RUNNER_FILE, f"unknown field {key[:100]!r}{inside}{_nearest(key, known)}"
            )


def _nearest(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word[:100].lower(), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _engines(skill: Skill, known: Collection[str]) -> Found:
    named = dict.fromkeys((*skill.engines, *skill.unsupported_engines, *_for_engines(skill.prompts)))
    for name in named:
        if name not in known:
            yield finding(
                "ENGINE_UNKNOWN", RUNNER_FILE, f"there is no engine {name!r}{_nearest(name, known)}"
            )
    for name in skill.engines:
        if name in skill.unsupported_engines:
            message = f"{name!r} is in engines and in unsupported_engines"
            yield finding("ENGINE_CONTRADICTION", RUNNER_FILE, message)
    if not skill.effective_engines(known):
        yield finding("ENGINE_NONE_LEFT", RUNNER_FILE, "unsupported_engines leaves no engine to run on")


def _prompts(skill: Skill, known: Collection[str]) -> Found:
    for name in _for_engines(skill.prompts):
        if name in known and name not in skill.effective_engines(known):
            message = f"has a prompt for {name!r}, which the skill does not run on"
            yield finding("PROMPT_UNUSED", RUNNER_FILE, message)
    for name, text in skill.prompts.items():
        for placeholder in dict.fromkeys(_PLACEHOLDER.findall(text)):
            if placeholder.strip() and placeholder not in PLACEHOLDERS:
                near = _nearest(placeholder.strip(), PLACEHOLDERS)
                message = f"the prompt for {name!r} has an unknown placeholder {placeholder!r}{near}"
                yield finding("PLACEHOLDER_UNKNOWN", RUNNER_FILE, message)


def _for_engines(prompts: Mapping[str, str]) -> list[str]:
    return [name for name in prompts if name != "default"]


def _modes_and_artifacts(skill: Skill, runner: Mapping[str, Any]) -> Found:
    if runner.get("execution_modes") == []:
        yield finding("MODES_EMPTY", RUNNER_FILE, "execution_modes is empty, which means both modes")
    for rule in skill.artifacts:
        parts = PurePosixPath(rule.pattern).parts
        if "**" in parts and set(parts) <= {"*", "**"}:
            message = f"the artifact pattern {rule.pattern!r} matches every file"
            yield finding("ARTIFACT_MATCHES_ALL", RUNNER_FILE, message)


def _schemas(skill: Skill, runner: Mapping[str, Any]) -> Found:
    files = runner.get("schemas")
    names = files if isinstance(files, dict) else {}
    if names.get("output") is None:
        yield finding("OUTPUT_SCHEMA_MISSING", RUNNER_FILE, "names no output schema")
    for warning in skill.warnings:
        yield finding(warning.code, names["output"], warning.message)
    for name, found in (
        (names.get("input"), skill.input_schema),
        (names.get("parameter"), skill.parameter_schema),
    ):
        if found is not None and name is not None:
            yield from _defaults(name, found)
    for key, entry in (skill.input_schema or {}).get("properties", {}).items():
        source = entry.get(INPUT_SOURCE, "inline") if isinstance(entry, dict) else "inline"
        if source not in ("inline", "file"):
            message = f"{key}: {INPUT_SOURCE} is {as_text(source)[:50]!r}, neither 'file' nor 'inline'"
            yield finding("INPUT_SOURCE_UNKNOWN", names["input"], message)


def _defaults(name: str, found: Mapping[str, Any]) -> Found:
    """Each for itself: what other properties demand is for the job to settle."""
    part = {key: found[key] for key in ("$id", "$defs", "definitions", "properties") if key in found}
    for key, value in schema.defaults(found, {}).items():
        for error in schema.errors(part, {key: value})[:1]:
            message = f"the default of {key!r} does not fit it ({error})"
            yield finding("DEFAULT_INVALID", name, message)
