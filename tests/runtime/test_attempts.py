"""What is remembered of a turn: how its process was started, without its secrets, and what it cost."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.restarts import Daemon
from tests.harness import PATIENCE, Client, Json, Place, opened
from turnkeeper.cli.runs import by_hand

KEY = "sk-a-key-that-nobody-may-see"
TOKEN = "a-token-of-the-operator-0123456789"
LOGIN = {"tokens": {"access": TOKEN}}
THREAD = '{"type":"thread.started","thread_id":"01-thread"}'
USED = {"input_tokens": 30, "cached_input_tokens": 10, "output_tokens": 5, "reasoning_output_tokens": 2}
ANSWER = {"id": "1", "type": "agent_message", "text": '{"answer": "42"}'}
DONE = (
    json.dumps({"type": "item.completed", "item": ANSWER}),
    json.dumps({"type": "turn.completed", "usage": USED}),
)

PRELUDE = f"""
import json, os, pathlib, signal, subprocess, sys, time
if "--version" in sys.argv: sys.exit("an unknown version")
words = sys.stdin.read()
home = pathlib.Path(os.environ["HOME"])
login = home / ".codex" / "auth.json"
def say(*lines):
    for line in lines: print(line, flush=True)
def until(name):
    while not (home / name).exists(): time.sleep(0.01)
say({THREAD!r})
"""
DONE_CODE = f"say(*{DONE!r})"


THINK = (
    'say(json.dumps({"type": "item.completed", "item": {"id": "0", "type": "reasoning", "text": "hm"}}))\n'
)


async def thought(client: Client, run_id: str) -> None:
    """Until what the engine has said so far is stored: its session, and one thought."""
    async with asyncio.timeout(PATIENCE):
        async for event in client.follow(run_id):
            if event["type"] == "assistant.reasoning":
                return


class Cli:
    """A program that speaks like codex, and does what a test wants before it answers."""

    def __init__(self, root: Path, code: str) -> None:
        self.path = root / "cli.py"
        self.path.write_text(f"{PRELUDE}\n{code}\n")

    def settings(self, **more: object) -> Json:
        return {"engines": {"codex": {"command": [sys.executable, str(self.path)], **more}}}


async def attempts(place: Place, run_id: str) -> list[Json]:
    answer = await place.client.http.get(f"/v1/jobs/{run_id}/attempts")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["attempts"])


def everything_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path, path.read_bytes()


async def test_an_attempt_can_be_played_by_hand(tmp_path: Path) -> None:
    seen = (
        'say(json.dumps({"type": "item.completed", "item": {"id": "0", "type": "reasoning", "text": words}}))'
    )
    cli = Cli(tmp_path, f"{seen}\n{DONE_CODE}")
    async with opened(
        tmp_path / "data", **cli.settings(env=[f"OPENAI_API_KEY={KEY}"], model="gpt-x")
    ) as place:
        run_id = await place.client.create("answer", engine="codex", input={"task": "count"})
        run = await place.client.ended(run_id)
        assert run["status"] == "succeeded", run
        (attempt,) = await attempts(place, run_id)
    launch = attempt["launch"]
    assert launch["argv"][:2] == [sys.executable, str(cli.path)]
    assert launch["cwd"].endswith(f"{run_id}/workspace")
    assert (launch["env"]["CODEX_API_KEY"], launch["env"]["HOME"]) == (
        None,
        str(Path(launch["cwd"]).parent / "home"),
    )
    assert (attempt["model"], run["model"]) == ("gpt-x", "gpt-x")
    counted = {"input_tokens": 20, "cached_tokens": 10, "output_tokens": 3, "reasoning_tokens": 2}
    assert attempt["usage"] == run["usage"] == counted
    assert attempt["verdict"]["verdict"] == "succeeded"

    assert launch["secrets"] == {"CODEX_API_KEY": "OPENAI_API_KEY", "OPENAI_API_KEY": "OPENAI_API_KEY"}

    words = tmp_path / "data" / "runs" / run_id / "raw" / "1.1.stdin"
    command = by_hand(launch, words)
    assert KEY not in command
    again = subprocess.run(
        ["sh", "-c", command], env=os.environ | {"OPENAI_API_KEY": KEY}, capture_output=True, check=True
    )
    assert again.stdout == (words.with_name("1.1.stdout")).read_bytes()
    assert words.read_text() in [
        json.loads(line).get("item", {}).get("text") for line in again.stdout.splitlines()
    ]


async def test_an_agent_that_prints_its_environment_tells_no_key(tmp_path: Path) -> None:
    """Not in events, logs, records, results or bundles: nowhere below the data directory."""
    tool = (
        'env = "\\n".join(f"{name}={value}" for name, value in os.environ.items())\n'
        'say(json.dumps({"type": "item.completed", "item": {"id": "0", "type": "command_execution", '
        '"command": "env", "aggregated_output": env, "exit_code": 0, "status": "completed"}}))\n'
        "print(env, file=sys.stderr)\n"
    )
    cli = Cli(tmp_path, tool + DONE_CODE)
    async with opened(tmp_path / "data", **cli.settings(env=[f"MY_API_KEY={KEY}"])) as place:
        run_id = await place.client.create("answer", engine="codex")
        assert (await place.client.ended(run_id))["status"] == "succeeded"
        told = json.dumps([await place.client.events(run_id), await attempts(place, run_id)])
        bundle = await place.client.http.get(f"/v1/jobs/{run_id}/bundle")
    assert f"MY_API_KEY={'*' * len(KEY)}" in told
    assert KEY not in told
    with zipfile.ZipFile(io.BytesIO(bundle.content)) as files:
        assert "result.json" in files.namelist()
        assert not [name for name in files.namelist() if KEY.encode() in files.read(name)]
    leaks = [path for path, data in everything_below(tmp_path / "data") if KEY.encode() in data]
    assert leaks == []


# The operator's own login


@pytest.fixture
def operator(tmp_path: Path) -> Path:
    """A person who has logged in to codex."""
    home = tmp_path / "operator"
    (home / ".codex").mkdir(parents=True)
    (home / ".codex" / "auth.json").write_text(json.dumps(LOGIN))
    return home


def login_of(home: Path) -> Json:
    return dict(json.loads((home / ".codex" / "auth.json").read_text()))


RENEW = 'token = json.loads(login.read_text())\ntoken["renewed"] = token.get("renewed", 0) + 1\n'
RENEW += "login.write_text(json.dumps(token))\nprint(token, file=sys.stderr)\n"


@pytest.mark.failure("Q05")
async def test_a_login_is_lent_for_the_turn_renewed_and_returned(tmp_path: Path, operator: Path) -> None:
    """By turns that never overlap: each of them renews what the one before it left."""
    alone = (
        'running = home.parents[1] / "running"\n'
        "os.close(os.open(running, os.O_CREAT | os.O_EXCL))\n"  # fails if another turn is at work
        f"{RENEW}running.unlink()\n"
    )
    cli = Cli(tmp_path, alone + DONE_CODE)
    settings = cli.settings(login_home=str(operator))
    async with opened(tmp_path / "data", slots=4, **settings) as place:
        runs = [await place.client.create("answer", engine="codex") for _ in range(4)]
        ended = await asyncio.gather(*map(place.client.ended, runs))
        assert [run["status"] for run in ended] == ["succeeded"] * 4, ended
        told = json.dumps([await attempts(place, run_id) for run_id in runs])
    assert login_of(operator) == LOGIN | {"renewed": 4}
    assert TOKEN not in told
    leaks = [path for path, data in everything_below(tmp_path / "data") if TOKEN.encode() in data]
    assert leaks == []


@pytest.mark.failure("Q05", "V01")
async def test_a_login_comes_back_after_the_service_was_killed(tmp_path: Path, operator: Path) -> None:
    cli = Cli(tmp_path, f'{RENEW}{THINK}until("go")\n{DONE_CODE}')
    data = tmp_path / "data"
    data.mkdir()
    env = {
        "TURNKEEPER_ENGINES__CODEX__COMMAND": f"{sys.executable} {cli.path}",
        "TURNKEEPER_ENGINES__CODEX__LOGIN_HOME": str(operator),
    }
    daemon = Daemon(data, **env)
    daemon.start()
    try:
        run_id = await daemon.client.create("answer", engine="codex")
        home = data / "runs" / run_id / "home"
        await thought(daemon.client, run_id)
        assert login_of(home) == LOGIN | {"renewed": 1}
        assert login_of(operator) == LOGIN
        await daemon.kill()
        (home / "go").touch()
        daemon.start()
        assert (await daemon.client.ended(run_id))["status"] == "succeeded"
        assert login_of(operator) == LOGIN | {"renewed": 2}
        assert not (home / ".codex" / "auth.json").exists()
        assert list((data / "lent").iterdir()) == []
    finally:
        if daemon.is_running:
            await daemon.stop()


async def test_a_login_that_could_not_go_back_is_told(tmp_path: Path, operator: Path) -> None:
    cli = Cli(tmp_path, f'{RENEW}{THINK}until("go")\n{DONE_CODE}')
    async with opened(tmp_path / "data", **cli.settings(login_home=str(operator))) as place:
        run_id = await place.client.create("answer", engine="codex")
        home = tmp_path / "data" / "runs" / run_id / "home"
        await thought(place.client, run_id)
        (operator / ".codex" / "auth.json").write_text('{"logged": "in again"}')
        (home / "go").touch()
        run = await place.client.ended(run_id)
    assert run["status"] == "succeeded"
    assert "LOGIN_NOT_RETURNED" in [warning["code"] for warning in run["warnings"]]
    assert login_of(operator) == {"logged": "in again"}


@pytest.mark.failure("V01")
async def test_an_agent_that_ruins_its_home_ruins_nothing_else(tmp_path: Path, operator: Path) -> None:
    """Its good turn stays good, and the service starts again."""
    ruin = "login.unlink()\nlogin.mkdir()\nos.rmdir(os.environ['TMPDIR'])\nos.symlink('/etc', os.environ['TMPDIR'])\n"
    cli = Cli(tmp_path, ruin + DONE_CODE)
    for _ in range(2):
        async with opened(tmp_path / "data", **cli.settings(login_home=str(operator))) as place:
            run_id = await place.client.create("answer", engine="codex")
            run = await place.client.ended(run_id)
            assert run["status"] == "succeeded", run
            assert "LOGIN_NOT_RETURNED" in [warning["code"] for warning in run["warnings"]]
            home = tmp_path / "data" / "runs" / run_id / "home"
            assert not (home / ".codex" / "auth.json").exists()
            assert not os.path.lexists(home / ".scratch")
    assert login_of(operator) == LOGIN
    assert Path("/etc/passwd").exists()


async def test_without_a_login_the_job_is_refused_with_what_to_do(tmp_path: Path) -> None:
    cli = Cli(tmp_path, DONE_CODE)
    async with opened(tmp_path / "data", **cli.settings(login_home=str(tmp_path / "nobody"))) as place:
        answer = await place.client.post_job("answer", engine="codex")
        assert (answer.status_code, answer.json()["code"]) == (409, "ENGINE_NOT_READY")
        assert answer.json()["fix"].endswith(f"{cli.path} login")
        assert await place.client.runs() == []


# Ends that nobody asked for


@pytest.mark.failure("X09", "X10")
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
async def test_a_signal_that_was_not_ours_is_a_crash(tmp_path: Path, number: signal.Signals) -> None:
    code = f"print('last words', file=sys.stderr, flush=True)\nos.kill(os.getpid(), {int(number)})"
    cli = Cli(tmp_path, code)
    async with opened(tmp_path / "data", **cli.settings(env=[f"CODEX_API_KEY={KEY}"])) as place:
        run = await place.client.ended(await place.client.create("answer", engine="codex"))
    assert run["error"]["code"] == "ENGINE_CRASHED"
    assert number.name in run["error"]["message"]
    assert "last words" in run["error"]["message"]


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A group of processes that may use 48 MiB; the kernel ends who wants more."""
    name = f"turnkeeper-test-{uuid.uuid4().hex}"
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root) / name
        try:
            group.mkdir()
            (group / limit).write_text(str(48 * 1024 * 1024))
        except OSError:
            if group.is_dir():
                group.rmdir()
            continue
        yield group
        group.rmdir()
        return
    pytest.skip("memory cannot be limited here: no writable memory cgroup")


GROW = "kept = [bytearray(os.urandom(2**20)) for _ in range(500)]"


@pytest.mark.failure("X10")
async def test_an_engine_that_the_kernel_ended_for_memory(tmp_path: Path, small_cgroup: Path) -> None:
    """Put into a group of its own by a wrapper, as operators do."""
    wrapper = tmp_path / "wrapper.sh"
    wrapper.write_text(f'echo $$ > {small_cgroup / "cgroup.procs"}\nexec "$@"\n')
    cli = Cli(tmp_path, f"{GROW}\n{DONE_CODE}")
    settings = cli.settings(env=[f"CODEX_API_KEY={KEY}"])
    settings["engines"]["codex"]["command"] = ["sh", str(wrapper), sys.executable, str(cli.path)]
    async with opened(tmp_path / "data", **settings) as place:
        run = await place.client.ended(await place.client.create("answer", engine="codex"))
    assert run["error"]["code"] == "ENGINE_OOM_KILLED", run["error"]


@pytest.mark.failure("X10")
async def test_a_stranger_that_the_kernel_ended_for_memory(tmp_path: Path, small_cgroup: Path) -> None:
    """In the same moment somebody kills the engine: that is still a crash."""
    join = f"pathlib.Path({str(small_cgroup / 'cgroup.procs')!r}).write_text(str(os.getpid()))"
    stranger = f"import os, pathlib\n{join}\n{GROW}"
    code = f"stranger = subprocess.run([sys.executable, '-c', {stranger!r}])\n"
    code += "print('stranger', stranger.returncode, file=sys.stderr, flush=True)\nos.kill(os.getpid(), 9)"
    cli = Cli(tmp_path, code)
    async with opened(tmp_path / "data", **cli.settings(env=[f"CODEX_API_KEY={KEY}"])) as place:
        run = await place.client.ended(await place.client.create("answer", engine="codex"))
    assert run["error"]["code"] == "ENGINE_CRASHED", run["error"]
    assert "stranger -9" in run["error"]["message"]


@pytest.mark.failure("P08", "T01")
async def test_a_stall_names_the_tool_and_the_processes(tmp_path: Path) -> None:
    started = {"type": "item.started", "item": {"id": "7", "type": "command_execution", "command": "tail"}}
    code = (
        f"say({json.dumps(started)!r})\nsubprocess.run(['tail', '-f', '/dev/null'], start_new_session=True)"
    )
    cli = Cli(tmp_path, code)
    limits = {"idle_sec": 0.8, "step_sec": 2}
    async with opened(tmp_path / "data", **cli.settings(env=[f"CODEX_API_KEY={KEY}"])) as place:
        run_id = await place.client.create("answer", engine="codex", timeouts=limits)
        run = await place.client.ended(run_id)
        assert run["error"]["code"] == "ENGINE_STALLED"
        assert "0.8 s" in run["error"]["message"]
        assert "command_execution" in run["error"]["message"]
        assert "tail" in run["error"]["message"]
        assert (run["timeouts"]["idle_sec"], run["timeouts"]["step_sec"]) == (0.8, 2)
        assert place.processes(run_id) == []
