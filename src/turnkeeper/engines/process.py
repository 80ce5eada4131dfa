"""One engine process: spawned, drained, watched, ended. Linux only, on asyncio's own loop.

Both pipes are always read, into raw files and into lines, and nobody can make the reader wait. The process is
over when it exits, never at the end of a pipe, which a grandchild may hold for ever. Runs, stores and dialects
are unknown here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from turnkeeper.engines import census, orphans, sockets
from turnkeeper.engines.census import Found, Pulse
from turnkeeper.engines.lines import KEEP, Line, LineAssembler, RawFile
from turnkeeper.engines.spawn import Command, failed, start
from turnkeeper.engines.veil import Veil
from turnkeeper.failpoints import Deed, around

# At one wake, this much or for this long; then the rest of the loop has its turn. A read is small, since it
# may be nothing but newlines, and each is a line.
_READ = 4 * 1024
_READS = 64
_SLICE_SEC = 0.002
_REST_SEC = 0.005
"""So long nothing is read from a pipe, if whoever gets the lines is behind. Then it goes on, in any case."""
_KEEPER = re.compile(rb'"child-pid": *([0-9]+)')
_KEEPER_SEC = 1.0
"""How long the walls may take to tell who is the first inside; they know before anybody is."""
_GONE_SEC = 5.0
_TOLD = frozenset(
    {signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
)
"""Signals that a sandbox tells of by an exit code, and no program by one of its own. Some do of INT and TERM: those
stay codes."""

OnLine = Callable[[str, Line], None]


class OutputNotKept(Exception):
    """The disk refused the raw bytes."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: exactly one of the two is set."""

    code: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            return signal.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"


class Process:
    """A running engine. Its owner calls `end`, then `close`; until then nobody else can get its pid."""

    @classmethod
    def spawn(
        cls, command: Command, *, mark: str, stdout: Path, stderr: Path, on_line: OnLine, keep: int = KEEP
    ) -> Process:
        """Starts the command and appends its raw output to the two files, at most `keep` bytes to each.

        The files are made before the process is: no file, no process. `on_line` gets the name of the stream
        and the line, and must return soon.
        """
        asyncio.get_running_loop()  # raises before anything was started
        _reap()
        orphans.take_in()
        with contextlib.ExitStack() as undo:
            try:
                with around(Deed.MAKE_LOGS):
                    out, err = _open_raw(stdout, stderr, keep)
            except OSError as error:
                raise failed(
                    error, "output", f"the raw output file {error.filename} cannot be opened"
                ) from error
            undo.callback(out.close)
            undo.callback(err.close)
            tells, told = _pipe() if command.walls else (None, None)
            try:
                with around(Deed.SPAWN):
                    popen = start(command, mark, told)
            except BaseException:
                if tells is not None:
                    os.close(tells)
                raise
            finally:
                if told is not None:
                    os.close(told)
            veil = partial(Veil, command.secrets, command.known)
            process = cls(popen, mark, (out, err), on_line, veil, tells)
            undo.callback(process.close)
            undo.callback(process._kill_unwatched)
            try:
                process._attach()
            except OSError as error:
                raise failed(error, "program", f"{command.argv[0]!r} cannot be watched") from error
            undo.pop_all()
        return process

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        mark: str,
        raw: tuple[RawFile, RawFile],
        on_line: OnLine,
        veil: Callable[[], Veil],
        tells: int | None = None,
    ) -> None:
        """`tells`: where its sandbox says who is the first inside."""
        self._popen = popen
        self._on_line = on_line
        self._loop = asyncio.get_running_loop()
        self._tells = tells
        self.is_walled = tells is not None
        self._told = b""
        self._walls_stand: asyncio.Future[None] = self._loop.create_future()
        self._keeper: Found | None = None
        self._pidfd: int | None = None
        self._stdin = popen.stdin
        self._unwritten = bytearray()
        self._stdin_ends = False
        self._rests = False
        self._ended: Exit | None = None
        self._is_alone = False
        """It has ended, and left nobody who could start anything."""
        self._streams = (
            _Stream("stdout", popen.stdout, raw[0], LineAssembler(offset=raw[0].size), veil()),
            _Stream("stderr", popen.stderr, raw[1], LineAssembler(offset=raw[1].size), veil()),
        )
        self._keep = raw[0].keep
        self.pid = popen.pid
        orphans.started(self.pid)
        self.mark = mark
        self.last_byte_at: float | None = None
        # A task that is cancelled while it awaits a future cancels that future: use asyncio.wait or shield.
        self.exited: asyncio.Future[Exit] = self._loop.create_future()
        # The first failure on our side: `on_line` raised, or the disk refused the raw bytes. The pipes stay
        # drained, but no more lines are handed on: the owner ends the process and fails the turn.
        self.error: Exception | None = None
        self.broken: asyncio.Future[Exception] = self._loop.create_future()

    def _attach(self) -> None:
        # A child that has exited already is still there, as our zombie: nothing of it can be missed.
        self._pidfd = os.pidfd_open(self.pid)
        found = census.identify(self.pid, self.mark)
        if found is None:
            raise ProcessLookupError(errno.ESRCH, "the child was reaped by somebody else")
        self._root = found
        self.start_time = found.start_time
        if self._tells is not None:
            os.set_blocking(self._tells, False)
            self._loop.add_reader(self._tells, self._on_keeper)
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        for stream in self._streams:
            self._loop.add_reader(stream.fd, self._on_readable, stream)
        self._loop.add_reader(self._pidfd, self._on_exit)

    # Walls

    def _kill_unwatched(self) -> None:
        """Nobody can watch it: it must not begin. Who is inside does not go with our child, which tells who it is."""
        if self._tells is not None:
            os.set_blocking(self._tells, True)
            while part := os.read(self._tells, 4096):
                self._told += part
            if found := _KEEPER.search(self._told):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(found[1]), signal.SIGKILL)  # not reaped by our child yet: still its pid
        self._popen.kill()

    def _on_keeper(self) -> None:
        """Who is the first inside: all others are below it, whatever they do, and they end with it."""
        if self._tells is None:
            return
        try:
            while part := os.read(self._tells, 4096):
                self._told += part
        except BlockingIOError:
            return  # there is more to come, and who tells it must find somebody to read it
        self._drop_tells()
        found = _KEEPER.search(self._told)
        self._keeper = census.identify(int(found[1]), self.mark) if found else None

    def _drop_tells(self) -> None:
        if self._tells is not None:
            self._loop.remove_reader(self._tells)
            os.close(self._tells)
            self._tells = None
            self._walls_stand.set_result(None)

    @property
    def keeper_pid(self) -> int | None:
        return self._keeper.pid if self._keeper else None

    @property
    def _keepers(self) -> tuple[Found, ...]:
        """The walls themselves: our own child, which waits for the first inside, and that. Not of what is inside."""
        self._on_keeper()
        known = (self._keeper,) if self._keeper else ()
        return (self._root, *known) if self.is_walled else ()

    @property
    def _roots(self) -> tuple[Found, ...]:
        return self._keepers or (self._root,)

    # Input

    def write(self, data: bytes) -> None:
        """Buffered. That nobody reads any more is not an error: the exit tells."""
        if self._stdin_ends:
            raise RuntimeError("stdin of the engine was closed before")
        if self._stdin is None:
            return
        is_idle = not self._unwritten
        self._unwritten += data
        if is_idle and data:
            self._on_writable()

    def close_stdin(self) -> None:
        """The end of the input, after all that is still to be written."""
        self._stdin_ends = True
        if not self._unwritten:
            self._drop_stdin()

    def _on_writable(self) -> None:
        assert self._stdin is not None
        try:
            written = os.write(self._stdin.fileno(), self._unwritten)
        except BlockingIOError:
            written = 0
        except BrokenPipeError:
            self._drop_stdin()
            return
        del self._unwritten[:written]
        if self._unwritten:
            self._loop.add_writer(self._stdin.fileno(), self._on_writable)
        elif self._stdin_ends:
            self._drop_stdin()
        else:
            self._loop.remove_writer(self._stdin.fileno())

    def _drop_stdin(self) -> None:
        if self._stdin is not None:
            self._loop.remove_writer(self._stdin.fileno())
            self._stdin.close()
            self._stdin = None
            self._unwritten.clear()

    # Output

    def redirect(self, stdout: Path, stderr: Path) -> None:
        """Later bytes are appended to these files, and the line that is still open moves with them."""
        if self._pidfd is None:
            raise RuntimeError("the process was closed before")
        with around(Deed.MAKE_LOGS):
            fresh = _open_raw(stdout, stderr, self._keep)
        for stream, raw in zip(self._streams, fresh, strict=True):
            stream.raw.close()
            stream.raw = raw
            self._store(stream, stream.lines.move(raw.size))

    def sync(self) -> None:
        """The raw bytes handed on so far are on the disk when this returns. Blocking."""
        for stream in self._streams:
            if stream.raw.fd is not None and not stream.raw.is_empty:
                os.fsync(stream.raw.fd)

    def _on_readable(self, stream: _Stream) -> None:
        until = self._loop.time() + _SLICE_SEC
        for _ in range(_READS):
            wanted = min(stream.left or _READ, _READ)
            try:
                chunk = os.read(stream.fd, wanted)
            except BlockingIOError:
                return
            if not chunk:  # may come early: the process goes on without
                self._drop_pipe(stream)
                self._finish(stream)
                return
            self._take(stream, chunk)
            if stream.pipe is None:  # closed by whoever got a line
                return
            if self._rests:
                self._rests = False
                self._loop.remove_reader(stream.fd)
                self._loop.call_later(_REST_SEC, self._read_on, stream)
                return
            if len(chunk) < wanted or self._loop.time() > until:
                return

    def rest(self) -> None:
        """For whoever gets the lines, and cannot keep up: who prints must wait a little."""
        self._rests = True

    def _read_on(self, stream: _Stream) -> None:
        if stream.pipe is not None:
            self._loop.add_reader(stream.fd, self._on_readable, stream)

    def _take(self, stream: _Stream, chunk: bytes) -> None:
        if stream.left == 0:
            return  # read nevertheless: a leftover that tidies up must not die of a broken pipe
        self.last_byte_at = self._loop.time()
        self._show(stream, stream.veil.hide(chunk))
        if stream.left is not None:
            stream.left -= len(chunk)
            if stream.left == 0:
                self._finish(stream)

    def _show(self, stream: _Stream, data: bytes) -> None:
        self._store(stream, data)
        self._hand_on(stream, stream.marked(stream.lines.feed(data), data))

    def _store(self, stream: _Stream, data: bytes) -> None:
        try:
            stream.raw.append(data)
        except OSError as error:
            self._break(OutputNotKept(f"the raw log cannot be written: {error.strerror}"))

    def _hand_on(self, stream: _Stream, lines: list[Line]) -> None:
        for line in lines:
            if self.error is not None:
                return
            try:
                self._on_line(stream.name, line)
            except Exception as error:  # noqa: BLE001 (the reader goes on, or the engine blocks on a full pipe)
                self._break(error)

    def _break(self, error: Exception) -> None:
        if self.error is None:
            self.error = error
            if not self.broken.done():
                self.broken.set_result(error)

    def _finish(self, stream: _Stream) -> None:
        self._show(stream, stream.veil.close())
        self._hand_on(stream, stream.marked(stream.lines.close(), b""))
        self._settle()

    def _drop_pipe(self, stream: _Stream) -> None:
        if stream.pipe is not None:
            self._loop.remove_reader(stream.fd)
            stream.pipe.close()
            stream.pipe = None

    # End

    def _on_exit(self) -> None:
        assert self._pidfd is not None
        self._loop.remove_reader(self._pidfd)
        self._ended = self._status()
        self._drop_stdin()
        for stream in self._streams:
            if stream.pipe is not None:
                # What is in the pipe now is all that the process wrote; what comes later is a grandchild's.
                stream.left = _readable_bytes(stream.fd)
                if stream.left == 0:
                    self._finish(stream)
        self._settle()

    def _settle(self) -> None:
        is_drained = all(stream.pipe is None or stream.left == 0 for stream in self._streams)
        if self._ended is not None and is_drained and not self.exited.done():
            self.exited.set_result(self._ended)

    def _status(self) -> Exit:
        """Reads the status and leaves the zombie to `close`: its pid stays ours while leftovers are ended."""
        try:
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError as error:
            self._break(error)  # somebody reaped it, or SIGCHLD is ignored: the status is lost
            return Exit(code=255, signal=None)
        assert status is not None
        if status.si_code == os.CLD_EXITED and self.is_walled and status.si_status - 128 in _TOLD:
            return Exit(code=None, signal=status.si_status - 128)
        if status.si_code == os.CLD_EXITED:
            return Exit(code=status.si_status, signal=None)
        return Exit(code=None, signal=status.si_status)

    @property
    def has_exited(self) -> bool:
        """Asked of the kernel: our own watcher may not have been told yet."""
        if self._ended is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    async def leftovers(self) -> list[Found]:
        """What of the tree is alive, be the engine itself gone or not."""
        if self._ended is not None and (self._is_alone or not orphans.may_be_there()):
            self._is_alone = True
            return []
        walls = self._keepers
        found = await census.patiently(partial(census.find, self.mark, roots=self._roots))
        inside = [each for each in found if not any(census.same(each, wall) for wall in walls)]
        if self._ended is not None and found and not inside:
            # Walls around nobody: they are about to go, and are not spoken of.
            await census.end(found, signals=(signal.SIGKILL,), step_sec=_GONE_SEC)
        return inside

    async def pulse(self) -> Pulse:
        """What the tree has done so far."""
        look = partial(census.pulse, self.mark, roots=self._roots, unnamed=self._keepers)
        return await asyncio.to_thread(look)

    async def connections(self) -> list[str]:
        """To whom the tree is connected, in words."""
        left = await self.leftovers()
        found = await asyncio.to_thread(sockets.of, [each.pid for each in left])
        return [str(each) for each in found]

    @property
    def open_lines(self) -> dict[str, bytes]:
        """How the lines begin that are not over yet, by the names of their streams."""
        return {stream.name: start for stream in self._streams if (start := stream.lines.start)}

    @property
    def is_raw_capped(self) -> bool:
        """The raw files of this turn do not hold everything that was printed."""
        return any(stream.raw.is_full for stream in self._streams)

    async def end(self, *, step_sec: float, first: signal.Signals = signal.SIGINT) -> list[Found]:
        """INT, TERM, KILL over the whole tree, `step_sec` apart; returns what would not die.

        Also to be called after an exit: tools that left the session live on.
        """
        if self._ended is not None and first == signal.SIGINT:
            first = signal.SIGTERM  # leftovers without their engine; many shells start them with INT ignored
        await self._settle_walls()
        survivors = await census.end_all(
            self.mark, first=first, step_sec=step_sec, roots=self._roots, keepers=self._keepers
        )
        if all(each.pid != self.pid for each in survivors):
            await asyncio.wait((self.exited,), timeout=step_sec)  # our own watcher is about to say so
        return survivors

    def kill_inside(self) -> None:
        """All of them at once, with the first; without walls nobody."""
        if self._keeper:
            census.kill(self._keeper)

    async def _settle_walls(self) -> None:
        """Until it is known who is the first inside."""
        if self._tells is not None:
            await asyncio.wait((self._walls_stand,), timeout=_KEEPER_SEC)

    def close(self) -> None:
        """Lets go of pipes, files and watchers, and reaps the process; one that lives on is watched no more."""
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._drop_stdin()
        self._drop_tells()
        for stream in self._streams:
            self._drop_pipe(stream)
            stream.raw.close()
        self.exited.cancel()
        if self._popen not in _unreaped:
            _unreaped.append(self._popen)
        _reap()


@dataclass(slots=True)
class _Stream:
    """One output pipe, the raw file of its bytes, and the line they are building."""

    name: str
    pipe: IO[bytes] | None
    raw: RawFile
    lines: LineAssembler
    veil: Veil
    left: int | None = None  # after the exit: how many bytes of the process are still to be read
    has_stars: bool = False  # something is hidden in the line that is still open

    @property
    def fd(self) -> int:
        assert self.pipe is not None
        return self.pipe.fileno()

    def marked(self, lines: list[Line], data: bytes) -> list[Line]:
        """The lines that were whole with these bytes, and in which of them the veil has hidden something."""
        stars = self.veil.stars if data else []
        if not stars and not self.has_stars:
            return lines
        breaks = [at.end() for at in _BREAK.finditer(data)]
        hit = {0} if self.has_stars else set()
        for first, end in stars:
            hit.update(range(bisect_right(breaks, first), bisect_left(breaks, end) + 1))
        self.has_stars = len(lines) in hit
        return [replace(line, has_stars=at in hit) for at, line in enumerate(lines)]


_BREAK = re.compile(rb"\n")
# Closed while still alive; reaped when the next one is started, as subprocess itself does.
_unreaped: list[subprocess.Popen[bytes]] = []


def _reap() -> None:
    for popen in [popen for popen in _unreaped if popen.poll() is not None]:
        orphans.reaped(popen.pid)
        _unreaped.remove(popen)


def _pipe() -> tuple[int, int]:
    try:
        return os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        raise failed(error, "program", "the sandbox cannot be watched") from error


def _readable_bytes(fd: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def _open_raw(stdout: Path, stderr: Path, keep: int) -> tuple[RawFile, RawFile]:
    out = RawFile(stdout, keep)
    try:
        return out, RawFile(stderr, keep)
    except OSError:
        out.close()
        raise
