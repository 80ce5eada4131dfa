"""What is said of a wrong setting, in one line: without the price of a process for each."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from turnkeeper.core.errors import SettingsInvalid
from turnkeeper.core.retention import Limits, Part
from turnkeeper.settings import load_settings


@pytest.fixture(autouse=True)
def nothing_of_the_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("TURNKEEPER_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def refused() -> str:
    with pytest.raises(SettingsInvalid) as error:
        load_settings()
    assert "\n" not in error.value.message
    return error.value.message


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("DATA_DIR", "", "TURNKEEPER_DATA_DIR = '': "),
        ("PORT", "nine", "TURNKEEPER_PORT = 'nine': "),
        ("PORT", "65536", "TURNKEEPER_PORT = '65536': "),
        ("PORT", "-1", "TURNKEEPER_PORT = '-1': "),
        ("MAX_UPLOAD_MB", "0", "TURNKEEPER_MAX_UPLOAD_MB = '0': "),
        ("UPLOAD_TIMEOUT_SEC", "-5", "TURNKEEPER_UPLOAD_TIMEOUT_SEC = '-5': "),
        ("STICKY_SLOTS", "1.5", "TURNKEEPER_STICKY_SLOTS = '1.5': "),
        ("SLOTS", "two\nlines", r"TURNKEEPER_SLOTS = 'two\nlines': "),
        ("RETENTION__RUNS_DAYS", "0", "TURNKEEPER_RETENTION__RUNS_DAYS = '0': "),
        ("RETENTION__WAITING_DAYS", "3", "TURNKEEPER_RETENTION__WAITING_DAYS = '3': "),
        ("ENGINES__DEMO__SPEED", "fast", "TURNKEEPER_ENGINES__DEMO__SPEED = (not shown): "),
        ("ENGINES__CODEX__COMMAND", "'codex", "TURNKEEPER_ENGINES__CODEX__COMMAND = "),
        ("SLOT", "5", "there is no setting TURNKEEPER_SLOT; known are: "),
        ("SLOTS__LIMIT", "5", "there is no setting TURNKEEPER_SLOTS__LIMIT; known are: "),
    ],
)
def test_wrong_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str) -> None:
    monkeypatch.setenv(f"TURNKEEPER_{name}", value)
    assert refused().startswith(words)


@pytest.mark.parametrize(
    "path", ["/", "/usr/..", "/proc", "/proc/sys", "/dev", "/sys", "{}/root", "{}", "{}/data", "{}/link"]
)
def test_what_opens_the_sandbox_is_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    """The whole machine, its processes and devices, and whatever the data directory is in; links do not help."""
    (tmp_path / "root").symlink_to("/")
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv("TURNKEEPER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TURNKEEPER_SANDBOX__READ", f"/usr:{path.format(tmp_path)}")
    assert path.format(tmp_path) in refused()


def test_what_is_beside_the_data_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TURNKEEPER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TURNKEEPER_SANDBOX__READ", f"{tmp_path}/datasets:/srv")
    assert load_settings().sandbox.read == (tmp_path / "datasets", Path("/srv"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\xff\xfe", "{path} cannot be read as TOML: "),
        (b"slots = 1\nslots = 2\n", "{path} cannot be read as TOML: "),
        (b"engines = 5\n", "TURNKEEPER_ENGINES = 5: "),
        (b"[engines.codex]\ncommand = 5\n", "TURNKEEPER_ENGINES__CODEX__COMMAND = 5: "),
        (b"token = 'a secret'\n", "TURNKEEPER_TOKEN = (not shown): "),
        (b"[engines.codex]\nenvs = ['MY_KEY=sk']\n", "TURNKEEPER_ENGINES__CODEX__ENVS = (not shown): "),
        (b"[engines.codex]\nenv = ['MY KEY=sk']\n", "TURNKEEPER_ENGINES__CODEX__ENV__0 = (not shown): "),
        (b"[engines]\ncodex = 'MY_KEY=sk'\n", "TURNKEEPER_ENGINES__CODEX = (not shown): "),
        (b"[engines.codex]\nconfig = 'key sk'\n", "TURNKEEPER_ENGINES__CODEX__CONFIG = (not shown): "),
        (
            b"[engines.codex]\nenv = ['HOME=/root']\n",
            "TURNKEEPER_ENGINES__CODEX__ENV = (not shown): Value error, HOME is different for each run",
        ),
    ],
)
def test_wrong_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "turnkeeper.toml"
    path.write_bytes(text)
    monkeypatch.setenv("TURNKEEPER_CONFIG", str(path))
    assert refused().startswith(words.format(path=path))


def test_what_is_removed_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load_settings().retention.limits() == ()
    config = tmp_path / "turnkeeper.toml"
    config.write_text("[retention]\nruns_days = 90\nhomes_days = 0.5\nmax_gb = 1.5\n")
    monkeypatch.setenv("TURNKEEPER_CONFIG", str(config))
    assert load_settings().retention.limits() == (
        Limits(older_than=timedelta(hours=12), part=Part.HOMES),
        Limits(older_than=timedelta(days=90)),
        Limits(keep_bytes=1_500_000_000),
    )
    monkeypatch.setenv("TURNKEEPER_RETENTION__RUNS_DAYS", "30")
    assert load_settings().retention.limits()[1] == Limits(older_than=timedelta(days=30))
