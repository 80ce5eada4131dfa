"""Where a command sits that shows one thing and may be told another at any time: by the service, a clock, a person.

Everything goes through one mailbox and is looked at by the main thread alone. A person who is typing is interrupted if
something comes that makes the typing pointless; what was typed so far is kept.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

LOCAL_FLAGS = 3
"""Where they stand in what a terminal says of itself."""
RING_AGAIN_SEC = 0.05
"""A signal that comes in the instant before the terminal is read does not end that read; the next one does."""


@dataclass(frozen=True, slots=True)
class CtrlC:
    """The person wants something else than what is going on."""


class Interrupted(Exception):
    """There is mail, and the line was not finished."""

    def __init__(self, typed: str) -> None:
        super().__init__()
        self.typed = typed


class Desk:
    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._ids = count(1)
        self._typing = 0
        """Which line is being typed; 0: none."""
        self._rings: Callable[[Any], bool] = lambda _: True
        self._is_insisted = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """For the main thread, which alone is told of signals."""
        handlers = {
            signal.SIGINT: self._on_ctrl_c,
            signal.SIGUSR1: self._on_ring,
            signal.SIGTERM: self._on_end,
            signal.SIGHUP: self._on_end,
        }
        with self._noted():  # around the handlers: a Ctrl-C between the two would not be heard by either
            before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Signals are noted at once, also while the main thread is too busy to look at them."""
        noted, note = os.pipe()
        os.set_blocking(note, False)
        before = signal.set_wakeup_fd(note, warn_on_full_buffer=False)
        threading.Thread(target=self._hear, args=(noted,), daemon=True).start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.close(note)

    def put(self, item: Any) -> None:
        """From any other thread."""
        self._items.append(item)
        self._wakes.put(None)
        typing = self._typing
        while typing and typing == self._typing and (isinstance(item, CtrlC) or self._rings(item)):
            _ring()
            time.sleep(RING_AGAIN_SEC)

    def take(self, timeout: float | None = None) -> Any:
        """The next item; None if none has come by then."""
        try:
            self._wakes.get(timeout=timeout)
        except Empty:
            return None
        self._is_insisted = False
        return self._items.popleft() if self._items else None

    @property
    def is_clear(self) -> bool:
        return not self._items

    def ask(self, prompt: str, text: str = "", *, until: Callable[[Any], bool] = lambda _: True) -> str:
        """A line from the person. Ctrl-C raises KeyboardInterrupt, the end of input EOFError, such mail Interrupted."""
        try:
            return self._ask(prompt, text, until)
        except Interrupted:
            if self._take_ctrl_c():
                raise KeyboardInterrupt from None
            raise

    def _ask(self, prompt: str, text: str, until: Callable[[Any], bool]) -> str:
        self._rings = until
        self._typing = next(self._ids)
        try:
            if any(isinstance(item, CtrlC) or until(item) for item in tuple(self._items)):
                raise Interrupted(text)
            return _read_line(prompt, text)
        except SystemError as error:
            # Two signals during one read: Python asks the second handler while the first one's exception is set.
            raise error.__cause__ or error from None
        finally:
            self._typing = 0

    def _take_ctrl_c(self) -> bool:
        try:
            self._items.remove(CtrlC())
        except ValueError:
            return False
        with suppress(Empty):
            self._wakes.get(timeout=1)
        return True

    # In a thread of its own

    def _hear(self, noted: int) -> None:
        with os.fdopen(noted, "rb", buffering=0) as notes:
            while numbers := notes.read(64):
                if signal.SIGINT in numbers:
                    self._say_ctrl_c()

    def _say_ctrl_c(self) -> None:
        if CtrlC() in tuple(self._items):
            # The first was not even looked at: something takes too long, and is broken off.
            self._is_insisted = True
            _ring()
        else:
            self.put(CtrlC())

    # In the main thread, between any two steps of whatever it is doing

    def _on_ctrl_c(self, _number: int, _frame: FrameType | None) -> None:
        """It is noted already; without a handler it would not be."""

    def _on_ring(self, _number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code is _Draft.__call__.__code__:
            return  # called by readline, which drops exceptions; it rings again
        if self._typing:
            self._typing = 0
            raise Interrupted(_typed_so_far())
        if self._is_insisted:
            self._is_insisted = False
            raise KeyboardInterrupt

    @staticmethod
    def _on_end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)


def confirmed(question: str) -> bool:
    """No, unless a person says yes. A Ctrl-C counts whenever it comes; a plain read misses one right before it."""
    desk = Desk()
    with desk.open():
        while True:
            try:
                said = desk.ask(f"{question} [y/N]: ").strip().casefold()
            except EOFError:
                return False
            if said in ("y", "yes", "n", "no", ""):
                return said.startswith("y")


def _ring() -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGUSR1)


def _read_line(prompt: str, text: str) -> str:
    if sys.stdout.isatty():
        return _edit_line(prompt, text)
    # The result goes elsewhere, and so would the prompt: the terminal's own editing has to do.
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def drop_typed() -> bool:
    """What was typed before a question was there is no answer to it; True if that was a line or more."""
    is_line = bool(select.select([sys.stdin], [], [], 0)[0])
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    return is_line


def _edit_line(prompt: str, text: str) -> str:
    try:
        import readline
    except ImportError:
        return input(prompt)
    readline.set_startup_hook(_Draft(text) if text else None)
    with _unflushed():
        return input(prompt)


@contextmanager
def _unflushed() -> Iterator[None]:
    """Ctrl-C makes a terminal forget what was typed and not read yet. Readline, which had seen that there is something,
    would wait for it, deaf to every signal, until the next key."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    after = [*before]
    after[LOCAL_FLAGS] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, after)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


@dataclass(frozen=True, slots=True)
class _Draft:
    """Stands in the line already when it is opened."""

    text: str

    def __call__(self) -> None:
        sys.modules["readline"].insert_text(self.text)


def _typed_so_far() -> str:
    edited = sys.modules.get("readline") if sys.stdout.isatty() else None
    return str(edited.get_line_buffer()) if edited else ""
