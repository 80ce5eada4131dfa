"""The scripted CLI is what the recorded ones were: the same lines and exits, and no patience with anything else."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.clis import ENGINES, command
from tests.fakes.scripted_cli.arguments import CLAUDE_WITHOUT, NO_SERVERS, QWEN_WITHOUT
from tests.fakes.scripted_cli.surroundings import ANSWERS, KEY, LOGINS, WRONG_USE
from tests.harness import PATIENCE, Json

RECORDED = Path(__file__).parents[1] / "transcripts"
MODEL = "scripted-model"
RUN = "a-run"
SELECTED = '{"security": {"auth": {"selectedType": "openai"}}}'

NEEDED = {"claude": {"IS_SANDBOX": "1"}, "gemini": {"GEMINI_CLI_TRUST_WORKSPACE": "true"}}
"""Switches without which it does not begin."""

each_engine = pytest.mark.parametrize("engine", ENGINES)

FLAGS = {
    "claude": [
        *("-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"),
        *("--setting-sources", "user", "--disallowedTools", CLAUDE_WITHOUT),
    ],
    "gemini": ["--yolo", "-o", "stream-json", *NO_SERVERS],
    "qwen": ["--yolo", "--output-format", "stream-json", *NO_SERVERS, "--exclude-tools", QWEN_WITHOUT],
    "iflow": ["--yolo", "--thinking"],
}


@dataclass(frozen=True)
class Said:
    stdout: str
    stderr: str
    exit_code: int


class Cli:
    """A run's folder, and the processes started in it as the service would start them."""

    def __init__(self, folder: Path, engine: str) -> None:
        self.engine = engine
        self.home, self.workspace = folder / RUN / "home", folder / RUN / "workspace"
        for each in (self.home, self.workspace):
            each.mkdir(parents=True)
        self.env = {"HOME": str(self.home), "TURNKEEPER_RUN": f"data/{RUN}/1.1", LOGINS[engine]: KEY}
        self.env |= ANSWERS | NEEDED.get(engine, {})
        if engine == "qwen":
            (self.home / ".qwen").mkdir()
            (self.home / ".qwen" / "settings.json").write_text(SELECTED)

    def arguments(self, session: str | None = None, model: str = MODEL) -> list[str]:
        match self.engine, session:
            case "codex", None:
                here = str(self.workspace)
                return ["exec", "--json", "--yolo", "--skip-git-repo-check", "-m", model, "-C", here, "-"]
            case "codex", str():
                return [
                    "exec",
                    "resume",
                    "--json",
                    "--yolo",
                    "--skip-git-repo-check",
                    "-m",
                    model,
                    session,
                    "-",
                ]
            case "opencode", _:
                wanted = ["--title", "t"] if session is None else ["--session", session]
                return ["run", "--format", "json", "--auto", "-m", model, *wanted]
            case _:
                flags = FLAGS[self.engine]
                named = "--model" if self.engine == "claude" else "-m"
                return [*flags, named, model, *(["--resume", session] if session else [])]

    def start(
        self, arguments: list[str], cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*command(self.engine), *arguments],
            cwd=cwd or self.workspace,
            env=self.env | (env or {}),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )

    def play(self, prompt: str, session: str | None = None) -> Said:
        return self.run(prompt, self.arguments(session))

    def run(
        self, prompt: str, arguments: list[str], cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> Said:
        process = self.start(arguments, cwd, env)
        out, err = process.communicate(prompt.encode(), timeout=PATIENCE)
        return Said(out.decode(), err.decode(), process.returncode)

    def cut_off(self, prompt: str) -> Said:
        """Terminated where it stays, and killed if it does not listen."""
        process = self.start(self.arguments())
        assert process.stdin is not None
        process.stdin.write(prompt.encode())
        process.stdin.close()
        process.stdin = None
        deadline = time.monotonic() + PATIENCE
        while not (self.home / "reached").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.kill() if self.engine == "iflow" else process.terminate()
        out, err = process.communicate(timeout=PATIENCE)
        tool = (self.home / "reached").read_text()
        if tool:  # it left the CLI's session and lives on, as with the real ones
            os.killpg(int(tool), signal.SIGKILL)
        return Said(out.decode(), err.decode(), process.returncode)

    @property
    def session(self) -> str:
        """Of the last process."""
        lines = (self.home / "calls.jsonl").read_text().splitlines()
        return str(json.loads(lines[-1])["session"])


@pytest.fixture
def cli(tmp_path: Path, engine: str) -> Cli:
    return Cli(tmp_path, engine)


def recorded(engine: str, case: str) -> Said:
    def read(kind: str) -> str:
        return (RECORDED / engine / f"{case}.{kind}").read_text(encoding="utf-8")

    return Said(read("ndjson"), read("stderr"), int(read("exit")))


PLAYS: dict[str, Callable[[Cli], Said]] = {
    "ask": lambda cli: cli.play("please [[ask]]"),
    "tool": lambda cli: cli.play("please [[tool]] [[done]]"),
    "http400": lambda cli: cli.play("please [[fail:400]]"),
    "http500": lambda cli: cli.play("please [[fail:500]]"),
    "sigterm_stream": lambda cli: cli.cut_off("please [[hang]]"),
    "sigterm_tool": lambda cli: cli.cut_off("please [[longtool]]"),
    "unknown_session": lambda cli: cli.play("blue [[done]]", session="01a1e1a3-0000-7f63-a007-63bea7c8c4e3"),
}


def _resume(cli: Cli) -> Said:
    cli.play("please [[ask]]")
    return cli.play("blue [[done]]", session=cli.session)


PLAYS["resume"] = _resume
CASES = [
    (engine, case) for engine in ENGINES for case in PLAYS if engine != "iflow" or not case.startswith("http")
]
TOLD_BY = (
    *("type", "subtype", "role", "status", "reason", "delta", "name", "tool", "tool_name", "isRetryable"),
    *("is_error", "is_api_error_message", "api_error_status", "api_error_type", "parent_tool_use_id"),
)
"""Fields whose value says what the event is."""
TERSE = ("claude", "qwen")
"""Stand-ins that leave out most of what the real ones tell about themselves."""


def shape(value: Any, key: str = "") -> Any:
    """Names and types of everything, values only where they tell events apart."""
    match value:
        case dict() if key in ("models", "modelUsage", "model_usage_since_last_result"):
            return [shape(each) for each in value.values()]
        case dict() if key == "responseHeaders":
            return "headers"
        case dict():
            return {name: shape(each, name) for name, each in sorted(value.items())}
        case list():
            return [shape(each) for each in value]
        case str() | bool() if key in TOLD_BY:
            return value
        case _:
            return type(value).__name__


def shapes(stdout: str) -> list[Json]:
    """An answer may come in any number of pieces, and trouble be told any number of times."""
    found = [shape(json.loads(line)) for line in stdout.splitlines()]
    return [each for each, _ in groupby(found)]


def words(text: str) -> list[str]:
    """Plain lines without what differs from run to run; `[…]` are the loader's, not the CLI's."""
    lines = [
        re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+", "N", line) for line in text.splitlines()
    ]
    return [line for line in lines if not line.startswith(("[runtime]", "[loader]"))]


def cut_down(said: Any, whole: Any) -> Any:
    """The recorded shape without the fields that were not said."""
    if isinstance(said, dict) and isinstance(whole, dict):
        return {name: cut_down(said.get(name), each) for name, each in whole.items() if name in said}
    if isinstance(said, list) and isinstance(whole, list):
        if {*map(str, said), *map(str, whole)} <= {"str"}:
            return said
        return [cut_down(*pair) for pair in zip(said, whole, strict=False)] + whole[len(said) :]
    return whole


@pytest.mark.parametrize(("engine", "case"), CASES)
def test_output_has_the_shape_of_the_recorded_one(cli: Cli, engine: str, case: str) -> None:
    said, wanted = PLAYS[case](cli), recorded(engine, case)

    assert said.exit_code == wanted.exit_code
    if engine in TERSE:
        found = shapes(said.stdout)
        assert found == cut_down(found, shapes(wanted.stdout))
    elif engine != "iflow":
        assert shapes(said.stdout) == shapes(wanted.stdout)
    else:
        assert [line[:1] for line in words(said.stdout)] == [line[:1] for line in words(wanted.stdout)]


@pytest.mark.parametrize(
    ("engine", "case"), [(engine, case) for engine, case in CASES if not case.startswith("http")]
)
def test_every_line_on_stderr_was_recorded(cli: Cli, engine: str, case: str) -> None:
    said, wanted = PLAYS[case](cli), recorded(engine, case)

    found = [line for line in words(said.stderr) if "Searched for sessions in" not in line]
    assert set(found) <= set(words(wanted.stderr))
    if case == "unknown_session" and engine != "iflow":
        assert found


@each_engine
def test_session_is_found_by_a_second_process_in_the_same_place_only(cli: Cli, tmp_path: Path) -> None:
    cli.play("[[ask]]")
    first = cli.session
    cli.play("[[done]]", session=first)
    assert cli.session == first

    elsewhere = Cli(tmp_path / "elsewhere", cli.engine)
    elsewhere.play("[[done]]", session=first)
    assert elsewhere.session != first


@each_engine
def test_large_prompt_arrives_whole(cli: Cli) -> None:
    prompt = "[[done]] " + "ü" * 200_000
    assert cli.play(prompt).exit_code == 0
    (call,) = (cli.home / "calls.jsonl").read_text().splitlines()
    assert json.loads(call)["prompt"] == prompt


def _refused(cli: Cli, said: Said, why: str) -> None:
    assert said.exit_code == WRONG_USE
    assert why in said.stderr
    assert why in (cli.home / "unexpected").read_text()
    assert said.stdout == ""


@each_engine
def test_any_other_argument_is_refused(cli: Cli) -> None:
    good = cli.arguments()
    for position in range(len(good) + 1):
        more = [*good[:position], "--verbose", *good[position:]]
        _refused(cli, cli.run("[[done]]", more), "unexpected argument")
    for position in range(len(good)):
        rest = [*good[:position], *good[position + 1 :]]
        _refused(cli, cli.run("[[done]]", rest), "unexpected argument")


@each_engine
@pytest.mark.parametrize("name", ["TURNKEEPER_TOKEN", "TURNKEEPER_DATA_DIR", "SSH_AUTH_SOCK", "AWS_SECRET"])
def test_anything_more_in_the_environment_is_refused(cli: Cli, name: str) -> None:
    said = cli.run("[[done]]", cli.arguments(), env={name: "x"})
    _refused(cli, said, f"unexpected environment variable {name}")
    assert "x" not in (cli.home / "unexpected").read_text().split(name)[1]


@each_engine
def test_wrong_surroundings_are_refused(cli: Cli, tmp_path: Path) -> None:
    good = cli.arguments()
    _refused(cli, cli.run("[[done]]", good, env={"HOME": str(tmp_path)}), "unexpected HOME")
    _refused(cli, cli.run("[[done]]", good, env={"TURNKEEPER_RUN": "data/another/1.1"}), "unexpected cwd")
    _refused(cli, cli.run("[[done]]", good, cwd=cli.home), "unexpected cwd")


@each_engine
@pytest.mark.parametrize(
    ("prompt", "why"),
    [("", "unexpected end of stdin"), ("Hello.", "unexpected prompt"), ("[[dance]]", "unexpected word")],
)
def test_prompt_without_a_known_word_is_refused(cli: Cli, prompt: str, why: str) -> None:
    _refused(cli, cli.play(prompt), why)


@pytest.mark.parametrize("engine", ["codex"])
def test_codex_is_told_the_directory_it_is_in(cli: Cli, tmp_path: Path) -> None:
    arguments = [str(tmp_path) if each == str(cli.workspace) else each for each in cli.arguments()]
    _refused(cli, cli.run("[[done]]", arguments), "unexpected argument -C")


@each_engine
def test_another_key_is_refused(cli: Cli) -> None:
    for key in ("", "a-key-of-somebody-else"):
        said = cli.run("[[done]]", cli.arguments(), env={LOGINS[cli.engine]: key})
        _refused(cli, said, "unexpected login")


@pytest.mark.parametrize("engine", ["claude"])
def test_claude_as_root_insists_on_a_sandbox(cli: Cli) -> None:
    said = cli.run("[[done]]", cli.arguments(), env={"IS_SANDBOX": ""})
    assert (said.exit_code, said.stdout) == (1, "")
    assert "cannot be used with root" in said.stderr


@pytest.mark.parametrize("engine", ["qwen"])
def test_qwen_insists_on_its_settings(cli: Cli) -> None:
    (cli.home / ".qwen" / "settings.json").write_text("{}")
    said = cli.play("[[done]]")
    assert said.exit_code == 1
    assert json.loads(said.stdout)["error"] == {"message": "No auth type is selected."}


@pytest.mark.parametrize("engine", ["qwen"])
def test_qwen_is_told_that_it_may_ask(cli: Cli) -> None:
    said = [*FLAGS["qwen"], "--append-system-prompt"]
    assert cli.run("[[ask]]", [*said, "A person can reply.", "-m", MODEL]).exit_code == 0
    odd = cli.run("[[ask]]", [*said, "Never ask.", "-m", MODEL])
    _refused(cli, odd, "unexpected argument --append-system-prompt")


@pytest.mark.parametrize("engine", ["gemini"])
def test_gemini_insists_on_a_trusted_workspace(cli: Cli) -> None:
    untrusted = {"GEMINI_CLI_TRUST_WORKSPACE": ""}
    assert cli.run("[[done]]", cli.arguments(), env=untrusted).exit_code == 55
