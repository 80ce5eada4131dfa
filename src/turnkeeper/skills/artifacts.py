"""Files that an agent left in its workspace: found by pattern, opened without ever following a link."""

from __future__ import annotations

import errno
import mimetypes
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnkeeper.core.contract import ArtifactRule
from turnkeeper.core.errors import FileNotAvailable
from turnkeeper.skills.shortage import raise_shortage

UPLOADS = "uploads"
"""Where a job's own files lie in the workspace; what a client brought is no result."""
MOST = 1000
"""Files listed at the most: an agent that unpacks an archive must not make an endless answer."""
LINK = "inode/symlink"
"""What a link is called where others have the kind of their content."""
LONGEST_TARGET = 200
LOOKED_AT = 100_000
"""Files looked at in search of them: `node_modules` must not hide the report, nor a full disk stop us."""


@dataclass(frozen=True, slots=True)
class Artifact:
    path: str
    size: int
    mime: str
    role: str | None
    target: str | None = None
    """Where a link leads, in its own words; None: it is a file. A link is shown, and nobody goes there."""

    @property
    def is_link(self) -> bool:
        return self.target is not None


def find(workspace: Path, rules: Sequence[ArtifactRule]) -> list[Artifact]:
    """By the skill's patterns; without any, every ordinary file in the workspace but the uploaded ones."""
    found: list[Artifact] = []
    wanted = {rule.pattern for rule in rules if rule.required}
    for path, size, target in _files(workspace):
        rule = next((rule for rule in rules if _matches(path, rule.pattern)), None)
        if rule is None and rules:
            continue
        seen = {pattern for pattern in wanted if target is None and _matches(path, pattern)}
        if len(found) < MOST or seen:  # a long list must not hide a file that the skill requires
            found.append(Artifact(path, size, _mime(path, rule, target), rule.role if rule else None, target))
        wanted -= seen
        if len(found) >= MOST and not wanted:
            break
    return found


def missing(rules: Sequence[ArtifactRule], found: Sequence[Artifact]) -> list[str]:
    required = (rule.pattern for rule in rules if rule.required)
    files = [each.path for each in found if not each.is_link]
    return [pattern for pattern in required if not any(_matches(path, pattern) for path in files)]


def _mime(path: str, rule: ArtifactRule | None, target: str | None) -> str:
    if target is not None:
        return LINK
    return (rule and rule.mime) or mimetypes.guess_type(path)[0] or "application/octet-stream"


def named(found: Sequence[Artifact], hide: Callable[[str], str]) -> Iterator[tuple[str, Artifact]]:
    """By the names that may be shown: an agent can write a secret into one. Each is another."""
    taken: set[str] = set()
    for each in found:
        shown = hidden = hide(each.path)
        number = 1
        while shown in taken:
            number += 1
            shown = f"{hidden}~{number}"
        taken.add(shown)
        yield shown, each


def shown_target(target: str, hide: Callable[[str], str]) -> str:
    """Hidden first, and cut after that: of half a secret nobody could tell what it is."""
    return hide(target)[:LONGEST_TARGET]


def open_shown(root: Path, path: str, rules: Sequence[ArtifactRule], hide: Callable[[str], str]) -> int:
    """The same, also by a name that was shown with stars in it."""
    try:
        return open_inside(root, path)
    except FileNotAvailable:
        if "*" not in path:
            raise
        for shown, each in named(find(root, rules), hide):
            if shown == path and each.path != path:
                return open_inside(root, each.path)
        raise


def open_inside(root: Path, path: str) -> int:
    """A read-only descriptor of an ordinary file below `root`. Each step refuses links, so a swap cannot win."""
    wanted = PurePosixPath(path)
    parts = wanted.parts
    if not parts or "\0" in path or wanted.is_absolute() or ".." in parts:
        raise FileNotAvailable(f"{path!r} is not a path inside the workspace")
    folder = -1
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = below
        # Without O_NONBLOCK the opening of a fifo would wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(parts[-1], flags, dir_fd=folder)
    except OSError as error:
        raise_shortage(error, f"the file {path!r}")
        if error.errno == errno.ELOOP and folder >= 0:
            raise FileNotAvailable(f"{path!r} is a link, which is not followed") from error
        raise FileNotAvailable(f"there is no file {path!r}") from error
    finally:
        if folder >= 0:
            os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotAvailable(f"{path!r} is not an ordinary file")
    return file


def _files(workspace: Path) -> Iterator[tuple[str, int, str | None]]:
    if workspace.is_symlink():
        return
    root = os.path.realpath(workspace)
    looked_at = 0
    waiting = [""]  # not os.walk: in Python 3.11 it calls itself for each level, and an agent may go deep
    while waiting:
        folder = waiting.pop()
        below = []
        for name, status, target in _entries(root, folder):
            looked_at += 1
            if looked_at > LOOKED_AT:
                return
            path = f"{folder}{name}"
            if stat.S_ISDIR(status.st_mode) and path != UPLOADS:
                below.append(f"{path}/")
            elif stat.S_ISREG(status.st_mode) and _is_text(path):
                yield path, status.st_size, None
            elif stat.S_ISLNK(status.st_mode) and target is not None and _is_text(path):
                yield path, 0, target
        waiting += reversed(below)


def _entries(root: str, folder: str) -> list[tuple[str, os.stat_result, str | None]]:
    """What is in a folder, looked at through one descriptor of it: a link that takes its place shows nothing."""
    wanted = f"{root}/{folder}".rstrip("/")
    opened = -1
    try:
        opened = os.open(wanted, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        # On the way here, too, a folder may have become a link.
        is_it = os.readlink(f"/proc/self/fd/{opened}") == wanted  # noqa: PTH115
        names = sorted(os.listdir(opened))[: LOOKED_AT + 1] if is_it else []  # noqa: PTH208
        found = [(name, _look(opened, name)) for name in names]
        return [(name, status, _target(opened, name, status)) for name, status in found if status is not None]
    except OSError as error:
        raise_shortage(error, f"the folder {wanted}")
        return []  # gone, not to be read, or too deep to be named
    finally:
        if opened >= 0:
            os.close(opened)


def _look(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        raise_shortage(error, f"the file {name!r}")
        return None  # gone since it was listed


def _target(folder: int, name: str, status: os.stat_result) -> str | None:
    """Of a link, as much of it as is worth showing."""
    if not stat.S_ISLNK(status.st_mode):
        return None
    try:
        told = os.readlink(name, dir_fd=folder)
    except OSError as error:
        raise_shortage(error, f"the link {name!r}")
        return None  # gone, or no link any more
    return told.encode("utf-8", "replace").decode()


def _is_text(path: str) -> bool:
    """A name may be any bytes; one that is not UTF-8 cannot be told in JSON, and is left out."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _matches(path: str, pattern: str) -> bool:
    """`*` stays inside a folder; a pattern without a slash matches at any depth only if it says `**/`."""
    wanted = PurePosixPath(pattern).parts
    return _match_parts(PurePosixPath(path).parts, wanted)


def _match_parts(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Step by step, with every place that the pattern may have come to: trying each way would take for ever."""
    reached = {0}
    for part in wanted:
        if part == "**":
            reached = set(range(min(reached), len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and PurePosixPath(parts[at]).match(part)}
        if not reached:
            return False
    return len(parts) in reached
