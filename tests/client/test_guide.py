"""docs/client.md as one program, and the examples for Python: they say what they are shown to say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.services import Service, serving
from tests.harness import PATIENCE
from turnkeeper.client import Client

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n\n^```text\n(?P<shown>.*?)^```$)?", re.DOTALL | re.MULTILINE
)


def environment(service: Service) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(service.data_dir.parent),
        "TURNKEEPER_URL": service.url,
        "TURNKEEPER_TOKEN": service.token,
        "PYTHONWARNINGS": "error",
        "PYTHONIOENCODING": "utf-8",
    }


def play(service: Service, folder: Path, *command: str, typed: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment(service),
        input=typed,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With no runs but those of the page."""
    with serving(tmp_path_factory.mktemp("guide") / "data") as service:
        yield service


def test_the_page_is_true(quiet: Service, tmp_path: Path) -> None:
    blocks = list(_BLOCK.finditer((ROOT / "docs" / "client.md").read_text(encoding="utf-8")))
    assert blocks
    mark = "\n= next block =\n"
    program = f"\nprint({mark!r}, end='')\n".join(block["code"] for block in blocks)
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    said = play(quiet, tmp_path, "page.py").split(mark)
    assert said == [block["shown"] or "" for block in blocks]


def test_an_interview_in_the_terminal(service: Service, tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "python" / "interview.py")
    said = play(service, tmp_path, script, typed="A clock.\nEarly birds.\n2\n")
    assert "  2  When it saves an hour a day\n" in said
    result = json.loads(said[said.index("{") :])
    assert [result[name] for name in ("project", "audience", "success")] == [
        "A clock.",
        "Early birds.",
        "it saves an hour a day",
    ]


def test_all_that_wait_are_answered(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service, Client(service.url, service.token) as client:
        runs = [client.run("interview", "demo", interactive=True) for _ in range(3)]
        assert all(run.info(wait=30).is_waiting for run in runs)
        script = str(ROOT / "examples" / "python" / "answer_all.py")
        said = play(service, tmp_path, script, "As you like.")
        assert sorted(said.splitlines()) == sorted(f"{run.id} succeeded" for run in runs)
        assert [each.response for each in runs[0].history()][:2] == ["As you like."] * 2
