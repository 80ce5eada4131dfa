"""Services that start in no time: one process that has imported everything, and forks a service whenever it is asked.

The forked process runs `turnkeeper serve` as the shell would, and it can be armed: told to write down which failpoints
it comes by, and to kill itself at one of them. `python -m tests.crash.nursery` is the process that forks; it has one
thread, so that a fork of it is as good as new.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.crash.armed import Order, arm

ROOT = Path(__file__).parents[2]
LARGEST = 128 * 1024
"""Bytes of a request; it carries an environment."""
NEEDED = (
    "turnkeeper.cli",
    "turnkeeper.cli.serve",
    "turnkeeper.wiring",
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.protocols.websockets.auto",
    "encodings.idna",
)


class Nursling:
    """A service that the nursery has forked; in its hands like one of `subprocess`."""

    def __init__(self, nursery: Nursery, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = stdout
        self._nursery = nursery
        self._pidfd = os.pidfd_open(pid)  # its parent keeps the pid until we ask how it ended
        self._code: int | None = None

    def send_signal(self, number: int) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            ended, _, _ = select.select([self._pidfd], [], [], timeout)
            if not ended:
                raise subprocess.TimeoutExpired("turnkeeper serve", timeout or 0)
            self._code = int(self._nursery.ask({"wait": self.pid})["code"])
            os.close(self._pidfd)
        return self._code

    def communicate(self) -> tuple[bytes, None]:
        with self.stdout:
            said = self.stdout.read()
        self.wait()
        return said, None


class Nursery:
    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.nursery", str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def grow(
        self, command: Sequence[str], env: Mapping[str, str], log: IO[str], order: Order | None = None
    ) -> Nursling:
        """`command`: the words behind `turnkeeper`."""
        ours, theirs = os.pipe()
        request = {"command": list(command), "env": dict(env), "order": order and order.told()}
        try:
            pid = self.ask(request, theirs, log.fileno())["pid"]
        finally:
            os.close(theirs)
        return Nursling(self, pid, os.fdopen(ours, "rb", buffering=0))

    def ask(self, request: Mapping[str, Any], *fds: int) -> dict[str, Any]:
        socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
        answer = self._socket.recv(LARGEST)
        assert answer, "the nursery is gone"
        return dict(json.loads(answer))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def nursery() -> Nursery:
    """One for each process that tests."""
    found = Nursery()
    atexit.register(found.close)
    return found


def tend(listener: socket.socket) -> None:
    """Until nobody asks any more; then nothing of it stays."""
    grown: set[int] = set()
    while True:
        told, fds, _, _ = socket.recv_fds(listener, LARGEST, 2)
        if not told:
            break
        request = json.loads(told)
        if "wait" in request:
            grown.discard(request["wait"])
            _, status = os.waitpid(request["wait"], 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        else:
            pid = fork(listener, request, fds)
            grown.add(pid)
            answer = {"pid": pid}
        listener.send(json.dumps(answer).encode())
    for pid in grown:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def fork(listener: socket.socket, request: dict[str, Any], fds: list[int]) -> int:
    assert len(os.listdir("/proc/self/task")) == 1, "a thread would be missing in the fork"  # noqa: PTH208
    pid = os.fork()
    if pid:
        for fd in fds:
            os.close(fd)
        return pid
    code = 1
    try:
        listener.close()
        for fd, place in zip(fds, (1, 2), strict=True):
            os.dup2(fd, place)
            os.close(fd)
        os.environ.clear()
        os.environ.update(request["env"])
        if request["order"] is not None:
            arm(Order.heard(request["order"]))
        code = serve(request["command"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve(command: Sequence[str]) -> int:
    from turnkeeper.__main__ import main

    sys.argv = ["turnkeeper", *command]
    try:
        main()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001 (shown as the interpreter would show it)
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a Ctrl-C, who tests stops us
    for name in NEEDED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        tend(listener)


if __name__ == "__main__":
    main()
