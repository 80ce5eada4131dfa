"""What people deploy it with says what the service understands, and never runs it as root."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from turnkeeper.cli import app
from turnkeeper.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KEYS = {"CODEX_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"}


def unit() -> configparser.RawConfigParser:
    read = configparser.RawConfigParser(strict=False, delimiters=("=",))
    read.optionxform = str  # type: ignore[method-assign,assignment]
    read.read_string((DEPLOY / "turnkeeper.service").read_text())
    return read


def dockerfile() -> list[tuple[str, str]]:
    """Instruction and arguments, of the last stage."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    found = [(name, rest) for name, rest in lines]
    last = max(at for at, (name, _) in enumerate(found) if name == "FROM")
    return found[last:]


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["turnkeeper"])


def commands() -> list[list[str]]:
    entry = next(rest for name, rest in dockerfile() if name == "ENTRYPOINT")
    words = [each.strip(' "') for each in entry.strip("[]").split(",")]
    return [words[words.index("turnkeeper") + 1 :], shlex.split(unit()["Service"]["ExecStart"])[1:]]


@pytest.mark.parametrize("words", commands(), ids=["Dockerfile", "systemd"])
def test_the_commands_exist_with_their_options(words: list[str]) -> None:
    shown = CliRunner().invoke(app, [words[0], "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert shown.exit_code == 0
    for option in (word for word in words if word.startswith("--")):
        assert option in shown.output


def test_every_setting_named_exists() -> None:
    texts = "\n".join(path.read_text() for path in DEPLOY.iterdir())
    named = {name.lower() for name in re.findall(r"TURNKEEPER_([A-Z_]+)", texts)} - {"config"}
    assert named
    assert {name.split("__")[0] for name in named} <= set(Settings.model_fields)


def test_nothing_runs_as_root() -> None:
    assert unit()["Service"]["User"] not in ("root", "0", "")
    users = [rest for name, rest in dockerfile() if name == "USER"]
    assert users
    assert users[-1] not in ("root", "0")


def test_the_container_is_closed_but_for_the_port_on_loopback() -> None:
    service = compose()
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileged")
    assert all(value is None for name, value in service["environment"].items() if name in KEYS)


def test_the_unit_leaves_the_sandbox_what_it_needs() -> None:
    """Each of these covers a part of /proc or forbids a namespace, after which no run could be wrapped."""
    harmful = {
        *("RestrictNamespaces", "SystemCallFilter", "ProtectKernelTunables", "ProtectKernelLogs"),
        *("ProtectHostname", "ProtectProc", "ProcSubset", "MemoryDenyWriteExecute"),
    }
    assert not harmful & set(unit()["Service"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is what would read the unit")
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    text = (DEPLOY / "turnkeeper.service").read_text().replace("/opt/turnkeeper/bin/turnkeeper", "/bin/true")
    path = tmp_path / "turnkeeper.service"
    path.write_text(text)
    told = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    about = [line for line in told.stderr.splitlines() if "turnkeeper.service" in line]
    assert about == []
