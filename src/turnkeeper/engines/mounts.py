"""What an agent sees of the machine in its sandbox: the system and its program to read, its own folders to write.

A list of what is there, never of what is not: whatever nobody thought of stays outside. Looks at files, changes none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

SYSTEM = ("usr", "bin", "sbin", "etc", "opt")
"""Of the root folder, and whatever there begins with `lib`."""
STORES = ("/nix/store",)
LOOKED_UP = ("/etc/resolv.conf",)
"""Often a link to a file below /run, which is not there."""
CLOSED = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/krb5.keytab"),
    *("/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private", "/etc/turnkeeper"),
)
"""Secrets of the machine, which an agent of root could read otherwise."""
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
"""Variables that name files which an engine is meant to read."""
ACCOUNTS = frozenset(
    (
        *("/", "/bin", "/sbin", "/lib", "/lib64"),
        *("/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/games", "/usr/share"),
    )
)
"""Homes of accounts that nobody lives in: parts of the system, without which no program starts. These folders alone:
what is below one may be somebody's home."""
MAX_LINKS = 40
_FIRST_LINE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What wiring knows about this machine."""

    data_dir: Path
    home: Path
    """Of the user that runs the service."""
    secret: tuple[Path, ...] = ()
    """More that no agent may read: where the settings, the key of the certificate and the logins are."""
    read: tuple[Path, ...] = ()
    """More that every agent may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is one run's own."""

    workspace: Path
    home: Path
    scratch: Path
    skill_dir: Path | None = None
    """In the home, and not to be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounts:
    """By path, the same inside and outside."""

    room: Room
    read: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    """Folders below one of those that are empty."""
    blank: frozenset[str] = frozenset()
    """Files there that are empty."""
    links: Mapping[str, str] = field(default_factory=dict)


def mounts(
    places: Places, room: Room, programs: Iterable[str], reads: Iterable[str], env: Mapping[str, str]
) -> Mounts:
    """`programs`, and files among `reads`, come with all that belongs to them. Blocking."""
    seen = _Seen(places, env.get("PATH"))
    seen.take_system()
    certificates = [env[name] for name in CERTIFICATES if os.path.isabs(env.get(name, ""))]  # noqa: PTH117
    for path in (*map(str, places.read), *certificates, *LOOKED_UP, *filter(os.path.isdir, reads)):
        seen.take(path)
    for program in (*programs, *filter(os.path.isfile, reads)):
        seen.take_program(program)
    if room.skill_dir is not None and not _is_straight(room.home, room.skill_dir):
        # Where an agent has put a link, the folder that it leads to would be bound: any folder of the machine.
        room = replace(room, skill_dir=None)
    return seen.mounts(seen.settled(room))


class _Seen:
    """What has been found so far."""

    def __init__(self, places: Places, path: str | None) -> None:
        self._places = places
        self._path = path
        self._read: set[str] = set()
        self._links: dict[str, str] = {}
        self._taken: set[str] = set()

    def take_system(self) -> None:
        for name in sorted(os.listdir("/")):  # noqa: PTH208 (names)
            if name in SYSTEM or name.startswith("lib"):
                self.take(f"/{name}")
        for path in STORES:
            self.take(path)

    def take(self, path: str) -> None:
        """With the links on the way to it."""
        *_, real = self._follow(path)
        if os.path.lexists(real):
            self._read.add(real)

    def take_program(self, word: str) -> None:
        is_file = os.path.isabs(word) and os.path.isfile(word)  # noqa: PTH113, PTH117
        path = word if is_file else shutil.which(word, path=self._path)
        if path is None or path in self._taken:
            return
        self._taken.add(path)
        *ways, real = self._follow(os.path.abspath(path))  # noqa: PTH100 (no link is followed)
        for whole in (each for way in ways for each in _whole(way, self._places)):
            self.take(whole)
        self._read.update(_whole(real, self._places) or [real])
        for interpreter in _interpreter(real):
            self.take_program(interpreter)

    def settled(self, room: Room) -> Room:
        """At its real paths, and the links on the way to them are inside too: nothing can be laid on a link."""
        workspace, home = (Path(self._follow(str(path))[-1]) for path in (room.workspace, room.home))
        skill_dir = room.skill_dir and home / room.skill_dir.relative_to(room.home)
        scratch = home / room.scratch.relative_to(room.home)
        return Room(workspace=workspace, home=home, scratch=scratch, skill_dir=skill_dir)

    def _follow(self, path: str) -> list[str]:
        """Each path that it goes by; the last has no link in it."""
        ways = [os.path.normpath(path)]
        for _ in range(MAX_LINKS):
            link = next((each for each in _downwards(ways[-1]) if os.path.islink(each)), None)  # noqa: PTH114
            if link is None:
                break
            self._links[link] = target = os.readlink(link)  # noqa: PTH115
            there = os.path.join(os.path.dirname(link), target)  # noqa: PTH118, PTH120
            ways.append(os.path.normpath(there + ways[-1][len(link) :]))
        return ways

    def mounts(self, room: Room) -> Mounts:
        shut = {path for path in self._shut() if _below(path, self._read) and os.path.lexists(path)}
        closed = {path for path in shut if not os.path.isdir(path)}  # noqa: PTH112
        hidden = shut - closed
        read = {path for path in self._read if not _is_open(path, self._read, hidden)}
        links = {path: target for path, target in self._links.items() if not _is_open(path, read, hidden)}
        return Mounts(
            room=room,
            read=frozenset(read - shut),
            hidden=frozenset(hidden),
            blank=frozenset(closed),
            links=links,
        )

    def _shut(self) -> Iterator[str]:
        """Where they really are. A link to one shows that it is there, and no more."""
        named = {str(path) for path in self._places.read}
        for path in (self._places.data_dir, *self._places.secret, self._places.home):
            # Whoever names the very folder means it; the data directory is never meant.
            is_meant = str(path) in named or os.path.realpath(path) in ACCOUNTS
            if not is_meant or path == self._places.data_dir:
                yield os.path.realpath(path)
        yield from map(os.path.realpath, CLOSED)


def _is_straight(home: Path, skill_dir: Path) -> bool:
    steps = skill_dir.relative_to(home).parts
    folders = [home.joinpath(*steps[:count]) for count in range(1, len(steps) + 1)]
    return all(folder.is_dir() and not folder.is_symlink() for folder in folders)


def _whole(path: str, places: Places) -> list[str]:
    """The folder that a program is a part of, as far as that can be told by its path."""
    parts = Path(path).parts
    if "node_modules" in parts:
        return [str(Path(*parts[: parts.index("node_modules") + 1]))]
    prefix = Path(path).parent.parent
    has_lib = any((prefix / name).is_dir() for name in ("lib", "lib64"))
    if Path(path).parent.name == "bin" and has_lib and not _is_a_house(prefix, places):
        return [str(prefix)]
    return []


def _is_a_house(prefix: Path, places: Places) -> bool:
    """Where more lives than one program: a home, what it keeps its things in, or anything above the data."""
    above = (places.home, *places.home.parents, places.data_dir, *places.data_dir.parents)
    return prefix.name == ".local" or prefix in (*above, *places.secret)


def _interpreter(path: str) -> list[str]:
    """What a script asks to be run by; none of a program."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            first = file.read(_FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return []
    if not first.startswith(b"#!"):
        return []
    words = os.fsdecode(first[2:]).split()
    if words and os.path.basename(words[0]) == "env":  # noqa: PTH119
        named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return [words[0], *named[:1]]
    return words[:1]


def _downwards(path: str) -> Iterator[str]:
    whole = Path(path)
    yield from (str(each) for each in (*reversed(whole.parents), whole))


def _above(path: str) -> Iterator[str]:
    """The nearest first."""
    yield from (str(each) for each in Path(path).parents)


def _below(path: str, folders: set[str]) -> bool:
    return path in folders or any(each in folders for each in _above(path))


def _is_open(path: str, read: set[str], hidden: set[str]) -> bool:
    """It is there already, by the nearest folder above it that is told of."""
    nearest = next((each for each in _above(path) if each in read or each in hidden), None)
    return nearest is not None and nearest not in hidden
