"""A run's own folder: its workspace, its private home with a frozen copy of the skill, its raw logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnkeeper.failpoints import Deed, around
from turnkeeper.skills.artifacts import UPLOADS
from turnkeeper.skills.clearing import clear, weigh
from turnkeeper.skills.image import Images

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

    def make(self) -> bool:
        """Whatever is missing of it; True if there was nothing of it before."""
        try:
            self.root.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            is_new = False
        else:
            is_new = True
        for folder in (self.workspace, self.home, self.root / "raw"):
            folder.mkdir(mode=0o700, exist_ok=True)
        return is_new

    def clear_workspace(self) -> None:
        """Before the first word to an engine: what lies there by then is not of this run, but for what was uploaded."""
        if self.workspace.is_symlink():
            self.workspace.unlink()  # whatever it leads to is somebody else's
            self.workspace.mkdir(mode=0o700)
        for path in self.workspace.iterdir():
            if path != self.uploads or path.is_symlink():
                discard(path)

    def copy_skill(self, skill_root: Path, images: Images, patch: Callable[[bytes], bytes]) -> None:
        """Patched, and under another name first: a crash leaves no half copy."""
        discard(self._new_skill)
        images.lay_down(skill_root, self._new_skill, {SKILL_FILE: patch})

    def place_skill(self, at: Path) -> None:
        """Where the engine looks for it; one from a start that came to nothing goes."""
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
        if not is_gone(folder):
            clear(folder.parent, folder.name)


def is_gone(folder: Path) -> bool:
    """After this call, that is: an empty one goes, and nearly always it is empty, or not there at all."""
    try:
        os.rmdir(folder)  # noqa: PTH106 (never a link)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
