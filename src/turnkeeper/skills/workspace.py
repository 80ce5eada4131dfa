"""A run's own folder: its workspace, its private home with a frozen copy of the skill, its raw logs."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from turnkeeper.failpoints import Deed, around
from turnkeeper.skills.artifacts import UPLOADS
from turnkeeper.skills.clearing import clear, weigh
from turnkeeper.skills.image import Images, write_new

SKILL_FILE = "SKILL.md"


@dataclass(frozen=True)
class RunFolder:
    root: Path

    @cached_property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @cached_property
    def home(self) -> Path:
        return self.root / "home"

    @cached_property
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
        for name in ("workspace", "home", "raw"):
            path = f"{self.root}/{name}"
            if is_new or not os.path.isdir(path):  # noqa: PTH112
                os.mkdir(path, 0o700)  # noqa: PTH102 (plain texts: this is done every turn)
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
        os.makedirs(at.parent, mode=0o700, exist_ok=True)  # noqa: PTH103
        with around(Deed.PLACE_SKILL):
            self._new_skill.rename(at)

    def write_home(self, files: Mapping[str, bytes]) -> None:
        home = os.path.realpath(self.home)
        if any(".." in name.split("/") for name in files):
            raise ValueError(f"one of {', '.join(files)} is not inside the home")
        for folder in {os.path.dirname(name) for name in files}:  # noqa: PTH120 (plain texts: this is done every turn)
            _enter(home, folder)
        for name, data in files.items():
            path = os.path.join(home, name)  # noqa: PTH118
            if not _is_there(path, data):
                # Nobody reads it before it is whole; one that a crash has cut off is written again with the next turn.
                with around(Deed.WRITE_HOME):
                    write_new(path, data, 0o600)

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


def _enter(home: str, folder: str) -> None:
    """The agent may have put a link in the way since the last turn."""
    path = os.path.join(home, folder)  # noqa: PTH118
    if folder and not os.path.realpath(path).startswith(f"{home}/"):
        raise ValueError(f"{folder} is not inside the home")
    os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103


def _is_there(path: str, data: bytes) -> bool:
    """As the last turn left it: to make it anew would cost a file each time. What is not ours alone goes."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    is_ours = found.st_mode == stat.S_IFREG | 0o600 and found.st_nlink == 1
    if is_ours and found.st_size == len(data) and Path(path).read_bytes() == data:
        return True
    os.unlink(path)  # noqa: PTH108
    return False


def is_gone(folder: Path) -> bool:
    """After this call, that is: an empty one goes, and nearly always it is empty, or not there at all."""
    try:
        os.rmdir(folder)  # noqa: PTH106 (never a link)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
