"""`python -m bench.counted …` is `turnkeeper …`, and counts what it opens and starts, in a file named by COUNTS."""

from __future__ import annotations

import mmap
import os
import struct
import sys
from pathlib import Path

NAMED_BY = "COUNTS"
KINDS = {
    "open": "opens",
    "os.scandir": "opens",
    "os.listdir": "opens",
    "sqlite3.connect": "opens",
    "subprocess.Popen": "processes",
    "os.posix_spawn": "processes",
    "os.fork": "processes",
    "os.system": "processes",
}
"""Events of Python's audit, and what each of them is counted as. SQLite's own files are opened once, at the start."""
TOLD = ("opens", "processes")
_FORM = struct.Struct(f"={len(TOLD)}Q")


def main() -> None:
    path = Path(os.environ.pop(NAMED_BY))
    path.write_bytes(bytes(_FORM.size))
    file = path.open("r+b")
    counts = memoryview(mmap.mmap(file.fileno(), _FORM.size)).cast("Q")
    places = {event: TOLD.index(kind) for event, kind in KINDS.items()}

    def count(event: str, args: tuple[object, ...]) -> None:
        is_open_already = event == "open" and isinstance(
            args[0], int
        )  # only wrapped, as pipes of a process are
        if event in places and not is_open_already:
            counts[places[event]] += 1

    sys.addaudithook(count)
    from turnkeeper.__main__ import main as turnkeeper

    sys.argv[0] = "turnkeeper"
    turnkeeper()


def told(path: Path) -> dict[str, int]:
    return dict(zip(TOLD, _FORM.unpack(path.read_bytes()), strict=True))


if __name__ == "__main__":
    main()
