"""An agent that means harm, in the words of Codex: it does what the prompt names, `[[read /etc/passwd]]` say, and tells
what came of it. It needs nothing but the standard library.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

MB = 1024 * 1024


def read(path: str) -> str:
    return Path(path).read_bytes()[:200].decode(errors="replace").strip()


def write(path: str) -> str:
    Path(path).write_text("harm")
    return "written"


def writable(path: str) -> str:
    """Asked and not done, where it would hurt the machine."""
    return "writable" if os.access(path, os.W_OK) else "closed"


def names(path: str) -> str:
    return " ".join(sorted(each.name for each in Path(path).iterdir())) or "nothing"


def see(pid: str) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def strike(pid: str) -> str:
    """By a signal that does no harm to whoever does not listen to it."""
    os.kill(int(pid), signal.SIGURG)
    return "struck"


def stretch(path: str, size: str) -> str:
    """One file, as large as that; nothing of it is really on the disk."""
    with Path(path).open("wb") as file:
        file.truncate(int(size) * MB)
    return "stretched"


def hoard(folder: str, size: str) -> str:
    for number in range(int(size)):
        (Path(folder) / f"{number}.bin").write_bytes(os.urandom(MB))
    return _stay("hoarded")


def breed(count: str) -> str:
    for _ in range(int(count)):
        subprocess.Popen(["sleep", "600"])
    return _stay("bred")


def gorge(size: str) -> str:
    held = bytearray(b"x" * MB) * int(size)
    return _stay(f"held {len(held)}")


def melt(size: str) -> str:
    """Memory that is a file and no part of any process."""
    held = [os.memfd_create("held") for _ in range(int(size))]
    for each in held:
        os.write(each, b"x" * MB)
    return _stay(f"held {len(held)}")


def unname(size: str) -> str:
    """Files that no folder shows, for as long as they are open."""
    held = []
    for number in range(int(size)):
        path = Path(f"{number}.bin")
        held.append(path.open("wb", buffering=0))
        path.unlink()
        held[-1].write(os.urandom(MB))
    return _stay(f"held {len(held)}")


def lock(size: str) -> str:
    """A folder that not even its owner may look into."""
    folder = Path("locked")
    folder.mkdir()
    for number in range(int(size)):
        (folder / f"{number}.bin").write_bytes(os.urandom(MB))
    folder.chmod(0)
    return _stay("locked")


def leave(seconds: str) -> str:
    """A daemon of no session, parent or name that would tell whose it is."""
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        with Path(os.devnull).open("r+b") as nothing:
            for stream in (0, 1, 2):
                os.dup2(nothing.fileno(), stream)
        os.execve("/bin/sleep", ["sleep", seconds], {})
    os.wait()
    return "left"


def rights(_: str) -> str:
    return " ".join(line for line in Path("/proc/self/status").read_text().splitlines() if "Cap" in line)


def _stay(words: str) -> str:
    """Until somebody has looked at what it did; whoever does not hold it to a limit is told after that."""
    time.sleep(float(os.environ.get("STAY_SEC", "0")))
    return words


ATTACKS = {
    each.__name__: each
    for each in (
        *(read, write, writable, names, see, strike, stretch, rights),
        *(hoard, unname, lock, breed, gorge, melt, leave),
    )
}


def tell(**event: object) -> None:
    sys.stdout.write(f"{json.dumps(event)}\n")
    sys.stdout.flush()


def main() -> None:
    found = re.search(r"\[\[(\w+) ([^\]]*)\]\]", sys.stdin.read())
    assert found is not None
    tell(type="thread.started", thread_id="hostile")
    try:
        came = ATTACKS[found[1]](*found[2].split())
    except OSError as error:
        came = f"refused: {type(error).__name__}"
    text = json.dumps({"answer": came})
    tell(type="item.completed", item={"id": "1", "type": "agent_message", "text": text})
    tell(type="turn.completed", usage={})


if __name__ == "__main__":
    main()
