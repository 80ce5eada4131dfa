"""A run's own folder: its workspace, its private home with a frozen copy of the skill, its raw logs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnkeeper.failpoints import Deed, around
from turnkeeper.skills.artifacts import UPLOADS
from turnkeeper.skills.clearing import clear, weigh

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
    def _new_skill(self) -> Path:
        return self.root / "skill.new"

    @property
    def uploads(self) -> Path:
        return self.workspace / UPLOADS

    def raw(self, attempt_number: int, try_number: int, stream: str) -> Path:
        return self.root / "raw" / f"{attempt_number}.{try_number}.{stream}"

    def make(self) -> None:
        """Whatever is missing of it."""
        for folder in (self.root, self.workspace, self.home, self.root / "raw"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def clear_workspace(self) -> None:
        """Before the first word to an engine: what lies there by then is not of this run, but for what was uploaded."""
        if self.workspace.is_symlink():
            self.workspace.unlink()  # whatever it leads to is somebody else's
            self.workspace.mkdir(mode=0o700)
        for path in self.workspace.iterdir():
            if path != self.uploads or path.is_symlink():
                discard(path)

    def copy_skill(self, skill_root: Path) -> None:
        """Under another name first: a crash leaves no half copy. No hard links: the agent may write to it."""
        discard(self._new_skill)
        # Links are copied as links: a skill cannot make us read outside its folder.
        shutil.copytree(skill_root, self._new_skill, symlinks=True)
        _make_writable(self._new_skill)

    def place_skill(self, at: Path, patch: Callable[[bytes], bytes]) -> None:
        """The copy, patched, where the engine looks for it; one from a start that came to nothing goes."""
        skill_file = self._new_skill / SKILL_FILE
        text = patch(skill_file.read_bytes())
        skill_file.unlink()  # it may be a link, or read-only
        skill_file.write_bytes(text)
        discard(at)
        at.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with around(Deed.PLACE_SKILL):
            self._new_skill.rename(at)

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
            with around(Deed.WRITE_HOME):
                fresh.rename(path)

    def home_size(self, of: str, without: str) -> int:
        """Bytes that a folder of it takes on the disk. Links are not followed: what they lead to is not kept there."""
        folder, left_out = PurePosixPath(of), PurePosixPath(without)
        inside = left_out.relative_to(folder).parts if left_out.is_relative_to(folder) else ()
        return weigh(self.root, self.home.name, *folder.parts, without=inside)


def discard(folder: Path) -> None:
    """It may have been the agent's: a link or a file in its place goes, and what a link leads to stays."""
    with suppress(OSError):  # what is still there is a stranger's, and whoever needs the place will say so
        clear(folder.parent, folder.name)


def _make_writable(root: Path) -> None:
    """The operator's folders may be read-only; copies of them could be neither changed nor deleted."""
    for folder, _, _ in os.walk(root):
        Path(folder).chmod(0o700)
