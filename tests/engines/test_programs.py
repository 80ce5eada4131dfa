"""Where a program is found, how it is started without its launcher, and which version it is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.engines.npm import (
    CLIS,
    PACKAGES,
    assert_gone,
    each_native,
    each_script,
    launcher,
    lay_out,
    manifest,
    native_path,
    program,
)
from tests.harness import PATIENCE
from turnkeeper.engines import machine, programs, versions
from turnkeeper.engines.base import EngineConfig
from turnkeeper.engines.programs import Missing, Program, node_package

ADAPTERS = {cli.name: cli.adapter for cli in CLIS if cli.adapter}
OTHERWISE = "ask its maker"
SECRET = "a-secret-of-the-operator"


@pytest.fixture
def bin_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that is on the PATH; scripts name the tools of the system by their whole paths."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def found(name: str, **config: object) -> Program:
    program = looked_for(name, **config)
    assert isinstance(program, Program), program
    return program


def missing(name: str, **config: object) -> Missing:
    program = looked_for(name, **config)
    assert isinstance(program, Missing), program
    return program


def looked_for(name: str, **config: object) -> Program | Missing:
    return programs.find(name, PACKAGES.get(name), EngineConfig(**config), OTHERWISE)  # type: ignore[arg-type]


class TestOnPath:
    @pytest.mark.failure("S02")
    @each_native
    @pytest.mark.parametrize("nested", [True, False], ids=["global", "local"])
    def test_launcher_of_npm_is_looked_through(
        self, name: str, nested: bool, tmp_path: Path, bin_dir: Path
    ) -> None:
        package, modules = PACKAGES[name], tmp_path / "lib" / "node_modules"
        native = lay_out(modules, package, nested=nested)
        link = launcher(modules, package, bin_dir, name)
        assert found(name) == Program(command=(str(native),), path=str(link), version=package.version)

    @each_script
    def test_script_is_run_by_node_itself(self, name: str, tmp_path: Path, bin_dir: Path) -> None:
        package, modules = PACKAGES[name], tmp_path / "lib" / "node_modules"
        script = lay_out(modules, package, version="0.0.9")
        launcher(modules, package, bin_dir, name)
        node = program(bin_dir / "node", f"echo v{package.least_node}.0.0")
        assert found(name).command == (str(node), str(script))
        assert found(name).version == "0.0.9"

    @pytest.mark.failure("S01")
    def test_nothing_there(self, bin_dir: Path) -> None:
        reason = "there is no program 'codex' on the PATH of the service"
        assert missing("codex") == Missing(reason, "turnkeeper engines install codex")
        assert missing("iflow").fix == OTHERWISE

    def test_relative_entry_of_path(
        self, tmp_path: Path, bin_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program(bin_dir / "iflow")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", "bin")
        assert found("iflow").command == (str(bin_dir / "iflow"),)

    def test_other_install_is_started_as_it_is(self, tmp_path: Path, bin_dir: Path) -> None:
        """Brew, or the maker's own installer: there may be a package.json above it, of something else."""
        manifest(tmp_path, "a-project-of-mine", "7.0.0")
        (bin_dir / "codex").symlink_to(program(tmp_path / "opt" / "codex", "echo codex-cli 0.150.2-beta.1"))
        path = str(bin_dir / "codex")
        assert found("codex") == Program(command=(path,), path=path, version="0.150.2-beta.1")

    def test_layout_of_another_version(self, tmp_path: Path, bin_dir: Path) -> None:
        """What is not where we look is left to the launcher."""
        manifest(tmp_path / "node_modules" / "@openai" / "codex", "@openai/codex", "9.0.0")
        link = launcher(tmp_path / "node_modules", PACKAGES["codex"], bin_dir, "codex")
        assert found("codex") == Program(command=(str(link),), path=str(link), version="9.0.0")

    @pytest.mark.failure("S01", "S02")
    def test_stub_that_only_a_shell_would_run(self, tmp_path: Path, bin_dir: Path) -> None:
        """So packages look whose scripts were not run: the program may be there all the same, and else it is said."""
        package, modules = PACKAGES["claude"], tmp_path / "node_modules"
        manifest(modules / package.name, package.name, package.version)
        stub = launcher(modules, package, bin_dir, "claude")
        stub.write_text("echo 'Error: native binary not installed' >&2; exit 1\n")
        refused = missing("claude")
        assert refused.path == str(stub)
        assert refused.fix == "turnkeeper engines install claude"
        assert "is not a program for this machine" in refused.reason
        native = lay_out(modules, package)
        assert found("claude").command == (str(native),)

    @pytest.mark.failure("S01")
    def test_program_for_another_machine(self, bin_dir: Path) -> None:
        elf = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xf3\x00\x01" + bytes(200)
        (bin_dir / "codex").write_bytes(elf)
        (bin_dir / "codex").chmod(0o755)
        assert "is not a program for this machine: another architecture" in missing("codex").reason

    @pytest.mark.failure("S01")
    def test_interpreter_that_comes_later(self, tmp_path: Path, bin_dir: Path) -> None:
        path = program(bin_dir / "codex")
        path.write_text(f"#!{tmp_path}/late\n")
        assert "the interpreter or loader it asks for is not installed" in missing("codex").reason
        program(tmp_path / "late")
        assert found("codex").version == "1.2.3"

    def test_file_that_is_not_executable_is_not_the_program(self, tmp_path: Path, bin_dir: Path) -> None:
        package, modules = PACKAGES["opencode"], tmp_path / "node_modules"
        lay_out(modules, package).chmod(0o644)
        link = launcher(modules, package, bin_dir, "opencode")
        assert found("opencode").command == (str(link),)


class TestNode:
    @pytest.fixture
    def modules(self, tmp_path: Path, bin_dir: Path) -> Path:
        """qwen on the PATH, which needs node 22."""
        modules = tmp_path / "node_modules"
        lay_out(modules, PACKAGES["qwen"])
        launcher(modules, PACKAGES["qwen"], bin_dir, "qwen")
        return modules

    @pytest.mark.failure("S01")
    @pytest.mark.usefixtures("modules")
    @pytest.mark.parametrize(
        ("says", "there"),
        [
            ("echo v20.20.2", "{node} is 20.20.2"),
            ("exit 1", "{node} is of a version that it does not tell"),
            (None, "there is none on the PATH"),
        ],
    )
    def test_none_that_is_new_enough(self, bin_dir: Path, says: str | None, there: str) -> None:
        if says is not None:
            program(bin_dir / "node", says)
        reason = f"qwen needs node 22 or later, and {there.format(node=bin_dir / 'node')}"
        assert missing("qwen") == Missing(reason, "turnkeeper engines install qwen", str(bin_dir / "qwen"))

    def test_managed_one_where_the_other_is_too_old(
        self, modules: Path, tmp_path: Path, bin_dir: Path
    ) -> None:
        managed, script = tmp_path / "engines", str(modules / "@qwen-code/qwen-code/cli.js")
        ours = lay_out(managed / "node" / "node_modules", node_package())
        old = program(bin_dir / "node", "echo v20.20.2")
        assert found("qwen", managed=managed).command == (str(ours), script)
        old.unlink()
        assert found("qwen", managed=managed).command == (str(ours), script)
        new = program(bin_dir / "node", "echo v24.1.0")
        assert found("qwen", managed=managed).command == (str(new), script)


class TestManaged:
    @each_native
    def test_comes_before_path(self, name: str, tmp_path: Path, bin_dir: Path) -> None:
        package, managed = PACKAGES[name], tmp_path / "engines"
        program(bin_dir / name, "echo 0.0.1")
        native = str(lay_out(managed / name / "node_modules", package))
        assert found(name, managed=managed) == Program(
            command=(native,), path=native, version=package.version
        )

    def test_one_that_is_not_whole_is_none(self, tmp_path: Path, bin_dir: Path) -> None:
        package, managed = PACKAGES["codex"], tmp_path / "engines"
        (managed / "codex").mkdir(parents=True)
        assert missing("codex", managed=managed).path is None
        manifest(managed / "codex" / "node_modules" / package.name, package.name, package.version)
        assert missing("codex", managed=managed).path is None
        path = program(bin_dir / "codex", "echo 0.0.1")
        assert found("codex", managed=managed).path == str(path)


class TestConfigured:
    def test_is_started_as_given(self, tmp_path: Path, bin_dir: Path) -> None:
        """Even a launcher of npm: whoever names it wants it. Its package still tells the version."""
        package, modules = PACKAGES["codex"], tmp_path / "node_modules"
        lay_out(modules, package, version="0.0.7")
        link = launcher(modules, package, bin_dir, "codex")
        lay_out(tmp_path / "engines" / "codex" / "node_modules", package)
        for command in ((str(link), "--flag"), ("codex", "--flag")):
            assert found("codex", command=command, managed=tmp_path / "engines") == Program(
                command=command, path=str(link), version="0.0.7", is_configured=True
            )

    def test_script_behind_an_interpreter(self, tmp_path: Path, bin_dir: Path) -> None:
        script = lay_out(tmp_path / "node_modules", PACKAGES["gemini"], version="0.0.8")
        program(bin_dir / "node", "exit 1")
        assert found("gemini", command=("node", "--flag", str(script))).version == "0.0.8"

    def test_version_is_asked_with_all_of_its_words(self, tmp_path: Path) -> None:
        path = program(tmp_path / "wrapper", 'echo "cli 2.0.$#"')
        assert found("codex", command=(str(path), "one", "two")).version == "2.0.3"

    def test_build_for_one_machine_is_not_the_package(self, tmp_path: Path) -> None:
        """It has the same name in its package.json, and a version that is not quite one."""
        build = tmp_path / "node_modules" / "@openai" / "codex-linux-x64"
        manifest(build, "@openai/codex", "0.166.0-linux-x64")
        path = program(build / "bin" / "codex", "echo codex-cli 0.166.0")
        assert found("codex", command=(str(path),)).version == "0.166.0"

    def test_path_is_the_operators(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the engine runs, another file may have that name."""
        path = str(program(tmp_path / "cli"))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        for given in ("./cli", "~/cli", "../" + tmp_path.name + "/cli"):
            assert Path(found("codex", command=(given,)).command[0]).samefile(path)
            assert Path(found("codex", command=(given,)).command[0]).is_absolute()

    @pytest.mark.failure("S01")
    def test_what_cannot_be_started(self, tmp_path: Path, bin_dir: Path) -> None:
        fix = "set engines.codex.command (or TURNKEEPER_ENGINES__CODEX__COMMAND) to a program that can be started"
        for command, why in {
            str(tmp_path / "nowhere"): "does not exist",
            "~nobody-of-this-name/cli": "does not exist",
            str(program(tmp_path / "text", mode=0o644)): "is not executable",
            str(tmp_path): "is not executable",
            "nowhere": "is not on the PATH of the service",
        }.items():
            refused = missing("codex", command=(command,))
            named = str(Path(command).absolute()) if "/" in command else command
            assert (refused.path, refused.fix) == (named, fix)
            assert refused.reason == f"engines.codex.command names {named!r}, which {why}"
        shim = tmp_path / "codex.cmd"
        shim.write_text("@echo off\r\n")
        shim.chmod(0o755)
        refused = missing("codex", command=(str(shim),))
        assert (refused.path, refused.fix) == (str(shim), fix)
        assert refused.reason.startswith(
            f"engines.codex.command cannot be used: '{shim}' is not a program for"
        )


@pytest.mark.parametrize("name", ADAPTERS)
class TestAdapter:
    """What makes a resident of an engine: found like an engine, and installed with it."""

    def looked_for(self, name: str, **config: object) -> Program | Missing:
        return programs.find_adapter(ADAPTERS[name], name, EngineConfig(**config))  # type: ignore[arg-type]

    def test_launcher_of_npm_is_looked_through(self, name: str, tmp_path: Path, bin_dir: Path) -> None:
        adapter, modules = ADAPTERS[name], tmp_path / "lib" / "node_modules"
        script = lay_out(modules, adapter.package, version="0.0.9")
        link = launcher(modules, adapter.package, bin_dir, adapter.program)
        node = program(bin_dir / "node", f"echo v{adapter.package.least_node}.0.0")
        assert self.looked_for(name) == Program(
            command=(str(node), str(script)), path=str(link), version="0.0.9"
        )

    def test_managed_one_comes_before_path(self, name: str, tmp_path: Path, bin_dir: Path) -> None:
        adapter, managed = ADAPTERS[name], tmp_path / "engines"
        program(bin_dir / adapter.program, "echo 0.0.1")
        node = program(bin_dir / "node", "echo v24.0.0")
        script = str(lay_out(managed / adapter.program / "node_modules", adapter.package))
        assert self.looked_for(name, managed=managed) == Program(
            command=(str(node), script), path=script, version=adapter.package.version
        )

    def test_configured_one_comes_first(self, name: str, tmp_path: Path, bin_dir: Path) -> None:
        """The command of the engine itself is another's."""
        adapter, managed = ADAPTERS[name], tmp_path / "engines"
        lay_out(managed / adapter.program / "node_modules", adapter.package)
        mine = program(tmp_path / "mine", "echo mine 0.0.3")
        config = {"command": ("/opt/engine",), "resident_command": (str(mine), "--flag"), "managed": managed}
        assert self.looked_for(name, **config) == Program(
            command=(str(mine), "--flag"), path=str(mine), version="0.0.3", is_configured=True
        )
        refused = self.looked_for(name, resident_command=("nowhere",))
        assert isinstance(refused, Missing)
        setting = f"engines.{name}.resident_command"
        assert refused.reason == f"{setting} names 'nowhere', which is not on the PATH of the service"

    @pytest.mark.failure("S01")
    def test_comes_with_the_engine(self, name: str, tmp_path: Path, bin_dir: Path) -> None:
        """Whatever is missing of it: a person installs the engine."""
        adapter, managed = ADAPTERS[name], tmp_path / "engines"
        fix = f"turnkeeper engines install {name}"
        reason = f"there is no program {adapter.program!r} on the PATH of the service"
        assert self.looked_for(name, managed=managed) == Missing(reason, fix)
        there = lay_out(managed / adapter.program / "node_modules", adapter.package)
        old = program(bin_dir / "node", "echo v18.1.0")
        least = adapter.package.least_node
        assert self.looked_for(name, managed=managed) == Missing(
            f"{adapter.program} needs node {least} or later, and {old} is 18.1.0", fix, str(there)
        )


class TestVersion:
    def test_is_asked_once_for_each_file(self, tmp_path: Path, bin_dir: Path) -> None:
        asked = tmp_path / "asked"
        path = program(bin_dir / "iflow", f"echo x >> {asked}; echo 1.0.0")
        for _ in range(3):
            assert found("iflow").version == "1.0.0"
        assert asked.read_text() == "x\n"
        path.write_text(path.read_text().replace("1.0.0", "1.0.10"))
        assert found("iflow").version == "1.0.10"
        assert asked.read_text() == "x\nx\n"

    def test_is_asked_once_by_many_threads(self, tmp_path: Path, bin_dir: Path) -> None:
        asked = tmp_path / "asked"
        program(bin_dir / "iflow", f"echo x >> {asked}; echo 1.0.0")
        answers: list[str | None] = []
        threads = [threading.Thread(target=lambda: answers.append(found("iflow").version)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert answers == ["1.0.0"] * 8
        assert asked.read_text() == "x\n"

    def test_is_asked_in_private(
        self, tmp_path: Path, bin_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a home that is empty and gone afterwards, with nothing to read and no secret in sight."""
        noted = tmp_path / "noted"
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        lines = (
            f"exec 3> {noted}",
            "/usr/bin/env >&3",
            "echo HERE=$(pwd) $(/bin/ls -A $HOME | /usr/bin/wc -l) >&3",
        )
        program(bin_dir / "iflow", "\n".join((*lines, "/bin/cat >&3", "echo 1.0.0")))
        assert found("iflow").version == "1.0.0"
        told = dict(line.partition("=")[::2] for line in noted.read_text().splitlines())
        assert SECRET not in noted.read_text()
        assert told["HERE"] == f"{told['HOME']} 1"  # for its temporary files
        assert told["HOME"] != os.environ.get("HOME")
        assert not Path(told["HOME"]).exists()

    @pytest.mark.parametrize(
        ("says", "version"),
        [
            ("echo codex-cli 0.166.0", "0.166.0"),
            ("echo '2.1.325 (Claude Code)'", "2.1.325"),
            ("echo v22.23.3", "22.23.3"),
            ("printf '\\033[1m1.2.3\\033[0m\\n'", "1.2.3"),
            ("echo needs 22.0.0; exit 1", None),
            ("echo none", None),
            ("echo 1.2.3 >&2", None),
            ("kill -9 $$", None),
        ],
    )
    def test_is_the_first_number_that_looks_like_one(
        self, says: str, version: str | None, bin_dir: Path
    ) -> None:
        program(bin_dir / "iflow", says)
        assert found("iflow").version == version

    def test_one_that_never_answers_is_ended(self, tmp_path: Path) -> None:
        child = f"/bin/sleep 1000 & echo $! > {tmp_path / 'pid'}; wait"
        path = program(tmp_path / "cli", child)
        answer = versions.ask((str(path),), limit_sec=0.5)
        assert answer == versions.Answer(trouble="it did not answer to --version within 0.5 s")
        assert_gone(int((tmp_path / "pid").read_text()))

    def test_broken_package_is_none(self, tmp_path: Path) -> None:
        for text in ("", "[]", "{", '{"name": "it"}', '{"name": "it", "version": 5}', "[" * 100_000):
            (tmp_path / "package.json").write_text(text)
            assert versions.of_package(tmp_path, "it") is None
        assert versions.of_package(tmp_path / "nowhere", "it") is None


def test_looking_again_opens_nothing(tmp_path: Path) -> None:
    """It is done before each turn: no file is read twice, and nothing is started."""
    modules, bin_dir = tmp_path / "node_modules", tmp_path / "bin"
    for name in ("codex", "gemini"):
        lay_out(modules, PACKAGES[name])
        launcher(modules, PACKAGES[name], bin_dir, name)
    program(bin_dir / "node", "echo v22.0.0")
    program(bin_dir / "iflow")
    code = """if True:
        import sys
        from turnkeeper.engines.registry import engines
        clis = [engines({})[name] for name in ("codex", "gemini", "iflow")]
        print([type(cli.find()).__name__ for cli in clis])
        seen = []
        sys.addaudithook(lambda event, _: seen.append(event))
        for cli in clis: cli.find()
        costly = ("open", "subprocess.Popen", "os.posix_spawn", "os.listdir", "os.scandir")
        print([event for event in seen if event in costly])
    """
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": str(bin_dir), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert ended.stdout.splitlines() == ["['Program', 'Program', 'Program']", "[]"]


@pytest.mark.parametrize(
    ("arch", "has_glibc", "cpu_info", "build"),
    [
        ("x86_64", True, "flags : fpu avx avx2 bmi1", "opencode-linux-x64"),
        ("x86_64", True, "flags : fpu avx", "opencode-linux-x64-baseline"),
        ("x86_64", False, "flags : avx2", "opencode-linux-x64-musl"),
        ("x86_64", False, "", "opencode-linux-x64-baseline-musl"),
        ("aarch64", True, "Features : fp asimd", "opencode-linux-arm64"),
        ("aarch64", False, "", "opencode-linux-arm64-musl"),
        ("riscv64", True, "", "opencode-linux-riscv64"),
    ],
)
def test_build_for_this_machine(arch: str, has_glibc: bool, cpu_info: str, build: str) -> None:
    builds = machine.builds_of(arch, has_glibc=has_glibc, cpu_info=cpu_info)
    assert PACKAGES["opencode"].native[0].format_map(builds) == f"{build}/bin/opencode"


def test_baseline_will_do(tmp_path: Path, bin_dir: Path) -> None:
    package, modules = PACKAGES["opencode"], tmp_path / "node_modules"
    manifest(modules / package.name, package.name, package.version)
    launcher(modules, package, bin_dir, "opencode")
    baseline = program(modules / package.native[1].format_map(machine.builds()))
    assert found("opencode").command == (str(baseline),)
    program(modules / native_path(package))
    assert found("opencode").command[0].endswith(native_path(package))
