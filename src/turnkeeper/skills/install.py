"""The library: the one folder of skills that the service itself installs, replaces and removes.

A skill is whole or not there. What is on its way in or out stands in a hidden folder, and comes and goes by a rename.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
from pathlib import Path
from typing import BinaryIO

from turnkeeper.core.errors import SkillBroken, SkillNotFound, SkillNotManaged, SkillVersionNotHigher
from turnkeeper.core.skill import Skill
from turnkeeper.failpoints import Deed, around
from turnkeeper.skills.archive import extract
from turnkeeper.skills.durable import sync_folder
from turnkeeper.skills.package import ID, RUNNER_FILE, SKILL_FILE, VERSION, Shelf, load
from turnkeeper.skills.ziptable import shown

log = logging.getLogger(__name__)

UNNAMED = "(unnamed)"
"""What an archive is called before it has told its name; no skill can be called so."""
MOVING = ".moving"
NEW, OLD, GONE = "new-", "old-", "gone-"
LISTED = 5
"""Names in a message at the most."""


class Library:
    def __init__(self, root: Path, shelf: Shelf) -> None:
        self._root = root
        self._moving = root / MOVING
        self._shelf = shelf

    def install(self, archive: BinaryIO, *, replace: bool = False) -> Skill:
        """A new skill, or a higher version of one that was installed here; any version to `replace` it. Blocking."""
        for folder in (self._root, self._moving):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        staging = self._moving / f"{NEW}{secrets.token_hex(8)}"
        staging.mkdir(mode=0o700)
        try:
            extract(archive, staging / UNNAMED)
            package = _unwrapped(staging / UNNAMED)
            skill = load(package)
            skill_id = _id(skill, package)
            with self._shelf.lock:
                self._require_managed(skill_id)
                self._settle(skill_id)
                if not replace:
                    self._require_higher(skill_id, skill.version)
                self._put(package, skill_id)
                return load(self._root / skill_id)
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def remove(self, skill_id: str) -> None:
        """Runs that have begun keep their copies. Blocking."""
        gone = self._moving / f"{GONE}{secrets.token_hex(8)}"
        with self._shelf.lock:
            if not ID.fullmatch(skill_id) or not self._has(skill_id):
                self._require_managed(skill_id)
                raise SkillNotFound(f"there is no skill '{shown(skill_id)}' to remove")
            self._settle(skill_id)
            self._moving.mkdir(mode=0o700, exist_ok=True)
            with around(Deed.REMOVE_SKILL):
                (self._root / skill_id).rename(gone)
            sync_folder(self._root)
        _discard(gone)

    def manages(self, skill_id: str) -> bool:
        """Whether it was installed here, and can be removed."""
        return bool(ID.fullmatch(skill_id)) and os.path.lexists(self._root / skill_id)

    def repair(self) -> None:
        """At the start, before anybody looks: ends what a crash left half done."""
        for left in sorted(self._moving.iterdir()) if self._moving.is_dir() else ():
            if not left.name.startswith(OLD):
                _discard(left)
                continue
            try:
                self._settle(left.name.removeprefix(OLD))
            except OSError:
                log.exception("%s can be neither put back nor deleted", left)

    def _put(self, package: Path, skill_id: str) -> None:
        place, old = self._root / skill_id, self._old(skill_id)
        if os.path.lexists(place):
            with around(Deed.SET_SKILL_ASIDE):
                place.rename(old)
        try:
            with around(Deed.PUT_SKILL):
                package.rename(place)
        except OSError:
            self._settle(skill_id)
            raise
        sync_folder(self._root)
        _discard(old)

    def _settle(self, skill_id: str) -> None:
        """An old version comes back if no new one took its place, else it goes; before anything else is moved."""
        place, old = self._root / skill_id, self._old(skill_id)
        if not os.path.lexists(old):
            return
        if os.path.lexists(place):
            shutil.rmtree(old)
        else:
            with around(Deed.BRING_SKILL_BACK):
                old.rename(place)
            sync_folder(self._root)

    def _old(self, skill_id: str) -> Path:
        return self._moving / f"{OLD}{skill_id}"

    def _has(self, skill_id: str) -> bool:
        return os.path.lexists(self._root / skill_id) or os.path.lexists(self._old(skill_id))

    def _require_managed(self, skill_id: str) -> None:
        """Of two skills with one id, only one would ever be run."""
        for skill, broken in self._shelf.all():
            if skill is not None and skill_id in (skill.id, Path(skill.root).name):
                folder = Path(skill.root).parent
                if folder.resolve() != self._root.resolve():
                    raise SkillNotManaged(
                        f"skill {skill_id!r} is in the operator's folder {folder}, and is changed there",
                        folder=str(folder),
                    )
            if broken is not None and broken.skill_id == skill_id and not self._has(skill_id):
                raise SkillNotManaged(
                    f"skill {skill_id!r} is in a folder of the operator's, and broken there"
                )

    def _require_higher(self, skill_id: str, version: str) -> None:
        try:
            installed = load(self._root / skill_id).version
        except SkillBroken:
            return  # not there, or of no use to anybody
        before, after = _numbers(installed), _numbers(version)
        if before is not None and after is not None and after > before:
            return
        problem = "which is not higher"
        if before is None or after is None:
            problem = "and they cannot be compared: a version is numbers with dots, such as 1.2.0"
        raise SkillVersionNotHigher(
            f"skill {skill_id!r} is installed in version '{shown(installed)}', the archive has version "
            f"'{shown(version)}', {problem}; to install it all the same, remove the skill first or send `replace=true`",
            installed_version=shown(installed),
            version=shown(version),
        )


def _unwrapped(folder: Path) -> Path:
    """Where the skill is in an archive: at its top, or in the only folder at its top."""
    inside = sorted(folder.iterdir())
    places = [folder, *inside] if len(inside) == 1 else [folder]
    for package in places:
        if (package / SKILL_FILE).is_file():
            return package
    alike = [path for path in folder.rglob("*") if path.name.lower() == SKILL_FILE.lower()]
    found = ", ".join(shown(path.relative_to(folder).as_posix()) for path in sorted(alike)[:LISTED])
    raise SkillBroken(
        UNNAMED,
        [
            f"{SKILL_FILE}: is neither at the top of the archive nor in its only folder; found: {found or 'none'}"
        ],
    )


def _id(skill: Skill, package: Path) -> str:
    """The runner's word counts first, then the folder's name, then the name in the front matter."""
    is_named = skill.id != package.name or ID.fullmatch(skill.id)
    skill_id = skill.id if is_named else skill.name
    if ID.fullmatch(skill_id):
        return skill_id
    where = f"id in {RUNNER_FILE}, else the name of the archive's folder, else name in {SKILL_FILE}"
    raise SkillBroken(
        shown(skill_id),
        [f"the id ({where}) has 1 to 64 letters, digits, '.', '_' or '-', and begins with a letter or digit"],
    )


def _numbers(version: str) -> list[int] | None:
    if not VERSION.fullmatch(version):
        return None
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:  # 1.0 is 1.0.0
        numbers.pop()
    return numbers


def _discard(path: Path) -> None:
    """What cannot be deleted now is deleted by the next repair."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
