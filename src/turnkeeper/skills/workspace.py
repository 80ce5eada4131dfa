"""A run's own folder: its workspace, its private home with a frozen copy of the skill, its raw logs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnkeeper.skills.artifacts import UPLOADS

SKILL_FILE = "SKILL.md"


@dataclass(frozen=True, slots=True)
class RunFolder:
    root: Path

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def uploads(self) -> Path:
        return self.workspace / UPLOADS

    def raw(self, attempt_number: int, try_number: int, stream: str) -> Path:
        return self.root / "raw" / f"{attempt_number}.{try_number}.{stream}"

    def make(self) -> None:
        """Whatever is missing of it."""
        for folder in (self.root, self.workspace, self.home, self.root / "raw"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def freeze(self, skill_root: Path, at: Path, patch: Callable[[bytes], bytes]) -> None:
        """The run's own copy of the skill, patched, where its engine looks for it.

        It is made under another name first: a crash leaves no half copy. Plain copies and no hard links: the agent
        may write to them.
        """
        staging = self.root / "skill.new"
        shutil.rmtree(staging, ignore_errors=True)
        # Links are copied as links: a skill cannot make us read outside its folder.
        shutil.copytree(skill_root, staging, symlinks=True)
        staging.chmod(0o700)  # the operator's folder may be read-only
        skill_file = staging / SKILL_FILE
        text = patch(skill_file.read_bytes())
        skill_file.unlink()  # it may be a link, or read-only
        skill_file.write_bytes(text)
        at.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staging.rename(at)

    def write_home(self, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            relative = PurePosixPath(name)
            path = self.home / relative
            # The agent may have put a link in the way since the last turn.
            is_inside = path.parent.resolve().is_relative_to(self.home.resolve())
            if relative.is_absolute() or ".." in relative.parts or not is_inside:
                raise ValueError(f"{name} is not inside the home")
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = path.with_name(path.name + ".new")
            fresh.unlink(missing_ok=True)
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            fresh.rename(path)
