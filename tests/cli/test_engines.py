"""`turnkeeper engines` as a person or a script meets it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.engines.npm import PACKAGES, FakeNpm, assert_gone, lay_out, native_path, program
from tests.harness import PATIENCE
from tests.surroundings import SETTLED
from turnkeeper.cli import app
from turnkeeper.engines.programs import node_package

REASON = "there is no program 'codex' on the PATH of the service"


class Shell:
    """Somebody with an empty home, whose PATH is one folder."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path
        self.data_dir = tmp_path / "data"
        self.bin_dir = tmp_path / "bin"
        self.bin_dir.mkdir()
        self.env = {**SETTLED, "HOME": str(tmp_path), "PATH": str(self.bin_dir), "COLUMNS": "200"}

    def words(self, *words: str) -> list[str]:
        return ["engines", *words, "--data-dir", str(self.data_dir)]

    def run(self, *words: str, **env: str) -> Result:
        """In this process: starting one for each costs more than all the rest."""
        others = dict.fromkeys(os.environ, None)
        ended = CliRunner().invoke(app, self.words(*words), env={**others, **self.env, **env})
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return ended

    def json(self, *words: str, code: int = 0, **env: str) -> Any:
        ended = self.run(*words, "--json", **env)
        assert ended.exit_code == code, ended.stderr
        return json.loads(ended.stdout)

    def shown(self, *words: str, **env: str) -> str:
        """What a person sees: on a terminal, without its colours."""
        ours, theirs = pty.openpty()
        with self.started(*words, stdout=theirs, stderr=theirs, **env) as process:
            os.close(theirs)
            seen = b""
            while part := _read(ours):
                seen += part
            process.wait(PATIENCE)
        os.close(ours)
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode()).replace("\r\n", "\n")

    def started(
        self, *words: str, stdout: int | None = None, stderr: int, **env: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "turnkeeper", *self.words(*words)],
            env=self.env | {"TERM": "xterm", "PYTHONWARNINGS": "error"} | env,
            stdout=stdout,
            stderr=stderr,
            text=True,
        )


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # so a terminal says that nobody writes to it any more
        return b""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def npm(shell: Shell) -> FakeNpm:
    return FakeNpm(shell.bin_dir)


class TestList:
    def test_says_what_to_do(self, shell: Shell) -> None:
        ended = shell.run("list")
        header, codex, *_ = ended.stdout.splitlines()
        assert header.split() == ["engine", "ready", "version", "login", "profiles", "path"]
        assert codex.split() == ["codex", "no", "-", "-", "resumable,", "sticky_process", "-"]
        fix = f"turnkeeper engines install codex --data-dir {shell.data_dir}"
        assert f"\ncodex is not ready: {REASON}\n  fix: {fix}\n" in ended.stdout
        assert (ended.exit_code, ended.stderr) == (0, "")
        assert not shell.data_dir.exists(), "who only looks leaves nothing"

    def test_json_is_in_the_words_of_the_api(self, shell: Shell) -> None:
        program(shell.bin_dir / "codex", "echo codex-cli 0.1.0")
        codex, *others = shell.json("list", CODEX_API_KEY="x")["engines"]
        assert codex == {
            "name": "codex",
            "ready": True,
            "path": str(shell.bin_dir / "codex"),
            "version": "0.1.0",
            "login": {"kind": "key", "source": "CODEX_API_KEY"},
            "reason": None,
            "fix": f"turnkeeper engines install codex --data-dir {shell.data_dir}",
            "warning": "codex 0.1.0 was not tested with this Turnkeeper; 0.166.0 was",
            "profiles": ["resumable", "sticky_process"],
            "resident": {
                "ready": False,
                "path": None,
                "version": None,
                "reason": "there is no program 'codex-acp' on the PATH of the service",
                "fix": f"turnkeeper engines install codex --data-dir {shell.data_dir}",
                "warning": None,
            },
            "permissions": ["allow", "ask", "deny"],
        }
        assert others[-1]["name"] == "demo"
        assert others[-1]["ready"] is True

    def test_table_on_a_terminal(self, shell: Shell) -> None:
        lay_out(shell.data_dir / "engines" / "codex" / "node_modules", PACKAGES["codex"])
        seen = shell.shown("list", CODEX_API_KEY="x")
        row = next(line for line in seen.splitlines() if line.startswith("codex"))
        assert row.split() == [
            "codex",
            "yes",
            "0.166.0",
            "CODEX_API_KEY",
            "resumable,",
            "sticky_process",
            "~/data/engines/codex",
        ]
        assert "turnkeeper engines install claude" in seen

    def test_wrong_setting(self, shell: Shell) -> None:
        ended = shell.run("list", TURNKEEPER_ENGINES__CODX__MODEL="x")
        assert ended.exit_code == 2
        assert ended.stderr.startswith(
            "turnkeeper: engines.codx: there is no such engine; there are: codex, "
        )


class TestInstall:
    def test_then_it_is_there(self, shell: Shell, npm: FakeNpm) -> None:
        ended = shell.run("install", "codex", "claude", "codex", CODEX_API_KEY="x")
        assert ended.exit_code == 0, ended.stderr
        assert ended.stderr.splitlines() == [
            "codex: fetching @openai/codex 0.166.0 from npm",
            "codex: checking that it starts",
            "codex: codex-acp needs node 20 or later, and there is none on the PATH: node 22.23.3 comes first",
            f"codex: fetching {node_package().name} 22.23.3 from npm",
            "codex: checking that it starts",
            "codex: fetching @agentclientprotocol/codex-acp 2.6.0 from npm",
            "codex: checking that it starts",
            "claude: fetching @anthropic-ai/claude-code 2.1.325 from npm",
            "claude: checking that it starts",
            "claude: fetching @agentclientprotocol/claude-agent-acp 0.99.1 from npm",
            "claude: checking that it starts",
        ]
        first, second, third, *rest = ended.stdout.splitlines()
        place = shell.data_dir / "engines"
        assert re.fullmatch(rf"codex 0\.166\.0 is installed: 0 MB in \d+ s, in {place}/codex", first)
        assert second.startswith("codex-acp 2.6.0 is installed: ")
        assert third.startswith("claude 2.1.325 is installed: ")
        assert rest[2] == "claude is not ready: nobody is logged in to claude, and no key is set"
        codex = shell.json("list", CODEX_API_KEY="x")["engines"][0]
        assert (codex["ready"], codex["version"]) == (True, "0.166.0")
        assert codex["path"] == str(place / "codex" / "node_modules" / native_path(PACKAGES["codex"]))
        assert shell.data_dir.stat().st_mode & 0o077 == 0

    def test_json(self, shell: Shell, npm: FakeNpm) -> None:
        told = shell.json("install", "codex", "iflow", code=1)
        done, adapter = told["installed"]
        assert (adapter["name"], adapter["version"]) == ("codex-acp", "2.6.0")
        assert (done["name"], done["version"], done["was_there"]) == ("codex", "0.166.0", False)
        assert done["path"] == str(shell.data_dir / "engines" / "codex")
        (failed,) = told["failed"]
        assert (failed["name"], failed["code"]) == ("iflow", "ENGINE_NOT_READY")

    def test_failure_is_told_with_the_words_of_npm(self, shell: Shell, npm: FakeNpm) -> None:
        npm.does(
            'sys.stderr.write("npm error code E404\\n\\x1b[2Jnpm error \\x00not found\\n")', "sys.exit(1)"
        )
        ended = shell.run("install", "codex")
        assert ended.exit_code == 1
        assert ended.stderr.splitlines()[1:] == [
            "turnkeeper: codex could not be installed: npm ended with exit code 1",
            "  npm error code E404",
            "  npm error \ufffdnot found",
        ]
        assert ended.stdout == ""

    def test_unknown_engine_is_a_usage_error(self, shell: Shell, npm: FakeNpm) -> None:
        ended = shell.run("install", "codex", "codx")
        assert ended.exit_code == 2
        assert ended.stderr.startswith("turnkeeper: there is no engine 'codx'; there are: codex, ")
        assert npm.calls == []
        assert shell.run("install").exit_code == 2

    def test_it_says_when_it_is_not_used(self, shell: Shell, npm: FakeNpm) -> None:
        ended = shell.run("install", "codex", TURNKEEPER_ENGINES__CODEX__COMMAND="/opt/codex")
        assert ended.stdout.splitlines()[-1] == "  it is not used as long as engines.codex.command is set"

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_interrupted(self, shell: Shell, npm: FakeNpm, number: signal.Signals) -> None:
        pid_file = shell.home / "pid"
        npm.does(
            f'with open("{pid_file}.new", "w") as file: file.write(str(os.getpid()))',
            f'os.rename("{pid_file}.new", "{pid_file}")',
            "import time; time.sleep(1000)",
        )
        with shell.started("install", "codex", stderr=subprocess.PIPE) as process:
            deadline = time.monotonic() + PATIENCE
            while not pid_file.exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(number)
            _, complaint = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert complaint.splitlines()[-1] == "turnkeeper: interrupted"
        assert_gone(int(pid_file.read_text()))
        assert [path.name for path in (shell.data_dir / "engines").iterdir()] == [".lock"]


class TestDoctor:
    def test_by_names(self, shell: Shell) -> None:
        program(shell.bin_dir / "codex", "echo codex-cli 0.166.0")
        ended = shell.run("doctor", "codex", "demo", CODEX_API_KEY="x")
        assert ended.exit_code == 0, ended.stdout
        lines = ended.stdout.splitlines()
        assert lines[:4] == [
            "codex: good",
            f"  ok    program  {shell.bin_dir / 'codex'}",
            "  ok    version  0.166.0",
            "  ok    login    the key in CODEX_API_KEY",
        ]
        assert lines[4].startswith("  ok    starts   in the environment of a run, in ")
        assert lines[-2:] == ["2 engines: 2 good, 0 not", "No turn was played; --turn plays one."]

    def test_one_that_is_not_good(self, shell: Shell) -> None:
        ended = shell.run("doctor", "codex", "demo")
        assert ended.exit_code == 1
        assert ended.stdout.splitlines()[:3] == [
            "codex: not good",
            f"  fail  program  {REASON}",
            f"                 fix: turnkeeper engines install codex --data-dir {shell.data_dir}",
        ]
        assert "2 engines: 1 good, 1 not" in ended.stdout

    def test_all_that_are_installed(self, shell: Shell) -> None:
        """A command that leads nowhere was meant to be one."""
        program(shell.bin_dir / "codex", "echo codex-cli 0.166.0")
        told = shell.json("doctor", code=1, CODEX_API_KEY="x", TURNKEEPER_ENGINES__GEMINI__COMMAND="/nowhere")
        assert {each["name"]: each["good"] for each in told["engines"]} == {
            "codex": True,
            "gemini": False,
            "demo": True,
        }

    def test_none_is_installed(self, shell: Shell) -> None:
        ended = shell.run("doctor")
        assert ended.exit_code == 1
        example = f"turnkeeper engines install codex --data-dir {shell.data_dir}"
        assert ended.stdout.splitlines()[-1] == f"No agent CLI is installed. For example: {example}"

    def test_turn(self, shell: Shell) -> None:
        (demo,) = shell.json("doctor", "demo", "--turn")["engines"]
        assert demo["good"] is True
        assert demo["checks"][-1]["name"] == "turn"
        assert demo["turn"]["error"] is None
        assert "__SKILL_DONE__" in demo["turn"]["answer"]
        assert set(demo["turn"]) == {"answer", "model", "usage", "seconds", "error"}

    def test_turn_on_a_terminal(self, shell: Shell) -> None:
        seen = shell.shown("doctor", "demo", "--turn")
        assert "\n1 engine: 1 good, 0 not\n" in seen
        assert "  ok    turn     it answered " in seen

    def test_unknown_engine_is_a_usage_error(self, shell: Shell) -> None:
        assert shell.run("doctor", "codx").exit_code == 2
