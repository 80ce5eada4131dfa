"""Plays an act on a library again and again, and cuts it off before each of its steps on the disk in turn.

Run as a program, because it forks: `python -m tests.skills.crashes FOLDER ACT` prints one line of JSON for each step.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.skills.archives import zipped
from turnkeeper.skills.install import Library
from turnkeeper.skills.package import Shelf

STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
CUT_OFF = 9


def versioned(version: str) -> bytes:
    """Every file names its version, so that a mix of two would show."""
    notes = {f"it/notes/{n}.txt": version for n in range(3)}
    runner = json.dumps({"id": "it", "version": version})
    return zipped({"it/SKILL.md": version, "it/assets/runner.json": runner} | notes)


def install(version: str) -> Callable[[Library], object]:
    return lambda library: library.install(io.BytesIO(versioned(version)))


ACTS: dict[str, tuple[list[Callable[[Library], object]], Callable[[Library], object]]] = {
    "install": ([], install("1")),
    "replace": ([install("1")], install("2")),
    "remove": ([install("1")], lambda library: library.remove("it")),
}


def library_at(root: Path) -> Library:
    return Library(root, Shelf((root,)))


def play(act: Callable[[Library], object], root: Path, step: int) -> bool:
    """In a process of its own, gone without a goodbye before the given step; whether it came that far."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CUT_OFF
    left = step

    def watch(event: str, args: tuple[object, ...]) -> None:
        nonlocal left
        if event in STEPS:
            left -= 1
            if left < 0:
                os._exit(CUT_OFF)

    library = library_at(root)
    sys.addaudithook(watch)
    act(library)
    os._exit(0)


def look(root: Path) -> dict[str, object]:
    """What is there: the version, where it is whole, and everything that should not be there."""
    texts = {path.read_text() for path in (root / "it").rglob("*") if path.suffix in (".md", ".txt")}
    files = len([path for path in (root / "it").rglob("*") if path.is_file()])
    found = [skill.version if skill else "broken" for skill, _ in Shelf((root,)).all()]
    is_whole = texts == set(found) and files == 5 * len(found)
    left = sorted(path.name for path in (root / ".moving").glob("*"))
    return {"found": found if is_whole else [*found, *sorted(texts), files], "left": left}


def main(folder: Path, act: str) -> None:
    before, cut_off = ACTS[act]
    template = folder / "template"
    template.mkdir()
    for each in before:
        each(library_at(template))
    for step in count():
        root = folder / "library"
        shutil.copytree(template, root)
        was_cut_off = play(cut_off, root, step)
        library_at(root).repair()
        print(json.dumps({"step": step, "was_cut_off": was_cut_off, **look(root)}))  # noqa: T201
        shutil.rmtree(root)
        if not was_cut_off:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
