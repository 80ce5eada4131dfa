"""Installing engines: whole or not at all, whatever npm or the machine does meanwhile."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.npm import PACKAGES, FakeNpm, assert_gone, lay_out, native_path, program
from tests.harness import wait_for_file
from turnkeeper.core.errors import Code, EngineNotReady
from turnkeeper.engines import census, managed, programs
from turnkeeper.engines.agent import AcpAgent
from turnkeeper.engines.base import EngineConfig
from turnkeeper.engines.claude import ClaudeEngine
from turnkeeper.engines.cli import CliEngine
from turnkeeper.engines.codex import CodexEngine
from turnkeeper.engines.demo import DemoEngine
from turnkeeper.engines.gemini import GeminiEngine
from turnkeeper.engines.iflow import IflowEngine
from turnkeeper.engines.managed import Installed, NotInstallable
from turnkeeper.engines.opencode import OpencodeEngine
from turnkeeper.engines.programs import NODE, Program, node_package
from turnkeeper.engines.qwen import QwenEngine

CODEX = PACKAGES["codex"]


@pytest.fixture
def bin_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that is on the PATH; scripts name the tools of the system by their whole paths."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def npm(bin_dir: Path) -> FakeNpm:
    return FakeNpm(bin_dir)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "engines"


async def install(name: str, folder: Path, report: Callable[[str], None] = lambda _: None) -> Installed:
    return await managed.install(name, PACKAGES[name], folder, report)


async def refused(name: str, folder: Path) -> str:
    with pytest.raises(EngineNotReady) as error:
        await install(name, folder)
    assert error.value.code is Code.ENGINE_NOT_READY
    return error.value.message


def found(name: str, folder: Path) -> Program | None:
    """What a turn would start."""
    found = programs.find(name, PACKAGES[name], EngineConfig(managed=folder), "")
    return found if isinstance(found, Program) else None


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != managed.LOCK)


@pytest.mark.parametrize("name", ["codex", "claude", "opencode"])
async def test_install(name: str, npm: FakeNpm, folder: Path) -> None:
    steps: list[str] = []
    package = PACKAGES[name]
    done = await install(name, folder, steps.append)
    assert (done.name, done.version, done.path) == (name, package.version, folder / name)
    assert done.size > 0
    assert not done.was_there
    assert steps == [f"fetching {package.name} {package.version} from npm", "checking that it starts"]
    program = found(name, folder)
    assert program is not None
    assert program.command == (str(folder / name / "node_modules" / native_path(package)),)
    assert program.version == package.version
    assert names(folder) == [name]


async def test_npm_is_the_persons_own(npm: FakeNpm, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their registry and their proxy, but none of their wishes that would make another install of it."""
    monkeypatch.setenv("npm_config_registry", "https://registry.example")
    await install("codex", folder)
    (call,) = npm.calls
    assert call["stdin"] == ""
    assert call["env"] == {**os.environ, "npm_config_registry": "https://registry.example"} | {
        census.MARK: call["env"][census.MARK]
    }
    assert call["words"][0] == "install"
    assert call["words"][-3:] == ["--prefix", call["cwd"], "@openai/codex@0.166.0"]
    assert {"--ignore-scripts", "--global=false", "--include=optional"} <= set(call["words"])


async def test_what_is_there_is_not_fetched_again(npm: FakeNpm, folder: Path) -> None:
    await install("codex", folder)
    assert (await install("codex", folder)).was_there
    assert len(npm.calls) == 1
    native = folder / "codex" / "node_modules" / native_path(CODEX)
    native.write_text("#!/bin/sh\nexit 1\n")
    assert not (await install("codex", folder)).was_there, "what does not answer is replaced"
    assert len(npm.calls) == 2


async def test_older_version_is_replaced(npm: FakeNpm, folder: Path) -> None:
    lay_out(folder / "codex" / "node_modules", CODEX, version="0.1.0")
    (folder / "codex" / "of-the-old-one").touch()
    done = await install("codex", folder)
    assert done.version == CODEX.version
    assert not (folder / "codex" / "of-the-old-one").exists()
    assert names(folder) == ["codex"]


class TestFailure:
    """What was there before stays, and nothing new is."""

    @pytest.fixture(autouse=True, params=[True, False], ids=["old one", "none before"])
    def before(self, request: pytest.FixtureRequest, folder: Path) -> bool:
        if request.param:
            lay_out(folder / "codex" / "node_modules", CODEX, version="0.1.0")
        return bool(request.param)

    @pytest.fixture(autouse=True)
    def nothing_changes(self, before: bool, folder: Path) -> object:
        yield
        program = found("codex", folder)
        assert (program and program.version) == ("0.1.0" if before else None)
        assert names(folder) == (["codex"] if before else [])

    async def test_npm_fails(self, npm: FakeNpm, folder: Path) -> None:
        complaint = "".join(f"npm error line {n}\\n" for n in range(1, 20))
        npm.does("manifest()", f'sys.stderr.write("{complaint}")', "sys.exit(7)")
        first, *lines = (await refused("codex", folder)).splitlines()
        assert first == "codex could not be installed: npm ended with exit code 7"
        assert lines == [f"  npm error line {n}" for n in (1, 2, 3, 4, 5, 6, 18, 19)]

    async def test_npm_is_killed_half_way(self, npm: FakeNpm, folder: Path) -> None:
        npm.does("files()", "os.kill(os.getpid(), 9)")
        assert await refused("codex", folder) == "codex could not be installed: npm ended with SIGKILL"

    async def test_disk_is_full(self, npm: FakeNpm, folder: Path) -> None:
        npm.does('sys.stderr.write("npm error code ENOSPC\\n" + "npm error more\\n" * 20)', "sys.exit(228)")
        message = await refused("codex", folder)
        assert message.startswith(f"the disk of {folder} is full (")
        assert message.endswith("make room, then try again")

    async def test_program_is_left_out(self, npm: FakeNpm, folder: Path) -> None:
        npm.does("manifest()")
        message = await refused("codex", folder)
        assert message.startswith("npm installed @openai/codex 0.166.0 without the program for this machine")

    async def test_program_does_not_work_here(self, npm: FakeNpm, folder: Path) -> None:
        npm.files[CODEX.name] = {native_path(CODEX): "#!/bin/sh\necho 'libfoo.so is missing' >&2; exit 127\n"}
        npm.does("manifest()", "files()")
        assert await refused("codex", folder) == (
            "codex 0.166.0 was fetched and does not work here: "
            "it answered to --version with exit code 127 and no version: libfoo.so is missing"
        )

    async def test_npm_is_missing(self, bin_dir: Path, folder: Path) -> None:
        assert "npm is not on the PATH" in await refused("codex", folder)
        program(bin_dir / "npm").write_text("#!/nowhere/node\n")
        assert "the interpreter or loader it asks for is not installed" in await refused("codex", folder)

    async def test_another_is_at_work(self, npm: FakeNpm, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / managed.LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert "by another process; try again when it is done" in await refused("codex", folder)
        assert npm.calls == []

    async def test_interrupted(self, npm: FakeNpm, folder: Path, tmp_path: Path) -> None:
        """npm and what it started are gone, even what left its session."""
        pids = tmp_path / "pids"
        npm.does(
            "import subprocess",
            'child = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)',
            f'with open("{pids}.new", "w") as file: file.write(f"{{os.getpid()}} {{child.pid}}")',
            f'os.rename("{pids}.new", "{pids}")',
            "child.wait()",
        )
        task = asyncio.create_task(install("codex", folder))
        await wait_for_file(pids)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for pid in pids.read_text().split():
            assert_gone(int(pid))


async def test_folder_that_cannot_be(tmp_path: Path, npm: FakeNpm) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "engines"):
        message = await refused("codex", folder)
        assert message.startswith(f"the folder of engines {folder} cannot be used: ")


class TestLeftovers:
    """An earlier install was killed with the whole machine, or nearly."""

    async def test_half_of_a_new_one_is_removed(self, npm: FakeNpm, folder: Path) -> None:
        lay_out(folder / ".new-codex-1234" / "node_modules", CODEX)
        lay_out(folder / ".new-gemini-77" / "node_modules", PACKAGES["gemini"])
        assert found("codex", folder) is None
        await install("codex", folder)
        assert names(folder) == ["codex"]

    @pytest.mark.parametrize("is_replaced", [True, False])
    async def test_old_one_that_was_moved_away(self, npm: FakeNpm, folder: Path, is_replaced: bool) -> None:
        lay_out(folder / ".old-claude" / "node_modules", PACKAGES["claude"], version="0.1.0")
        if is_replaced:
            lay_out(folder / "claude" / "node_modules", PACKAGES["claude"])
        await install("codex", folder)
        assert names(folder) == ["claude", "codex"]
        program = found("claude", folder)
        assert program is not None
        assert program.version == (PACKAGES["claude"].version if is_replaced else "0.1.0")

    async def test_npm_that_still_works_is_ended(self, npm: FakeNpm, folder: Path) -> None:
        folder.mkdir(parents=True)
        await install("codex", folder)
        mark = str(npm.calls[0]["env"][census.MARK])
        with subprocess.Popen(["/bin/sleep", "1000"], env={census.MARK: mark}) as orphan:
            await install("claude", folder)
            assert orphan.wait() < 0


class TestNode:
    async def test_comes_first_where_it_is_too_old(self, npm: FakeNpm, bin_dir: Path, folder: Path) -> None:
        program(bin_dir / "node", "echo v20.20.2")
        ours = str(folder / "node" / "node_modules" / native_path(node_package()))
        npm.files[node_package().name] = {
            native_path(node_package()): f'#!/bin/sh\n[ "$1" = --version ] && echo v{NODE} || echo 0.24.4\n'
        }
        npm.does("manifest()", "files()")
        steps: list[str] = []
        await install("qwen", folder, steps.append)
        assert npm.fetched == [f"{node_package().name}@{NODE}", "@qwen-code/qwen-code@0.24.4"]
        assert steps[0] == (
            f"qwen needs node 22 or later, and {bin_dir / 'node'} is 20.20.2: node {NODE} comes first"
        )
        assert names(folder) == ["node", "qwen"]
        script = str(folder / "qwen" / "node_modules" / "@qwen-code" / "qwen-code" / "cli.js")
        program_found = found("qwen", folder)
        assert program_found is not None
        assert program_found.command == (ours, script)
        await install("gemini", folder)
        assert len(npm.calls) == 3, "the one on the PATH will do for gemini"

    async def test_is_not_needed_by_a_native_program(self, npm: FakeNpm, folder: Path) -> None:
        await install("claude", folder)
        assert npm.fetched == ["@anthropic-ai/claude-code@2.1.325"]


class TestAdapter:
    """Installed beside its engine, which it would bring along itself otherwise."""

    @pytest.mark.parametrize("engine", [CodexEngine, ClaudeEngine])
    async def test_is_lean(self, engine: type[CliEngine], npm: FakeNpm, bin_dir: Path, folder: Path) -> None:
        cli = engine(EngineConfig())
        packages = managed.packages_of(cli)
        assert engine.adapter is not None
        name, package = engine.adapter.program, engine.adapter.package
        assert packages == {cli.name: engine.package, name: package}
        node = program(bin_dir / "node", f'[ "$1" = --version ] && echo v24.0.0 || echo {package.version}')
        npm.files[package.name] = {f"{package.name}/{package.script}": "// node"}
        npm.does("manifest()", "files()")
        for each, what in packages.items():
            await managed.install(each, what, folder, lambda _: None)
        assert names(folder) == sorted(packages)
        whole, lean = (set(call["words"]) for call in npm.calls)
        assert {"--include=optional", "--omit=optional"} & whole == {"--include=optional"}
        assert {"--include=optional", "--omit=optional"} & lean == {"--omit=optional"}
        started = programs.find_adapter(engine.adapter, cli.name, EngineConfig(managed=folder))
        assert isinstance(started, Program)
        script = str(folder / name / "node_modules" / package.name / str(package.script))
        assert (started.command, started.version) == ((str(node), script), package.version)
        assert (await managed.install(name, package, folder, lambda _: None)).was_there

    def test_there_is_none_for_others(self) -> None:
        for engine in (GeminiEngine, OpencodeEngine, QwenEngine):
            assert list(managed.packages_of(engine(EngineConfig()))) == [engine.name]


def test_engines_without_a_package() -> None:
    with pytest.raises(NotInstallable, match="demo is built in: there is nothing to install"):
        managed.packages_of(DemoEngine(EngineConfig()))
    with pytest.raises(NotInstallable, match=r"iflow cannot be installed by Turnkeeper\. iFlow is no longer"):
        managed.packages_of(IflowEngine(EngineConfig()))
    mine = AcpAgent("mine", EngineConfig(command=("mine",)))
    with pytest.raises(
        NotInstallable, match=r"mine cannot be installed by Turnkeeper\. see where it comes from"
    ):
        managed.packages_of(mine)
