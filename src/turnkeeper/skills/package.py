"""Reads a skill's folder, leniently: `SKILL.md` is enough. What cannot be used is listed, never a traceback."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

from turnkeeper.core.contract import ArtifactRule
from turnkeeper.core.errors import SkillBroken, SkillNotFound, Warn
from turnkeeper.core.evidence import MARKER_KEY
from turnkeeper.core.run import Mode, RunWarning, Timeouts
from turnkeeper.core.skill import Skill
from turnkeeper.skills import schema
from turnkeeper.skills.yamltext import load_yaml

SKILL_FILE = "SKILL.md"
RUNNER_FILE = "assets/runner.json"
MAX_FILE = 1024 * 1024
MAX_FRONT = 64 * 1024
"""Characters of front matter: parsing YAML takes seconds for a megabyte."""
MAX_SECONDS = 365 * 24 * 3600

Stamp = tuple[int, int, int] | None
"""Changes whenever the file does; None while there is none."""


@dataclass(frozen=True, slots=True)
class _Reading:
    found: Skill | SkillBroken
    stamps: Mapping[Path, Stamp]

    @property
    def is_fresh(self) -> bool:
        return all(_stamp(path) == stamp for path, stamp in self.stamps.items())


class Shelf:
    """The skills in the configured folders. A folder is read again only when a file that was read has changed."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._read: dict[Path, _Reading] = {}

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
        known = self._read.get(root)
        if known is None or not known.is_fresh:
            known = self._read[root] = _read(root)
        if isinstance(known.found, SkillBroken):
            raise SkillBroken(known.found.skill_id, known.found.problems)
        return known.found


def load(root: Path) -> Skill:
    """One skill from its folder; SkillBroken lists everything that is wrong with it."""
    return _Reader(root).load()


def _read(root: Path) -> _Reading:
    reader = _Reader(root)
    try:
        return _Reading(reader.load(), reader.stamps)
    except SkillBroken as broken:
        return _Reading(broken, reader.stamps)


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


class _Reader:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.problems: list[str] = []
        self.stamps: dict[Path, Stamp] = {}

    def load(self) -> Skill:
        front = self.front_matter()
        runner_file = self._root / RUNNER_FILE
        self.stamps[runner_file] = None
        # A link to nowhere counts: a skill that lost its runner must not pass for one that needs none.
        runner = self.json_object(RUNNER_FILE) if os.path.lexists(runner_file) else None
        skill = self.skill(front, runner)
        if self.problems:
            raise SkillBroken(self._root.name, self.problems)
        return skill

    def front_matter(self) -> Mapping[str, Any]:
        text = self._text(SKILL_FILE) or ""
        lines = text.removeprefix("\ufeff").splitlines()
        if not lines or lines[0].strip() != "---":
            return {}
        end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
        if end is None:
            return {}
        matter = "\n".join(lines[1:end])
        if len(matter) > MAX_FRONT:
            self.problems.append(f"{SKILL_FILE}: front matter is longer than {MAX_FRONT} characters")
            return {}
        try:
            front = load_yaml(matter)
        except ValueError:
            # Mostly a colon in a description without quotes; the lines themselves are clear enough.
            return dict(_FRONT_LINE.findall(matter))
        return front if isinstance(front, Mapping) else {}

    def json_object(self, name: str) -> dict[str, Any] | None:
        if not self._is_inside(name):
            self.problems.append(f"{name}: is outside the skill's folder")
            return None
        text = self._text(name)
        if text is None:
            return None
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
            timeouts=self._timeouts(runner),
            warnings=_loose(schemas["output"]),
        )

    def _schema(self, runner: dict[str, Any], kind: str) -> dict[str, Any] | None:
        name = self._object(runner, "schemas").get(kind)
        found = None if name is None else self.json_object(str(name))
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
        entries = runner.get("artifacts") or []
        if not isinstance(entries, list):
            self.problems.append(f"{RUNNER_FILE}: artifacts must be a list")
            return ()
        rules = []
        for entry in entries:
            pattern = entry.get("pattern") if isinstance(entry, dict) else None
            if not isinstance(pattern, str) or not _stays_inside(PurePosixPath(pattern)):
                self.problems.append(f"{RUNNER_FILE}: an artifact needs a pattern inside the workspace")
                continue
            role, mime = str(entry.get("role") or pattern), entry.get("mime")
            rules.append(
                ArtifactRule(
                    role=role,
                    pattern=pattern,
                    mime=mime if isinstance(mime, str) else None,
                    required=entry.get("required") is True,
                )
            )
        return tuple(rules)

    def _prompts(self, runner: dict[str, Any]) -> dict[str, str]:
        prompts = self._object(runner, "entrypoint").get("prompts", {})
        if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
            self.problems.append(f"{RUNNER_FILE}: entrypoint.prompts must map engine names to text")
            return {}
        return prompts

    def _timeouts(self, runner: dict[str, Any]) -> dict[str, float]:
        given = self._object(runner, "timeouts")
        known = [field.name for field in fields(Timeouts)]
        wrong = [name for name, value in given.items() if name not in known or not _is_span(value)]
        if wrong:
            self.problems.append(
                f"{RUNNER_FILE}: timeouts takes seconds for {', '.join(known)}; wrong: {', '.join(wrong)}"
            )
            return {}
        return given

    def _object(self, runner: dict[str, Any], key: str) -> dict[str, Any]:
        value = runner.get(key) or {}
        if isinstance(value, dict):
            return value
        problem = f"{RUNNER_FILE}: {key} must be an object"
        if problem not in self.problems:
            self.problems.append(problem)
        return {}

    def _is_inside(self, name: str) -> bool:
        try:
            return (self._root / name).resolve().is_relative_to(self._root.resolve())
        except (OSError, RuntimeError, ValueError):
            return False  # a loop of links, or a name that no file can have

    def _text(self, name: str) -> str | None:
        path = self._root / name
        self.stamps[path] = _stamp(path)
        try:
            data = _head(path, MAX_FILE + 1)
        except OSError as error:
            self.problems.append(f"{name}: cannot be read ({error.strerror})")
            return None
        if len(data) > MAX_FILE:
            self.problems.append(f"{name}: is larger than {MAX_FILE} bytes")
            return None
        return data.decode("utf-8", errors="replace")


_FRONT_LINE = re.compile(r"^([\w-]+):[ \t]+(.*\S)", re.MULTILINE)


def _head(path: Path, most: int) -> bytes:
    # Without O_NONBLOCK the opening of a fifo would wait for a writer.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not an ordinary file")
        return file.read(most)


def _is_span(value: object) -> bool:
    """Seconds that a job could ask for as well."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_SECONDS


def _stays_inside(pattern: PurePosixPath) -> bool:
    return bool(pattern.parts) and not pattern.is_absolute() and ".." not in pattern.parts


def _loose(output: Mapping[str, Any] | None) -> tuple[RunWarning, ...]:
    if output is None or schema.errors(output, {}):
        return ()
    return (
        RunWarning(Warn.OUTPUT_SCHEMA_TOO_LOOSE, "the output schema accepts {}; require the fields you need"),
    )
