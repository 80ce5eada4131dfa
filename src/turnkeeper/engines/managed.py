"""Installs the version of an engine that Turnkeeper is tested with, by npm, into a folder of its own.

An install is whole or not there: npm works in a hidden folder, and only what has answered is renamed into its place.
Scripts of packages are not run, since the programs they would link are started where they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from turnkeeper.core.errors import EngineNotReady
from turnkeeper.engines import census, machine, programs, versions
from turnkeeper.engines.base import Engine
from turnkeeper.engines.cli import CliEngine
from turnkeeper.engines.lines import Line, plain
from turnkeeper.engines.process import Exit, Process
from turnkeeper.engines.programs import NODE, NODE_FOLDER, Missing, Package, Program
from turnkeeper.engines.spawn import Command, SpawnFailed

NEW, OLD, LOCK = ".new-", ".old-", ".lock"
ANSWER_SEC = 60
"""How long a fresh program may take to tell its version: it is read from the disk for the first time."""
STEP_SEC = 3.0
HEAD, TAIL = 6, 2
"""Lines of npm's complaint that are shown: it begins with the cause, and ends with where all of it is."""
MAX_WORDS = 500
FULL = ("ENOSPC", "EDQUOT")

WORDS = (
    "install",
    *("--no-audit", "--no-fund", "--no-progress", "--no-update-notifier", "--loglevel=error"),
    "--ignore-scripts",
    # Against what a person may have in ~/.npmrc: the rest of that, such as the registry, is theirs to choose.
    *("--global=false", "--engine-strict=false", "--install-strategy=hoisted"),
    *("--save-exact", "--dry-run=false"),
)
NO_NPM = (
    "npm is not on the PATH, and engines are fetched by it. It comes with Node.js: install that from "
    "https://nodejs.org or by the packages of your system (Debian, Ubuntu: apt install npm), then try again"
)

Report = Callable[[str], None]
"""Told of each step when it begins."""


class NotInstallable(EngineNotReady):
    """There is no package of this engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    name: str
    version: str
    path: Path
    size: int
    """Bytes on the disk."""
    seconds: float
    was_there: bool


def packages_of(engine: Engine) -> dict[str, Package]:
    """By the names of their folders: the engine itself, and what makes a resident agent of it."""
    if isinstance(engine, CliEngine) and engine.package is not None:
        adapter = engine.adapter
        return {engine.name: engine.package, **({adapter.program: adapter.package} if adapter else {})}
    if engine.is_demo:
        raise NotInstallable(f"{engine.name} is built in: there is nothing to install")
    how = engine.install if isinstance(engine, CliEngine) and engine.install else "see where it comes from"
    raise NotInstallable(f"{engine.name} cannot be installed by Turnkeeper. {how}")


async def install(name: str, package: Package, folder: Path, report: Report) -> Installed:
    """The pinned version, at `folder/name`; what stood there before goes when the new one is whole."""
    started = time.monotonic()
    with _on_disk(folder), _alone(folder):
        await _tidy(folder)
        await _install_node(name, package, folder, report)
        was_there = await _is_there(name, package, folder)
        if not was_there:
            await _put(name, package, folder, report)
        return Installed(
            name=name,
            version=package.version,
            path=folder / name,
            size=_size(folder / name),
            seconds=time.monotonic() - started,
            was_there=was_there,
        )


async def _install_node(name: str, package: Package, folder: Path, report: Report) -> None:
    """A native program needs none: there node is only what npm itself runs on."""
    found = programs.node(name, package.least_node, folder) if package.script else ""
    if not isinstance(found, Missing):
        return
    if not machine.has_glibc():
        raise EngineNotReady(
            f"{found.reason}; npm has no build of it for this machine's C library (musl): "
            "install it by the packages of your system, then try again"
        )
    report(f"{found.reason}: node {NODE} comes first")
    await _put(NODE_FOLDER, programs.node_package(), folder, report)


async def _is_there(name: str, package: Package, folder: Path) -> bool:
    found = programs.installed(name, package, folder / name, folder)
    if not isinstance(found, Program) or found.version != package.version:
        return False
    answer = await asyncio.to_thread(versions.ask, found.command, limit_sec=ANSWER_SEC)
    return answer.version is not None


async def _put(name: str, package: Package, folder: Path, report: Report) -> None:
    fresh = folder / f"{NEW}{name}-{os.getpid()}"
    fresh.mkdir(mode=0o700)
    try:
        manifest = {"name": f"turnkeeper-{name}", "private": True}
        (fresh / versions.MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        report(f"fetching {package.name} {package.version} from npm")
        await _fetch(name, package, fresh, _mark(folder))
        report("checking that it starts")
        await _require_answer(name, package, fresh, folder)
        await asyncio.to_thread(os.sync)  # a name that survives a power cut must not be all that does
        _replace(folder / name, fresh)
    finally:
        await asyncio.to_thread(_discard, fresh)


async def _fetch(name: str, package: Package, fresh: Path, mark: str) -> None:
    """In the person's own environment: which registry, proxy or certificate npm needs, they have told it."""
    npm = shutil.which("npm")
    if npm is None:
        raise EngineNotReady(NO_NPM)
    said = _Complaint()
    builds = "--omit=optional" if package.is_lean else "--include=optional"
    words = (npm, *WORDS, builds, "--prefix", str(fresh), f"{package.name}@{package.version}")
    with tempfile.TemporaryDirectory(prefix="turnkeeper-", ignore_cleanup_errors=True) as logs:
        out, err = Path(logs, "stdout"), Path(logs, "stderr")
        try:
            process = Process.spawn(
                Command(words, os.environ, fresh),
                mark=f"{mark}/{name}/1.1",
                stdout=out,
                stderr=err,
                on_line=said.hear,
            )
        except SpawnFailed as error:
            raise EngineNotReady(f"{name} could not be installed: {error}") from error
        ended = await _ended(process)
    if ended.code != 0:
        how = f"{name} could not be installed: npm ended with {ended}"
        raise EngineNotReady(_full(fresh.parent) if said.is_of_space else "\n  ".join((how, *said.lines)))


async def _ended(process: Process) -> Exit:
    """Also if we are interrupted: npm and all that it started are gone after this."""
    try:
        process.close_stdin()
        await asyncio.wait((process.exited,))
        return process.exited.result()
    finally:
        await process.end(step_sec=STEP_SEC)
        process.close()


async def _require_answer(name: str, package: Package, fresh: Path, folder: Path) -> None:
    found = programs.installed(name, package, fresh, folder)
    if found is None:
        cpu = machine.builds()["machine"]
        raise EngineNotReady(
            f"npm installed {package.name} {package.version} without the program for this machine ({cpu})"
        )
    if isinstance(found, Missing):
        raise EngineNotReady(f"{found.reason}. To fix it: {found.fix}")
    answer = await asyncio.to_thread(versions.ask, found.command, limit_sec=ANSWER_SEC)
    if answer.version is None:
        raise EngineNotReady(f"{name} {package.version} was fetched and does not work here: {answer.trouble}")


@dataclass(slots=True)
class _Complaint:
    """What npm says when it fails."""

    head: list[str] = field(default_factory=list)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL))
    is_of_space: bool = False

    def hear(self, stream: str, line: Line) -> None:
        text = plain(line.data).rstrip()[:MAX_WORDS]
        if stream == "stderr" and text not in ("", "npm error"):
            self.is_of_space = self.is_of_space or any(word in text for word in FULL)
            (self.head if len(self.head) < HEAD else self.tail).append(text)

    @property
    def lines(self) -> list[str]:
        return [*self.head, *self.tail]


# The folder


@contextlib.contextmanager
def _on_disk(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if errno.errorcode.get(error.errno or 0) in FULL:
            raise EngineNotReady(_full(folder)) from error
        raise EngineNotReady(f"the folder of engines {folder} cannot be used: {error.strerror}") from error


def _full(folder: Path) -> str:
    free = shutil.disk_usage(folder).free // 1_000_000
    return f"the disk of {folder} is full ({free} MB left); an engine takes up to 500 MB: make room, then try again"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EngineNotReady(
                f"engines are being installed into {folder} by another process; try again when it is done"
            ) from None
        yield


def _mark(folder: Path) -> str:
    """On every process of ours that works in this folder."""
    return f"engines-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]}"


async def _tidy(folder: Path) -> None:
    """What an earlier install left that was killed: nobody else is at work here now."""
    await census.end_all(_mark(folder), step_sec=STEP_SEC)
    for left in folder.glob(f"{OLD}*"):
        place = folder / left.name.removeprefix(OLD)
        if not os.path.lexists(place):
            left.rename(place)  # it was cut off between two renames
    for left in (*folder.glob(f"{OLD}*"), *folder.glob(f"{NEW}*")):
        await asyncio.to_thread(_discard, left)


def _replace(place: Path, fresh: Path) -> None:
    old = place.with_name(f"{OLD}{place.name}")
    if os.path.lexists(place):
        place.rename(old)
    try:
        fresh.rename(place)
    except OSError:
        if os.path.lexists(old):
            old.rename(place)
        raise
    _discard(old)


def _discard(path: Path) -> None:
    """What cannot be deleted now is in nobody's way, and tried again by the next install."""
    if path.is_symlink():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _size(folder: Path) -> int:
    """As the disk sees it: a file with two names is there once."""
    found = (Path(parent, name).lstat() for parent, _, names in os.walk(folder) for name in names)
    return sum({each.st_ino: each.st_blocks * 512 for each in found}.values())
