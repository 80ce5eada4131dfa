"""A new skill for an author to start from: complete, without a finding of the linter, and played by the demo engine.

The files are in `template`: those of both kinds, and those of a skill that asks a person or of one that does not.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import yaml

from turnkeeper.core.errors import Code, TurnkeeperError
from turnkeeper.skills.lint import LONGEST_DESCRIPTION, LONGEST_NAME, NAME

DESCRIPTION = (
    "Writes a short note about a topic. Use it when somebody needs the essentials of something in a minute."
)


class DraftRefused(TurnkeeperError):
    """The skill that was asked for could not be made, or would not be a good one."""

    code = Code.INVALID_REQUEST


@dataclass(frozen=True, slots=True)
class Draft:
    name: str
    description: str = DESCRIPTION
    asks: bool = True

    def require_good(self) -> None:
        if not NAME.fullmatch(self.name) or len(self.name) > LONGEST_NAME:
            raise DraftRefused(
                f"{self.name!r} cannot be the name of a skill: it has 1 to {LONGEST_NAME} small letters and digits, "
                "in words joined by single hyphens, such as meeting-notes"
            )
        if not self.description or not self.description.isprintable():
            raise DraftRefused("the description must be one line of text")
        if len(self.description) > LONGEST_DESCRIPTION:
            raise DraftRefused(f"the description is longer than {LONGEST_DESCRIPTION} characters")

    def files(self) -> dict[str, str]:
        """By their paths in the skill's folder."""
        template = resources.files("turnkeeper.skills") / "template"
        found: dict[str, str] = {}
        for part in ("both", "interactive" if self.asks else "auto"):
            found |= {path: self._filled(path, text) for path, text in _texts(template / part)}
        return dict(sorted(found.items()))

    def write(self, folder: Path) -> Path:
        """A folder of the skill's name in that one; it is there whole, or not at all."""
        place = folder / self.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder, prefix=f".{self.name}-") as fresh:
                self._write(Path(fresh, "skill"))
                _claim(place)
                Path(fresh, "skill").rename(place)
        except OSError as error:
            raise DraftRefused(f"{place} cannot be made: {error.strerror}") from error
        return place

    def _write(self, folder: Path) -> None:
        for path, text in self.files().items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")

    def _filled(self, path: str, text: str) -> str:
        title = self.name.replace("-", " ").capitalize()
        quote = _in_json if path.endswith(".json") else _in_yaml
        text = text.replace("SKILL_NAME", self.name).replace("SKILL_TITLE", title)
        return text.replace("SKILL_DESCRIPTION", quote(self.description))


def _claim(place: Path) -> None:
    """By an empty folder of ours: a rename would take the place of somebody else's without a word."""
    try:
        place.mkdir()
    except FileExistsError:
        raise DraftRefused(f"{place} is there already; choose another name, or another --in") from None


def _texts(folder: Traversable, path: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _texts(entry, f"{path}{entry.name}/")
        else:
            found.append((f"{path}{entry.name}", entry.read_text(encoding="utf-8")))
    return found


def _in_json(text: str) -> str:
    """Inside the quotes that stand in the template."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _in_yaml(text: str) -> str:
    """As it is, if YAML reads it so; `Plans: everything` for one is a mapping."""
    try:
        is_plain = yaml.safe_load(f"description: {text}") == {"description": text}
    except yaml.YAMLError:
        is_plain = False
    return text if is_plain else json.dumps(text, ensure_ascii=False)
