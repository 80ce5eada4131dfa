"""`turnkeeper link`: an address for somebody else, and nothing else on stdout."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests import certificates
from tests.certificates import needs_openssl
from tests.cli.terminals import Machine
from turnkeeper.cli.link import _span
from turnkeeper.core.errors import InvalidRequest


def asking(machine: Machine) -> str:
    return str(machine.told("run", "interview", "--engine", "demo", code=3)["run"]["run_id"])


def test_address_answers_the_question(machine: Machine) -> None:
    run_id = asking(machine)
    made = machine.call("link", "last", "--for", "anna")
    assert (made.returncode, made.stderr) == (0, "")
    found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/#answer=(tkl_[\w.-]+)\n", made.stdout)
    assert found is not None, made.stdout
    bearer = {"Authorization": f"Bearer {found[2]}"}
    answer = httpx.post(
        f"{found[1]}/v1/answer", json={"response": "A clock."}, headers=bearer, trust_env=False
    )
    assert answer.status_code == 200
    late = machine.call("link", run_id[:12], "--to", "1")
    assert late.returncode == 1
    assert "[INTERACTION_ANSWERED]" in late.stderr


def test_as_json_and_for_how_long(machine: Machine) -> None:
    run_id = asking(machine)
    told = machine.told("link", run_id, "--expires", "2d")
    assert set(told) == {"run_id", "url", "expires_at", "interaction_id", "public"}
    assert (told["run_id"], told["interaction_id"]) == (run_id, 1)
    lasts = datetime.fromisoformat(told["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=1, hours=23) < lasts <= timedelta(days=2)


def test_refusals(machine: Machine) -> None:
    asking(machine)
    assert machine.call("link", "last", "--expires", "soon").returncode == 2
    assert machine.call("link", "last", "--expires", "31d").returncode == 2
    assert machine.call("link", "ffffffff").returncode == 2
    machine.call("cancel", "last")
    over = machine.call("link", "last")
    assert over.returncode == 1
    assert "[RUN_NOT_WAITING]" in over.stderr


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("12h", 43200), ("7d", 604800), ("1.5 h", 5400)]
)
def test_spans(text: str, seconds: float) -> None:
    assert _span(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "7", "d", "7 days", "-1d", "1y", "9999999d"])
def test_no_spans(text: str) -> None:
    with pytest.raises(InvalidRequest, match="--expires"):
        _span(text)


@needs_openssl
def test_service_with_tls_is_found_by_its_certificate(machine: Machine, tmp_path: Path) -> None:
    """The service that the commands start has the settings of the machine, and so its certificate."""
    files = certificates.made(tmp_path)
    env = {"TURNKEEPER_TLS_CERT": str(files.cert), "TURNKEEPER_TLS_KEY": str(files.key)}
    asked = machine.call("run", "interview", "--engine", "demo", **env)
    assert asked.returncode == 3, asked.stderr
    made = machine.call("link", "last", **env)
    assert made.stdout.startswith("https://127.0.0.1:"), made.stderr
    opened = machine.call("open", "--no-browser", **env)
    assert opened.stdout.startswith("https://127.0.0.1:")
