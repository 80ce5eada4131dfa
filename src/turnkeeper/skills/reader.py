"""Reads the files of a skill's folder, whatever is in them, and collects what is wrong."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnkeeper.skills.bounds import DEEPEST, levels
from turnkeeper.skills.findings import Finding, finding
from turnkeeper.skills.shortage import OF_THE_SERVICE, raise_shortage
from turnkeeper.skills.yamltext import load_yaml

SKILL_FILE = "SKILL.md"
MAX_FILE = 1024 * 1024
MAX_FRONT = 64 * 1024
"""Characters of front matter: parsing YAML takes seconds for a megabyte."""

Stamp = tuple[int, int, int] | None
"""Changes whenever the file does; None while there is none."""
NEVER: Stamp = (-1, -1, -1)
"""Of no file: what a bad moment of the disk hid is looked at again."""

_KEY = re.compile(r"[\w-]+")
_BLOCK = re.compile(r"[|>][-+0-9]{0,2}")
_DECIMAL = re.compile(r"^[ \t]*version:[ \t]+(\d+\.\d+)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SkillText:
    """`SKILL.md`, taken apart."""

    front: Mapping[Any, Any]
    body: str
    version: Any = None
    """From the front matter; a number as it was written, so that 1.10 is not 1.1."""


class Reader:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.findings: list[Finding] = []
        self.stamps: dict[Path, Stamp] = {}

    def add(self, code: str, where: str, message: str) -> None:
        new = finding(code, where, message)
        if new not in self.findings:
            self.findings.append(new)

    def exists(self, name: str) -> bool:
        """A link to nowhere counts: a skill that lost its runner must not pass for one that needs none."""
        path = self._root / name
        self.stamps[path] = stamp(path)
        return os.path.lexists(path)

    def skill_text(self) -> SkillText:
        text = (self._text(SKILL_FILE) or "").removeprefix("\ufeff")
        lines = text.splitlines()
        end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
        if not lines or lines[0].strip() != "---" or end is None:
            self.add("FRONT_MATTER_MISSING", SKILL_FILE, "has no front matter between two lines of ---")
            return SkillText({}, text)
        matter = "\n".join(lines[1:end])
        front = self._front(matter)
        return SkillText(front, "\n".join(lines[end + 1 :]), _version(front, matter))

    def json_object(self, name: str) -> dict[str, Any] | None:
        text = self._text(name)
        if text is None:
            return None
        try:
            value = json.loads(
                text.removeprefix("\ufeff"),
                parse_constant=_no_constant,
                parse_float=_finite,
                object_pairs_hook=lambda pairs: self._object(name, pairs),
            )
        except (ValueError, RecursionError) as error:
            self.add("JSON_INVALID", name, f"is not valid JSON ({error})")
            return None
        if not isinstance(value, dict):
            self.add("JSON_INVALID", name, "must hold a JSON object")
            return None
        return value if self._can_be_kept(name, value) else None

    def _front(self, matter: str) -> Mapping[Any, Any]:
        if len(matter) > MAX_FRONT:
            self.add(
                "FRONT_MATTER_TOO_LONG", SKILL_FILE, f"front matter is longer than {MAX_FRONT} characters"
            )
            return {}
        try:
            front = load_yaml(matter)
        except ValueError as error:
            self.add("FRONT_MATTER_INVALID", SKILL_FILE, f"front matter is not valid YAML ({error})")
            return _by_line(matter)
        if front is None:
            return {}
        if not isinstance(front, Mapping):
            self.add("FRONT_MATTER_INVALID", SKILL_FILE, "front matter is not a YAML mapping")
            return {}
        return front

    def _object(self, name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
            self.add("KEY_TWICE", name, f"has the key {key[:100]!r} twice in one object")
        return value

    def _can_be_kept(self, name: str, value: dict[str, Any]) -> bool:
        if levels(value, DEEPEST) > DEEPEST:
            self.add("JSON_UNUSABLE", name, f"nests deeper than {DEEPEST} levels")
            return False
        try:
            text = json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            self.add("JSON_UNUSABLE", name, "holds text that is not Unicode: half a surrogate pair")
            return False
        if b"\\u0000" in text.replace(b"\\\\", b""):
            self.add("JSON_UNUSABLE", name, "holds the character NUL")
            return False
        return True

    def _text(self, name: str) -> str | None:
        if not self._is_inside(name):
            self.add("FILE_OUTSIDE", name, "is outside the skill's folder")
            return None
        path = self._root / name
        self.stamps[path] = stamp(path)
        try:
            data = _head(path, MAX_FILE + 1)
        except OSError as error:
            raise_shortage(error, str(path), OF_THE_SERVICE)
            if error.errno == errno.EIO:
                self.stamps[path] = NEVER
            code = "FILE_MISSING" if error.errno == errno.ENOENT else "FILE_UNREADABLE"
            self.add(code, name, f"cannot be read ({error.strerror})")
            return None
        if len(data) > MAX_FILE:
            self.add("FILE_TOO_LARGE", name, f"is larger than {MAX_FILE} bytes")
            return None
        return self._decoded(name, data)

    def _decoded(self, name: str, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            self.add("TEXT_NOT_UTF8", name, f"is not UTF-8 at byte {error.start}")
            return data.decode(errors="replace")

    def _is_inside(self, name: str) -> bool:
        try:
            return (self._root / name).resolve().is_relative_to(self._root.resolve())
        except (OSError, RuntimeError, ValueError):
            return False  # a loop of links, or a name that no file can have


def stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _head(path: Path, most: int) -> bytes:
    # Without O_NONBLOCK the opening of a fifo would wait for a writer.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not an ordinary file")
    with os.fdopen(file, "rb") as opened:
        return opened.read(most)


def _by_line(matter: str) -> dict[str, str]:
    """Mostly it was a colon in a description without quotes; the lines themselves are clear enough."""
    found: dict[str, str] = {}
    block = ""
    for line in matter.split("\n"):
        key, colon, rest = line.partition(":")
        if block and line[:1] in (" ", "\t"):
            found[block] = f"{found[block]} {line.strip()}".strip()
        elif colon and rest[:1] in (" ", "\t") and rest.strip() and _KEY.fullmatch(key):
            block = key if _BLOCK.fullmatch(rest.strip()) else ""
            found[key] = "" if block else rest.strip()
    return found


def _version(front: Mapping[Any, Any], matter: str) -> Any:
    metadata = front.get("metadata")
    inner = metadata.get("version") if isinstance(metadata, Mapping) else None
    value = inner if front.get("version") is None else front["version"]
    written = _DECIMAL.findall(matter) if isinstance(value, float) else []
    return next((text for text in written if float(text) == value), value)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{number[:20]} is beyond any number")
    return value
