"""Services that start in a moment and can be killed for good: each is forked from a process that has imported it all.

The nursery has no threads and no event loop, so a fork of it is as good as a new process. What a test wants of a
service beside its API (another time, a disk that refuses) goes over a control socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

from tests.harness import PATIENCE, settings_for
from turnkeeper.runtime.clock import utc_now
from turnkeeper.wiring import Service, running

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Born:
    """A service that answers."""

    pid: int
    url: str
    control: int
    """The port by which it is told what no client could tell it."""


class Nursery:
    """The test's side of it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def bear(self, data_dir: Path, *, shift_sec: float = 0, **more: Any) -> Born:
        order = {"data_dir": str(data_dir), "shift_sec": shift_sec, "settings": more}
        told = self._ask({"bear": order})
        assert "url" in told, f"the service did not start: {data_dir.with_suffix('.log').read_text()}"
        return Born(**told)

    def kill(self, born: Born) -> None:
        """As a power cut would, for this process; it is gone when this returns."""
        assert self._ask({"end": born.pid, "signal": signal.SIGKILL})["status"] == -signal.SIGKILL

    def stop(self, born: Born) -> int:
        """Gracefully; returns the exit code."""
        return int(self._ask({"end": born.pid, "signal": signal.SIGTERM})["status"])

    def _ask(self, order: Json) -> Json:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the nursery is gone"
        return dict(json.loads(line))


@contextlib.contextmanager
def nursery(**env: str) -> Iterator[Nursery]:
    """`env`: what its services find in their environment."""
    command = [sys.executable, "-m", "tests.faults.model_nursery"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=os.environ | env, text=True, **pipes) as process:  # type: ignore[call-overload]
        yield Nursery(process)
        assert process.stdin is not None
        process.stdin.close()  # it ends what is still there, and itself


# The other side


def main(orders: IO[str], answers: IO[str]) -> None:
    alive: set[int] = set()
    for line in orders:
        match json.loads(line):
            case {"bear": order}:
                told = _bear(order, alive)
            case {"end": int(pid), "signal": int(number)}:
                told = {"status": _end(pid, number)}
                alive.discard(pid)
            case order:
                raise ValueError(f"not an order: {order}")
        answers.write(json.dumps(told) + "\n")
        answers.flush()
    for pid in alive:
        _end(pid, signal.SIGKILL)


def _bear(order: Json, alive: set[int]) -> Json:
    hears, says = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(hears)
        _live(order, says)
    os.close(says)
    with os.fdopen(hears) as news:
        line = news.readline() if _comes(hears) else ""  # it is written at once
    if not line:
        return {"status": _end(pid, signal.SIGKILL)}
    alive.add(pid)
    return {"pid": pid, **json.loads(line)}


def _end(pid: int, number: int) -> int:
    """One that does not go in time is killed, and its status tells."""
    gone = os.pidfd_open(pid)
    try:
        for each in (number, signal.SIGKILL):
            os.kill(pid, each)
            if _comes(gone):
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        os.close(gone)
    raise TimeoutError(f"{pid} cannot be killed")


def _comes(fd: int) -> bool:
    """Within the patience of a test there is something to read, or the end."""
    return bool(select.select([fd], [], [], PATIENCE)[0])


def _live(order: Json, says: int) -> None:
    """The forked child: a service until SIGTERM. Nothing of the nursery is tidied up in it."""
    code = 1
    try:
        log = os.open(
            Path(order["data_dir"]).with_suffix(".log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )
        for fd in (1, 2):
            os.dup2(log, fd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        logging.basicConfig(level=logging.INFO)
        logging.raiseExceptions = False  # a disk that refuses everything refuses the log, too
        asyncio.run(_serve(order, says))
        code = 0
    except BaseException:
        logging.getLogger(__name__).exception("the service has failed")
    finally:
        os._exit(code)


class MovedClock:
    """The real time, and what it was moved by."""

    def __init__(self, shift_sec: float) -> None:
        self.shift = timedelta(seconds=shift_sec)

    def __call__(self) -> datetime:
        return utc_now() + self.shift


async def _serve(order: Json, says: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    clock = MovedClock(order["shift_sec"])
    settings = settings_for(Path(order["data_dir"]), **order["settings"])
    async with running(settings, clock=clock) as service:
        controls = [Control(service, clock)]
        server = await asyncio.start_server(controls[0].hear, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        os.write(says, json.dumps({"url": service.url, "control": port}).encode() + b"\n")
        os.close(says)
        await stop.wait()
        server.close()


class Control:
    def __init__(self, service: Service, clock: MovedClock) -> None:
        self._house = service.house
        self._clock = clock

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One order for each connection; the answer comes when it is done."""
        match json.loads(await reader.readline()):
            case {"shift_sec": shift_sec}:
                self._clock.shift = timedelta(seconds=shift_sec)
                await self._house.deadlines.sweep(self._clock())
            case {"disk": bool(works)}:
                # The kernel itself refuses each byte for a file; pipes and sockets are free. Nothing is started while
                # the database cannot be written, so no engine inherits this.
                _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (most if works else 0, most))
            case order:
                raise ValueError(f"not an order: {order}")
        writer.write(b"done\n")
        await writer.drain()
        writer.close()


async def tell(born: Born, **order: Any) -> None:
    """The test's side of the control socket."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", born.control)
        writer.write(json.dumps(order).encode() + b"\n")
        assert await reader.readline() == b"done\n"
        writer.close()
        await writer.wait_closed()


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
