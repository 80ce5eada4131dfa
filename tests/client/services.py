"""A service in a process of its own, and a wire between it and a client that can be cut."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from tests.harness import PATIENCE, QUICK, SKILLS
from tests.surroundings import SETTLED
from turnkeeper import beacon
from turnkeeper.beacon import Beacon

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of the person who runs the tests: neither their settings nor their folders."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    quick = {f"TURNKEEPER_TIMEOUTS__{name.upper()}": str(value) for name, value in QUICK.items()}
    return kept | SETTLED | {"HOME": str(home), "PYTHONWARNINGS": "error"} | quick | more


class Service:
    """`turnkeeper serve` with the skills of the examples and of the tests; it can be killed, and started again."""

    def __init__(self, data_dir: Path, **env: str) -> None:
        self.data_dir = data_dir
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self, port: int = 0) -> None:
        home = self.data_dir.parent
        command = [sys.executable, "-m", "turnkeeper", "serve", "--port", str(port)]
        command += ["--data-dir", str(self.data_dir)]
        command += ["--skills-dir", str(EXAMPLES), "--skills-dir", str(SKILLS)]
        with (home / "service.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment(home, **self._env), stdout=subprocess.DEVNULL, stderr=log
            )
        try:
            self.url = self._lit().url
        except BaseException:
            self.kill()
            raise

    def _lit(self) -> Beacon:
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while (found := beacon.sight(self.data_dir).beacon) is None or found.pid != self._process.pid:
            log = (self.data_dir.parent / "service.log").read_text()
            assert self._process.poll() is None, f"it did not start: {log}"
            assert time.monotonic() < deadline, f"it never was ready: {log}"
            time.sleep(0.01)
        return found

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    @property
    def token(self) -> str:
        token = beacon.kept_token(self.data_dir)
        assert token is not None
        return token

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(PATIENCE)


@contextmanager
def serving(data_dir: Path, **env: str) -> Iterator[Service]:
    service = Service(data_dir, **env)
    service.start()
    try:
        yield service
    finally:
        service.stop()


class Cable:
    """A TCP proxy. It counts what comes from the service, and does to it what a bad network does.

    `cuts`: how many bytes the first, the second… connection carries before it breaks; further ones carry all.
    `swallow`: once for each of these, the answer to a request with these words in it is lost.
    `delay`: the answers to requests with these words in them come when `go` is set.
    `is_mute`: what breaks a connection leaves it open instead, and silent.
    """

    def __init__(
        self,
        port: int,
        cuts: Iterable[int] = (),
        swallow: Iterable[bytes] = (),
        delay: Iterable[bytes] = (),
        *,
        is_mute: bool = False,
    ) -> None:
        self._to = port
        self._cuts = iter(list(cuts))
        self._swallow = list(swallow)
        self._delay = list(delay)
        self._is_mute = is_mute
        self._is_over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.connections = 0
        self.go = threading.Event()
        self.is_holding = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Cable:
        self._go(self._accept)
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _go(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._is_over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._go(partial(self._carry, client, next(self._cuts, None)))

    def _carry(self, client: socket.socket, cut: int | None) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._to)) as service:
            lost = threading.Event()
            back = threading.Thread(target=self._ask, args=(client, service, lost), daemon=True)
            back.start()
            try:
                self._answer(client, service, cut, lost)
            finally:
                for end in (client, service):
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                back.join(PATIENCE)

    def _ask(self, client: socket.socket, service: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while asked := client.recv(65536):
                for words in [each for each in self._swallow if each in asked]:
                    self._swallow.remove(words)
                    lost.set()
                if any(words in asked for words in self._delay):
                    self.is_holding.set()
                service.sendall(asked)
        with suppress(OSError):
            service.shutdown(socket.SHUT_RDWR)

    def _answer(
        self, client: socket.socket, service: socket.socket, cut: int | None, lost: threading.Event
    ) -> None:
        left = cut
        while said := service.recv(65536):
            if lost.is_set():
                return self._break()
            if self.is_holding.is_set():
                self.go.wait(PATIENCE)
            if left is not None and len(said) >= left:
                client.sendall(said[:left])
                return self._break()
            client.sendall(said)
            left = None if left is None else left - len(said)
        return None

    def _break(self) -> None:
        if self._is_mute:
            self._is_over.wait(PATIENCE)
