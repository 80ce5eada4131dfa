"""The Tab key: what a shell is offered beside a service. Without one nothing is said, started or waited for."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.cli.test_doctor import leave_behind, locked
from tests.cli.test_serve import EXAMPLES, environment, served
from tests.harness import PATIENCE, TOKEN
from tests.skills.folders import skill_at
from turnkeeper import beacon, engines

SKILLS = ["document-summary", "interview", "meeting-notes", "trip-plan"]


@dataclass(frozen=True)
class Desk:
    folder: Path
    url: str = ""

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def env(self, **more: str) -> dict[str, str]:
        ours = {"TURNKEEPER_DATA_DIR": str(self.data_dir), "TURNKEEPER_TOKEN": TOKEN}
        return environment(self.folder, **(ours | more))

    def tab(self, line: str, shell: str = "bash", **env: str) -> list[str]:
        """What the program answers when the key is pressed at the end of the line."""
        words = f"turnkeeper {line}"
        place = len(shlex.split(words)) - (0 if words.endswith(" ") else 1)
        asked = {
            "_TURNKEEPER_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": words,
            "COMP_CWORD": str(place),
            "_TYPER_COMPLETE_ARGS": words,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        ended = subprocess.run(
            [sys.executable, "-m", "turnkeeper"],
            env=self.env(**asked, **env),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ended.stderr == ""
        return ended.stdout.split("\n")[:-1] if ended.stdout.strip() else []


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    skill_at(folder / "own" / "it's $(touch gone) here", "---\nname: evil\ndescription: x\n---\n")
    dirs = ("--skills-dir", str(EXAMPLES), "--skills-dir", str(folder / "own"))
    with served(folder, "--data-dir", str(folder / "data"), *dirs, TURNKEEPER_TOKEN=TOKEN):
        found = beacon.seen(folder / "data")
        assert found is not None
        yield Desk(folder, found.url)


@pytest.fixture(scope="module")
def run_id(desk: Desk) -> str:
    job = {"skill_id": "interview", "engine": "demo", "execution_mode": "interactive"}
    token = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=desk.url, headers=token, trust_env=False, timeout=PATIENCE) as http:
        run_id = str(http.post("/v1/jobs", json=job).json()["run_id"])
        waiting = http.get(f"/v1/jobs/{run_id}", headers={"Prefer": f"wait={PATIENCE}"}).json()
    assert waiting["status"] == "waiting_user"
    return run_id


class TestBesideAService:
    def test_skills(self, desk: Desk) -> None:
        assert desk.tab("skills show ") == SKILLS
        assert desk.tab("skills remove me") == ["meeting-notes"]

    def test_name_that_a_shell_would_act_on_is_not_offered(self, desk: Desk) -> None:
        for shell in ("bash", "zsh", "fish"):
            assert "touch" not in "".join(desk.tab("skills show ", shell))

    def test_engines(self, desk: Desk) -> None:
        assert desk.tab("engines install c") == ["codex", "claude"]
        assert desk.tab("engines doctor codex d") == ["demo"]

    def test_runs_with_skill_and_state(self, desk: Desk, run_id: str) -> None:
        assert desk.tab("show ") == [run_id]
        assert desk.tab(f"audit {run_id[:6]}") == [run_id]
        assert desk.tab("show zz") == []
        (told,) = desk.tab("show ", "fish")
        assert told == f"{run_id}\tinterview, waiting_user"
        assert f'"{run_id}":"interview, waiting_user"' in "".join(desk.tab("show ", "zsh"))

    def test_service_that_the_line_names(self, desk: Desk) -> None:
        line = f"skills show --data-dir {desk.data_dir} in"
        assert desk.tab(line, TURNKEEPER_DATA_DIR="/nowhere") == ["interview"]

    def test_service_that_the_environment_names(self, desk: Desk) -> None:
        env = {"TURNKEEPER_DATA_DIR": "/nowhere", "TURNKEEPER_URL": desk.url}
        assert desk.tab("skills show in", **env) == ["interview"]

    def test_real_bash(self, desk: Desk) -> None:
        """With the script that is installed for it."""
        if not (bash := shutil.which("bash")):
            pytest.skip("there is no bash")
        script = (
            "source <(turnkeeper --show-completion)\n"
            "COMP_WORDS=(turnkeeper skills show tr) COMP_CWORD=3\n"
            "[[ $(complete -p turnkeeper) =~ -F\\ ([^ ]+) ]] && ${BASH_REMATCH[1]} turnkeeper\n"
            'echo "${COMPREPLY[@]}"\n'
        )
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        ended = subprocess.run(
            [bash, "--norc", "-c", script],
            env=desk.env() | {"PATH": path, "SHELL": bash},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert (ended.stdout, ended.stderr) == ("trip-plan\n", "")


class TestWithoutOne:
    def test_nothing_is_said_or_started(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path)
        assert desk.tab("skills show ") == []
        assert desk.tab("show ") == []
        assert desk.tab("engines install ") == list(engines.names())
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "env",
        [
            {"TURNKEEPER_SLOTS": "many"},
            {"TURNKEEPER_URL": "gopher://here"},
            {"TURNKEEPER_URL": "http://127.0.0.1:9"},
            {"TURNKEEPER_URL": "http://no-such-host.invalid"},
        ],
        ids=lambda env: "=".join(*env.items()),
    )
    def test_nothing_is_said_about_what_is_wrong(self, tmp_path: Path, env: dict[str, str]) -> None:
        assert Desk(tmp_path).tab("skills show ", **env) == []

    def test_one_that_does_not_answer_is_not_waited_for(self, tmp_path: Path) -> None:
        """It takes the connection and says nothing: without a limit the shell would hang here for ever."""
        desk = Desk(tmp_path)
        desk.data_dir.mkdir()
        with locked(desk.data_dir), socket.create_server(("127.0.0.1", 0)) as silent:
            leave_behind(desk.data_dir, f"http://127.0.0.1:{silent.getsockname()[1]}")
            assert desk.tab("skills show ") == []
            silent.accept()[0].close()  # it was asked, and once
            silent.setblocking(False)
            with pytest.raises(BlockingIOError):
                silent.accept()
