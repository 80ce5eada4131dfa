"""Where an engine's program is, which version it is, and how it is started without a launcher in between.

The operator's own command comes first, then a managed install, then PATH. A launcher that npm made is looked through:
the program behind it is started itself, else a launcher that dies would leave the real process behind.

Looked for before every turn, so it costs a few stats; only a program that no package tells about is asked its version.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from turnkeeper.engines import machine, versions
from turnkeeper.engines.base import EngineConfig

NODE = "22.23.3"
"""The one that is installed for engines that need a newer node than there is."""
NODE_FOLDER = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A CLI as npm has it."""

    name: str
    version: str
    """The one that Turnkeeper is tested with, and installs."""
    native: tuple[str, ...] = ()
    """Where the real program may be, as patterns below `node_modules`; the first that fits this machine."""
    script: str | None = None
    """What `node` runs, inside the package, where there is no native program."""
    least_node: int = 0
    is_lean: bool = False
    """Installed without the builds that it could bring along: it starts a program that is there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A program that makes a resident agent out of an engine that is none itself."""

    program: str
    package: Package
    variable: str
    """By which it is told where the engine is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    command: tuple[str, ...]
    path: str
    """What was found, as a person would recognise it."""
    version: str | None = None
    is_configured: bool = False
    """The operator's own command: an install would not take its place."""


@dataclass(frozen=True, slots=True)
class Missing:
    reason: str
    fix: str
    path: str | None = None


def find(name: str, package: Package | None, config: EngineConfig, otherwise: str) -> Program | Missing:
    """`otherwise`: what to do where there is no package to install."""
    if config.command:
        return _configured(f"engines.{name}.command", package, config.command)
    return _look(name, package, config, otherwise)


def named(engine: str, command: tuple[str, ...]) -> Program | Missing:
    """Of which nothing is known: not even that it can be asked for its version, and would not wait to be spoken to."""
    program, *rest = command
    path = shutil.which(_absolute(program))
    if path is None:
        return _configured(f"engines.{engine}.command", None, command)
    return Program(command=(_absolute(program), *rest), path=path, is_configured=True)


def find_adapter(adapter: Adapter, engine: str, config: EngineConfig) -> Program | Missing:
    if config.resident_command:
        setting = f"engines.{engine}.resident_command"
        return _configured(setting, adapter.package, config.resident_command)
    found = _with_fix(_look(adapter.program, adapter.package, config, ""), config.install_command(engine))
    if isinstance(found, Program) and _package_folder(adapter.package, found.path) is None:
        # There are others of that name, which want other words.
        reason = f"{found.path} is not of the package {adapter.package.name}"
        return Missing(reason, config.install_command(engine), found.path)
    return found


def _look(name: str, package: Package | None, config: EngineConfig, otherwise: str) -> Program | Missing:
    if package is not None and config.managed is not None:
        managed = installed(name, package, config.managed / name, config.managed)
        if managed is not None:
            return _with_fix(managed, config.install_command(name))
    fix = config.install_command(name) if package else otherwise
    path = shutil.which(name)
    if path is None:
        return Missing(f"there is no program {name!r} on the PATH of the service", fix)
    # Where the engine runs, a relative entry of PATH would mean another folder.
    return _on_path(name, package, config, str(Path(path).absolute()), fix)


def _with_fix(found: Program | Missing, fix: str) -> Program | Missing:
    return replace(found, fix=fix) if isinstance(found, Missing) else found


def installed(name: str, package: Package, place: Path, managed: Path | None) -> Program | Missing | None:
    """What npm put into the folder; None if that is not whole."""
    root = place / "node_modules" / package.name
    return _behind(name, package, root, managed)


def node_package() -> Package:
    """The package for this machine. The one called `node` only has a script that installs it, by a shell."""
    name = f"node-linux-{machine.builds()['cpu']}"
    return Package(name=name, version=NODE, native=(f"{name}/bin/node",))


def node(name: str, least: int, managed: Path | None) -> str | Missing:
    """The one on PATH if it is new enough, else the managed one."""
    path = shutil.which("node")
    version = versions.ask((str(Path(path).absolute()),)).version if path else None
    if path is not None and versions.major(version) >= least:
        return str(Path(path).absolute())
    ours = installed(NODE_FOLDER, node_package(), managed / NODE_FOLDER, None) if managed else None
    if isinstance(ours, Program) and versions.major(ours.version) >= least:
        return ours.command[0]
    there = (
        f"{path} is {version or 'of a version that it does not tell'}"
        if path
        else "there is none on the PATH"
    )
    reason = f"{name} needs node {least} or later, and {there}"
    return Missing(reason, f"turnkeeper engines install {name}")


def _configured(setting: str, package: Package | None, command: tuple[str, ...]) -> Program | Missing:
    """Started as it is given: what the operator put in front of an engine stays in front of it."""
    program, *rest = command
    words = (_absolute(program), *rest)
    path = shutil.which(words[0])
    variable = f"TURNKEEPER_{setting.replace('.', '__').upper()}"
    other = f" (or {variable})" if variable.isidentifier() else ""  # a name with a - has none
    fix = f"set {setting}{other} to a program that can be started"
    if path is None:
        return Missing(f"{setting} names {words[0]!r}, which {_why_not(words[0])}", fix, words[0])
    version = _version_of(package, (path, *rest)) if package else None
    if version is None:
        answer = versions.ask(words)
        if not answer.can_start:
            return Missing(f"{setting} cannot be used: {answer.trouble}", fix, words[0])
        version = answer.version
    return Program(command=words, path=path, version=version, is_configured=True)


def _on_path(
    name: str, package: Package | None, config: EngineConfig, path: str, fix: str
) -> Program | Missing:
    root = _package_folder(package, path) if package else None
    behind = _behind(name, package, root, config.managed) if package and root else None
    if isinstance(behind, Program):
        return Program(command=behind.command, path=path, version=behind.version)
    if behind is not None:
        return Missing(behind.reason, config.install_command(name), path)
    # Not npm's, or laid out as no version that we know: it is started as a person would.
    answer = versions.ask((path,))
    if not answer.can_start:
        return Missing(answer.trouble, fix, path)
    known = versions.of_package(root, package.name) if package and root else None
    return Program(command=(path,), path=path, version=known or answer.version)


def _behind(name: str, package: Package, root: Path, managed: Path | None) -> Program | Missing | None:
    """What the launcher of an npm package would start; None if the package does not have it."""
    version = versions.of_package(root, package.name)
    if version is None:
        return None
    native = _native(package, root)
    if native is not None:
        return Program(command=(native,), path=native, version=version)
    script = str(root / package.script) if package.script else None
    if script is None or not os.path.isfile(script):  # noqa: PTH113 (a plain stat)
        return None
    found = node(name, package.least_node, managed)
    if isinstance(found, Missing):
        return Missing(found.reason, found.fix, script)
    return Program(command=(found, script), path=script, version=version)


def _native(package: Package, root: Path) -> str | None:
    """npm keeps the builds of a package inside it if it is installed globally, else beside it."""
    beside = root.parents[package.name.count("/")]
    for pattern in package.native:
        relative = pattern.format_map(machine.builds())
        for folder in (root / "node_modules", beside):
            path = folder / relative
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
    return None


def _version_of(package: Package, words: tuple[str, ...]) -> str | None:
    """Of a command, if one of its words is a file of the package."""
    roots = (_package_folder(package, word) for word in words if os.path.isabs(word))  # noqa: PTH117
    return next((versions.of_package(root, package.name) for root in roots if root), None)


def _package_folder(package: Package, path: str) -> Path | None:
    """Where the package is that the file belongs to."""
    return versions.remembered(path, package.name, lambda: _folder_above(package, os.path.realpath(path)))


def _folder_above(package: Package, path: str) -> Path | None:
    """By its own name too: a build for one machine may call itself like the whole."""
    last = package.name.rpartition("/")[2]
    folders = (folder for folder in Path(path).parents if folder.name == last)
    return next((folder for folder in folders if versions.of_package(folder, package.name)), None)


def _absolute(program: str) -> str:
    """As the operator meant it: the engine itself is started in another folder, and the agent can write there."""
    if "/" not in program:
        return program
    path = Path(program)
    with suppress(RuntimeError):  # `~nobody/codex`: said below
        path = path.expanduser()
    return str(path.absolute())


def _why_not(program: str) -> str:
    if "/" not in program:
        return "is not on the PATH of the service"
    return "is not executable" if Path(program).exists() else "does not exist"
