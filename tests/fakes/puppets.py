"""Programs that a test writes itself, behind the name of a real engine: they print what it says, and do what it says.

A turn is a piece of Python code; the first process of a run plays the first, each later one the next, and the last is
played again. `recorded` is the code that repeats a recorded turn of the real CLI, byte by byte.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.fakes.clis import login
from tests.fakes.scripted_cli.command import VERSIONS
from tests.harness import Json, Place, opened

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"

PRELUDE = """
import json, os, pathlib, signal, socket, subprocess, sys, time

if "--version" in sys.argv:
    print(VERSION)
    sys.exit()

home, workspace = pathlib.Path(os.environ["HOME"]), pathlib.Path.cwd()


def write(fd, data):
    while data:
        data = data[os.write(fd, data) :]


def out(text):
    write(1, text.encode())


def err(text):
    write(2, text.encode())


def say(*events):
    for event in events:
        out(json.dumps(event) + "\\n")


def leave(code=0):
    os._exit(code)


def sleep():
    while True:
        time.sleep(0.05)


def reach(name="reached"):
    (home / name).touch()


def until(name):
    while not (home / name).exists():
        time.sleep(0.005)


words = sys.stdin.read()
played = home / "played"
turn = len(played.read_text()) if played.exists() else 0
with played.open("a") as file:
    file.write(".")
"""


def written(root: Path, engine: str, *turns: str) -> list[str]:
    """The command of a program that plays these turns, and says that it is the version we know."""
    bodies = "".join(
        f"def turn_{number}():\n{textwrap.indent(code.strip(), '    ')}\n\n"
        for number, code in enumerate(turns)
    )
    names = ", ".join(f"turn_{number}" for number in range(len(turns)))
    path = root / "puppet.py"
    path.write_text(
        f"VERSION = {VERSIONS[engine]!r}\n{PRELUDE}\n{bodies}turns = [{names}]\nturns[min(turn, len(turns) - 1)]()\n"
    )
    return [sys.executable, "-I", "-S", str(path)]


@asynccontextmanager
async def played(root: Path, engine: str, *turns: str, own: Json | None = None) -> AsyncIterator[Place]:
    """A service whose engine is a puppet, with settings of its own: by default a key, and no login of anybody's."""
    settings: Json = {"env": [login(engine)], "login_home": root / "nobody"} if own is None else own
    configured = {engine: {"command": written(root, engine, *turns), **settings}}
    async with opened(root / "data", engines=configured, slots=4) as place:
        yield place


REPLAY = """
def in_pieces(text):
    lines, left = [], [shown, *[""] * 100]
    for line in map(json.loads, text.splitlines()):
        if line.get("role") == "assistant":
            line["content"] = left.pop(0)
        lines.append(json.dumps(line) + "\\n")
    return "".join(lines).encode()


folder = pathlib.Path({folder!r})
recordings = json.loads((folder / "expected.json").read_text())
case = words.rpartition("[case:")[2].partition("]")[0]
shown = words.rpartition("[say:")[2].partition("]")[0] if "[say:" in words else ""
# Later turns are recordings of other sessions: they go on in the first one's.
told, first = recordings[case]["session"], recordings["ask"]["session"]
for fd, kind in ((2, "stderr"), (1, "ndjson")):
    text = (folder / f"{{case}}.{{kind}}").read_bytes()
    if told:
        text = text.replace(told.encode(), first.encode())
    for message in recordings[case]["messages"] if shown else ():
        text = text.replace(message.encode(), shown.encode())
    if shown and fd == 1 and shown.encode() not in text:
        text = in_pieces(text)
    write(fd, text)
leave(int((folder / f"{{case}}.exit").read_text()))
"""
REPLAYED = ("codex", "claude", "gemini", "opencode", "qwen", "iflow")


@asynccontextmanager
async def replaying(root: Path, **more: Any) -> AsyncIterator[Place]:
    """A service whose engines repeat what the real CLIs once printed: the turn that `[case:…]` in the prompt names.

    With `[say:…]` the assistant says that instead, in the shapes of the recording.
    """
    configured: Json = {}
    for engine in REPLAYED:
        (root / engine).mkdir(parents=True)
        command = written(root / engine, engine, REPLAY.format(folder=str(TRANSCRIPTS / engine)))
        configured[engine] = {"command": command, "env": [login(engine)], "login_home": root / "nobody"}
    async with opened(root / "data", **({"engines": configured, "slots": 4} | more)) as place:
        yield place


async def replayed(place: Place, engine: str, case: str, say: str = "", **job: Any) -> Json:
    words = f"[case:{case}] [say:{say}]" if say else f"[case:{case}]"
    return await run(place, engine, input={"task": words}, **job)


def recorded(engine: str, case: str) -> str:
    folder = TRANSCRIPTS / engine
    code = int((folder / f"{case}.exit").read_text())
    last = f"leave({code})" if code >= 0 else f"os.kill(os.getpid(), {-code})\nsleep()"
    return "\n".join(
        (
            f"write(2, pathlib.Path({str(folder / f'{case}.stderr')!r}).read_bytes())",
            f"write(1, pathlib.Path({str(folder / f'{case}.ndjson')!r}).read_bytes())",
            last,
        )
    )


def prints(stdout: str = "", stderr: str = "", code: int = 0) -> str:
    return f"err({stderr!r})\nout({stdout!r})\nleave({code})"


async def run(place: Place, engine: str, **job: Any) -> Json:
    """Until it waits or is over."""
    return await place.client.settled(await place.client.create(engine=engine, **job))


def warned(run: Json) -> list[str]:
    return [warning["code"] for warning in run["warnings"]]
