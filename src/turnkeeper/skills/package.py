"""A skill from its folder, leniently: `SKILL.md` is enough. What cannot be used is listed, never a traceback."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

from turnkeeper.core import secrets
from turnkeeper.core.contract import INPUT_SOURCE, ArtifactRule
from turnkeeper.core.errors import SkillBroken, SkillNotFound, Warn
from turnkeeper.core.evidence import MARKER_KEY
from turnkeeper.core.run import Mode, RunWarning, Timeouts
from turnkeeper.core.skill import Skill
from turnkeeper.skills import schema
from turnkeeper.skills.findings import Finding, Severity, as_text
from turnkeeper.skills.reader import SKILL_FILE as SKILL_FILE
from turnkeeper.skills.reader import Reader, SkillText, Stamp, stamp
from turnkeeper.skills.shortage import raise_shortage

RUNNER_FILE = "assets/runner.json"
KINDS = ("input", "parameter", "output")
MAX_SECONDS = 365 * 24 * 3600
MOST_ATTEMPTS = 1_000_000
MOST_SECRETS = 50

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A skill that is installed gets a folder of this name."""
VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,9}")
"""Versions that can be compared."""


@dataclass(frozen=True, slots=True)
class Package:
    """All that was read. With problems among the findings the skill is not to be run."""

    skill: Skill
    text: SkillText
    runner: dict[str, Any] | None
    findings: tuple[Finding, ...]
    stamps: Mapping[Path, Stamp]

    @property
    def problems(self) -> list[str]:
        return [each.sentence for each in self.findings if each.severity is Severity.ERROR]

    @property
    def is_fresh(self) -> bool:
        return all(stamp(path) == before for path, before in self.stamps.items())

    @property
    def shown_id(self) -> str:
        """A broken skill goes by the name of its folder: what its runner says may be part of the trouble."""
        return as_text(Path(self.skill.root).name) if self.problems else self.skill.id

    @property
    def broken(self) -> SkillBroken | None:
        return SkillBroken(self.shown_id, self.problems) if self.problems else None

    def require(self) -> Skill:
        if broken := self.broken:
            raise broken
        return self.skill


class Shelf:
    """The skills in the configured folders. A folder is read again only when a file that was read has changed."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._read: dict[Path, Package] = {}
        self._index: dict[str, Path] = {}
        self._stamps: list[Stamp] = []
        self.lock = threading.RLock()
        """Held while skills are read, copied or moved: whoever holds it sees each of them whole, in one version."""

    def get(self, skill_id: str) -> Skill:
        """By its id; by its folder's name as well, if no other skill has that for an id."""
        with self.lock:
            return self._find(skill_id).require()

    def root(self, skill_id: str) -> Path:
        """The folder of a skill, also of a broken one."""
        with self.lock:
            return Path(self._find(skill_id).skill.root)

    def all(self) -> list[tuple[Skill | None, SkillBroken | None]]:
        with self.lock:
            found = [(package, package.broken) for package in self._packages().values()]
        return [(None if broken else package.skill, broken) for package, broken in found]

    def _find(self, skill_id: str) -> Package:
        # Nearly always it is where it was, and no other folder needs to be looked at.
        root = self._index.get(skill_id)
        if root is not None and self._stamps == self._now():
            package = self._load(root)
            if package.shown_id == skill_id and not package.problems:
                return package
        known = self._packages()
        if skill_id in known:
            return known[skill_id]
        for package in known.values():
            if Path(package.skill.root).name == skill_id:
                return package
        usable = ", ".join(sorted(shown for shown, package in known.items() if not package.problems))
        raise SkillNotFound(f"there is no skill {skill_id!r}; installed are: {usable or 'none'}")

    def _packages(self) -> dict[str, Package]:
        """By their ids. Of several with one id only the first counts."""
        self._stamps = self._now()
        found: dict[str, Package] = {}
        for folder in self._folders:
            for root in roots(folder):
                package = self._load(root)
                found.setdefault(package.shown_id, package)
        self._index = {shown: Path(package.skill.root) for shown, package in found.items()}
        return found

    def _load(self, root: Path) -> Package:
        known = self._read.get(root)
        if known is None or not known.is_fresh:
            known = self._read[root] = read(root)
        return known

    def _now(self) -> list[Stamp]:
        """Changes when a skill comes or goes."""
        return [stamp(folder) for folder in self._folders]


def roots(folder: Path) -> list[Path]:
    """The skills in a folder. Hidden ones are on their way in or out; what cannot be read is left out."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 (a name is all that is needed)
    except OSError as error:
        raise_shortage(error, f"the folder of skills {folder}")
        return []
    except ValueError:
        return []
    found = [folder / name for name in names if not name.startswith(".")]
    return [root for root in found if os.path.lexists(root / SKILL_FILE)]


def load(root: Path) -> Skill:
    """One skill from its folder; SkillBroken lists everything that is wrong with it."""
    return read(root).require()


def read(root: Path) -> Package:
    reader = Reader(root)
    if as_text(root.name) != root.name:
        reader.add("FOLDER_NAME_INVALID", root.name, "the folder's name is not Unicode")
    text = reader.skill_text()
    runner = reader.json_object(RUNNER_FILE) if reader.exists(RUNNER_FILE) else None
    skill = _Maker(root, reader).skill(text, runner)
    return Package(skill, text, runner, tuple(reader.findings), reader.stamps)


class _Maker:
    """Makes the skill of what was read; what is wrong is left out, and said."""

    def __init__(self, root: Path, reader: Reader) -> None:
        self._root = root
        self._reader = reader

    def skill(self, text: SkillText, runner: dict[str, Any] | None) -> Skill:
        given = runner or {}
        schemas = {kind: self._schema(given, kind) for kind in KINDS}
        return Skill(
            id=self._id(given),
            version=self._version(given, text),
            name=as_text(text.front.get("name") or "") or as_text(self._root.name),
            description=as_text(text.front.get("description") or ""),
            root=str(self._root),
            is_plain=runner is None,
            engines=self._names(given, "engines"),
            unsupported_engines=self._names(given, "unsupported_engines"),
            execution_modes=self._modes(given),
            max_attempt=self._max_attempt(given),
            input_schema=schemas["input"],
            parameter_schema=schemas["parameter"],
            output_schema=schemas["output"],
            artifacts=self._artifacts(given),
            prompts=self._prompts(given),
            timeouts=self._timeouts(given),
            secrets=self._secrets(given),
            warnings=_loose(schemas["output"]),
        )

    def _wrong(self, code: str, message: str, where: str = RUNNER_FILE) -> None:
        self._reader.add(code, where, message)

    def _id(self, runner: dict[str, Any]) -> str:
        value = runner.get("id")
        if value is None:
            return as_text(self._root.name)
        if not isinstance(value, str) or not ID.fullmatch(value):
            self._wrong(
                "ID_INVALID",
                "the id must be 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or digit",
            )
        return as_text(value)

    def _version(self, runner: dict[str, Any], text: SkillText) -> str:
        value = runner.get("version")
        if value is None:
            return as_text(text.version) if text.version not in (None, "") else "0"
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            self._wrong("FIELD_INVALID", "version must be text")
        return as_text(value) or "0"

    def _schema(self, runner: dict[str, Any], kind: str) -> dict[str, Any] | None:
        name = self._object(runner, "schemas").get(kind)
        if name is None:
            return None
        if not isinstance(name, str):
            self._wrong("FIELD_INVALID", f"schemas.{kind} must be the path of a file in the skill")
            return None
        found = self._reader.json_object(name)
        if found is None:
            return None
        problem = schema.problem(found)
        if problem:
            self._wrong("SCHEMA_INVALID", f"is not a usable JSON Schema ({problem})", name)
            return None
        if kind == "output":
            self._check_output(name, found)
        if kind == "input":
            self._check_files(name, found)
        return found

    def _check_output(self, name: str, found: dict[str, Any]) -> None:
        if found.get("type") != "object":
            self._wrong("SCHEMA_NOT_OBJECT", "an output schema must be of type object", name)
        if MARKER_KEY in found.get("properties", {}):
            message = f"{MARKER_KEY} belongs to the protocol, not to the schema"
            self._wrong("SCHEMA_DECLARES_MARKER", message, name)

    def _check_files(self, name: str, found: dict[str, Any]) -> None:
        for key, entry in found.get("properties", {}).items():
            if isinstance(entry, dict) and entry.get(INPUT_SOURCE) == "file" and not _holds_files(entry):
                message = f"{key} comes as a file, so it must be a string or a list of strings"
                self._wrong("FILE_INPUT_INVALID", message, name)

    def _names(self, runner: dict[str, Any], key: str) -> tuple[str, ...]:
        value = runner.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            self._wrong("FIELD_INVALID", f"{key} must be a list of names")
            return ()
        return tuple(value)

    def _modes(self, runner: dict[str, Any]) -> tuple[Mode, ...]:
        names = self._names(runner, "execution_modes") or tuple(Mode)
        unknown = [name for name in names if name not in tuple(Mode)]
        if unknown:
            self._wrong("MODE_UNKNOWN", f"execution_modes has unknown modes: {', '.join(unknown)}")
        return tuple(Mode(name) for name in names if name in tuple(Mode))

    def _max_attempt(self, runner: dict[str, Any]) -> int | None:
        value = runner.get("max_attempt")
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_ATTEMPTS:
            self._wrong(
                "MAX_ATTEMPT_INVALID", f"max_attempt must be a whole number from 1 to {MOST_ATTEMPTS}"
            )
            return None
        return value

    def _artifacts(self, runner: dict[str, Any]) -> tuple[ArtifactRule, ...]:
        entries = runner.get("artifacts") or []
        if not isinstance(entries, list):
            self._wrong("FIELD_INVALID", "artifacts must be a list")
            return ()
        rules = []
        for number, entry in enumerate(entries):
            pattern = entry.get("pattern") if isinstance(entry, dict) else None
            if not isinstance(pattern, str) or not _stays_inside(PurePosixPath(pattern)):
                message = f"artifacts[{number}] needs a pattern inside the workspace"
                self._wrong("ARTIFACT_INVALID", message)
                continue
            role, mime = as_text(entry.get("role") or pattern), entry.get("mime")
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
            self._wrong("FIELD_INVALID", "entrypoint.prompts must map engine names to text")
            return {}
        return prompts

    def _timeouts(self, runner: dict[str, Any]) -> dict[str, float]:
        given = self._object(runner, "timeouts")
        known = [field.name for field in fields(Timeouts)]
        wrong = [name for name, value in given.items() if name not in known or not _is_span(value)]
        if wrong:
            message = f"timeouts takes seconds for {', '.join(known)}; wrong: {', '.join(wrong)}"
            self._wrong("TIMEOUT_INVALID", message)
            return {}
        return given

    def _secrets(self, runner: dict[str, Any]) -> tuple[str, ...]:
        names = self._names(runner, "secrets")
        if len(names) > MOST_SECRETS:
            self._wrong("SECRET_INVALID", f"secrets names more than {MOST_SECRETS}")
            return ()
        for name in names:
            if why := secrets.wrong_name(name):
                self._wrong("SECRET_INVALID", f"secrets: {name[:100]!r} {why}")
        if len(set(names)) < len(names):
            self._wrong("SECRET_INVALID", "secrets names one of them twice")
        return tuple(dict.fromkeys(name for name in names if not secrets.wrong_name(name)))

    def _object(self, runner: dict[str, Any], key: str) -> dict[str, Any]:
        value = runner.get(key) or {}
        if isinstance(value, dict):
            return value
        self._wrong("FIELD_INVALID", f"{key} must be an object")
        return {}


def _is_span(value: object) -> bool:
    """Seconds that a job could ask for as well."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_SECONDS


def _stays_inside(pattern: PurePosixPath) -> bool:
    return bool(pattern.parts) and not pattern.is_absolute() and ".." not in pattern.parts


def _holds_files(entry: Mapping[str, Any]) -> bool:
    items = entry.get("items")
    match entry.get("type"):
        case "string":
            return True
        case "array":
            return isinstance(items, dict) and items.get("type") == "string"
    return False


def _loose(output: Mapping[str, Any] | None) -> tuple[RunWarning, ...]:
    if output is None or schema.errors(output, {}):
        return ()
    return (
        RunWarning(Warn.OUTPUT_SCHEMA_TOO_LOOSE, "the output schema accepts {}; require the fields you need"),
    )
