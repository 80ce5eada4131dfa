"""What the doctor finds: little programs play a CLI that is well, or ill in one way each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines.npm import assert_gone, program
from turnkeeper.core.errors import Code
from turnkeeper.core.run import Timeouts
from turnkeeper.engines.agent import AcpAgent
from turnkeeper.engines.base import EngineConfig
from turnkeeper.engines.codex import CodexEngine
from turnkeeper.engines.demo import DemoEngine
from turnkeeper.engines.lending import lend
from turnkeeper.runtime import doctor
from turnkeeper.runtime.doctor import Diagnosis, Outcome, Visit
from turnkeeper.skills.workspace import RunFolder

KEY = "a-key-that-nobody-may-see"
QUICK = Timeouts(first_byte_sec=20, idle_sec=20, turn_sec=60, result_grace_sec=0.2, step_sec=0.5)
AUTH = ".codex/auth.json"
LOGIN = {"tokens": {"access_token": "a-token-that-nobody-may-see"}}

_CLI = """\
#!{python} -IS
import json, os, signal, subprocess, sys, time
if sys.argv[1:] == ["--version"]:
    print("codex-cli 0.166.0")
    sys.exit(0)
prompt = sys.stdin.read()

def say(**event):
    print(json.dumps(event), flush=True)

def answer(text):
    say(type="thread.started", thread_id="SES-1")
    say(type="item.completed", item={{"id": "1", "type": "agent_message", "text": text}})

def complete():
    say(type="turn.completed", usage={{"input_tokens": 12, "cached_input_tokens": 2, "output_tokens": 3}})

{steps}
"""


@pytest.fixture(autouse=True)
def nothing_of_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


class Room:
    """Where one engine is examined."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = RunFolder(tmp_path / "run")
        self.note = tmp_path / "lent" / "run.json"
        self.logins = tmp_path / "logins"
        self.cli = tmp_path / "cli"
        self.steps: list[str] = []
        self.plays('answer("ready")', "complete()")

    def plays(self, *steps: str) -> None:
        """Lines of Python, after the prompt is read."""
        self.cli.write_text(_CLI.format(python=sys.executable, steps="\n".join(steps)))
        self.cli.chmod(0o755)

    async def examine(
        self, *, with_turn: bool = True, timeouts: Timeouts = QUICK, **config: Any
    ) -> Diagnosis:
        given = {"command": (str(self.cli),), "env": (f"CODEX_API_KEY={KEY}",), "login_home": self.logins}
        engine = CodexEngine(EngineConfig(**(given | config)))  # type: ignore[arg-type]
        visit = Visit(
            folder=self.folder,
            note=self.note,
            timeouts=timeouts,
            with_turn=with_turn,
            report=self.steps.append,
        )
        found = await doctor.examine(engine, visit)
        assert KEY not in repr(found)
        return found

    async def failing_turn(self, *steps: str, timeouts: Timeouts = QUICK) -> tuple[Code, str, str | None]:
        """Its code, its words, and the fix."""
        self.plays(*steps)
        found = await self.examine(timeouts=timeouts)
        assert found.turn is not None
        assert found.turn.failure is not None
        check = found.checks[-1]
        failure = found.turn.failure
        assert (check.name, check.outcome) == ("turn", Outcome.FAIL)
        assert check.sentence == f"{failure.code}: {failure.message}"
        return failure.code, failure.message, check.fix


AGENT = Path(__file__).parents[1] / "fakes" / "acp_agent.py"


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def outcomes(found: Diagnosis) -> dict[str, str]:
    return {check.name: check.outcome.value for check in found.checks}


def sentence(found: Diagnosis, name: str) -> str:
    (check,) = (check for check in found.checks if check.name == name)
    return check.sentence


def fix(found: Diagnosis, name: str) -> str | None:
    (check,) = (check for check in found.checks if check.name == name)
    return check.fix


async def asked(room: Room, *command: str, asking: bool = True) -> Diagnosis:
    """An agent of the operator's own, told to do what needs a permission."""
    visit = Visit(
        folder=room.folder,
        note=room.note,
        timeouts=QUICK,
        with_turn=True,
        asking=asking,
        report=room.steps.append,
    )
    return await doctor.examine(AcpAgent("parrot", EngineConfig(command=command)), visit)


class TestWell:
    async def test_everything_is_tried(self, room: Room) -> None:
        found = await room.examine(model="gpt-5.5")
        assert outcomes(found) == dict.fromkeys(("program", "version", "login", "starts", "turn"), "ok")
        assert found.is_good
        assert sentence(found, "program") == str(room.cli)
        assert sentence(found, "version") == "0.166.0"
        assert sentence(found, "login") == "the key in CODEX_API_KEY"
        assert found.turn is not None
        assert (found.turn.answer, found.turn.model, found.turn.failure) == ("ready", "gpt-5.5", None)
        assert found.turn.usage["input_tokens"] == 10
        assert sentence(found, "turn").startswith("it answered 'ready' (")
        assert "gpt-5.5, 10 input tokens, 2 cached tokens, 3 output tokens)" in sentence(found, "turn")
        assert room.steps == ["looking for the program", "starting it", "playing a turn"]

    async def test_turn_only_if_it_is_asked_for(self, room: Room) -> None:
        found = await room.examine(with_turn=False)
        assert (found.is_good, found.turn) == (True, None)
        assert "turn" not in outcomes(found)

    async def test_it_is_met_as_by_a_run(self, room: Room) -> None:
        """Its own words, the prompt on stdin, a private home with its settings, and the workspace to stand in."""
        room.plays(
            "home = os.environ['HOME']",
            "facts = dict(words=sys.argv[1:], prompt=prompt, cwd=os.getcwd(), home=home)",
            "facts['settings'] = os.path.exists(os.environ['CODEX_HOME'] + '/config.toml')",
            "answer(json.dumps(facts))",
            "complete()",
        )
        found = await room.examine()
        assert found.turn is not None
        facts = json.loads(found.turn.answer)
        assert facts["words"][:2] == ["exec", "--json"]
        assert facts["prompt"] == "Reply with the single word ready."
        assert (facts["cwd"], facts["home"]) == (str(room.folder.workspace), str(room.folder.home))
        assert facts["settings"] is True

    async def test_demo(self, room: Room) -> None:
        visit = Visit(
            folder=room.folder, note=room.note, timeouts=QUICK, with_turn=True, report=room.steps.append
        )
        found = await doctor.examine(DemoEngine(EngineConfig()), visit)
        assert outcomes(found) == dict.fromkeys(("program", "version", "login", "turn"), "ok")

    async def test_resident_agent(self, room: Room) -> None:
        found = await asked(room, sys.executable, str(AGENT), asking=False)
        assert outcomes(found)["turn"] == "ok"
        assert found.turn is not None
        assert found.turn.answer == "You said: Reply with the single word ready."

    async def test_an_agent_that_asks(self, room: Room) -> None:
        found = await asked(room, sys.executable, str(AGENT))
        assert (outcomes(found)["asks"], sentence(found, "asks")) == ("ok", "it asked for: write a file")
        assert found.is_good

    async def test_an_agent_that_acts_without_asking(self, room: Room) -> None:
        act = f'touch turnkeeper-was-here; exec "{sys.executable}" "{AGENT}"'
        found = await asked(room, "sh", "-c", act)
        assert outcomes(found)["asks"] == "fail"
        assert "without a permission" in sentence(found, "asks")
        assert not found.is_good

    async def test_secret_in_its_words_is_hidden(self, room: Room) -> None:
        room.plays("answer(os.environ['CODEX_API_KEY'])", "complete()")
        found = await room.examine()
        assert found.turn is not None
        assert found.turn.answer == "*" * len(KEY)

    async def test_what_it_leaves_behind_is_ended(self, room: Room, tmp_path: Path) -> None:
        """Tools that left its session, and a CLI that does not go when it is done."""
        room.plays(
            "child = subprocess.Popen(['/bin/sleep', '1000'], start_new_session=True)",
            f"open('{tmp_path}/pids', 'w').write(f'{{os.getpid()}} {{child.pid}}')",
            "answer('ready')",
            "complete()",
            "time.sleep(1000)",
        )
        found = await room.examine()
        assert found.is_good
        for pid in (tmp_path / "pids").read_text().split():
            assert_gone(int(pid))


class TestLogin:
    @pytest.fixture
    def mine(self, room: Room) -> Path:
        """A person's own login file."""
        path = room.logins / AUTH
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(LOGIN))
        return path

    async def test_file_is_lent_for_the_turn(self, room: Room, mine: Path) -> None:
        room.plays(f"answer(open(os.environ['HOME'] + '/{AUTH}').read())", "complete()")
        found = await room.examine(env=())
        assert sentence(found, "login") == f"the file {mine}"
        assert found.turn is not None
        assert found.turn.answer == json.dumps(LOGIN).replace(LOGIN["tokens"]["access_token"], "*" * 27)
        assert not (room.folder.home / AUTH).exists()
        assert not room.note.exists()
        assert json.loads(mine.read_text()) == LOGIN

    async def test_file_that_it_renews_goes_back(self, room: Room, mine: Path) -> None:
        room.plays(
            f"open(os.environ['HOME'] + '/{AUTH}', 'w').write('{{\"tokens\": 2}}')",
            "answer('ready')",
            "complete()",
        )
        assert (await room.examine(env=())).is_good
        assert json.loads(mine.read_text()) == {"tokens": 2}

    async def test_file_that_could_not_be_given_back(self, room: Room, mine: Path) -> None:
        room.plays(f"open(os.environ['HOME'] + '/{AUTH}', 'w').write('{{')", "answer('ready')", "complete()")
        found = await room.examine(env=())
        assert found.is_good
        assert found.checks[-1].outcome is Outcome.WARN
        assert f"{mine} was not changed" in found.checks[-1].sentence

    async def test_file_that_a_run_has_just_now(self, room: Room, mine: Path) -> None:
        elsewhere = room.folder.root.with_name("elsewhere")
        elsewhere.mkdir()
        lent = lend({AUTH: mine}, elsewhere, room.note.with_name("another.json"))
        found = await room.examine(env=())
        assert sentence(found, "turn") == (
            "ENGINE_NOT_READY: its login is in use by another process; try again when that is done"
        )
        assert lent.take_back() == []

    async def test_nobody_is_logged_in(self, room: Room) -> None:
        """A turn would only say it again, and some CLIs take minutes for that."""
        found = await room.examine(env=())
        assert outcomes(found) == {"program": "ok", "version": "ok", "login": "fail", "starts": "ok"}
        assert sentence(found, "login") == "nobody is logged in to codex, and no key is set"
        assert str(fix(found, "login")).endswith(f", or: HOME={room.logins} {room.cli} login")
        assert not found.is_good


class TestProgram:
    @pytest.mark.failure("S01")
    async def test_is_missing(self, room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        found = await room.examine(command=())
        assert outcomes(found) == {"program": "fail"}
        assert fix(found, "program") == "turnkeeper engines install codex"
        found = await room.examine(command=(str(tmp_path / "nowhere"),))
        assert outcomes(found) == {"program": "fail"}
        assert "which does not exist" in sentence(found, "program")

    async def test_is_of_another_version(
        self, room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may work all the same."""
        other = program(tmp_path / "bin" / "codex", "echo 0.1.0")
        found = await room.examine(command=(str(other),), with_turn=False)
        assert outcomes(found)["version"] == "warn"
        assert sentence(found, "version") == "codex 0.1.0 was not tested with this Turnkeeper; 0.166.0 was"
        assert fix(found, "version") == "set engines.codex.command to another program, or leave it away"
        assert found.is_good
        monkeypatch.setenv("PATH", str(other.parent))
        found = await room.examine(command=(), with_turn=False)
        assert fix(found, "version") == "turnkeeper engines install codex"

    async def test_does_not_start_in_the_environment_of_a_run(self, room: Room, tmp_path: Path) -> None:
        room.cli = program(tmp_path / "bin" / "codex", "echo 'no licence' >&2; exit 3")
        found = await room.examine()
        assert outcomes(found) == {"program": "ok", "version": "warn", "login": "ok", "starts": "fail"}
        assert "does not tell its version" in sentence(found, "version")
        assert sentence(found, "starts") == "it answered to --version with exit code 3: no licence"


class TestTurn:
    async def test_typed_failure(self, room: Room) -> None:
        failed = 'say(type="turn.failed", error={"message": "unexpected status 401 Unauthorized: bad key"})'
        code, message, fix = await room.failing_turn('say(type="thread.started", thread_id="1")', failed)
        assert code is Code.ENGINE_AUTH_REQUIRED
        assert "bad key" in message
        assert fix == "log in again, or give it another key"

    async def test_unknown_argument(self, room: Room) -> None:
        words = "sys.stderr.write(\"error: unexpected argument '--json' found\\n\")"
        code, _, fix = await room.failing_turn(words, "sys.exit(2)")
        assert code is Code.ENGINE_ARGS_REJECTED
        assert str(fix).endswith("turnkeeper engines install codex")

    async def test_leaves_without_closing_its_turn(self, room: Room) -> None:
        code, message, _ = await room.failing_turn("answer('ready')")
        assert (code, message) == (Code.ENGINE_FAILED, "the engine exited without closing its turn")

    async def test_killed(self, room: Room) -> None:
        code, message, _ = await room.failing_turn("answer('ready')", "os.kill(os.getpid(), signal.SIGSEGV)")
        assert (code, message) == (Code.ENGINE_CRASHED, "the engine ended with SIGSEGV")

    async def test_silence(self, room: Room) -> None:
        limits = Timeouts(first_byte_sec=0.4, idle_sec=0.4, turn_sec=60, result_grace_sec=0.2, step_sec=0.5)
        complaint = "sys.stderr.write('waiting for the network\\n'); sys.stderr.flush()"
        code, message, fix = await room.failing_turn(complaint, "time.sleep(1000)", timeouts=limits)
        assert code is Code.ENGINE_STALLED
        assert message.startswith("the engine printed nothing of its turn for 0.4 s")
        assert "started by hand" in message
        assert fix is not None

    async def test_takes_too_long(self, room: Room) -> None:
        limits = Timeouts(first_byte_sec=20, idle_sec=20, turn_sec=0.4, result_grace_sec=0.2, step_sec=0.5)
        code, _, _ = await room.failing_turn("answer('wait')", "time.sleep(1000)", timeouts=limits)
        assert code is Code.TURN_TIMEOUT

    async def test_not_a_word(self, room: Room) -> None:
        room.plays('say(type="thread.started", thread_id="1")', "complete()")
        found = await room.examine()
        assert outcomes(found)["turn"] == "warn"
        assert found.is_good
