"""The service as its users have it: a process of its own, on loopback, with the tiny engine in the place of Codex."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench import counted
from turnkeeper import beacon

COUNTS, PROFILES = "counts", "PROFILES"
SKILLS = Path(__file__).parent / "skills"
TOKEN = "a-token-for-the-benchmark"
PATIENCE_SEC = 60.0


class Service:
    """Started by `service`. What it uses is read from the kernel, so that it need not tell."""

    def __init__(self, process: subprocess.Popen[bytes], data_dir: Path, began: float) -> None:
        self._process = process
        self.data_dir = data_dir
        self.began = began
        self.pid = process.pid
        self.host, self.port = "", 0

    def found(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = str(parts.hostname), int(parts.port or 0)

    @property
    def engine_log(self) -> Path:
        return self.data_dir / "tiny.log"

    def engine_notes(self, run_id: str) -> list[tuple[str, float]]:
        """What the engine has noted for a run, in order: `S` or `E`, and the moment as `time.perf_counter` tells it."""
        lines = (line.split() for line in self.engine_log.read_text(encoding="ascii").splitlines()[-64:])
        return [(what, int(at) / 1e9) for what, mark, at in lines if run_id in mark]

    @property
    def cpu_sec(self) -> float:
        """Of all its threads, and of none of its children."""
        return time.clock_gettime_ns((~self.pid << 3) | 2) / 1e9

    @property
    def rss(self) -> int:
        return _kilobytes(self._read("status"), "VmRSS") * 1024

    @property
    def peak_rss(self) -> int:
        return _kilobytes(self._read("status"), "VmHWM") * 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    @property
    def counts(self) -> dict[str, int]:
        """What it has opened and started, if it is counted."""
        return counted.told(self.data_dir / COUNTS)

    @property
    def descriptors(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    @property
    def wake_ups(self) -> int:
        """How often any of its threads has gone to sleep by itself: each time it was woken before."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        told = (
            _field((task / "status").read_text(encoding="ascii"), "voluntary_ctxt_switches") for task in tasks
        )
        return sum(map(int, told))

    @property
    def threads(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.pid}/task").iterdir())

    @property
    def children(self) -> int:
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(len((task / "children").read_text(encoding="ascii").split()) for task in tasks)

    def _read(self, name: str) -> str:
        return Path(f"/proc/{self.pid}/{name}").read_text(encoding="ascii")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE_SEC)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def service(data_dir: Path, engine: Path, **settings: str) -> Iterator[Service]:
    """Until it answers; `settings` as in the environment, without their prefix."""
    with _started("turnkeeper", data_dir, engine, settings) as started:
        yield started


@contextmanager
def counted_service(data_dir: Path, engine: Path) -> Iterator[Service]:
    """One that tells what it opens and starts, and is slower for that."""
    with _started("bench.counted", data_dir, engine, {}) as started:
        yield started


@contextmanager
def profiled_service(data_dir: Path, engine: Path) -> Iterator[Service]:
    """One that leaves profiles of its threads in its data directory, and takes twice as long."""
    with _started("bench.profiled", data_dir, engine, {}) as started:
        yield started


@contextmanager
def _started(module: str, data_dir: Path, engine: Path, settings: Mapping[str, str]) -> Iterator[Service]:
    data_dir.mkdir(exist_ok=True, parents=True)
    beacon.put_out(data_dir)
    told = {
        "SLOTS": "64",
        "PORT": "0",
        "TOKEN": TOKEN,
        "RATE_LIMIT": "0",  # one key stands for everybody here
        "ALLOW_ROOT": "1",
        "SANDBOX__MODE": "off",  # its cost is a line of its own
        "ENGINES__CODEX__COMMAND": str(engine),
        "ENGINES__CODEX__ENV": f"TINY_LOG={data_dir / 'tiny.log'}",
        **settings,
    }
    # Nobody who runs a service forbids Python to keep what it has compiled.
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TURNKEEPER_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    env |= {f"TURNKEEPER_{name}": value for name, value in told.items()} | {"CODEX_API_KEY": "none-is-needed"}
    env |= {counted.NAMED_BY: str(data_dir / COUNTS), PROFILES: str(data_dir)}
    words = [
        sys.executable,
        "-m",
        module,
        "serve",
        "--data-dir",
        str(data_dir),
        "--skills-dir",
        str(SKILLS),
    ]
    with (data_dir / "service.log").open("ab") as log:
        began = time.monotonic()
        process = subprocess.Popen(words, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    started = Service(process, data_dir, began)
    try:
        started.found(_address(process, data_dir))
        yield started
    finally:
        started.stop()


def _address(process: subprocess.Popen[bytes], data_dir: Path) -> str:
    until = time.monotonic() + PATIENCE_SEC
    while time.monotonic() < until and process.poll() is None:
        if (found := beacon.seen(data_dir)) is not None:
            return found.url
        time.sleep(0.002)
    log = (data_dir / "service.log").read_text(errors="replace")
    raise RuntimeError(f"the service did not start:\n{log[-4000:]}")


def _kilobytes(text: str, name: str) -> int:
    return int(_field(text, name).split()[0])


def _field(text: str, name: str) -> str:
    return next(line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(f"{name}:"))
