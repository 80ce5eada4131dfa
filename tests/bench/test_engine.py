"""Both forms of the tiny engine say the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import bench

TINY = bench.TINY


@pytest.mark.skipif(
    shutil.which("cc") is None, reason="there is no C compiler here, and the engine is the one in Python"
)
@pytest.mark.parametrize("argv", [("exec", "-"), ("exec", "resume", "x", "-"), ("--version",)])
@pytest.mark.parametrize("words", ["", "[[done]]", "[[say 2 5]] and [[tool 1 3]]", "[[sleep 1]]"])
def test_they_say_the_same(tmp_path: Path, argv: tuple[str, ...], words: str) -> None:
    compiled, script = bench.made_engine(tmp_path), [sys.executable, str(TINY / "tiny.py")]
    said = [
        subprocess.run([*command, *argv], input=words, capture_output=True, text=True, check=True).stdout
        for command in ([str(compiled)], script)
    ]
    assert said[0] == said[1] != ""


def test_its_start_and_its_end_are_noted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = {"TINY_LOG": str(log), "TURNKEEPER_RUN": "here/this/1.1"}
    subprocess.run(
        [bench.made_engine(tmp_path), "exec", "-"], input=b"", env=env, check=True, capture_output=True
    )
    (began, mark, since), (ended, other, until) = (line.split() for line in log.read_text().splitlines())
    assert (began, ended, mark, other) == ("S", "E", "here/this/1.1", "here/this/1.1")
    assert int(since) <= int(until)
