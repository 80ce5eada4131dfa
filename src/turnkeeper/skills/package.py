"""Reads a skill's folder, leniently: `SKILL.md` is enough. What cannot be used is listed, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from turnkeeper.core.errors import SkillBroken, SkillNotFound, Warn
from turnkeeper.core.evidence import MARKER_KEY
from turnkeeper.core.run import Mode, RunWarning
from turnkeeper.core.skill import ArtifactRule, Skill
from turnkeeper.skills import schema

SKILL_FILE = "SKILL.md"
RUNNER_FILE = "assets/runner.json"
MAX_FILE = 1024 * 1024


class Shelf:
    """The skills in the configured folders. A folder is read again only when its files changed."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._read: dict[Path, tuple[tuple[int, ...], Skill | SkillBroken]] = {}

    def get(self, skill_id: str) -> Skill:
        for root in self._roots():
            if root.name == skill_id:
                return self._load(root)
        for skill, _ in self.all():
            if skill is not None and skill.id == skill_id:
                return skill
        known = ", ".join(sorted(skill.id for skill, _ in self.all() if skill)) or "none"
        raise SkillNotFound(f"there is no skill {skill_id!r}; installed are: {known}")

    def all(self) -> Iterator[tuple[Skill | None, SkillBroken | None]]:
        for root in self._roots():
            try:
                yield self._load(root), None
            except SkillBroken as broken:
                yield None, broken

    def _roots(self) -> Iterator[Path]:
        for folder in self._folders:
            if folder.is_dir():
                yield from sorted(root for root in folder.iterdir() if (root / SKILL_FILE).is_file())

    def _load(self, root: Path) -> Skill:
        stamp = _stamp(root)
        known = self._read.get(root)
        if known is None or known[0] != stamp:
            known = self._read[root] = (stamp, _try(root))
        found = known[1]
        if isinstance(found, SkillBroken):
            raise SkillBroken(found.skill_id, found.problems)
        return found


def load(root: Path) -> Skill:
    """One skill from its folder; SkillBroken lists everything that is wrong with it."""
    reader = _Reader(root)
    front = reader.front_matter()
    runner = reader.json_object(RUNNER_FILE) if (root / RUNNER_FILE).exists() else None
    skill = reader.skill(front, runner)
    if reader.problems:
        raise SkillBroken(root.name, reader.problems)
    return skill


def _try(root: Path) -> Skill | SkillBroken:
    try:
        return load(root)
    except SkillBroken as broken:
        return broken


def _stamp(root: Path) -> tuple[int, ...]:
    """Changes whenever a file that the loader reads changes."""
    files = [root / SKILL_FILE, *sorted((root / "assets").glob("*.json"))]
    return tuple(number for file in files for number in (file.stat().st_mtime_ns, file.stat().st_size))


class _Reader:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.problems: list[str] = []

    def front_matter(self) -> Mapping[str, Any]:
        text = self._text(SKILL_FILE)
        lines = text.removeprefix("\ufeff").splitlines()
        if not lines or lines[0].strip() != "---":
            return {}
        end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
        if end is None:
            return {}
        try:
            front = load_yaml("\n".join(lines[1:end]))
        except ValueError as error:
            self.problems.append(f"{SKILL_FILE}: front matter is not valid YAML ({error})")
            return {}
        return front if isinstance(front, Mapping) else {}

    def json_object(self, name: str) -> dict[str, Any] | None:
        if not (self._root / name).resolve().is_relative_to(self._root.resolve()):
            self.problems.append(f"{name}: is outside the skill's folder")
            return None
        text = self._text(name)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{name}: is not valid JSON ({error})")
            return None
        if not isinstance(value, dict):
            self.problems.append(f"{name}: must hold a JSON object")
            return None
        return value

    def skill(self, front: Mapping[str, Any], runner: dict[str, Any] | None) -> Skill:
        name = str(front.get("name") or self._root.name)
        description = str(front.get("description") or "")
        root = str(self._root)
        if runner is None:
            return Skill(
                id=self._root.name, version="0", name=name, description=description, root=root, is_plain=True
            )
        schemas = {kind: self._schema(runner, kind) for kind in ("input", "parameter", "output")}
        return Skill(
            id=str(runner.get("id") or self._root.name),
            version=str(runner.get("version") or "0"),
            name=name,
            description=description,
            root=root,
            is_plain=False,
            engines=self._names(runner, "engines"),
            unsupported_engines=self._names(runner, "unsupported_engines"),
            execution_modes=self._modes(runner),
            max_attempt=self._max_attempt(runner),
            input_schema=schemas["input"],
            parameter_schema=schemas["parameter"],
            output_schema=schemas["output"],
            artifacts=self._artifacts(runner),
            prompts=self._prompts(runner),
            warnings=_loose(schemas["output"]),
        )

    def _schema(self, runner: dict[str, Any], kind: str) -> dict[str, Any] | None:
        schemas = runner.get("schemas")
        name = schemas.get(kind) if isinstance(schemas, dict) else None
        if name is None:
            return None
        found = self.json_object(str(name))
        if found is None:
            return None
        problem = schema.problem(found)
        if problem:
            self.problems.append(f"{name}: is not a usable JSON Schema ({problem})")
            return None
        if kind == "output":
            self._check_output(str(name), found)
        return found

    def _check_output(self, name: str, found: dict[str, Any]) -> None:
        if found.get("type") != "object":
            self.problems.append(f"{name}: an output schema must be of type object")
        if MARKER_KEY in found.get("properties", {}):
            self.problems.append(f"{name}: {MARKER_KEY} belongs to the protocol, not to the schema")

    def _names(self, runner: dict[str, Any], key: str) -> tuple[str, ...]:
        value = runner.get(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            self.problems.append(f"{RUNNER_FILE}: {key} must be a list of names")
            return ()
        return tuple(value)

    def _modes(self, runner: dict[str, Any]) -> tuple[Mode, ...]:
        names = self._names(runner, "execution_modes") or tuple(Mode)
        unknown = [name for name in names if name not in tuple(Mode)]
        if unknown:
            self.problems.append(f"{RUNNER_FILE}: execution_modes has unknown modes: {', '.join(unknown)}")
        return tuple(Mode(name) for name in names if name in tuple(Mode))

    def _max_attempt(self, runner: dict[str, Any]) -> int | None:
        value = runner.get("max_attempt")
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            self.problems.append(f"{RUNNER_FILE}: max_attempt must be a whole number of at least 1")
            return None
        return value

    def _artifacts(self, runner: dict[str, Any]) -> tuple[ArtifactRule, ...]:
        rules = []
        for entry in runner.get("artifacts") or []:
            pattern = entry.get("pattern") if isinstance(entry, dict) else None
            if not isinstance(pattern, str) or pattern.startswith("/") or ".." in pattern.split("/"):
                self.problems.append(f"{RUNNER_FILE}: an artifact needs a pattern inside the workspace")
                continue
            role, mime = str(entry.get("role") or pattern), entry.get("mime")
            rules.append(
                ArtifactRule(role=role, pattern=pattern, mime=mime, required=entry.get("required") is True)
            )
        return tuple(rules)

    def _prompts(self, runner: dict[str, Any]) -> dict[str, str]:
        entrypoint = runner.get("entrypoint")
        prompts = entrypoint.get("prompts", {}) if isinstance(entrypoint, dict) else {}
        if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
            self.problems.append(f"{RUNNER_FILE}: entrypoint.prompts must map engine names to text")
            return {}
        return prompts

    def _text(self, name: str) -> str:
        try:
            data = (self._root / name).read_bytes()[: MAX_FILE + 1]
        except OSError as error:
            self.problems.append(f"{name}: cannot be read ({error.strerror})")
            return ""
        if len(data) > MAX_FILE:
            self.problems.append(f"{name}: is larger than {MAX_FILE} bytes")
            return ""
        return data.decode("utf-8", errors="replace")


def _loose(output: Mapping[str, Any] | None) -> tuple[RunWarning, ...]:
    if output is None or schema.errors(output, {}):
        return ()
    return (
        RunWarning(Warn.OUTPUT_SCHEMA_TOO_LOOSE, "the output schema accepts {}; require the fields you need"),
    )


class _PlainLoader(yaml.SafeLoader):
    """Safe, and without aliases: an anchor that is used again and again can grow to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


def load_yaml(text: str) -> object:
    """Any failure is a ValueError."""
    try:
        return yaml.load(text, _PlainLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error).split("\n")[0]) from error
