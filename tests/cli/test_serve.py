"""`turnkeeper serve` as a person meets it: one clear line when it cannot start, and a banner that is true."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.harness import PATIENCE, SKILLS
from tests.surroundings import SETTLED
from turnkeeper import __version__

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of the person who runs the tests: neither their settings nor their folders."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return SETTLED | kept | {"HOME": str(home), "PYTHONWARNINGS": "error"} | more


def turnkeeper(
    home: Path, *arguments: str, by: Sequence[str] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*by, sys.executable, "-m", "turnkeeper", *arguments],
        env=environment(home, **env),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def refusal(home: Path, *arguments: str, port: str = "0", by: Sequence[str] = (), **env: str) -> str:
    """The one line that it says when it does not start."""
    ended = turnkeeper(home, "serve", "--port", port, *arguments, by=by, **env)
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith("turnkeeper: ")
    return line.removeprefix("turnkeeper: ")


@pytest.fixture
def by_the_rules() -> Sequence[str]:
    """In front of a command: root who must ask the permissions of a file, as everybody else does."""
    if os.geteuid() != 0:
        return ()
    command = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override")
    try:
        subprocess.run([*command, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("root can write everywhere, and setpriv is missing or may not change that")
    return command


def start(home: Path, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "turnkeeper", "serve", "--port", "0", *arguments]
    with (home / "stderr").open("w") as log:
        return subprocess.Popen(command, env=environment(home, **env), stdout=subprocess.PIPE, stderr=log)


@contextmanager
def served(home: Path, *arguments: str, **env: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A running service and what it said when it was ready."""
    process = start(home, *arguments, **env)
    try:
        yield _banner(process, home / "stderr"), process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, (home / "stderr").read_text()
        assert process.stdout is not None
        process.stdout.close()
    assert "Traceback" not in (home / "stderr").read_text()


def _banner(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None
    said, deadline = b"", time.monotonic() + PATIENCE
    while b" open\n" not in said:
        ready, _, _ = select.select([process.stdout], [], [], deadline - time.monotonic())
        assert ready, "it never said that it is ready"
        some = os.read(process.stdout.fileno(), 4096)
        assert some, log.read_text()
        said += some
    return said.decode()


@pytest.mark.parametrize("way", ["version", "--version"])
def test_version(tmp_path: Path, way: str) -> None:
    ended = turnkeeper(tmp_path, way)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{__version__}\n", "")


def test_help_needs_nothing(tmp_path: Path) -> None:
    ended = turnkeeper(tmp_path, "serve", "--help")
    assert ended.returncode == 0
    assert "--data-dir" in ended.stdout
    assert list(tmp_path.iterdir()) == []


class TestRefusals:
    @pytest.mark.failure("V11")
    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("SLOTS", "many", "TURNKEEPER_SLOTS = 'many': "),
            ("SLOTS", "0", "TURNKEEPER_SLOTS = '0': "),
            ("HOST", "", "TURNKEEPER_HOST = '': "),
            ("MAX_QUEUED", "-1", "TURNKEEPER_MAX_QUEUED = '-1': "),
            ("SESSION_TIMEOUT_SEC", "nan", "TURNKEEPER_SESSION_TIMEOUT_SEC = 'nan': "),
            ("TIMEOUTS__IDLE_SEC", "soon", "TURNKEEPER_TIMEOUTS__IDLE_SEC = 'soon': "),
            ("TIMEOUTS__IDLE", "5", "TURNKEEPER_TIMEOUTS__IDLE = '5': "),
            ("TIMEOUTS", "{", "TURNKEEPER_TIMEOUTS"),
            ("ENGINES", "codex", "ENGINES"),
            ("ENGINES__DEMO__LIMIT", "0", "TURNKEEPER_ENGINES__DEMO__LIMIT = '0': "),
            ("DATA_DIR", "~nobody-of-this-name/data", "TURNKEEPER_DATA_DIR"),
        ],
    )
    def test_wrong_setting_is_named_with_its_value(
        self, tmp_path: Path, name: str, value: str, words: str
    ) -> None:
        line = refusal(tmp_path, **{f"TURNKEEPER_{name}": value})
        assert words.removeprefix("TURNKEEPER_").lower() in line.lower()
        assert list(tmp_path.iterdir()) == [], "nothing was made"

    def test_wrong_option_is_named_like_the_setting(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, port="70000").startswith("TURNKEEPER_PORT = 70000: ")

    @pytest.mark.failure("V11")
    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("ENGINES__NOBODY__LIMIT", "3", "engines.nobody: there is no such engine; there are: "),
            ("ENGINES__DEMO__COMMAND", "python3", "engines.demo.command: the demo engine is built in"),
            ("DEFAULT_ENGINE", "nobody", "there is no engine 'nobody'; there are: "),
        ],
    )
    def test_engine_that_there_is_not(self, tmp_path: Path, name: str, value: str, words: str) -> None:
        data_dir = str(tmp_path / "data")
        line = refusal(tmp_path, "--data-dir", data_dir, **{f"TURNKEEPER_{name}": value})
        assert line.startswith(words)
        if "there are" in words:
            assert ", demo" in line

    def test_walls_that_are_required_and_not_there(self, tmp_path: Path) -> None:
        walls = {"TURNKEEPER_SANDBOX__MODE": "required", "PATH": "/nowhere"}
        line = refusal(tmp_path, "--data-dir", str(tmp_path / "data"), **walls)
        assert line.startswith(
            "sandbox.mode is required, and there is no sandbox here: bubblewrap is not installed"
        )
        assert "apt install bubblewrap" in line
        wrong = refusal(tmp_path, TURNKEEPER_SANDBOX__MODE="maybe")
        assert "TURNKEEPER_SANDBOX__MODE = 'maybe'" in wrong

    def test_token_is_never_shown(self, tmp_path: Path) -> None:
        line = refusal(tmp_path, TURNKEEPER_TOKEN="too short")
        assert line.startswith("TURNKEEPER_TOKEN = (not shown): ")

    @pytest.mark.failure("V11")
    def test_port_in_use(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = str(other.getsockname()[1])
            line = refusal(tmp_path, "--data-dir", str(tmp_path / "data"), port=port)
        assert line == f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another --port"

    @pytest.mark.failure("V11")
    @pytest.mark.parametrize(
        "host",
        ["203.0.113.5", "no-such-host.invalid", "a..b", "ü" * 70],
        ids=lambda host: host[:9],
    )
    def test_address_that_is_not_ours(self, tmp_path: Path, host: str) -> None:
        line = refusal(tmp_path, "--host", host, "--behind-proxy", "--data-dir", str(tmp_path / "data"))
        assert line.startswith(f"cannot listen on {host}:0: ")
        assert line.endswith("; choose another --host")

    @pytest.mark.failure("V11")
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "203.0.113.5"])
    def test_address_that_others_can_reach_needs_cover(self, tmp_path: Path, host: str) -> None:
        line = refusal(tmp_path, "--host", host, "--data-dir", str(tmp_path / "data"))
        assert line.startswith(f"{host} can be reached from other machines: ")
        assert "--tls-cert FILE --tls-key FILE" in line
        assert "--behind-proxy" in line
        assert list(tmp_path.iterdir()) == [], "nothing was made"

    @pytest.mark.failure("V04")
    def test_file_in_place_of_the_data_directory(self, tmp_path: Path) -> None:
        (tmp_path / "data").write_text("precious")
        for where in ("data", "data/below"):
            line = refusal(tmp_path, "--data-dir", str(tmp_path / where))
            assert line.startswith(f"the data directory {tmp_path / where} cannot be made: ")
        assert (tmp_path / "data").read_text() == "precious"

    @pytest.mark.failure("V04")
    def test_data_directory_that_cannot_be_written(self, tmp_path: Path, by_the_rules: Sequence[str]) -> None:
        (tmp_path / "data").mkdir(mode=0o500)
        line = refusal(tmp_path, "--data-dir", str(tmp_path / "data"), by=by_the_rules)
        assert line == f"the data directory {tmp_path / 'data'} is not writable"

    @pytest.mark.failure("V04")
    @pytest.mark.parametrize("data_dir", ["/proc", "/proc/turnkeeper", "/dev/null/data"])
    def test_data_directory_where_nobody_can_write(self, tmp_path: Path, data_dir: str) -> None:
        """Not even root, who is told that it may."""
        line = refusal(tmp_path, "--data-dir", data_dir)
        assert line.startswith((f"the data directory {data_dir} ", f"{data_dir}/token cannot be used: "))

    @pytest.mark.failure("V04")
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("turnkeeper.db", "the database {path} cannot be opened: "),
            ("lock", "the data directory {folder} cannot be used: Is a directory"),
            ("token", "{path} holds no usable token; "),
        ],
    )
    def test_folder_in_place_of_a_file(self, tmp_path: Path, name: str, words: str) -> None:
        path = tmp_path / "data" / name
        path.mkdir(parents=True)
        line = refusal(tmp_path, "--data-dir", str(tmp_path / "data"))
        assert line.startswith(words.format(path=path, folder=path.parent))

    def test_token_that_is_a_link_to_nowhere(self, tmp_path: Path) -> None:
        path = tmp_path / "data" / "token"
        path.parent.mkdir()
        path.symlink_to("/nowhere/token")
        line = refusal(tmp_path, "--data-dir", str(tmp_path / "data"))
        assert line.startswith(f"{path} holds no usable token; ")

    def test_database_that_is_none(self, tmp_path: Path) -> None:
        path = tmp_path / "data" / "turnkeeper.db"
        path.parent.mkdir()
        path.write_bytes(b"precious words, and no database" * 1000)
        line = refusal(tmp_path, "--data-dir", str(tmp_path / "data"))
        assert line == f"the database {path} cannot be opened: file is not a database"
        assert path.read_bytes() == b"precious words, and no database" * 1000

    def test_database_of_something_else(self, tmp_path: Path) -> None:
        path = tmp_path / "data" / "turnkeeper.db"
        path.parent.mkdir()
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("CREATE TABLE runs (distance INT)")
        line = refusal(tmp_path, "--data-dir", str(tmp_path / "data"))
        assert line == f"the database {path} cannot be opened: table runs already exists"

    @pytest.mark.failure("V10")
    def test_database_of_a_newer_version(self, tmp_path: Path) -> None:
        data_dir = tmp_path / "data"
        with served(tmp_path, "--data-dir", str(data_dir)):
            pass
        with closing(sqlite3.connect(data_dir / "turnkeeper.db")) as newer, newer:
            newer.execute("PRAGMA user_version = 999")
        line = refusal(tmp_path, "--data-dir", str(data_dir))
        assert line.startswith("the database has schema 999, this Turnkeeper knows ")

    def test_token_file_that_others_can_read(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "token").write_text("a-token-of-decent-length")
        (tmp_path / "data" / "token").chmod(0o644)
        line = refusal(tmp_path, "--data-dir", str(tmp_path / "data"))
        assert (
            line
            == f"{tmp_path / 'data' / 'token'} can be read by others; run: chmod 600 {tmp_path / 'data' / 'token'}"
        )

    @pytest.mark.failure("V06")
    def test_data_directory_of_another_server(self, tmp_path: Path) -> None:
        data_dir = str(tmp_path / "data")
        with served(tmp_path, "--data-dir", data_dir) as (_, process):
            line = refusal(tmp_path, "--data-dir", data_dir)
        assert f"pid {process.pid}" in line


class TestConfigFile:
    def refused(self, tmp_path: Path, text: str) -> str:
        path = tmp_path / "turnkeeper.toml"
        path.write_text(text)
        line = refusal(tmp_path, TURNKEEPER_CONFIG=str(path))
        assert list(tmp_path.iterdir()) == [path], "nothing was made"
        return line

    @pytest.mark.failure("V11")
    def test_unknown_key(self, tmp_path: Path) -> None:
        line = self.refused(tmp_path, 'slot = 5\nhosts = "x"\nslots = 2\n')
        assert line == f"{tmp_path / 'turnkeeper.toml'} has settings that do not exist: hosts, slot"

    def test_unknown_key_in_a_table(self, tmp_path: Path) -> None:
        assert "TIMEOUTS__IDLE" in self.refused(tmp_path, "[timeouts]\nidle = 5\n")

    @pytest.mark.failure("V11")
    def test_not_toml(self, tmp_path: Path) -> None:
        line = self.refused(tmp_path, "slots = \n[")
        assert line.startswith(f"{tmp_path / 'turnkeeper.toml'} cannot be read as TOML: ")

    def test_wrong_value(self, tmp_path: Path) -> None:
        assert self.refused(tmp_path, 'slots = "many"').startswith("TURNKEEPER_SLOTS = 'many': ")

    @pytest.mark.failure("V11")
    def test_named_file_that_is_missing(self, tmp_path: Path) -> None:
        line = refusal(tmp_path, TURNKEEPER_CONFIG=str(tmp_path / "nowhere.toml"))
        assert line == f"TURNKEEPER_CONFIG names {tmp_path / 'nowhere.toml'}, which does not exist"

    def test_folder_in_place_of_the_file(self, tmp_path: Path) -> None:
        assert "cannot be read as TOML" in refusal(tmp_path, TURNKEEPER_CONFIG=str(tmp_path))

    @pytest.mark.failure("V11")
    def test_unknown_engine(self, tmp_path: Path) -> None:
        path = tmp_path / "turnkeeper.toml"
        path.write_text("[engines.nobody]\nlimit = 3\n")
        data_dir = str(tmp_path / "data")
        line = refusal(tmp_path, "--data-dir", data_dir, TURNKEEPER_CONFIG=str(path))
        assert line.startswith("engines.nobody: there is no such engine; there are: ")

    def test_options_beat_the_environment_and_that_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "turnkeeper.toml"
        path.write_text(
            f'data_dir = "{tmp_path}/file"\nskills_dir = ["{SKILLS}"]\nslots = 3\nmax_queued = 7\n'
        )
        env = {
            "TURNKEEPER_CONFIG": str(path),
            "TURNKEEPER_DATA_DIR": str(tmp_path / "env"),
            "TURNKEEPER_SLOTS": "2",
        }
        with served(tmp_path, "--data-dir", str(tmp_path / "option"), **env) as (said, _):
            address, token = told(said)
            metrics = httpx.get(f"{address}/metrics", headers=token, trust_env=False).text
            skills = httpx.get(f"{address}/v1/skills", headers=token, trust_env=False).json()["skills"]
        assert "turnkeeper_slots 2.0" in metrics
        assert len(skills) > 5
        assert (tmp_path / "option" / "token").exists()
        assert not (tmp_path / "env").exists()
        assert not (tmp_path / "file").exists()


def told(said: str) -> tuple[str, dict[str, str]]:
    """The address, and the token from where the banner says that it is."""
    address = re.search(r"is ready at (http://\S+)", said)
    kept = re.search(r"with the token in (\S+)", said)
    assert address is not None
    assert kept is not None
    return address[1], {"Authorization": f"Bearer {Path(kept[1]).read_text().strip()}"}


def test_folder_of_skills_may_come_later(tmp_path: Path) -> None:
    """It is looked at with every call, so a missing one is worth a word and no more."""
    folders = [tmp_path / "missing", tmp_path / "file"]
    folders[1].touch()
    options = [word for folder in folders for word in ("--skills-dir", str(folder))]
    with served(tmp_path, "--data-dir", str(tmp_path / "data"), *options) as (said, _):
        address, token = told(said)
        assert httpx.get(f"{address}/v1/skills", headers=token, trust_env=False).json() == {"skills": []}
        (folders[0] / "late").mkdir(parents=True)
        (folders[0] / "late" / "SKILL.md").write_text("Say hello.")
        (skill,) = httpx.get(f"{address}/v1/skills", headers=token, trust_env=False).json()["skills"]
        assert skill["id"] == "late"
    warnings = [line for line in (tmp_path / "stderr").read_text().splitlines() if " WARNING " in line]
    *missing, unwalled = warnings
    assert "AGENTS HAVE NO SANDBOX" in unwalled
    for warning, folder in zip(missing, folders, strict=True):
        assert f"there is no folder of skills at {folder}; " in warning


class TestBanner:
    def test_its_address_signs_one_browser_in(self, tmp_path: Path) -> None:
        with served(tmp_path, "--data-dir", str(tmp_path / "data")) as (said, _):
            found = re.search(r"^    (http://\S+)/#code=(\S+)$", said, re.MULTILINE)
            assert found is not None
            with httpx.Client(base_url=found[1], trust_env=False, headers={"Origin": found[1]}) as browser:
                assert browser.get("/v1/jobs").status_code == 401
                session = browser.post("/v1/session", json={"code": found[2]})
                assert session.status_code == 200
                page = {"X-Turnkeeper-Page": session.json()["page_key"]}
                assert browser.get("/v1/jobs", headers=page).status_code == 200
                assert browser.post("/v1/session", json={"code": found[2]}).status_code == 401

    def test_where_the_token_is_and_not_what_it_is(self, tmp_path: Path) -> None:
        data_dir = tmp_path / "data"
        with served(tmp_path, "--data-dir", str(data_dir)) as (said, _):
            assert f"Turnkeeper {__version__} is ready at http://127.0.0.1:" in said
            address, token = told(said)
            assert httpx.get(f"{address}/v1/skills", headers=token, trust_env=False).status_code == 200
            assert (data_dir / "token").read_text().strip() not in said

    def test_given_token_is_not_repeated(self, tmp_path: Path) -> None:
        token = 'it\'s-$HOME-`id`-"quoted"-\\n!'
        env = {"TURNKEEPER_TOKEN": token, "TURNKEEPER_DATA_DIR": str(tmp_path / "data")}
        with served(tmp_path, **env) as (said, _):
            assert token not in said
            assert "with the token of your settings" in said
        assert not (tmp_path / "data" / "token").exists(), "a given token is nobody else's to keep"
        assert token not in (tmp_path / "stderr").read_text()

    def test_first_command_fits_the_skills_that_there_are(self, tmp_path: Path) -> None:
        with served(tmp_path, "--data-dir", str(tmp_path / "data"), "--skills-dir", str(EXAMPLES)) as (
            said,
            _,
        ):
            assert "turnkeeper run interview --engine demo --interactive\n" in said
        with served(tmp_path, "--data-dir", str(tmp_path / "data")) as (said, _):
            assert "turnkeeper skills new my-first-skill\n" in said

    def test_address_is_the_one_it_listens_on(self, tmp_path: Path) -> None:
        with served(tmp_path, "--data-dir", str(tmp_path / "data"), "--host", "::1") as (said, _):
            address, token = told(said)
            assert address.startswith("http://[::1]:")
            assert httpx.get(f"{address}/v1/skills", headers=token, trust_env=False).status_code == 200


def test_as_json(tmp_path: Path) -> None:
    process = start(tmp_path, "--data-dir", str(tmp_path / "data"), "--json", "--idle-stop", "0.5")
    said, _ = process.communicate(timeout=PATIENCE)
    ready = json.loads(said)
    assert set(ready) == {"url", "sign_in", "pid", "version"}
    assert ready["pid"] == process.pid
    assert ready["sign_in"].startswith(f"{ready['url']}/#code=")


def test_stops_by_itself_when_nothing_is_to_do(tmp_path: Path) -> None:
    process = start(tmp_path, "--data-dir", str(tmp_path / "data"), "--idle-stop", "0.5")
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "nothing was to do for 0.5 seconds" in (tmp_path / "stderr").read_text()
    assert not (tmp_path / "data" / "service.json").exists()
