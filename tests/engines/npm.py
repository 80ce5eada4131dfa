"""Engines as npm lays them out, with little shell scripts in place of the programs, and an npm that does it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness import PATIENCE
from turnkeeper.engines import machine
from turnkeeper.engines.claude import ClaudeEngine
from turnkeeper.engines.codex import CodexEngine
from turnkeeper.engines.gemini import GeminiEngine
from turnkeeper.engines.opencode import OpencodeEngine
from turnkeeper.engines.programs import Package, node_package
from turnkeeper.engines.qwen import QwenEngine

CLIS = (CodexEngine, ClaudeEngine, GeminiEngine, OpencodeEngine, QwenEngine)
PACKAGES: dict[str, Package] = {cli.name: cli.package for cli in CLIS}
ADAPTERS: dict[str, Package] = {cli.adapter.program: cli.adapter.package for cli in CLIS if cli.adapter}
NATIVE = [name for name, package in PACKAGES.items() if package.native]
SCRIPTS = [name for name, package in PACKAGES.items() if package.script]

each_native = pytest.mark.parametrize("name", NATIVE)
each_script = pytest.mark.parametrize("name", SCRIPTS)


def program(path: Path, text: str = "echo 1.2.3", mode: int = 0o755) -> Path:
    """A shell script of these lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


def manifest(folder: Path, name: str, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"name": name, "version": version}))


def native_path(package: Package) -> str:
    return package.native[0].format_map(machine.builds())


def lay_out(modules: Path, package: Package, *, version: str | None = None, nested: bool = False) -> Path:
    """The package in a folder `node_modules`; returns what is really to be started."""
    root = modules / package.name
    manifest(root, package.name, version or package.version)
    if package.script:
        (root / package.script).parent.mkdir(parents=True, exist_ok=True)
        (root / package.script).write_text("// a script of node")
        return root / package.script
    builds = root / "node_modules" if nested else modules
    return program(builds / native_path(package), f"echo {version or package.version}")


def launcher(modules: Path, package: Package, bin_dir: Path, name: str) -> Path:
    """What npm links on the PATH."""
    behind = program(modules / package.name / "bin" / "launcher.js", "exit 9")
    bin_dir.mkdir(parents=True, exist_ok=True)
    (bin_dir / name).symlink_to(behind)
    return bin_dir / name


_NPM = """\
#!{python} -IS
import json, os, sys
words = sys.argv[1:]
prefix = words[words.index("--prefix") + 1]
name, _, version = words[-1].rpartition("@")
with open({log!r}, "a") as log:
    call = {{"words": words, "cwd": os.getcwd(), "env": dict(os.environ), "stdin": sys.stdin.read()}}
    log.write(json.dumps(call) + "\\n")

def put(path, text, mode=0o644):
    path = os.path.join(prefix, "node_modules", path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)

def manifest():
    put(name + "/package.json", json.dumps({{"name": name, "version": version}}))

def files():
    for path, text in {files!r}.get(name, {{}}).items():
        put(path, text, 0o755)

{steps}
"""


class FakeNpm:
    """An `npm` on the PATH that installs what is told here, and notes each call."""

    def __init__(self, bin_dir: Path) -> None:
        self._path = bin_dir / "npm"
        self._log = bin_dir / "npm.log"
        self.files: dict[str, dict[str, str]] = {}
        for package in (*PACKAGES.values(), *ADAPTERS.values()):
            path = f"{package.name}/{package.script}" if package.script else native_path(package)
            text = "// node" if package.script else f"#!/bin/sh\necho {package.version}\n"
            self.files[package.name] = {path: text}
        node = node_package()
        self.files[node.name] = {native_path(node): f"#!/bin/sh\necho v{node.version}\n"}
        self.does("manifest()", "files()")

    def does(self, *steps: str) -> None:
        """Lines of Python; `name`, `version`, `prefix`, `manifest()`, `files()` and `put(path, text)` are there."""
        text = _NPM.format(
            python=sys.executable, log=str(self._log), files=self.files, steps="\n".join(steps)
        )
        self._path.write_text(text)
        self._path.chmod(0o755)

    @property
    def calls(self) -> list[dict[str, Any]]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def fetched(self) -> list[str]:
        return [call["words"][-1] for call in self.calls]


def assert_gone(pid: int) -> None:
    """Or about to be: a signal takes a moment, and a zombie does nothing any more."""
    deadline = time.monotonic() + PATIENCE
    while _is_alive(pid):
        assert time.monotonic() < deadline, f"{pid} lives on"
        time.sleep(0.005)


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
